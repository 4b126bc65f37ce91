"""Bufferings and loop orders of a layer, and the cheapest of them by estimate."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

from dory_core.expr import evaluate
from dory_core.ir.geometry import make_tile
from dory_core.schedule.costs import LayerCosts
from dory_core.schedule.loops import (
    Buffering,
    LoopOrder,
    Schedule,
    make_schedule,
)
from dory_core.schedule.timeline import LayerEstimate, estimate
from dory_core.tiling.problem import AXES, Formulation, TilingProblem


@dataclass(frozen=True, slots=True)
class Variant:
    """A tile with buffering and loop order.

    Attributes:
        values: Those of the variables of the problem.
        buffering: Copies of the buffers.
        schedule: The tile loop.
        estimate: Its cycles.
    """

    values: dict[str, int]
    buffering: Buffering
    schedule: Schedule
    estimate: LayerEstimate


def bufferings(formulation: Formulation) -> tuple[Buffering, ...]:
    """Return all bufferings, fewer copies first; without weights w has one copy."""
    return _all_bufferings(formulation.has_weights, formulation.double_buffers)


@cache
def _all_bufferings(weights: bool, double: bool) -> tuple[Buffering, ...]:
    copies = (1, 2) if double else (1,)
    pairs = product(copies, copies if weights else (1,), copies)
    found = (Buffering(x, w, y) for x, w, y in pairs)
    return tuple(sorted(found, key=lambda b: b.x + b.w + b.y))


def fits(problem: TilingProblem, values: dict[str, int]) -> bool:
    """Return True when a tile fits the budget of the problem with its copies."""
    return int(evaluate(problem.bytes_used, values)) <= problem.budget_bytes


def is_legal(formulation: Formulation, values: dict[str, int]) -> bool:
    """Return True when a tile meets the constraints of the formulation."""
    return all(evaluate(c.condition, values) for c in formulation.constraints)


def schedules(
    formulation: Formulation, values: dict[str, int], buffering: Buffering
) -> Iterator[Schedule]:
    """Return the distinct tile loops: one order when only one axis has several tiles."""
    # Sizes along the axes are all that a schedule needs of a tile.
    tile = make_tile(
        formulation.layer,
        *(int(evaluate(getattr(formulation.tile, name), values)) for name in AXES),
    )
    for order in LoopOrder:
        schedule = make_schedule(formulation.layer, tile, buffering, order, formulation.has_weights)
        o, h, w, _ = schedule.counts
        if order is LoopOrder.SPATIAL_OUTER and (o == 1 or h * w == 1):
            return
        yield schedule


def cheapest(
    formulation: Formulation,
    candidates: Iterable[tuple[Buffering, dict[str, int]]],
    costs: LayerCosts,
    best: Variant | None = None,
    byte_cycles: float = 0.0,
    resident: Collection[str] = (),
) -> Variant | None:
    """Return the candidate with the fewest estimated cycles; the first of equals wins.

    Args:
        formulation: The tiling problems of the layer.
        candidates: Bufferings with values of the variables.
        costs: The costs of the layer.
        best: The best variant found before.
        byte_cycles: Cycles that a byte of the layer's constants counts as.
        resident: Tensors (x, x2, y) that lie in L1 and are not moved.
    """

    def weight(schedule: Schedule) -> float:
        return byte_cycles * costs.constants_bytes(schedule) if byte_cycles else 0.0

    least = None if best is None else best.estimate.cycles + weight(best.schedule)
    for buffering, values in candidates:
        for schedule in schedules(formulation, values, buffering):
            mine, extra = costs.in_loops(schedule), weight(schedule)
            found = estimate(mine, schedule, resident=resident)
            if least is None or found.cycles + extra < least:
                best, least = Variant(values, buffering, schedule, found), found.cycles + extra
    return best
