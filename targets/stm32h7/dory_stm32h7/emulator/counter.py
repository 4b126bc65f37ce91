"""Counting instructions by a block hook in C: one in Python would take a hundred times as long."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dory_core.errors import ToolMissing
from dory_core.simulate.cache import cache_dir
from dory_core.simulate.compiler import find_compiler
from dory_stm32h7.emulator.memories import Region

_SOURCE = Path(__file__).with_name("count.c")


class _Counter(ctypes.Structure):
    _fields_ = (
        ("instructions", ctypes.c_uint64),
        ("blocks", ctypes.c_uint64),
        ("code", ctypes.c_void_p),
        ("base", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("known_size", ctypes.c_void_p),
        ("known_count", ctypes.c_void_p),
    )


class InstructionCounter:
    """Counts the instructions that an emulator executes from ``code``."""

    def __init__(self, code: Region) -> None:
        slots = code.size // 2
        self._tables = np.zeros(slots, np.uint16), np.zeros(slots, np.uint16)
        self._state = _Counter(
            0, 0, code.pointer, code.base, code.size, *(t.ctypes.data for t in self._tables)
        )
        self._handle = ctypes.c_size_t()

    def attach(self, engine: Any) -> None:
        """Hook the unicorn engine. Raises ToolMissing without a C compiler for this machine."""
        from unicorn import UC_HOOK_BLOCK, UcError
        from unicorn.unicorn_py3.unicorn import uclib

        function = _library().dory_count_block
        status = uclib.uc_hook_add(
            engine._uch,
            ctypes.byref(self._handle),
            ctypes.c_int(UC_HOOK_BLOCK),
            ctypes.cast(function, ctypes.c_void_p),
            ctypes.cast(ctypes.pointer(self._state), ctypes.c_void_p),
            ctypes.c_uint64(1),
            ctypes.c_uint64(0),
        )
        if status != 0:
            raise UcError(status)

    @property
    def instructions(self) -> int:
        """Instructions executed so far."""
        return int(self._state.instructions)


@cache
def _library() -> ctypes.CDLL:
    compiler = find_compiler()
    text = _SOURCE.read_bytes()
    key = hashlib.sha256(text + compiler.version.encode() + sys.version.encode()).hexdigest()[:24]
    folder = cache_dir() / "libraries"
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"count-{key}.so"
    if not library.is_file():
        handle, name = tempfile.mkstemp(dir=folder, suffix=".so")
        os.close(handle)
        command = [*compiler.command, "-O2", "-std=c99", "-shared", "-fPIC", str(_SOURCE)]
        result = subprocess.run(
            [*command, "-o", name], capture_output=True, text=True, check=False, errors="replace"
        )
        if result.returncode != 0:
            Path(name).unlink(missing_ok=True)
            raise ToolMissing(
                f"{compiler.name} cannot build the instruction counter: {result.stderr[:200]}",
                "let CC name a working C compiler, or pip install ziglang",
            )
        Path(name).replace(library)
    return ctypes.CDLL(str(library))
