"""Executes assembly text of RV32IM with XpulpV2: the instructions that the kernels use.

It stands in for the chip where assembly cannot run otherwise. Semantics are those of the manual of
the instruction set: post-increment loads and stores, hardware loops, dot products of bytes and
halfwords, clips, additions with a shift, rotations. It also counts cycles by the rules of the
core's manual: one per instruction, one more for a jump, two more for a branch that is taken, four
more for the upper word of a product, none for the end of a hardware loop, and one where an
instruction uses what the one before it loaded (a stall). Words are aligned here, and nobody else
uses the memory.
"""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import dory_gap8

from dory_core.testing.compilers import host_compiler

REGISTERS = (
    *("ra", "sp", "gp", "tp"),
    *(f"t{i}" for i in range(7)),
    *(f"s{i}" for i in range(12)),
    *(f"a{i}" for i in range(8)),
)
SAVED = ("ra", "gp", "tp", "sp", *(f"s{i}" for i in range(12)))
_LABEL = re.compile(r"(\w+):\s*(.*)")
_ADDRESS = re.compile(r"([-+*\w]+)\((\w+)(!?)\)")


def signed(value: Any) -> Any:
    """Return the low 32 bits of a number, or of each of an array, as a signed number."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def number(text: str) -> int:
    """Return the value of a sum of products of numbers, as assemblers compute them."""
    terms = re.findall(r"[-+]?[^-+]+", text)
    return sum(prod(int(factor, 0) for factor in term.split("*")) for term in terms)


def lanes(value: int, code: str) -> tuple[int, ...]:
    """Return the elements of a register; code: a struct format such as ``4b``."""
    return struct.unpack(f"<{code}", struct.pack("<I", value & 0xFFFFFFFF))


def assembly_of(header: str, macros: Mapping[str, object]) -> str:
    """Return the assembly text of a header of the kernels, as the preprocessor leaves it."""
    command = [
        *host_compiler(),
        "-E",
        "-P",
        *(f"-D{name}={value}" for name, value in macros.items()),
    ]
    command.append(str(Path(dory_gap8.__file__).parent / "kernels" / header))
    source = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    literals = re.findall(r'"((?:[^"\\]|\\.)*)"', source[source.rindex("__asm__(") :])
    return "".join(literals).replace("\\n", "\n").replace("\\t", " ").replace('\\"', '"')


@dataclass
class Program:
    """Instructions as (operation, operands), and where each label points.

    behind: ends of instructions that lie behind the function (``.subsection 1``), by their start.
    """

    instructions: list[tuple[str, list[str]]] = field(default_factory=list)
    labels: list[tuple[str, int]] = field(default_factory=list)
    behind: dict[int, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Program:
        """Read assembly text; directives are skipped."""
        program = cls()
        start = 0
        for raw in text.splitlines():
            line = raw.strip()
            while found := _LABEL.fullmatch(line):
                program.labels.append((found[1], len(program.instructions)))
                line = found[2]
            if line == ".subsection 1":
                start = len(program.instructions)
            elif line == ".subsection 0":
                program.behind[start] = len(program.instructions)
            elif line and not line.startswith("."):
                operation, _, rest = line.partition(" ")
                operands = [o.strip() for o in rest.split(",")] if rest else []
                program.instructions.append((operation, operands))
        return program

    def target(self, label: str, at: int) -> int:
        """Return where a numeric label, forwards or backwards, is."""
        places = [p for name, p in self.labels if name == label[:-1]]
        if label[-1] == "f":
            return min(p for p in places if p > at)
        return max(p for p in places if p <= at)


class Machine:
    """A core and its memory, 64 KiB from address 0."""

    VECTORS: ClassVar = {"b": ("4b", "4B"), "h": ("2h", "2H")}
    BRANCHES: ClassVar[Mapping[str, Callable[[int, int], bool]]] = {
        "beq": lambda a, b: a == b,
        "bne": lambda a, b: a != b,
        "bge": lambda a, b: a >= b,
        "bgeu": lambda a, b: a & 0xFFFFFFFF >= b & 0xFFFFFFFF,
    }

    CYCLES: ClassVar = {"j": 2, "jal": 2, "jr": 2, "ret": 2, "mulh": 5, "mulhu": 5}

    def __init__(self, program: Program) -> None:
        self.program = program
        self.memory = bytearray(1 << 16)
        self.registers = {name: 0x5EED0000 + i for i, name in enumerate(REGISTERS)}
        self.loops: dict[str, tuple[int, int, int]] = {}
        self.stalls = 0
        self.cycles = 0
        self._loaded = ""

    def word(self, address: int) -> int:
        """Return an aligned word of the memory."""
        assert address % 4 == 0, f"a word at {address:#x}"
        return int(struct.unpack_from("<i", self.memory, address)[0])

    def put(self, address: int, *words: int) -> None:
        """Store words from an aligned address."""
        assert address % 4 == 0, f"a word at {address:#x}"
        struct.pack_into(f"<{len(words)}I", self.memory, address, *(w & 0xFFFFFFFF for w in words))

    def write(self, address: int, values: Any) -> None:
        """Store the lowest byte of each number of an array."""
        image = (values & 255).astype("u1").tobytes()
        self.memory[address : address + len(image)] = image

    def call(self, argument: int, stack: int) -> int:
        """Call the program with one argument; return the instructions that it executed."""
        self.registers |= {"a0": argument, "sp": stack}
        saved = {name: self.registers[name] for name in SAVED}
        at = count = 0
        while True:
            operation, operands = self.program.instructions[at]
            count += 1
            self.cycles += self.CYCLES.get(operation, 1)
            if operation == "ret":
                assert saved == {name: self.registers[name] for name in SAVED}
                return count
            stalls = self.stalls
            follows = self._execute(operation, operands, at)
            self.cycles += self.stalls - stalls
            if follows is not None and operation not in self.CYCLES:
                self.cycles += 2
            at = self._loop_back(at) if follows is None else follows

    def _loop_back(self, at: int) -> int:
        """Return what follows an instruction that did not jump: a hardware loop may end here."""
        for name in ("x0", "x1"):
            start, end, count = self.loops.get(name, (0, -1, 0))
            if at == end and count > 0:
                self.loops[name] = (start, end, count - 1)
                if count > 1:
                    return start
        return self.program.behind.get(at + 1, at + 1)

    def _address(self, operand: str, post: bool) -> int:
        """Return the address of an access; one with post-increment steps its pointer."""
        found = _ADDRESS.fullmatch(operand)
        assert found is not None and bool(found[3]) == post, operand
        offset = self.registers[found[1]] if found[1] in self.registers else number(found[1])
        base = self.registers[found[2]]
        if post:
            self.registers[found[2]] = signed(base + offset)
            return base
        return base + offset

    def _execute(self, operation: str, o: list[str], at: int) -> int | None:
        r = self.registers
        self._count_stall(operation, o)
        if operation in ("lw", "p.lw"):
            r[o[0]] = self.word(self._address(o[1], operation == "p.lw"))
            self._loaded = o[0]
        elif operation == "p.lbu":
            r[o[0]] = self.memory[self._address(o[1], True)]
            self._loaded = o[0]
        elif operation in ("sw", "p.sw"):
            value = r[o[0]]
            self.put(self._address(o[1], operation == "p.sw"), value)
        elif operation == "p.sb":
            value = r[o[0]] & 255
            self.memory[self._address(o[1], True)] = value
        elif operation == "lp.setup":
            assert r[o[1]] > 0, "a hardware loop runs once at least"
            self.loops[o[0]] = (at + 1, self.program.target(o[2], at), r[o[1]])
        elif operation == "j":
            return self.program.target(o[0], at)
        elif operation == "jal":
            r[o[0]] = at + 1
            return self.program.target(o[1], at)
        elif operation == "jr":
            return r[o[0]]
        elif operation in ("beqz", "bnez"):
            return (
                self.program.target(o[1], at) if (r[o[0]] == 0) == (operation[1] == "e") else None
            )
        elif operation in self.BRANCHES:
            taken = self.BRANCHES[operation](r[o[0]], r[o[1]])
            return self.program.target(o[2], at) if taken else None
        elif operation == "li":
            r[o[0]] = signed(number(o[1]))
        elif operation != "nop":
            r[o[0]] = signed(self._result(operation, o))
        return None

    def _count_stall(self, operation: str, o: list[str]) -> None:
        reads_first = ("sw", "p.sw", "p.sb", "beqz", "bnez", *self.BRANCHES)
        reads_first += ("p.mac", "p.addNr", "pv.shuffle2.b")
        stores = operation in reads_first or "sdot" in operation
        used = re.findall(r"\w+", " ".join(o if stores else o[1:]))
        self.stalls += self._loaded in used
        self._loaded = ""

    def _result(self, operation: str, o: list[str]) -> int:
        r = self.registers
        old, a = r[o[0]], 0 if o[1] == "zero" else r[o[1]]
        b = r[o[2]] if len(o) > 2 and o[2] in r else number(o[2]) if len(o) > 2 else 0
        digits = int(o[3]) if len(o) > 3 else 0
        if operation.startswith(("pv.dot", "pv.sdot")):
            kind = self.VECTORS[operation[-1]]
            x = lanes(a, kind["usp" in operation])
            product = sum(p * q for p, q in zip(x, lanes(b, kind[0]), strict=True))
            return product + (old if "sdot" in operation else 0)
        simple = {
            "mv": lambda: a,
            "add": lambda: a + b,
            "addi": lambda: a + b,
            "sub": lambda: a - b,
            "slli": lambda: a << b,
            "sll": lambda: a << (b & 31),
            "srl": lambda: (a & 0xFFFFFFFF) >> (b & 31),
            "sltu": lambda: (a & 0xFFFFFFFF) < (b & 0xFFFFFFFF),
            "andi": lambda: a & b,
            "or": lambda: a | b,
            "ori": lambda: a | b,
            "xor": lambda: a ^ b,
            "xori": lambda: a ^ b,
            "srli": lambda: (a & 0xFFFFFFFF) >> b,
            "mul": lambda: a * b,
            "mulh": lambda: a * b >> 32,
            "mulhu": lambda: (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF) >> 32,
            "p.mac": lambda: old + a * b,
            "sra": lambda: a >> (b & 31),
            "srai": lambda: a >> b,
            "p.addNr": lambda: signed(old + a) >> (b & 31),
            "p.addN": lambda: signed(a + b) >> digits,
            "p.ror": lambda: (a & 0xFFFFFFFF) * ((1 << 32) + 1) >> (b & 31),
            "p.fl1": lambda: (a & 0xFFFFFFFF).bit_length() - 1 if a else 32,
            "p.max": lambda: max(a, b),
            "p.clipur": lambda: min(max(a, 0), b),
            "p.clip": lambda: min(max(a, -(1 << (b - 1))), (1 << (b - 1)) - 1),
            "p.clipu": lambda: min(max(a, 0), (1 << (b - 1)) - 1),
            "p.clipr": lambda: min(max(a, -b - 1), b),
            "pv.shuffle2.b": lambda: self._shuffle(old, a, b),
            "pv.pack.h": lambda: a << 16 | (b & 0xFFFF),
            "pv.packlo.b": lambda: (old & 0xFFFF0000) | (a & 255) << 8 | (b & 255),
            "pv.packhi.b": lambda: (old & 0xFFFF) | (a & 255) << 24 | (b & 255) << 16,
        }
        return simple[operation]()

    @staticmethod
    def _shuffle(old: int, a: int, order: int) -> int:
        """Return the bytes of ``old`` (0 to 3) and ``a`` (4 to 7) that ``order`` names."""
        source = (*lanes(old, "4B"), *lanes(a, "4B"))
        return int.from_bytes(bytes(source[n & 7] for n in lanes(order, "4B")), "little")
