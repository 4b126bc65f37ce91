"""Inputs and outputs by rows: on this machine, and the image for the chip."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from image import RUNNER, require_emulator

from dory_core.api import Graph, ops
from dory_core.testing import Plugins, run_application
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder, mapped
from dory_core.tools import load_plugins

BY_ROWS = {"input_rows": "on", "output_rows": "on"}
WINDOW = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
#: Activations of the network with whole tensors take four times as much.
L2_BYTES = 2600


def image() -> Graph:
    """Return a network from an image to an image, with a skip connection."""
    b = GraphBuilder((4, 24, 20), seed=61, name="image")
    x = b.conv(8, WINDOW)
    y = b.conv(8, WINDOW, groups=8, source=x)
    b.add(x, y, operands=(None, None), requants=(mapped((0, 510), (0, 255)),))
    b.conv(4, ops.Window(kernel=(1, 1)))
    return b.graph()


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


def test_rows_are_exact_on_this_machine(plugins: Plugins, tmp_path: Path) -> None:
    plan = build_app(
        image(), "stm32h7", tmp_path / "app", budgets={2: L2_BYTES}, settings=BY_ROWS, seeds=(1, 2)
    )
    assert plan.inputs[0].passing and plan.outputs[0].passing
    assert_exact(tmp_path / "app", plugins=plugins, repeat=1)
    text = (tmp_path / "app/README.md").read_text()
    assert "HAL_DCMI_LineEventCallback" in text and "ROW = 80 }" in text


@pytest.mark.sample(2)
@pytest.mark.parametrize("vectors", ["io", "none"])
def test_rows_are_exact_on_the_chip(vectors: str, plugins: Plugins, tmp_path: Path) -> None:
    require_emulator()
    settings = {**BY_ROWS, "vectors": vectors}
    app = tmp_path / "app"
    build_app(image(), "stm32h7", app, budgets={2: L2_BYTES}, settings=settings, seeds=(1, 2))
    result = run_application(app, plugins=plugins, runner=RUNNER, repeat=2)
    assert result.exact and len(result.runs) == 4
    given = np.random.default_rng(3).integers(0, 256, (24, 20, 4), dtype=np.uint8)
    np.save(tmp_path / "given.npy", given)
    other = run_application(app, plugins=plugins, runner=RUNNER, inputs=[tmp_path / "given.npy"])
    assert other.exact and len(other.runs) == 1


def test_rows_are_exact_in_qemu(plugins: Plugins, tmp_path: Path) -> None:
    require_emulator()
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed")
    settings = {**BY_ROWS, "dma": "memcpy"}
    app = tmp_path / "app"
    build_app(image(), "stm32h7", app, budgets={2: L2_BYTES}, settings=settings)
    assert run_application(app, plugins=plugins, runner="qemu", repeat=2).exact
