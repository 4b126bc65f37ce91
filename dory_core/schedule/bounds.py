"""Cycles that no timeline of a tile loop undercuts, and likely ones, without a walk over its steps.

Sizes and counts are numbers, arrays or expressions. What a call, a meeting and a copy cost is
``schedule.costs``; how often a loop does it is ``schedule.loops``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from dory_core.expr import Expr, Number
from dory_core.hardware.links import Link
from dory_core.ir import pixel_bytes
from dory_core.ir.geometry import Tile, is_channelwise
from dory_core.schedule.costs import LayerCosts
from dory_core.schedule.loops import Buffering, LoopOrder, repeats

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


@dataclass(frozen=True, slots=True)
class CopyCycles:
    """Cycles of copying all inputs, all constants and the whole output of a layer once.

    Attributes:
        x: Inputs, in the tiles of a loop.
        w: Constants.
        y: The output.
    """

    x: Any
    w: Any
    y: Any


def copy_cycles(
    costs: LayerCosts, counts: Sequence[Any], rows: Any, columns: Any, constants: Any
) -> CopyCycles:
    """Return the least cycles of the copies between L1 and the memories below it.

    Args:
        costs: The costs of the layer.
        counts: Number of tiles along c_out, h, w and c_in.
        rows: Input rows that all tiles along h read together.
        columns: Input columns that all tiles along w read together.
        constants: Bytes of all constants; None for a kernel without constants.
    """
    o, h, w, i = counts
    layer, cores = costs.layer, costs.hierarchy.cores
    link, of_constants = costs.hierarchy.link(1), costs.constants_link
    setup, tiles = _setup(link), h * w * (o if is_channelwise(layer) else i)
    weights: Any = 0
    if constants is not None:
        weights = o * i * _setup(of_constants) + constants / _bytes_per_cycle(of_constants, cores)
    return CopyCycles(
        tiles * setup + _input_cycles(costs, rows, columns),
        weights,
        h * w * o * setup + layer.output.size_bytes / _bytes_per_cycle(link, cores),
    )


def link_cycles(costs: LayerCosts, counts: Sequence[Any], once: CopyCycles) -> Any:
    """Return the least cycles that the link is busy, in the better of the two loop orders.

    Args:
        costs: The costs of the layer.
        counts: Number of tiles along c_out, h, w and c_in.
        once: Cycles of copying everything once.
    """
    x, w = _repeats(costs, counts, once)
    return x * once.x + w * once.w + once.y


def likely_cycles(
    costs: LayerCosts, counts: Sequence[Any], once: CopyCycles, compute: Any, buffering: Buffering
) -> Any:
    """Return about how many cycles a tile loop takes: a single buffer hides no copies.

    Copies that are hidden slow the cores: by the contention of the link, and by misses of
    instructions, which wait for them.

    Args:
        costs: The costs of the layer.
        counts: Number of tiles along c_out, h, w and c_in.
        once: Cycles of copying everything once.
        compute: Cycles of the cores.
        buffering: Copies of the buffers.
    """
    o, h, w, i = counts
    x, weights = _repeats(costs, counts, once)
    places, link, apart = h * w, costs.hierarchy.link(1), is_channelwise(costs.layer)
    tiles = places * o * (1 if apart else i)
    hidden = exposed = issued = 0
    for cycles, times, copies, by in (
        (x * once.x, x * places * (o if apart else i), buffering.x, link),
        (weights * once.w, weights * o * i, buffering.w, costs.constants_link),
        (once.y, places * o, buffering.y, link),
    ):
        seen = cycles if link.blocking or copies == 1 else cycles / times
        exposed, hidden = exposed + seen, hidden + cycles - seen
        issued = issued + times * by.issue_cycles
    settled = len(costs.misses) - 1  # the first of the tiles with the last misses
    slowed = link.contention * np.minimum(hidden, compute)
    for number, misses in enumerate(costs.misses):
        times = np.maximum(tiles - number, 0) if number == settled else tiles > number
        slowed = slowed + times * (misses.cycles + np.minimum(misses.waits, hidden / tiles))
    return np.maximum(compute + slowed, hidden) + exposed + issued


def _repeats(costs: LayerCosts, counts: Sequence[Any], once: CopyCycles) -> tuple[Any, Any]:
    """Return how often inputs and constants are loaded, in the order with the fewest cycles."""
    (x, w), (other_x, other_w) = (
        repeats(order, counts, is_channelwise(costs.layer)) for order in LoopOrder
    )
    better = x * once.x + w * once.w <= other_x * once.x + other_w * once.w
    return np.where(better, x, other_x), np.where(better, w, other_w)


def _setup(link: Link) -> int:
    """Return the cycles of the set-up of a transfer that every copy has."""
    if not link.is_plain:
        return 0  # the cores may copy, which takes no set-up
    return max(link.setup_cycles - link.issue_cycles, 0)


def _bytes_per_cycle(link: Link, cores: int) -> float:
    """Return the most bytes per cycle of a copy."""
    if link.is_plain or not link.core_cycles_per_byte:
        return link.rate
    return max(link.rate, cores / link.core_cycles_per_byte)


def _input_cycles(costs: LayerCosts, rows: Any, columns: Any) -> Any:
    """Return the least cycles of moving all channels of rows * columns pixels, without set-ups.

    Of a Linear the whole input counts.
    """
    layer, moves, link = costs.layer, costs.moves, costs.hierarchy.link(1)
    per_byte = 1 / _bytes_per_cycle(link, costs.hierarchy.cores)
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
