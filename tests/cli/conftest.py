"""What tests of the whole pipeline need: an installed frontend and target, and an application."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import EXAMPLE, dory


@pytest.fixture(scope="session")
def pipeline() -> tuple[str, ...]:
    """Options that choose an installed target and frontend; skips when they are not installed."""
    names = {row["entry"] for row in dory("plugins", "--json").json if row["state"] == "loaded"}
    if not {"gap8", "quantlab"} <= names:
        pytest.skip("the plugins gap8 and quantlab are not installed; `make install` does it")
    return ("--target", "gap8", "--frontend", "quantlab")


@pytest.fixture(scope="session")
def application(pipeline: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, compiled with its golden."""
    output = tmp_path_factory.mktemp("application") / "app"
    golden = EXAMPLE / "golden.npz"
    outcome = dory(*pipeline, EXAMPLE / "net.onnx", "--golden", golden, "-o", output)
    assert outcome.status == 0, outcome.stderr
    return output
