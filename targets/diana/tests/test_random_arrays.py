"""Random networks of layers that the arrays take, in random budgets of L1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from array_networks import BYTES, SEVEN, ArrayBuilder, win

from dory_core.api import DoesNotFit, Graph
from dory_core.testing.apps import assert_exact, build_app

_SIDES = (1, 3, 5, 7)


def _append(b: ArrayBuilder, random: np.random.Generator) -> None:
    """Add a layer to the end; the outputs of all have seven bits."""
    channels, height, width = b.shape_of(b.last)
    sides = tuple(int(s) for s in random.choice([s for s in _SIDES if s <= 7], 2))
    left = int(random.integers(sides[1]))
    pads = (int(random.integers(sides[0])), left, int(random.integers(sides[0])), 0)
    pads = (*pads[:3], int(random.integers(left + 1)))
    stride = int(random.choice([1, 1, 2]))
    if min(height + pads[0] + pads[2] - sides[0], width + pads[1] + pads[3] - sides[1]) < 0:
        sides, pads = (1, 1), (0, 0, 0, 0)
    window = win(sides, stride, pads)
    kind = random.choice(["dense", "depthwise", "ternary", "pointwise", "sum"])
    outputs = int(random.integers(1, 70))
    if kind == "depthwise" and channels > 1:
        b.digital(channels, window, groups=channels)
    elif kind == "ternary" and max(pads) <= 3 and -(-channels // 16) * 16 * np.prod(sides) <= 1152:
        b.ternary(outputs, window)
    elif kind == "sum":
        first = b.last
        b.sum(b.digital(channels, win(1)), first)
    else:
        b.digital(outputs, win(1) if kind == "pointwise" else window)


def network(seed: int) -> Graph:
    random = np.random.default_rng(seed)
    shape = tuple(int(n) for n in random.integers(1, [40, 24, 40]))
    values = SEVEN if random.random() < 0.5 else BYTES
    b = ArrayBuilder((shape[0], shape[1], shape[2]), values=values, seed=seed, name=f"net_{seed}")
    b.digital(int(random.integers(1, 50)), win(3))
    for _ in range(int(random.integers(1, 5))):
        _append(b, random)
    if random.random() < 0.4:
        b.dense(int(random.integers(1, 40)))
    return b.graph()


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 60))]
)
def test_random_network_is_exact(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(1000 + seed)
    budgets = {} if random.random() < 0.5 else {1: int(random.integers(256, 2048)) * 16}
    graph = network(seed)
    try:
        build_app(graph, "diana", tmp_path / "app", budgets=budgets, seeds=(0, 1))
    except DoesNotFit as error:
        assert "B of L2" in error.message or (budgets and str(budgets[1]) in error.message)
        return
    assert_exact(tmp_path / "app", dma=("early", "random"))
