"""How little L2 a network needs, and what that costs: plans of which none is better in both.

Where all constants and tensors stay in L2, the plans are the cheapest executions in fused chains
within every number of bytes, and the one layer by layer. They do not depend on the budget: the
fastest plan within more bytes is never slower. Where a network is streamed, they are plans within
ever smaller budgets (:mod:`dory_core.planning.front.streamed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import TypeVar

from dory_core.errors import DoesNotFit
from dory_core.planning.chains.paths import Chain, Chains
from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate, evaluate
from dory_core.planning.placement import searched
from dory_core.planning.planned import Planned
from dory_core.planning.problem import HOME, Problem

T = TypeVar("T")

#: Most points of a front.
MOST_POINTS = 10
#: Most executions whose moves are searched for a front.
_SEARCHED = 12


def whole(problem: Problem) -> Decision:
    """Return the decision without transfers: every layer in one part, all of it in L2."""
    return Decision(tuple(cuts.whole for cuts in problem.network.cuts))


# -- networks that stay in L2 ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Executions:
    """How a network that stays in L2 may run, before moves have changed anything.

    Attributes:
        candidates: Layer by layer, and in the cheapest chains within every number of bytes, in
            rough tiles. The blocks of some may be larger than L2. The first one is of no use where
            inputs or outputs pass by rows.
        edges: All chains, and all layers by themselves.
    """

    candidates: tuple[Candidate, ...]
    edges: tuple[Chain, ...]


def executions(problem: Problem, room: int | None = None) -> Executions:
    """Return how a network may run that stays in L2.

    Args:
        problem: The network.
        room: Bytes of home for blocks and linked constants: the fastest execution that fits is all
            that is wanted. None for all.
    """
    found, rough = [evaluate(problem, whole(problem))], problem.rough
    limit = 1 << 62 if room is None else room - found[0].static_bytes
    chains = Chains(problem, found[0].decision, room=limit)
    edges = chains.all
    while (path := chains.cheapest(edges, limit)) is not None:
        limit = max(chain.bytes for chain in path) - 1
        if any(chain.splits for chain in path):
            try:
                one = evaluate(rough, chains.decision(path))
                if room is not None and _fits(one, room):
                    one = _exactly(problem, one)
            except DoesNotFit:
                continue  # the tiles of a part
            found.append(one)
            if room is not None and _fits(one, room):
                break
    return Executions(tuple(found), tuple(edges))


def _fits(one: Candidate, room: int) -> bool:
    """Return True when an execution fits into some bytes of home."""
    return one.home_bytes <= room and not one.straddles


def _exactly(problem: Problem, one: Candidate) -> Candidate:
    """Return an execution in rough tiles with the best tiles of its parts."""
    rough = problem.tiling.rough is not problem.tiling
    return evaluate(problem, one.decision) if rough else one


def fastest(problem: Problem, ways: Executions, room: int) -> Planned | None:
    """Return the fastest plan in fused chains; None where none fits.

    Args:
        problem: A network that does not fit layer by layer.
        ways: Its executions.
        room: Bytes of home for blocks and linked constants.
    """
    fitting = [one for one in ways.candidates[1:] if _fits(one, room)]
    return fastest_of(problem, fitting) if fitting else None


def fastest_of(problem: Problem, candidates: Iterable[Candidate]) -> Planned:
    """Return the fastest plan that moves make of some candidates, of which there is one.

    Moves save about as many cycles of each: those that are slower by more than three times as much
    before the moves are not searched.

    Args:
        problem: The network.
        candidates: The candidates.

    Raises:
        DoesNotFit: None has room in the level below.
    """
    best, saved, refused = None, 0, list[DoesNotFit]()
    for one in sorted(candidates, key=lambda one: (one.cycles, one.home_bytes)):
        if best is not None and one.cycles - 3 * saved > best.cycles:
            break
        try:
            planned = searched(problem, one)
        except DoesNotFit as error:
            refused.append(error)
            continue
        saved = max(saved, one.cycles - planned.cycles)
        if best is None or price(planned) < price(best):
            best = planned
    if best is None:
        raise refused[0]
    return best


def front(problem: Problem, ways: Executions) -> tuple[Planned, ...]:
    """Return the front of a network that stays in L2, from the fastest plan to the smallest.

    Args:
        problem: The network.
        ways: Its executions.
    """
    budget = problem.budgets.bytes[HOME]
    found = ways.candidates[1:] if problem.network.by_rows else ways.candidates
    fit = [one for one in found if not one.straddles or one.home_bytes > budget]
    spread = thinned(fit, _SEARCHED, lambda one: one.home_bytes)
    plans = (searched(problem, _exactly(problem, one)) for one in spread)
    return tuple(not_dominated(plans, price))


def smallest(problem: Problem, ways: Executions, room: int) -> Planned | None:
    """Return the plan that needs least, of several the fastest; None where that does not fit.

    Args:
        problem: The network.
        ways: Its executions.
        room: Bytes of home that it may need.
    """
    plans = front(problem, ways)
    if not plans or plans[-1].home_bytes > room or plans[-1].candidate.straddles:
        return None
    return plans[-1]


# -- fronts ---------------------------------------------------------------------------------------


def not_dominated(plans: Iterable[T], cost: Callable[[T], tuple[int, int]]) -> list[T]:
    """Return the plans of which no other one is better in bytes and in cycles, fastest first.

    Args:
        plans: The plans.
        cost: Returns the cycles and the bytes of one.
    """
    found = list[T]()
    for one in sorted(plans, key=cost):
        if not found or cost(one)[1] < cost(found[-1])[1]:
            found.append(one)
    return thinned(found, MOST_POINTS, lambda one: cost(one)[1])


def thinned(points: Sequence[T], most: int, size: Callable[[T], int]) -> list[T]:
    """Return at most some points: the ends, and of the rest those whose sizes differ most.

    Sizes are compared by their ratio.
    """
    kept = sorted(points, key=size)
    while len(kept) > most:
        logs = [log(max(1, size(one))) for one in kept]
        gaps = [(logs[n + 1] - logs[n - 1], n) for n in range(1, len(kept) - 1)]
        del kept[min(gaps)[1]]
    return [one for one in points if any(one is other for other in kept)]


def price(planned: Planned, least: bool = False) -> tuple[int, int]:
    """Return the values to be as small as possible: cycles, or with ``least`` bytes of home."""
    found = (planned.cycles, planned.home_bytes)
    return found[::-1] if least else found
