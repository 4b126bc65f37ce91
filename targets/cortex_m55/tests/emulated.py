"""Kernels and images on QEMU: what tests of the target share."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from dory_cortex_m55 import qemu, toolchain

import dory_core.testing
from dory_core.api import simulate
from dory_core.testing.kernels import (
    NUMBERS,
    POINTERS,
    Buffers,
    KernelCase,
    Machine,
    write_sources,
)

_HERE = Path(__file__).parent
_BOARD = ("startup.c", "semihosting.c", "semihosting.h", "libc.c", "libc/string.h")


def require_qemu() -> None:
    """Skip the test unless images can be built and run."""
    if shutil.which(qemu.PROGRAM) is None:
        pytest.skip(f"{qemu.PROGRAM} is not installed: it is QEMU for Arm")
    if not toolchain.has_toolchain():
        pytest.skip("no compiler for the Cortex-M55: arm-none-eabi-gcc, or pip install ziglang")


def choose_compiler(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let images be built with ``gcc`` or ``zig``; skip the test where it is missing."""
    monkeypatch.delenv("ARM_CC", raising=False)
    if name == "gcc" and shutil.which(toolchain.GCC) is None:
        pytest.skip(f"{toolchain.GCC} is not installed")
    if name == "zig":
        pytest.importorskip("ziglang", reason="ziglang is not installed")
        monkeypatch.setattr(toolchain, "GCC", "no-such-compiler")


class Qemu(Machine):
    """The kernels of several cases as code of the chip, in one run of the emulator."""

    def __init__(self, cases: Sequence[KernelCase]) -> None:
        super().__init__(cases)
        self._directory = tempfile.TemporaryDirectory(prefix="dory-m55-")
        folder = Path(self._directory.name)
        write_sources(cases, folder)
        self._add_board(folder)
        tools = toolchain.find_toolchain()
        image = simulate.build_program(folder, _recipe(tools), tools.compiler)
        for name in ("requests", "answers"):
            os.mkfifo(folder / name)
        command = [*qemu.COMMAND, "-kernel", str(image)]
        self._process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL)
        self._requests = (folder / "requests").open("wb")
        self._answers = (folder / "answers").open("rb")

    def _add_board(self, folder: Path) -> None:
        board = files("dory_cortex_m55") / "board"
        for name in _BOARD:
            (folder / "board" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "board" / name).write_text((board / name).read_text())
        script = (board / "corstone300.ld").read_text()
        for key, region in (("@L1@", "DTCM"), ("@L2@", "SRAM"), ("@CONSTANTS@", "DDR")):
            script = script.replace(key, region)
        (folder / toolchain.SCRIPT).write_text(script)
        shutil.copy(_HERE / "c/server.c", folder / "board")
        shutil.copy(Path(dory_core.testing.__file__).parent / "dory_testing.h", folder / "board")
        names = [f"call_{number}" for number in range(len(self.cases))]
        heads = "".join(f"dory_testing_call_t {name};\n" for name in names)
        table = f"dory_testing_call_t *const dory_testing_calls[] = {{{', '.join(names)}}};\n"
        (folder / "src/table.c").write_text(f'#include "dory_testing.h"\n{heads}{table}')

    def call(self, number: int, buffers: Buffers, numbers: Mapping[str, int]) -> None:
        given = [buffers.get(name) for name in POINTERS]
        sizes = (-1 if buffer is None else buffer.nbytes for buffer in given)
        request = struct.pack("<I", number)
        request += struct.pack(f"<{len(POINTERS)}i", *sizes)
        request += struct.pack(f"<{len(NUMBERS)}i", *(numbers[name] for name in NUMBERS))
        present = [buffer for buffer in given if buffer is not None]
        self._requests.write(b"".join([request, *(buffer.tobytes() for buffer in present)]))
        self._requests.flush()
        wanted = sum(buffer.nbytes for buffer in present)
        answer = self._answers.read(wanted)
        assert len(answer) == wanted, f"the emulator ended: {self.cases[number].label}"
        at = 0
        for buffer in present:
            part = np.frombuffer(answer, buffer.dtype, buffer.size, at)
            buffer[...] = part.reshape(buffer.shape)
            at += buffer.nbytes

    def check(self) -> None:
        """Compare every case with the reference, and end the emulator."""
        try:
            super().check()
        finally:
            self._requests.close()
            self._answers.close()
            self._process.wait(timeout=60)


def _recipe(tools: toolchain.Toolchain) -> simulate.Recipe:
    sizes = (f"-DDORY_TESTING_{name}" for name in (f"NUMBERS={len(NUMBERS)}",))
    recipe = tools.recipe()
    flags = (*recipe.flags, *sizes, f"-DDORY_TESTING_POINTERS={len(POINTERS)}")
    return replace(recipe, folders=("src", "kernels", "kernels/external", "board"), flags=flags)
