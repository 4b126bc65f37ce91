"""Constants are fetched from L3 as early as free L2 allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate, early_arena
from dory_core.planning.problem import Problem


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield the decision with early fetches."""
    if candidate.program.fetches and len(candidate.packings) == 1:
        arena = early_arena(problem, candidate.memory, problem.room)
        yield replace(candidate.decision, arena_bytes=arena)
