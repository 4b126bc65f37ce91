"""More L1 makes no plan slower: tiles are planned within less of it, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from dory_stm32h7.calibration import SMALLER_L1

from dory_core.api import ops
from dory_core.testing import Plugins
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import load_plugins

MORE = (32 * 1024, 64 * 1024, 116 * 1024)


def autoencoder() -> GraphBuilder:
    """Return large matrices with small ones between them: loads of constants are what waits."""
    builder = GraphBuilder((640, 1, 1), name="autoencoder", seed=3)
    for size in (128, 128, 8, 128, 640):
        builder.linear(size, output=(0, 255))
    return builder


def mobile() -> GraphBuilder:
    """Return depthwise and dense convolutions whose tensors take most of L1."""
    same = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    builder, before = GraphBuilder((16, 32, 32), name="mobile", seed=4), 16
    for channels in (32, 64, 64):
        builder.conv(before, same, groups=before)
        builder.conv(channels, ops.Window(kernel=(1, 1)))
        before = channels
    return builder


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


@pytest.mark.sample(2)
@pytest.mark.parametrize("build", [autoencoder, mobile])
def test_more_l1_is_never_slower(
    build: Callable[[], GraphBuilder], plugins: Plugins, tmp_path: Path
) -> None:
    cycles = [
        build_app(
            build().graph(), "stm32h7", tmp_path / str(size), plugins=plugins, budgets={1: size}
        ).cycles
        for size in (*SMALLER_L1, *MORE)
    ]
    assert cycles == sorted(cycles, reverse=True), cycles
    assert cycles[-1] < cycles[0] or len(set(cycles)) == 1
