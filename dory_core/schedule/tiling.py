"""The chosen tile of a layer with the terms of its objective."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.ir.geometry import Tile
from dory_core.schedule.loops import Buffering, L1Buffer


@dataclass(frozen=True, slots=True)
class ExplainedTerm:
    """A term of the objective at the chosen tile.

    Attributes:
        name: Of the term.
        weight: Its weight.
        value: Its value at the tile.
        text: Its expression.
    """

    name: str
    weight: float
    value: int
    text: str


@dataclass(frozen=True, slots=True)
class Tiling:
    """The chosen tile of a layer.

    Attributes:
        tile: Sizes as integers, with border tile.
        buffering: Copies of the buffers.
        buffers: The buffers in L1.
        budget_bytes: The budget of L1.
        terms: The terms of the objective.
        proof: What is proven about the choice, a sentence.
    """

    tile: Tile
    buffering: Buffering
    buffers: tuple[L1Buffer, ...]
    budget_bytes: int
    terms: tuple[ExplainedTerm, ...]
    proof: str

    @property
    def used_bytes(self) -> int:
        """Bytes of L1 that the tile uses."""
        return int(sum(b.total for b in self.buffers))

    @property
    def objective(self) -> float:
        """Sum of weight * value over the terms."""
        return sum(t.weight * t.value for t in self.terms)
