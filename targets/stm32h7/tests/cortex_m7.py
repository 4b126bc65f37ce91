"""Executes kernels as code of the Cortex-M7 and counts instructions, without a chip around it."""

from __future__ import annotations

import importlib.util
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import dory_stm32h7
import numpy as np
import pytest
from dory_stm32h7.emulator import pipeline
from dory_stm32h7.emulator.cycles import has_disassembler, listing

from dory_core.testing.kernels import (
    NUMBERS,
    POINTERS,
    Buffers,
    KernelCase,
    Machine,
    source_flags,
    write_sources,
)

CODE, DATA, STACK = 0x0800_0000, 0x2000_0000, 0x3000_0000
CODE_BYTES, DATA_BYTES, STACK_BYTES = 1 << 20, 1 << 20, 1 << 16
ZIG = (
    *(sys.executable, "-m", "ziglang", "cc"),
    *("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m7+fp_armv8d16"),
)
GCC = ("arm-none-eabi-gcc", "-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard")
FLAGS = ("-O2", "-ffreestanding", "-fomit-frame-pointer")

# The memory functions of an application.
_BOARD = Path(dory_stm32h7.__file__).parent / "board"

_SCRIPT = f"""
SECTIONS {{
  . = 0x{CODE:x};
  .text : {{ *(.text .text.*) *(.rodata .rodata.*) }}
  .ARM.exidx : {{ *(.ARM.exidx*) }}
  /DISCARD/ : {{ *(.comment) }}
}}
"""


def compilers() -> list[tuple[str, ...]]:
    """Return the commands of the compilers that are installed."""
    found = [ZIG] if importlib.util.find_spec("ziglang") else []
    return found + ([GCC] if shutil.which(GCC[0]) else [])


def require(compiler: tuple[str, ...] = ZIG) -> tuple[str, ...]:
    """Return ``compiler``; skip the test where it or the emulator is missing."""
    if importlib.util.find_spec("unicorn") is None:
        pytest.skip("needs unicorn: pip install dory-stm32h7[emulator]")
    if compiler not in compilers():
        pytest.skip(f"needs the compiler {compiler[0] if compiler is GCC else 'ziglang'}")
    return compiler


def _inside(block: tuple[int, int]) -> range:
    return range(block[0], sum(block), 2)


class CortexM7(Machine):
    """The kernels of several cases as Cortex-M7 code.

    instructions: executed since the last :meth:`reset`; blocks: how often each block of code was
    entered since, by its address and its bytes. listing: the code by address, empty without
    a disassembler.
    """

    def __init__(self, cases: Sequence[KernelCase], compiler: tuple[str, ...] = ZIG) -> None:
        import unicorn
        from unicorn import arm_const

        super().__init__(cases)
        self._reg = arm_const
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory)
            sources = write_sources(cases, path)
            program = path / "kernels.elf"
            command = [*compiler, *source_flags(path), *FLAGS, f"-I{_BOARD / 'libc'}", *sources]
            command += [str(_BOARD / "libc.c"), "-o", str(program)]
            (path / "kernels.ld").write_text(_SCRIPT)
            command += [f"-Wl,-T,{path / 'kernels.ld'}", "-Wl,-e,call_0"]
            command += ["-nostdlib", "-lgcc"] if compiler is GCC else []
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[:4000]
            image = program.read_bytes()
            self.listing = listing(program) if has_disassembler() else {}
        self._machine = unicorn.Uc(
            unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS
        )
        self._machine.ctl_set_cpu_model(arm_const.UC_CPU_ARM_CORTEX_M7)
        for start, size in ((CODE, CODE_BYTES), (DATA, DATA_BYTES), (STACK, STACK_BYTES)):
            self._machine.mem_map(start, size)
        self._symbols = self._load(image)
        self.instructions = 0
        self.blocks: Counter[tuple[int, int]] = Counter()
        self._machine.hook_add(unicorn.UC_HOOK_CODE, self._count)
        self._machine.hook_add(unicorn.UC_HOOK_BLOCK, self._enter)

    def _count(self, *_: object) -> None:
        self.instructions += 1

    def _enter(self, _uc: object, address: int, size: int, _data: object) -> None:
        self.blocks[address, size] += 1

    def reset(self) -> None:
        self.instructions = 0
        self.blocks.clear()

    @property
    def cycles(self) -> float:
        """Cycles since the last reset, by the model of the pipeline."""
        return sum(
            count * pipeline.cycles([self.listing[a] for a in _inside(block) if a in self.listing])
            for block, count in self.blocks.items()
        )

    def _load(self, image: bytes) -> dict[str, int]:
        """Load the segments of a 32-bit ELF file; return the addresses of its symbols."""
        segments, sections = struct.unpack_from("<II", image, 28)
        size, count, section_size, section_count = struct.unpack_from("<4H", image, 42)
        for i in range(count):
            kind, offset, address, _, bytes_, *_ = struct.unpack_from(
                "<8I", image, segments + i * size
            )
            if kind == 1 and address in range(CODE, CODE + CODE_BYTES - bytes_):
                self._machine.mem_write(address, image[offset : offset + bytes_])
            else:
                assert kind != 1 or bytes_ == 0 or address < CODE, "kernels have no variables"
        symbols: dict[str, int] = {}
        for i in range(section_count):
            fields = struct.unpack_from("<10I", image, sections + i * section_size)
            if fields[1] != 2:
                continue
            names = struct.unpack_from("<10I", image, sections + fields[6] * section_size)[4]
            for at in range(fields[4], fields[4] + fields[5], 16):
                name, value = struct.unpack_from("<II", image, at)
                end = image.index(b"\0", names + name)
                symbols[image[names + name : end].decode()] = value
        return symbols

    def call(self, number: int, buffers: Buffers, numbers: Mapping[str, int]) -> None:
        machine, reg = self._machine, self._reg
        addresses: dict[str, int] = {}
        at = DATA
        for name, array in buffers.items():
            addresses[name] = at
            machine.mem_write(at, array.tobytes())
            at += -(-array.nbytes // 8) * 8 + 8
        assert at < DATA + DATA_BYTES
        pointers = [addresses.get(n, 0) for n in POINTERS]
        values = [numbers[n] for n in NUMBERS]
        packed = struct.pack(f"<{len(pointers)}I{len(values)}i", *pointers, *values)
        machine.mem_write(STACK, packed)
        machine.reg_write(reg.UC_ARM_REG_R0, STACK)
        machine.reg_write(reg.UC_ARM_REG_R1, STACK + 4 * len(pointers))
        machine.reg_write(reg.UC_ARM_REG_SP, STACK + STACK_BYTES)
        end = CODE + CODE_BYTES - 4
        machine.reg_write(reg.UC_ARM_REG_LR, end | 1)
        machine.emu_start(self._symbols[f"call_{number}"] | 1, end)
        for name, address in addresses.items():
            array = buffers[name]
            content = bytes(machine.mem_read(address, array.nbytes))
            array[...] = np.frombuffer(content, array.dtype).reshape(array.shape)
