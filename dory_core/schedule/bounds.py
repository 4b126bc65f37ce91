"""Cycles that no timeline of a tile loop undercuts, without a walk over its steps.

Sizes and counts are numbers, arrays or expressions. What a call, a meeting and a copy cost is
``schedule.costs``; how often a loop does it is ``schedule.loops``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from dory_core.expr import Expr, Number
from dory_core.ir import pixel_bytes
from dory_core.ir.geometry import Tile, is_channelwise
from dory_core.schedule.costs import LayerCosts
from dory_core.schedule.loops import LoopOrder, Schedule, repeats

#: Tiles of one size along an axis: size of the output, size of the input, number of tiles.
Pieces = Sequence[tuple[Number, Number, Number]]


def cores_cycles(costs: LayerCosts, axes: Sequence[Pieces]) -> Number:
    """Return the cycles of all calls of a tile loop and of the meetings of the cores.

    Args:
        costs: The costs of the layer.
        axes: The tiles along c_out, h, w and c_in. Input channels are those of c_out where the
            layer keeps channels apart.
    """
    apart = is_channelwise(costs.layer)
    cycles: Number = 0
    calls: Number = 0
    for (o, o_in, n_o), (h, x_h, n_h), (w, x_w, n_w), (i, _, n_i) in product(*axes):
        count = n_o * n_h * n_w * n_i
        calls = calls + count
        if isinstance(count, Expr) or count:
            tile = Tile(o, h, w, o_in if apart else i, x_h, x_w)
            cycles = cycles + count * costs.bound.cycles(tile)
    return cycles + calls * sum(costs.meetings.values())


def pieces(spans: Iterable[Any]) -> Pieces:
    """Return the tiles along an axis by their sizes."""
    sizes = Counter((span.size, span.x_size) for span in spans)
    return [(size, x_size, count) for (size, x_size), count in sizes.items()]


def lower_bound(costs: LayerCosts, schedule: Schedule) -> int:
    """Return the cycles of the cores, of the first load and of the last store of a tile loop."""
    costs = costs.in_loops(schedule)
    axes = (schedule.c_out, schedule.h, schedule.w, schedule.c_in)
    first, last = ([axis[end] for axis in axes] for end in (0, -1))
    o, h, w, i = first
    channels = o.x_size if schedule.is_channelwise else i.size
    load = costs.copy("x", h.x_size, w.x_size, channels)
    store = costs.copy("y", *(span.size for span in last[:3]))
    total = cores_cycles(costs, [pieces(axis) for axis in axes])
    return int(total + load.cycles + store.cycles)


def link_cycles(
    costs: LayerCosts,
    counts: Sequence[Any],
    rows: Any,
    columns: Any,
    block_bytes: Any,
) -> Any:
    """Return the least cycles that the link is busy, in the better of the two loop orders.

    Args:
        costs: The costs of the layer.
        counts: Number of tiles along c_out, h, w and c_in.
        rows: Input rows that all tiles along h read together.
        columns: Input columns that all tiles along w read together.
        block_bytes: Bytes of the constants of a tile; None for a kernel without constants.
    """
    o, h, w, i = counts
    layer, setup, rate = costs.layer, _setup(costs), _bytes_per_cycle(costs)
    places, apart = h * w, is_channelwise(layer)
    x_all = places * (o if apart else i) * setup + _input_cycles(costs, rows, columns)
    y_all = places * o * setup + layer.output.size_bytes / rate
    if block_bytes is None:
        return x_all + y_all
    w_all = o * i * setup + (o - 1) * i * block_bytes / rate
    orders = [repeats(order, counts, apart) for order in LoopOrder]
    weights_outer, spatial_outer = (x * x_all + w * w_all for x, w in orders)
    return np.minimum(weights_outer, spatial_outer) + y_all


def _setup(costs: LayerCosts) -> int:
    """Return the cycles of the set-up of a transfer that every copy has."""
    link = costs.hierarchy.link(1)
    if not link.is_plain:
        return 0  # the cores may copy, which takes no set-up
    return max(link.setup_cycles - link.issue_cycles, 0)


def _bytes_per_cycle(costs: LayerCosts) -> float:
    """Return the most bytes per cycle of a copy."""
    link = costs.hierarchy.link(1)
    rate, by_core = link.rate, link.core_cycles_per_byte
    if link.is_plain or not by_core:
        return rate
    return max(rate, costs.hierarchy.cores / by_core)


def _input_cycles(costs: LayerCosts, rows: Any, columns: Any) -> Any:
    """Return the least cycles of moving all channels of rows * columns pixels, without set-ups.

    Of a Linear the whole input counts.
    """
    layer, moves, per_byte = costs.layer, costs.moves, 1 / _bytes_per_cycle(costs)
    link = costs.hierarchy.link(1)
    if moves.planar and link.element_cycles:
        per_byte = min(per_byte, link.element_cycles)
    if layer.op.reads_vector:
        return layer.inputs[0].size_bytes * per_byte
    pixel = whole = 0
    for operand, tensor in enumerate(layer.inputs):
        if any(layer.whole_axes(operand)):
            whole += tensor.size_bytes  # at least once
        else:
            pixel += pixel_bytes(tensor.channels, tensor.bits)
    return (rows * columns * pixel + whole) * per_byte
