"""Hooks of the emulator in C: in Python they would take a hundred times as long."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from dory_core.api import ToolMissing, simulate


def add_hook(
    engine: Any, kinds: int, source: str, function: str, state: ctypes.Structure
) -> object:
    """Have a unicorn engine call ``function`` of the C file ``source`` with ``state``.

    kinds: UC_HOOK constants. Returns what must live as long as the engine. Raises ToolMissing
    without a C compiler for this machine.
    """
    from unicorn import UcError
    from unicorn.unicorn_py3.unicorn import uclib

    handle = ctypes.c_size_t()
    status = uclib.uc_hook_add(
        engine._uch,
        ctypes.byref(handle),
        ctypes.c_int(kinds),
        ctypes.cast(getattr(_library(source), function), ctypes.c_void_p),
        ctypes.cast(ctypes.pointer(state), ctypes.c_void_p),
        ctypes.c_uint64(1),
        ctypes.c_uint64(0),
    )
    if status != 0:
        raise UcError(status)
    return handle


@cache
def _library(name: str) -> ctypes.CDLL:
    source = Path(__file__).with_name(name)
    compiler = simulate.find_compiler()
    text = source.read_bytes()
    key = hashlib.sha256(text + compiler.version.encode() + sys.version.encode()).hexdigest()[:24]

    def make(library: Path) -> None:
        command = [*compiler.command, "-O2", "-std=c99", "-shared", "-fPIC", str(source)]
        result = subprocess.run(
            [*command, "-o", str(library)],
            capture_output=True,
            text=True,
            check=False,
            errors="replace",
        )
        if result.returncode != 0:
            raise ToolMissing(
                f"{compiler.name} cannot build {name} of the emulator: {result.stderr[:200]}",
                "let CC name a working C compiler, or pip install ziglang",
            )

    library = simulate.cached_file(
        simulate.cache_dir() / "libraries" / f"{source.stem}-{key}.so", make
    )
    return ctypes.CDLL(str(library))
