"""A target that knows its core better passes the costs of the portable kernels."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from dory_core.api import ops
from dory_core.importing import Array, requant
from dory_core.ir.geometry import make_tile
from dory_core.kernels import PortableCosts, portable_kernels
from dory_core.kernels.portable import PortableLinear
from dory_core.kernels.portable_pixelwise import PortableSoftmax
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.kernels import alone, typed

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


@pytest.mark.parametrize(("weight", "mac"), [(100, "mac"), (127, "generic_mac")])
def test_products_of_sums_beyond_32_bits_are_generic_ones(weight: int, mac: str) -> None:
    """Sums of 520 numbers of 16 bits times 127 exceed 32 bits."""
    weights = Array(np.full((2, 520), weight))
    step = requant(1, 0, 1 << 16, -128, 127)
    linear = alone(ops.Linear, weights=weights, wide=True, requants=(step,))
    layer = typed(linear, (520, 1, 1, -32768, 32767))
    kernels = (PortableLinear(costs=costs) for costs in (COUNTED, replace(COUNTED, **{mac: 0})))
    dear, cheap = (int(kernel.cycles(layer, make_tile(layer, 2, 1, 1, 520))) for kernel in kernels)
    assert dear - cheap >= 2 * 520 * getattr(COUNTED, mac)


def test_a_softmax_reads_every_channel_of_a_pixel_twice() -> None:
    """Two cores share the 9 pixels of 6 channels: one computes 5 of them."""
    requants = (requant(1, -128, 1, -128, 127),)
    layer = alone(ops.Softmax, table=Array([1 << 20] + [0] * 255), factor=255, requants=requants)
    layer = typed(layer, (6, 3, 3, -128, 127))
    tile = make_tile(layer, 6, 3, 3)
    ten, eleven = (
        PortableSoftmax(cores=2, costs=replace(COUNTED, element=cost)).cycles(layer, tile)
        for cost in (10, 11)
    )
    assert eleven - ten == 5 * 6 * 2
