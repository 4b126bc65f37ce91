"""docs/kernels.md is what the kernels of the installed targets say of themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dory_core.kernels import portable_kernels
from dory_core.plugins.manager import load_plugins
from dory_core.testing.cases import layer_cases

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_kernels_is_written_from_their_records() -> None:
    """`python docs/kernels.py` writes it; sections of targets that are gone do not count."""
    command = [sys.executable, str(ROOT / "docs" / "kernels.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_every_kernel_says_what_it_computes() -> None:
    plugins = load_plugins()
    layers = [layer for case in layer_cases() for layer in case.build().layers]
    kernels = {kernel.name: kernel for kernel in portable_kernels()}
    for target in plugins.targets():
        ctx = plugins.context(target.name)
        kernels |= {k.name: k for layer in layers for k in plugins.kernels(ctx, layer)}
    assert [name for name, kernel in kernels.items() if len(kernel.summary) < 10] == []
