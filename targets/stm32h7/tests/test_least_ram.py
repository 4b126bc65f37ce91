"""The plan with the fewest bytes of L2: compiled, built and run on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dory_core.api import Graph, ops
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder, requant

TARGET = "stm32h7"


def window(kernel: int, stride: int = 1) -> ops.Window:
    pad = kernel // 2
    return ops.Window(kernel=(kernel, kernel), strides=(stride, stride), pads=(pad, pad, pad, pad))


def blocks() -> Graph:
    """Return blocks as those of MobileNetV2: wide tensors between narrow ones, with a sum."""
    b = GraphBuilder((3, 48, 40), seed=61, name="blocks")
    x = b.conv(16, window(3, 2))
    y = b.conv(64, window(1), source=x)
    y = b.conv(64, window(3), groups=64, source=y)
    y = b.conv(16, window(1), source=y)
    b.add(y, x, requants=(requant(1, 0, 256, 0, 255),))
    b.conv(24, window(3, 2))
    b.linear(5)
    return b.graph()


def pools() -> Graph:
    """Return wide convolutions with a pool behind them."""
    b = GraphBuilder((3, 33, 45), seed=62, name="pools")
    b.conv(32, window(3))
    b.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    b.conv(32, window(5))
    b.avg_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    b.linear(7)
    return b.graph()


def depthwise() -> Graph:
    """Return the first layers of a MobileNet."""
    b = GraphBuilder((3, 40, 40), seed=63, name="depthwise")
    b.conv(16, window(3, 2))
    b.conv(16, window(3), groups=16)
    b.conv(32, window(1))
    b.conv(32, window(3, 2), groups=32)
    b.conv(16, window(1))
    b.linear(4)
    return b.graph()


@pytest.mark.sample(3)
@pytest.mark.parametrize("build", [blocks, pools, depthwise])
def test_the_least_plan_is_smaller_and_exact(build: Callable[[], Graph], tmp_path: Path) -> None:
    graph = build()
    budgets = {1: 12 * 1024}  # in which few tensors stay
    fastest = build_app(graph, TARGET, tmp_path / "fastest", objective="cycles", budgets=budgets)
    least = build_app(graph, TARGET, tmp_path / "least", objective="ram", budgets=budgets)
    assert any(step.chain > 1 for step in least.steps)
    assert least.levels[1].used < fastest.levels[1].used
    assert least.cycles >= fastest.cycles
    assert_exact(tmp_path / "least", dma=("random",))
