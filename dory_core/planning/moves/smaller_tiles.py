"""Smaller tiles that leave room in L1 for weight prefetch."""

from __future__ import annotations

from collections.abc import Iterator

from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate
from dory_core.planning.moves import weight_prefetch
from dory_core.planning.moves.weight_prefetch import with_prefetches
from dory_core.planning.problem import Problem


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield the decision with smaller tiles where weight prefetch gains more by them."""
    if weight_prefetch.NAME in problem.switched_off:
        return
    decision = with_prefetches(problem, candidate.decision, problem.tiling.smaller)
    if decision.residency is not None and decision.residency.tiled != candidate.residency.tiled:
        yield decision
