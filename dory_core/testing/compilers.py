"""The C compiler of this machine in tests: the one that applications are built with."""

from __future__ import annotations

import shlex

import pytest

from dory_core.errors import ToolMissing
from dory_core.simulate.compiler import find_compiler

__all__ = ["host_compiler", "host_compiler_text"]


def host_compiler() -> tuple[str, ...]:
    """Return the command of the compiler that applications are built with; skip without one.

    It may be the one of the ``ziglang`` wheel. That one has no ``-fsyntax-only``, ``-S`` checks as
    much; and it is silent about warnings of what it compiled before, ``-Werror`` is not.
    """
    try:
        return find_compiler().command
    except ToolMissing as missing:
        pytest.skip(missing.message)


def host_compiler_text() -> str:
    """Return the same command as one text, for ``make CC=...``."""
    return shlex.join(host_compiler())
