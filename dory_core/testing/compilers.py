"""The C compiler of this machine in tests: the one that applications are built with."""

from __future__ import annotations

import shlex

import pytest

from dory_core.errors import ToolMissing
from dory_core.simulate.compiler import Compiler, find_compiler

__all__ = ["ONLY_CHECK", "host_compiler", "host_compiler_text", "require_gcc"]

#: Has a compiler check its files and write assembly text to where it runs. The one of the
#: ``ziglang`` wheel takes no ``-fsyntax-only``, and passes on an option that its clang ignores.
ONLY_CHECK = ("-S", "-Wno-unused-command-line-argument")


def host_compiler() -> tuple[str, ...]:
    """Return the command of the compiler that applications are built with; skip without one.

    It may be the one of the ``ziglang`` wheel, which is silent about what it has compiled before:
    who wants to see warnings makes them errors.
    """
    try:
        return find_compiler().command
    except ToolMissing as missing:
        pytest.skip(missing.message)


def host_compiler_text() -> str:
    """Return the same command as one text, for ``make CC=...``."""
    return shlex.join(host_compiler())


def require_gcc() -> tuple[str, ...]:
    """Return the command of gcc, for what clang does not have; skip where there is none."""
    compiler = Compiler.identify("gcc")
    if compiler is None or "Free Software Foundation" not in compiler.version:
        pytest.skip("gcc is not here")
    return compiler.command
