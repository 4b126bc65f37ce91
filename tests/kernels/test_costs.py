"""A target that knows its core better passes the costs of the portable kernels."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from dory_core.api import ops
from dory_core.ir.geometry import make_tile
from dory_core.kernels import PortableCosts, portable_kernels
from dory_core.testing.graphs import GraphBuilder

COUNTED = PortableCosts()


def cycles(costs: PortableCosts) -> list[int]:
    """Return the estimate of a tile of every layer kind."""
    builder = GraphBuilder((4, 8, 8))
    trunk = builder.conv(4, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    side = builder.conv(4, ops.Window(kernel=(1, 1)))
    builder.add(trunk, side)
    builder.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    builder.linear(3)
    found = []
    for layer in builder.graph().layers:
        kernels = portable_kernels(2, costs=costs)
        kernel = next(k for k in kernels if k.accepts(layer) is None)
        y = layer.output
        found.append(int(kernel.cycles(layer, make_tile(layer, y.channels, y.height, y.width))))
    return found


def test_costs_are_those_that_were_counted_unless_the_target_says_otherwise() -> None:
    assert cycles(COUNTED) == cycles(PortableCosts())
    doubled = PortableCosts(*(2 * getattr(COUNTED, field.name) for field in fields(COUNTED)))
    assert cycles(doubled) == [2 * count for count in cycles(COUNTED)]


@pytest.mark.parametrize("name", ["call", "output", "step", "tap", "mac", "element"])
def test_each_cost_counts(name: str) -> None:
    assert sum(cycles(replace(COUNTED, **{name: 0}))) < sum(cycles(COUNTED))
