"""Sanitizers in tests: skipping where one is missing, and running Python under one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dory_core.errors import ToolMissing
from dory_core.simulate.compiler import find_compiler, probe_sanitizer

__all__ = ["declared_mark", "require_sanitizer", "run_sanitized"]


def declared_mark(config: pytest.Config, name: str) -> list[pytest.MarkDecorator]:
    """Return a marker for tests if the project declares one of this name.

    A project that declares ``sanitizer`` or ``slow`` can select these tests; other projects need no
    configuration for the kit.
    """
    declared = any(marker.startswith(f"{name}:") for marker in config.getini("markers"))
    return [getattr(pytest.mark, name)] if declared else []


def require_sanitizer(name: str) -> None:
    """Skip the test, with the reason, unless the sanitizer of this machine's compiler works."""
    try:
        probe_sanitizer(find_compiler(), name)
    except ToolMissing as missing:
        pytest.skip(f"sanitizer missing: {missing.message}")


def run_sanitized(arguments: Sequence[str], folder: Path | None = None) -> str:
    """Run ``python arguments`` and return its output; a report of a sanitizer fails the test.

    The program loads libraries with the address sanitizer, whose runtime is loaded before Python.
    Modules are found as in this process. The test is skipped without this runtime.

    Args:
        arguments: Arguments of Python.
        folder: Working directory.
    """
    require_sanitizer("address,undefined")
    query = [*find_compiler().command, "-print-file-name=libasan.so"]
    runtime = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    if not os.path.isabs(runtime):
        pytest.skip("sanitizer missing: the compiler has no runtime that can be loaded first")
    environment = os.environ | {
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
