"""The chosen tile of a layer, and why it was chosen."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.ir.geometry import Tile
from dory_core.schedule.loops import Buffering, L1Buffer


@dataclass(frozen=True, slots=True)
class ExplainedTerm:
    """A term of the objective at the chosen tile. text: its expression."""

    name: str
    weight: float
    value: int
    text: str


@dataclass(frozen=True, slots=True)
class Tiling:
    """The chosen tile of a layer and why it was chosen.

    tile: sizes as integers, with border tile. buffers: bytes in L1. objective: sum of weight *
    value. proof: what is proven about the choice.
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
