"""The C compiler of this machine, which tests use to build applications."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pytest

from dory_core.errors import ToolMissing
from dory_core.simulate.compiler import Compiler, find_compiler

__all__ = ["ONLY_CHECK", "deepest_stack", "host_compiler", "host_compiler_text", "require_gcc"]

#: Options that make a compiler check its files and write assembly text to its working directory.
#: The compiler of the ``ziglang`` wheel has no ``-fsyntax-only``.
ONLY_CHECK = ("-S", "-Wno-unused-command-line-argument")


def host_compiler() -> tuple[str, ...]:
    """Return the command of the compiler that applications are built with; skip without one.

    It may be the compiler of the ``ziglang`` wheel, which prints no warnings for files that it has
    compiled before: make warnings errors to see them.
    """
    try:
        return find_compiler().command
    except ToolMissing as missing:
        pytest.skip(missing.message)


def host_compiler_text() -> str:
    """Return the same command as one text, for ``make CC=...``."""
    return shlex.join(host_compiler())


def require_gcc() -> tuple[str, ...]:
    """Return the command of gcc, for options that clang does not have; skip without gcc."""
    compiler = Compiler.identify("gcc")
    if compiler is None or "Free Software Foundation" not in compiler.version:
        pytest.skip("gcc is not here")
    return compiler.command


def deepest_stack(
    compile_all: Sequence[str],
    folder: Path,
    root: str,
    assembly: Mapping[str, int] = MappingProxyType({}),
) -> int:
    """Return the most bytes of stack that a function and what it calls take.

    Args:
        compile_all: Call of a gcc with its options and all sources.
        folder: Where it writes.
        root: Name of the function.
        assembly: Bytes of functions that are assembly on the chip, by their names in C: they count
            in place of what the compiler makes of their C form.
    """
    subprocess.run([*compile_all, "-S", "-fcallgraph-info=su"], cwd=folder, check=True)
    frames: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    for graph in folder.glob("*.ci"):
        text = graph.read_text()
        for title, size, kind in re.findall(
            r'title: "([^"]+)" label: "[^"]*?(\d+) bytes \((\w+)\)', text
        ):
            assert kind == "static", title
            name = title.rpartition(":")[2]
            frames[title] = assembly.get(name, int(size))
        for source, target in re.findall(r'sourcename: "([^"]+)" targetname: "([^"]+)"', text):
            if source.rpartition(":")[2] not in assembly:
                calls.setdefault(source, set()).add(target)

    return deepest_call(frames, calls, root)


def deepest_call(frames: Mapping[str, int], calls: Mapping[str, set[str]], root: str) -> int:
    """Return the most bytes of stack that a function and what it calls take.

    Args:
        frames: Bytes of each function by itself.
        calls: What each of them calls.
        root: Name of the function.
    """

    @cache
    def deepest(name: str) -> int:
        below = [deepest(other) for other in calls.get(name, ()) if other != name]
        return frames.get(name, 0) + max(below, default=0)

    return deepest(root)
