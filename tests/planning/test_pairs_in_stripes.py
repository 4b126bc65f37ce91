"""Pairs of elements in stripes: what serves every row is there whole for each of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dory_core.ir import Array, Concat, Graph, Lut, Maximum, Mul, Window, requant
from dory_core.testing.graphs import I8, GraphBuilder
from tests.planning.test_views import STREAMING, built

L2 = (26 << 10, 18 << 10, 10 << 10)


def gated() -> Graph:
    """One value per channel times an image, and constants per channel and per column."""
    b = GraphBuilder((8, 24, 20), values=I8, seed=3, name="gated")
    first = b.conv(16, Window(kernel=(3, 3), pads=(1, 1, 1, 1)), output=I8)
    mean = b.avg_pool(Window(kernel=(24, 20)), output=I8)
    table = np.random.default_rng(5).integers(-128, 128, 256)
    gate = b.layer(Lut, mean, table=Array(table))
    step = requant((1 << 20) + 77, 1 << 25, 1 << 27, -128, 127)
    b.layer(Mul, first, gate, operand_requants=(None, requant(1, 128)), requants=(step,))
    b.layer(Lut, b.last, table=Array(table[::-1]))
    b.layer(Maximum, b.last, constant=Array(np.arange(16).reshape(16, 1, 1) * 3))
    b.layer(Concat, b.last, first, axis=0)
    b.layer(Mul, b.last, constant=Array(np.arange(20).reshape(1, 1, 20) - 9), requants=(step,))
    b.conv(8, Window(kernel=(1, 1)), output=I8)
    return b.graph()


@pytest.mark.sample(3)
@pytest.mark.parametrize("l2", L2)
def test_pairs_in_stripes_are_exact(l2: int, tmp_path: Path) -> None:
    plan = built(gated(), tmp_path / "app", l2=l2)
    parts = {step.layer.op.kind: len(step.parts) for step in plan.steps}
    assert l2 == L2[0] or min(parts["Mul"], parts["Concat"], parts["Maximum"]) > 1


def test_constants_of_rows_are_not_cut_into_stripes(tmp_path: Path) -> None:
    b = GraphBuilder((8, 24, 20), values=I8, seed=4)
    b.conv(8, Window(kernel=(3, 3), pads=(1, 1, 1, 1)), output=I8)
    rows = np.random.default_rng(1).integers(-90, 90, (8, 24, 1))
    b.layer(Maximum, b.last, constant=Array(rows))
    chip = replace(STREAMING, resident_l1=False)  # what is between both layers would stay in L1
    plan = built(b.graph(), tmp_path / "app", chip, l2=8 << 10)
    assert len(plan.steps[0].parts) > 1 and len(plan.steps[1].parts) == 1
