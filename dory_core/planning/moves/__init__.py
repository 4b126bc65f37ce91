"""The moves of the planner, in the order in which they are tried.

A move proposes decisions; the driver (``dory_core.planning.search``) evaluates them and keeps what
is better. ``--set moves=-NAME`` switches one off.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from dory_core.errors import UsageError
from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate
from dory_core.planning.moves import (
    coarsen,
    early_fetch,
    finer_chunks,
    fused_chains,
    l1_residency,
    weight_prefetch,
)
from dory_core.planning.problem import Problem


@dataclass(frozen=True, slots=True)
class Move:
    """One kind of change of a decision.

    Attributes:
        name: In kebab-case.
        summary: What the move does, in one sentence.
        propose: Yields the decisions to be tried.
        grows: Part of the cycles that the move has to save where the network then needs more L2,
            within the budget; None: it never may.
        again_after: Name of a move after which it is tried again.
    """

    name: str
    summary: str
    propose: Callable[[Problem, Candidate], Iterator[Decision]]
    grows: float | None = None
    again_after: str = ""


#: All moves in order.
MOVES = (
    Move(
        "coarsen",
        "Undo splits and spills that the network does not need.",
        coarsen.propose,
        grows=0.005,  # early fetches also need this L2
    ),
    Move(
        "early-fetch",
        "Fetch constants from L3 as early as free L2 allows.",
        early_fetch.propose,
        grows=0.001,
        again_after=l1_residency.NAME,  # tensors that stay in L1 leave it more L2
    ),
    Move(
        l1_residency.NAME,
        "Keep tensors in L1 between layers.",
        l1_residency.propose,
    ),
    Move(
        fused_chains.NAME,
        "Compute consecutive layers stripe by stripe, so that tensors between them stay in L2.",
        fused_chains.propose,
        grows=0.0,
    ),
    Move(
        "finer-chunks",
        "Fetch constants in chunks of half the size.",
        finer_chunks.propose,
        grows=0.001,
    ),
    Move(
        weight_prefetch.NAME,
        "Load the first constants of a layer while the previous layer computes.",
        weight_prefetch.propose,
    ),
)


def tried(without: Collection[str] = ()) -> tuple[Move, ...]:
    """Return the moves as they are tried, some left out.

    Args:
        without: Names of moves that are left out.
    """
    order = list[Move]()
    for move in MOVES:
        order += [move, *(one for one in MOVES if one.again_after == move.name)]
    return tuple(move for move in order if move.name not in without)


def check_moves(setting: str) -> None:
    """Raise UsageError unless ``--set moves=`` names moves: ``-NAME``, with commas between them."""
    names = [f"-{move.name}" for move in MOVES]
    for text in setting.split(",") if setting.strip() else ():
        if text.strip() not in names:
            raise UsageError(
                f"moves={setting} names no move to be switched off: {text.strip()!r}",
                f"take one or more of these, with commas between them: {', '.join(names)}",
            )
