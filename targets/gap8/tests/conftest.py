"""Make the helpers beside the tests importable, and give applications for the SDK's model."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from dory_core.testing.apps import build_app
from dory_core.testing.compilers import host_compiler_text

sys.path.insert(0, str(Path(__file__).parent))

from sdk_runs import SDK, graph


@pytest.fixture
def sdk_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `make` find the model of the SDK."""
    monkeypatch.setenv("RULES_DIR", str(SDK / "rules"))
    monkeypatch.setenv("STUB_CC", host_compiler_text())
    # Not -O0, where zig traps what is undefined in the SDK's model.
    monkeypatch.setenv("STUB_LEVEL", "-O1")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an application whose layers are measured."""
    directory = tmp_path_factory.mktemp("sdk") / "app"
    settings = {"profile": "layers"}
    build_app(graph("residual"), "gap8", directory, budgets={1: 6000}, settings=settings)
    return directory


@pytest.fixture
def copy(app: Path, tmp_path: Path) -> Path:
    """Return a copy of it that a test may change."""
    return Path(shutil.copytree(app, tmp_path / "copy"))
