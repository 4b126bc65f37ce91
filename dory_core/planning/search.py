"""The driver of the planner: moves are tried in order, and what is better is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dory_core.errors import DoesNotFit
from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate, evaluate
from dory_core.planning.moves import Move
from dory_core.planning.problem import Problem


@dataclass(frozen=True, slots=True)
class Trial:
    """What a move proposed.

    Attributes:
        move: Name of the move.
        before: Cycles, and bytes of L2, of the best candidate so far.
        after: The same of the proposal; None where it does not fit.
        kept: Whether the proposal is the best candidate now.
    """

    move: str
    before: tuple[int, int]
    after: tuple[int, int] | None
    kept: bool


def improved(
    problem: Problem, start: Candidate, moves: Sequence[Move]
) -> tuple[Candidate, tuple[Trial, ...]]:
    """Return the best candidate that moves make of a first one, and what they proposed."""
    best, trials = start, list[Trial]()
    for move in moves:
        for decision in move.propose(problem, best):
            if decision == best.decision:
                continue
            other = _evaluated(problem, decision)
            kept = other is not None and is_better(problem, other, best, move.grows)
            after = None if other is None else (other.cycles, other.home_bytes)
            trials.append(Trial(move.name, (best.cycles, best.home_bytes), after, kept))
            if other is not None and kept:
                best = other
    return best, tuple(trials)


def _evaluated(problem: Problem, decision: Decision) -> Candidate | None:
    """Return the candidate of a decision; None where it does not fit."""
    try:
        return evaluate(problem, decision)
    except DoesNotFit:
        return None


def is_better(
    problem: Problem, one: Candidate, other: Candidate, grows: float | None = None
) -> bool:
    """Return True when a candidate has fewer cycles than another one, or as many and less L2.

    Args:
        problem: The network.
        one: The candidate.
        other: The one to beat.
        grows: Part of the cycles that more L2 has to save, within the budget; None: there must be
            no more.
    """
    if other.straddles and not one.straddles:
        return True
    if one.straddles and not other.straddles:
        return False
    if one.peak > other.peak:
        if grows is None or one.peak > problem.room:
            return False
        return one.cycles < other.cycles * (1 - grows)
    return (one.cycles, one.home_bytes) < (other.cycles, other.home_bytes)


def trials_text(trials: Sequence[Trial]) -> str:
    """Return the proposals of the moves as text, one proposal a line."""
    return "".join(f"{_trial_text(trial)}\n" for trial in trials)


def _trial_text(trial: Trial) -> str:
    before = f"{trial.before[0]} cycles, {trial.before[1]} B of L2"
    if trial.after is None:
        return f"{trial.move}: {before} -> does not fit"
    after = f"{trial.after[0]} cycles, {trial.after[1]} B"
    return f"{trial.move}: {before} -> {after}; {'kept' if trial.kept else 'not kept'}"
