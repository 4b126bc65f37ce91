"""Optimal static packing, and the choice between it and the stack.

A block is a rectangle, lifetime x bytes; the packing is a two-dimensional no-overlap problem whose
height is minimised. The largest sum of live blocks bounds it from below: where a heuristic reaches
that bound it is optimal and the solver is not even imported. Where it is higher in some places,
these are repaired first: the solver gets all blocks only where that is not enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from dory_core.errors import DoryError
from dory_core.plan.blocks import (
    Bin,
    Packing,
    Request,
    fullest_step,
    owners,
    packing,
    with_slices,
)
from dory_core.planning.packing.exact import SOLVER_EFFORT, solve
from dory_core.planning.packing.heuristics import best_fit, lowest_place, peak_of
from dory_core.planning.packing.repair import repaired
from dory_core.planning.packing.stack import bidirectional_stack

# Of more blocks the solver's effort goes into reading the model.
SOLVER_BLOCKS = 1000


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The packing of one memory and what the alternatives would have cost.

    Attributes:
        chosen: The smaller of both.
        stack_bytes, packed_bytes: Peak of the bidirectional stack and of the packing, in bytes.
        proven: Whether ``packed_bytes`` is the optimum.
    """

    chosen: Packing
    stack_bytes: int
    packed_bytes: int
    proven: bool


def plan_memory(requests: Sequence[Request], alignment: int, enough: int = 0) -> MemoryPlan:
    """Return the better of the bidirectional stack and the optimal packing.

    On equal peaks the stack is taken: it is the layout that the paper describes. Slices lie in
    their blocks.

    Args:
        requests: The blocks, with their sizes in bytes and live ranges.
        alignment: Granule of offsets, in bytes.
        enough: As for :func:`optimal_packing`.
    """
    check_ids(requests)
    plan = _plan(owners(requests), alignment, enough)
    return replace(plan, chosen=with_slices(plan.chosen, requests))


@lru_cache(maxsize=256)
def _plan(requests: tuple[Request, ...], alignment: int, enough: int) -> MemoryPlan:
    stack = bidirectional_stack(requests, alignment)
    packed, proven = optimal_packing(requests, alignment, stack=stack, enough=enough)
    chosen = stack if stack.peak_bytes <= packed.peak_bytes else packed
    return MemoryPlan(chosen, stack.peak_bytes, packed.peak_bytes, proven)


def optimal_packing(
    requests: Sequence[Request],
    alignment: int,
    effort: float = SOLVER_EFFORT,
    stack: Packing | None = None,
    enough: int = 0,
) -> tuple[Packing, bool]:
    """Return (packing of the smallest peak, whether that is proven).

    The packing is never larger than the bidirectional stack.

    Args:
        requests: The blocks, with their sizes in bytes and live ranges.
        alignment: Granule of offsets, in bytes.
        effort: Limit of the solver in deterministic units; when it runs out, the best packing found
            so far is returned and not proven.
        stack: The bidirectional stack, where it is known.
        enough: Bytes of the memory: a packing that is higher is repaired in bad places, and the
            solver never gets all blocks. 0 for the smallest peak, whatever it costs.
    """
    if not requests:
        return Packing((), 0, "best fit"), True
    check_ids(requests)
    bound = fullest_step(requests, alignment)[1]
    start = best_fit(requests, alignment, bound)
    method = "best fit"
    stack = stack or bidirectional_stack(requests, alignment)
    if stack.peak_bytes < peak_of(requests, start, alignment):
        start, method = {b.id: b.offset for b in stack.blocks}, "stack"
    peak = peak_of(requests, start, alignment)
    if peak == bound:
        return packing(requests, start, alignment, method), True
    found, proven = repaired(requests, start, alignment, bound), True
    if found is None and bound < enough < peak:
        found, proven = repaired(requests, start, alignment, enough), False
    if found is None and (len(requests) > SOLVER_BLOCKS or enough):
        return packing(requests, start, alignment, method), False
    if found is None:
        room = Bin("memory", peak, alignment)
        solved, proven = solve(requests, (room,), effort, start, bound)
        found = None if solved is None else {one: place.offset for one, place in solved.items()}
    if found is None:
        return packing(requests, start, alignment, method), proven
    # The solver leaves blocks floating; let them sink, which never raises one.
    sunk = lowest_place(sorted(requests, key=lambda r: (found[r.id], r.id)), alignment)
    return packing(requests, sunk, alignment, "optimal" if proven else "solver"), proven


def peak_within(requests: Sequence[Request], alignment: int, room: int) -> int:
    """Return the peak of a packing; of no more than some bytes where one is found soon.

    Args:
        requests: The blocks.
        alignment: Granule of offsets, in bytes.
        room: Bytes of the memory: any packing that fits will do.
    """
    owned = owners(requests)
    start = best_fit(owned, alignment, room)
    peak = peak_of(owned, start, alignment)
    if peak <= room:
        return peak
    stack = bidirectional_stack(owned, alignment)
    if stack.peak_bytes < peak:
        peak, start = stack.peak_bytes, {block.id: block.offset for block in stack.blocks}
    fits = peak <= room or repaired(owned, start, alignment, room) is not None
    return min(peak, room) if fits else peak


def check_ids(requests: Sequence[Request]) -> None:
    """Raise DoryError when two blocks are the same."""
    blocks = [r.id for r in requests]
    if len(set(blocks)) != len(blocks):
        twice = sorted({str(block) for block in blocks if blocks.count(block) > 1})
        raise DoryError(f"memory planning got several blocks of one name: {', '.join(twice)}")
