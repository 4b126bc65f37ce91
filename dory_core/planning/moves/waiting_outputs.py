"""Layers that wait long for their constants store their output and run in several tiles.

A layer whose output is resident runs in one tile, which leaves no room for weight prefetch.
"""

from __future__ import annotations

from collections.abc import Iterator

from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate
from dory_core.planning.moves import l1_residency, weight_prefetch
from dory_core.planning.moves.l1_residency import with_residents
from dory_core.planning.moves.smaller_tiles import LONG_WAIT, in_smaller_tiles
from dory_core.planning.problem import Problem

#: Moves whose decisions this one changes.
_NEEDED = (l1_residency.NAME, weight_prefetch.NAME)


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield decisions in which one more output is not resident."""
    decision = candidate.decision
    if decision.streamed or not problem.switched_off.isdisjoint(_NEEDED):
        return
    writes, limit = problem.network.flow.writes, candidate.cycles / LONG_WAIT
    resident = {writes[n] for n, one in enumerate(candidate.residency.layers) if one.leaves}
    for n, step in enumerate(candidate.steps):
        if (
            n > 0
            and writes[n] in resident
            and candidate.residency.tiled[n].schedule.has_weights
            and not step.loaded_ahead
            and step.estimate.stall_cycles > limit
        ):
            moved = (set(writes) - resident) | {writes[n]}
            other = with_residents(problem, decision, candidate.peak, moved)
            yield in_smaller_tiles(problem, other)
