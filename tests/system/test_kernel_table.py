"""docs/kernels.md and operators.md are what kernels and frontends say of themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dory_core.kernels import portable_kernels
from dory_core.plugins.manager import load_plugins
from dory_core.testing.cases import layer_cases

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["kernels", "operators"])
def test_pages_are_written_from_records(page: str) -> None:
    """`python docs/kernels.py` writes its page; sections of targets that are gone do not count."""
    command = [sys.executable, str(ROOT / "docs" / f"{page}.py"), "--check"]
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


@pytest.mark.parametrize("name", ["nemo", "quantlab", "deeploy"])
def test_plugins_list_their_operators(name: str) -> None:
    frontend = load_plugins().frontend(name)
    assert frontend.operators is not None
    found = {one.name: one.becomes for one in frontend.operators()}
    assert found["Conv"] == "Conv" and ("iRMSNorm" in found) == (name == "deeploy")
