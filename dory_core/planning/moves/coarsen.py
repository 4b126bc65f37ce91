"""Undo splits and spills of the cascade that the network does not need.

The cascade relieves one position at a time and never looks back: a step may cut a layer into
stripes of one row where a later step makes room for larger ones. Here every tensor that left L2 is
tried in L2 again, the largest first, then every layer with fewer stripes and groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dory_core.planning.cutting import (
    ChunkBytes,
    least_groups,
    moved_groups,
    touches_l3,
    with_in_l2,
    with_split,
)
from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate
from dory_core.planning.moves.l1_residency import with_residents
from dory_core.planning.packing.one_memory import peak_within
from dory_core.planning.problem import Problem
from dory_core.planning.sequence.peaks import LiveBytes

#: Parts of L2 that are filled: blocks that fit in sum may find no places in all of it.
_ROOMS = (1.0, 15 / 16)


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield the decision with as little moved and cut as fits."""
    if candidate.decision.streamed and problem.link is not None:
        found = coarser(problem, candidate.decision)
        if found is not None:
            yield found


def coarser(problem: Problem, fitting: Decision) -> Decision | None:
    """Return the decision with as little moved and cut as fits; None where that is the first one.

    Args:
        problem: A network that is streamed.
        fitting: A decision without fused chains that fits.
    """
    live, start = LiveBytes(problem), replace(fitting.in_parts(), in_l1=fitting.resident)
    for share in _ROOMS:
        decision = coarsened(problem, start, _Trials(live, start, int(problem.room * share)))
        if decision == start:
            return None
        if fitting.residency is not None:
            decision = with_residents(problem, decision, fitting.arena_bytes)
        requests = tuple(live.sequence(decision).requests.values())
        if peak_within(requests, problem.alignment, problem.room) <= problem.room:
            return decision
    return None


class _Trials:
    """Whether decisions fit some bytes of L2, each compared with the last one that did."""

    def __init__(self, live: LiveBytes, decision: Decision, room: int) -> None:
        self._live, self._room = live, room
        self._fitting = live.counted(decision)

    def __call__(self, decision: Decision) -> bool:
        """Return True when a decision fits."""
        counted = self._live.counted(decision, self._fitting)
        fits = counted.bytes <= self._room
        if fits:
            self._fitting = counted
        return fits


def coarsened(problem: Problem, decision: Decision, fits: Callable[[Decision], bool]) -> Decision:
    """Return a decision that moves no more than ``decision``, which fits."""
    network = problem.network
    assert problem.link is not None
    for names in moved_groups(network, decision):
        trial = with_in_l2(problem, decision, names)
        if fits(trial):
            decision = trial
    layers = range(len(network.layers))
    for n in sorted(layers, key=lambda n: (-decision.splits[n].stripes, n)):
        # From two stripes on, loads and stores of a layer overlap with its work.
        least = 2 if touches_l3(network, decision, n) else 1
        decision = _fewest(problem, decision, n, "stripes", least, fits)
    groups = least_groups(problem, ChunkBytes.of(problem.link).large)
    for n in sorted(layers, key=lambda n: (-decision.splits[n].groups, n)):
        decision = _fewest(problem, decision, n, "groups", groups[n], fits)
    return decision


def _fewest(
    problem: Problem,
    decision: Decision,
    n: int,
    axis: str,
    least: int,
    fits: Callable[[Decision], bool],
) -> Decision:
    """Return the decision with the fewest stripes (groups) of a layer that fit, by bisection."""
    split = decision.splits[n]
    low, high = least, getattr(split, axis)
    while low < high:
        middle = (low + high) // 2
        trial = with_split(problem, decision, n, split._replace(**{axis: middle}))
        if fits(trial):
            high, decision = middle, trial
        else:
            low = middle + 1
    return decision
