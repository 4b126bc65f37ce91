"""Constants are fetched from L3 as early as free L2 allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isqrt

from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate
from dory_core.planning.problem import Problem


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield decisions with early fetches."""
    if candidate.program.fetches and len(candidate.packings) == 1:
        yield from within_more(problem, candidate.decision, candidate.memory.chosen.peak_bytes)


def within_more(problem: Problem, decision: Decision, peak_bytes: int) -> Iterator[Decision]:
    """Yield a decision with early fetches, within ever more of L2.

    Args:
        problem: The network.
        decision: The decision.
        peak_bytes: Bytes of L2 to begin with.
    """
    room, unit = problem.room, problem.alignment
    arenas = (peak_bytes, isqrt(peak_bytes * room), room)
    for arena in dict.fromkeys(arena - arena % unit for arena in arenas):
        yield replace(decision, arena_bytes=arena)
