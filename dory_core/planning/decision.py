"""What the planner decides about a network, as data: the moves propose decisions, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from dory_core.schedule.timeline import AheadLoad
from dory_core.tiling.outer import Split
from dory_core.tiling.tiled import TiledLayer


@dataclass(frozen=True, slots=True)
class L1Residence:
    """The resident tensors of one layer: those that lie in L1 between layers.

    Attributes:
        offsets: Of the layer's buffers in L1; empty when they follow one another from its start.
        found: Operands (x, x2) that lie in L1 when the layer begins.
        leaves: Whether the output stays in L1.
        stored: Whether the output is stored to L2.
        beside: Offsets of the resident tensors that the layer neither reads nor writes.
        second_weights: Offset of the second copy of the constants' buffer, None right after the
            first one.
    """

    offsets: Mapping[str, int] = field(default_factory=dict)
    found: frozenset[str] = frozenset()
    leaves: bool = False
    stored: bool = True
    beside: Mapping[str, int] = field(default_factory=dict)
    second_weights: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "offsets", MappingProxyType(dict(self.offsets)))
        object.__setattr__(self, "beside", MappingProxyType(dict(self.beside)))

    @property
    def in_l1(self) -> frozenset[str]:
        """Buffers (x, x2, y) that hold a resident tensor."""
        return self.found | {"y"} if self.leaves else self.found

    @property
    def unmoved(self) -> frozenset[str]:
        """Buffers (x, x2, y) whose tensor the layer does not move."""
        return self.found if self.stored else self.found | {"y"}


#: The layer moves all of its tensors.
MOVED = L1Residence()


@dataclass(frozen=True, slots=True)
class Residency:
    """The tiles of all layers, and the resident tensors of each.

    Attributes:
        tiled: The layers, with one copy of the buffers that need no second one.
        layers: The resident tensors of each layer.
        tensors: Names of the resident tensors that take no room of L2.
    """

    tiled: tuple[TiledLayer, ...]
    layers: tuple[L1Residence, ...]
    tensors: frozenset[str] = frozenset()

    @classmethod
    def none(cls, tiled: tuple[TiledLayer, ...]) -> Residency:
        """Return layers without resident tensors."""
        return cls(tiled, (MOVED,) * len(tiled))


@dataclass(frozen=True, slots=True)
class Decision:
    """How a network runs; :func:`~dory_core.planning.evaluate.evaluate` tells what that costs.

    Attributes:
        splits: The stripes and groups of each layer, and the fused chain that it is part of.
        streamed: Whether constants are fetched from L3; otherwise they are linked.
        in_l3: Tensors that live in L3 and pass through L2 in stripes.
        spilled: Tensors that leave L2 between their early and their late readers.
        fused: Tensors between layers of a fused chain, and what passes by rows: L2 holds one stripe
            at a time.
        arena_bytes: Bytes of L2 within which constants are fetched early; 0 for no early fetch.
        residency: Tiles and resident tensors of the layers; None for the best tiles of their
            parts and no resident tensor.
        in_l1: Tensors that are to be resident without room in L2, while there is no residency.
        prefetches: Weight prefetch, by the layer that starts the load: the layer that it is for,
            and the load.
    """

    splits: tuple[Split, ...]
    streamed: bool = False
    in_l3: frozenset[str] = frozenset()
    spilled: frozenset[str] = frozenset()
    fused: frozenset[str] = frozenset()
    arena_bytes: int = 0
    residency: Residency | None = None
    in_l1: frozenset[str] = frozenset()
    prefetches: Mapping[int, tuple[int, AheadLoad]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefetches", MappingProxyType(dict(self.prefetches)))

    @property
    def resident(self) -> frozenset[str]:
        """Tensors that need no block of L2."""
        return self.in_l1 if self.residency is None else self.residency.tensors

    def with_split(self, n: int, split: Split) -> Decision:
        """Return the decision with another split of layer ``n``."""
        return replace(self, splits=(*self.splits[:n], split, *self.splits[n + 1 :]))

    def in_parts(self) -> Decision:
        """Return the decision without what was decided in L1, which holds only for its parts."""
        return replace(self, residency=None, in_l1=frozenset(), prefetches={})
