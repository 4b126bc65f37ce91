"""How many bytes of L2 a decision needs at once, without its steps and its timeline."""

from __future__ import annotations

from functools import cache

from dory_core.plan.blocks import WEIGHTS, fullest_step, owners
from dory_core.planning.decision import Decision
from dory_core.planning.packing import MemoryPlan, plan_memory
from dory_core.planning.part_sequence import PartSequence
from dory_core.planning.problem import Problem
from dory_core.planning.sequence import build_sequence


class LiveBytes:
    """Tells of decisions about one problem what is live in L2."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._chunks = cache(
            lambda n, tiles, split: problem.fetched(n, problem.part(n, tiles), split)
        )

    def sequence(self, decision: Decision, tiles: Decision | None = None) -> PartSequence:
        """Return the sequence of a decision.

        Args:
            decision: The decision.
            tiles: Another decision, with the tiles of the layers; None: the same one.

        Raises:
            DoesNotFit: When a part has no tiles.
        """
        splits, tiled = decision.splits, (tiles or decision).splits
        return build_sequence(
            self.problem.network, decision, lambda n: self._chunks(n, tiled[n], splits[n])
        )

    def fullest(self, program: PartSequence) -> tuple[int, int]:
        """Return the first position at which most is live, and the bytes that are."""
        return fullest_step(owners(tuple(program.requests.values())), self.problem.alignment)

    def packed(self, program: PartSequence, enough: int) -> MemoryPlan:
        """Return the packing of the blocks; any one within ``enough`` bytes will do."""
        return plan_memory(tuple(program.requests.values()), self.problem.alignment, enough)


class Peak:
    """What is live at the position of a sequence that needs most.

    Attributes:
        layer: The layer that runs then.
        position: The position; one before the first part or after the last at the ends.
        program: The sequence.
        live, chunks: The blocks, and those of constants among them.
    """

    def __init__(self, program: PartSequence, position: int) -> None:
        self.position, self.program = position, program
        within = min(max(position, 0), program.end - 1)
        self.layer = next(n for n, last in enumerate(program.last) if within <= last)
        requests = program.requests.values()
        self.live = [r for r in requests if r.first <= position <= r.last and not r.within]
        self.chunks = [r for r in self.live if r.role == WEIGHTS]
