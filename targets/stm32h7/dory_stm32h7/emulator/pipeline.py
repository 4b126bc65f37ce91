"""A small model of the Cortex-M7's pipeline: in order, two instructions per cycle.

Rules that were measured on an STM32H743 by the public project jnk0le/random (pipeline cycle test,
doc/cortex_m7.md), and latencies of the SLOTHY optimiser's model. Memory answers at once (DTCM,
flash in the cache), branches are predicted, loads are aligned.

- Two neighbours issue together unless: the second needs what the first gives (data of a store
  excepted); both multiply, or one multiplies and the other stores; both store; both shift an
  operand; the second packs or extends; both load, and not from different banks of one base
  register; either moves several registers.
- Results: a load's after 1 cycle (2 for bytes, one more for addresses and shifted operands, 2 for
  a multiplication); a product's after 2, for the accumulator of the next one after 1.
- Floating point of single precision: results after 3, for a store after 1; a move's to it or within
  it after 3, from it after 1. A division takes 16 cycles, a square root 14; nothing follows before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_REGISTER = re.compile(r"\b(r1[0-2]|r[0-9]|sl|fp|ip|lr|sp|pc|[sd][0-9]+)\b")
_CONDITIONS = "eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|hs|lo"
_BRANCH = re.compile(rf"^(b|bl|bx|blx|b({_CONDITIONS})|cbz|cbnz)$")
_LOAD_STORE = re.compile(rf"^(ldr|str)s?[bh]?({_CONDITIONS})?$")
_MULTIPLE = re.compile(r"^(ldrd|strd|ldm|stm|push|pop|vldm|vstm|vpush|vpop)")
_MULTIPLY = re.compile(r"^(smla|smul|smuad|smlsd|smml|smull|umull|umlal|mul|mla|mls)")
_PACK = re.compile(
    r"^([su]xt|[su]sat|[su]bfx|bfi|bfc|pkh|rev|rbit|clz|[uqs]{1,2}h?(add|sub)(8|16)|sel|q)"
)
_SHIFT = re.compile(r"(lsl|lsr|asr|ror) #")
_COMPARE = ("cmp", "cmn", "tst", "teq")
_LONG = {"vdiv": 16, "vsqrt": 14}
_CONDITIONAL = re.compile(rf"^(mov|mvn|add|sub|and|orr|eor|rsb|bic|asr|lsl|lsr)s?({_CONDITIONS})$")
_TWO_OPERANDS = re.compile(r"^(add|sub|and|orr|eor|mul|lsl|lsr|asr|bic|adc|sbc)")


@dataclass(slots=True)
class Instruction:
    """What an instruction reads and writes. early: shifted operands, needed a cycle before.

    kind: alu, pack, multiply, load, store, loads, stores, branch, fp or none. bank: base register
    and bank of a load of a word.
    """

    text: str
    kind: str = "alu"
    results: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    address: list[str] = field(default_factory=list)
    accumulator: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    written_back: list[str] = field(default_factory=list)
    shifts: bool = False
    sets_flags: bool = False
    needs_flags: bool = False
    is_narrow: bool = False
    cycles: int = 1
    bank: tuple[str, int] | None = None


def _registers(text: str) -> list[str]:
    return _REGISTER.findall(text)


def _all(operands: list[list[str]]) -> list[str]:
    return [register for operand in operands for register in operand]


def parse(line: str) -> Instruction:
    """Return an instruction of a disassembly: ``smlad r3, r9, r11, r3``."""
    text = re.sub(r"<.*>", "", line.replace("\t", " ")).strip()
    name, _, rest = text.partition(" ")
    name = re.sub(r"\.(w|n)$", "", name)
    one = Instruction(text)
    operands = [o.strip() for o in re.split(r",(?![^\[{]*[\]}])", rest)]
    if re.match(r"^it[te]*$", name) or name in ("nop", "dsb", "isb", "dmb"):
        one.kind, one.needs_flags = "none", name.startswith("it")
    elif _BRANCH.match(name):
        one.kind = "branch"
        one.needs_flags = name not in ("b", "bl", "bx", "blx", "cbz", "cbnz")
        one.sources = _registers(operands[0]) if name in ("bx", "blx", "cbz", "cbnz") else []
    elif _LOAD_STORE.match(name):
        _one_word(one, name, rest, operands)
    elif _MULTIPLE.match(name):
        _several_words(one, name, rest, operands)
    elif name in ("vldr", "vstr"):
        one.kind = "load" if name == "vldr" else "store"
        moved, one.address = _registers(operands[0]), _registers(operands[1])
        (one.results if name == "vldr" else one.sources).extend(moved)
    elif name.startswith("vmov"):
        one.kind = "vmov"
        one.results, one.sources = (
            _registers(operands[0]),
            _all([_registers(o) for o in operands[1:]]),
        )
    elif name.startswith("v"):
        one.kind = "fp"
        one.cycles = next((n for start, n in _LONG.items() if name.startswith(start)), 1)
        one.results, one.sources = _registers(rest)[:1], _registers(rest)[1:]
    elif _MULTIPLY.match(name):
        _product(one, name, operands)
    else:
        _plain(one, name, rest, operands)
    return one


def _one_word(one: Instruction, name: str, rest: str, operands: list[str]) -> None:
    is_load = name.startswith("ldr")
    one.kind = "load" if is_load else "store"
    one.is_narrow = re.match(r"^(ldr|str)s?[bh]", name) is not None
    memory = next((o for o in operands[1:] if "[" in o), "")
    one.address = _registers(memory)
    (one.results if is_load else one.sources).extend(_registers(operands[0]))
    after = len(operands) > 2 and not memory.endswith("!") and operands[2].startswith("#")
    if "!" in rest or after:
        one.written_back = one.address[:1]
    place = re.search(r"\[(\w+)(?:, #(-?(?:0x)?[0-9a-f]+))?\]", memory)
    if place and not one.is_narrow and not one.written_back:
        one.bank = place[1], int(place[2] or "0", 0) // 4 % 2


def _several_words(one: Instruction, name: str, rest: str, operands: list[str]) -> None:
    is_load = name.startswith(("ldrd", "ldm", "pop", "vld", "vpop"))
    one.kind = "loads" if is_load else "stores"
    if name.startswith(("ldrd", "strd")):
        moved, one.address = _registers(operands[0]) + _registers(operands[1]), []
        one.address = _registers(operands[2])
        if len(operands) > 3 or "!" in rest:
            one.written_back = one.address[:1]
    else:
        moved = _registers(rest[rest.index("{") :])
        one.cycles = max(1, (len(moved) + 1) // 2)
        one.address = _registers(rest[: rest.index("{")]) or ["sp"]
        one.written_back = one.address
    (one.results if is_load else one.sources).extend(moved)


def _product(one: Instruction, name: str, operands: list[str]) -> None:
    one.kind = "multiply"
    r = [_registers(o) for o in operands]
    if re.match(r"^(smlal|umlal)", name):
        one.results = one.accumulator = r[0] + r[1]
        one.sources = r[2] + r[3]
    elif re.match(r"^(smull|umull)", name):
        one.results, one.sources = r[0] + r[1], r[2] + r[3]
    elif re.match(r"^(smla|mla|mls|smmla|smlsd)", name):
        one.results, one.sources, one.accumulator = r[0], r[1] + r[2], r[3]
    else:
        one.results, one.sources = r[0], _all(r[1:]) or r[0]


def _plain(one: Instruction, name: str, rest: str, operands: list[str]) -> None:
    r = [_registers(o) for o in operands]
    if name in _COMPARE:
        one.sets_flags, one.sources = True, _all(r)
    else:
        one.results, one.sources = r[0], _all(r[1:])
        one.sets_flags = name.endswith("s")
        if len(operands) == 2 and _TWO_OPERANDS.match(name):
            one.sources = r[0] + r[1]
        if _CONDITIONAL.match(name):
            one.needs_flags, one.sources = True, one.sources + r[0]
        one.needs_flags = one.needs_flags or name.startswith(("adc", "sbc"))
    shift = _SHIFT.search(rest)
    if _PACK.match(name):
        one.kind = "pack"
        if re.match(r"^([su]bfx|rev|rbit|[su]xta|pkh|bfi)", name) or (shift and "xt" in name):
            one.early = one.sources[-1:]
    elif shift and len(operands) > 2 and not re.match(r"^(lsl|lsr|asr|ror)s?$", name):
        one.shifts, one.early = True, _registers(operands[-2])


def _latency(first: Instruction, second: Instruction, role: str) -> int:
    """Return the cycles until ``second`` may issue that uses a result of ``first``."""
    if first.kind in ("load", "loads"):
        if second.kind == "multiply" and role == "source":
            return 2 + (first.kind == "loads")
        base = 2 if first.is_narrow or first.kind == "loads" else 1
        return base + (role in ("early", "address"))
    if first.kind == "fp" or (first.kind == "vmov" and first.results[0][0] in "sd"):
        return 1 if second.kind == "store" else 3
    if first.kind == "multiply":
        if role == "accumulator" and second.kind == "multiply":
            return 1
        return 3 if role == "address" else 2
    return 2 if first.kind == "pack" and role in ("address", "early") else 1


def _pairs(a: Instruction, b: Instruction) -> bool:
    """Return True when b may issue in the cycle of a, the previous instruction."""
    several = ("loads", "stores")
    if a.kind in (*several, "none", "branch") or b.kind in several or b.kind == "pack":
        return False
    kinds = {a.kind, b.kind}
    if kinds in ({"multiply"}, {"multiply", "store"}, {"store"}, {"fp"}, {"vmov"}):
        return False
    if kinds == {"load"} and (
        a.bank is None or b.bank is None or a.bank[0] != b.bank[0] or a.bank[1] == b.bank[1]
    ):
        return False
    if b.shifts and (a.shifts or a.kind == "pack"):
        return False
    needed = {*b.sources, *b.address, *b.accumulator, *b.early}
    written = {*a.results, *a.written_back}
    if b.kind == "store" and not written & set(b.address):
        needed = set(b.address)  # data is taken a cycle later
    if needed & written or set(b.results) & written:
        return False
    return not (b.needs_flags and a.sets_flags and b.kind != "branch")


class _Pipeline:
    """Issues instructions in order. cycle: of the last one."""

    def __init__(self) -> None:
        self.cycle = 0
        self._made: dict[str, tuple[Instruction, int, bool]] = {}
        self._flags: int | None = None
        self._slot: list[Instruction] = []
        self._slot_cycle = -1

    def _ready(self, one: Instruction) -> int:
        ready = 0
        roles = (
            ("source", one.sources),
            ("address", one.address),
            ("accumulator", one.accumulator),
            ("early", one.early),
        )
        for role, registers in roles:
            for register in registers:
                if register in self._made:
                    maker, when, is_address = self._made[register]
                    ready = max(ready, when + (1 if is_address else _latency(maker, one, role)))
        if one.needs_flags and self._flags is not None:
            ready = max(ready, self._flags + (one.kind != "branch"))
        return ready

    def issue(self, one: Instruction) -> None:
        """Issue the next instruction."""
        at = max(self._ready(one), self.cycle)
        if len(self._slot) == 1 and self._slot_cycle == at and _pairs(self._slot[0], one):
            self._slot.append(one)
        else:
            at = at + 1 if self._slot and self._slot_cycle >= at else at
            self._slot, self._slot_cycle = [one], at
        last = at + one.cycles - 1
        for register in one.results:
            self._made[register] = one, last, False
        for register in one.written_back:
            self._made[register] = one, at, True
        if one.sets_flags:
            self._flags = at
        self.cycle = self._slot_cycle = last


def cycles(lines: Sequence[str], rounds: int = 12) -> float:
    """Return the cycles of a straight block of code that runs again and again."""
    block = [parse(line) for line in lines]
    pipeline = _Pipeline()
    marks = []
    for _ in range(rounds):
        for one in block:
            pipeline.issue(one)
        marks.append(pipeline.cycle)
    half = rounds // 2
    return (marks[-1] - marks[half - 1]) / (rounds - half)
