"""Rolling buffers: how the layers of a fused chain take turns, and which rows of a tensor stay.

A tensor between layers of a chain is never whole in L2. Its *rolling buffer* holds the rows that
some layer still reads. Each part of the layer that makes the tensor adds rows after them; where
the buffer has no room for these, the rows that are still needed move to its start first. So no row
is computed twice, as in Goetschalckx and Verhelst, "Breaking High-Resolution CNN Bandwidth Barriers
with Enhanced Depth-First Execution", JETCAS 2019.

All ranges are (first byte, bytes) of a whole tensor, in rising order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

Ranges = Sequence[tuple[int, int]]

#: The end of every tensor.
_ALL = 1 << 62


class Turn(NamedTuple):
    """A part of a layer of a chain that runs; both are numbers, of the layer in the chain."""

    layer: int
    part: int


class Input(NamedTuple):
    """A tensor of a chain that a layer reads.

    Attributes:
        maker: Number of the layer that makes it, in the chain.
        ranges: What each part reads.
    """

    maker: int
    ranges: Ranges


class Move(NamedTuple):
    """Bytes of a buffer that move to its start; source: their first byte."""

    source: int
    size: int


@dataclass(frozen=True, slots=True)
class RollingBuffer:
    """Where the rows of a tensor lie in its buffer.

    Attributes:
        size_bytes: Bytes of the buffer.
        writes: Byte of the buffer at which each part of its maker writes.
        reads: Bytes of the buffer at which each part of a reader reads, by the reader's key.
        moves: What moves to the start of the buffer before a part of its maker, by that part.
    """

    size_bytes: int
    writes: tuple[int, ...]
    reads: Mapping[tuple[int, int], tuple[int, ...]]
    moves: Mapping[int, Move] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", MappingProxyType(dict(self.reads)))
        object.__setattr__(self, "moves", MappingProxyType(dict(self.moves)))


def turns(writes: Sequence[Ranges], inputs: Sequence[Sequence[Input]]) -> tuple[Turn, ...]:
    """Return the order in which the parts of a chain run: each as late as its readers allow.

    Args:
        writes: What each part of each layer writes.
        inputs: Tensors of the chain that each layer reads.
    """
    order, done = list[Turn](), [0] * len(writes)

    def make(n: int, end: int) -> None:
        """Run parts of a layer until it has made the bytes before ``end``."""
        while done[n] < len(writes[n]) and writes[n][done[n]][0] < end:
            part = done[n]
            for maker, ranges in inputs[n]:
                start, size = ranges[part]
                make(maker, start + size)
            order.append(Turn(n, part))
            done[n] += 1

    for n in reversed(range(len(writes))):
        make(n, _ALL)
    return tuple(order)


def rolling_buffer(
    order: Iterable[Turn],
    maker: int,
    writes: Ranges,
    readers: Mapping[tuple[int, int], Ranges],
    slack: int = 0,
) -> RollingBuffer:
    """Return the smallest buffer of a tensor.

    Args:
        order: In which the parts of the chain run.
        maker: Number of the layer that makes the tensor, in the chain.
        writes: What each of its parts writes.
        readers: What each part of a reader reads, by layer of the chain and operand.
        slack: Parts of the maker for which the buffer has room beyond that: rows move less often.
    """
    own = [
        turn for turn in order if turn.layer == maker or any(k[0] == turn.layer for k in readers)
    ]
    kept = _first_needed(own, maker, readers)
    least = max(
        (
            writes[part][0] + writes[part][1] - min(kept[i], writes[part][0])
            for i, (layer, part) in enumerate(own)
            if layer == maker
        ),
        default=0,
    )
    size = least + slack * max((size for _, size in writes), default=0)
    origin = 0  # byte of the tensor at the start of the buffer
    at = list[int]()
    reads: dict[tuple[int, int], list[int]] = {key: [] for key in readers}
    moves: dict[int, Move] = {}
    for i, (layer, part) in enumerate(own):
        if layer == maker:
            start, new = writes[part]
            if start + new - origin > size:
                first = min(kept[i], start)
                moves[part] = Move(first - origin, start - first)
                origin = first
            at.append(start - origin)
            continue
        for key, ranges in readers.items():
            if key[0] == layer:
                reads[key].append(ranges[part][0] - origin)
    found = {key: tuple(starts) for key, starts in reads.items()}
    return RollingBuffer(size, tuple(at), found, moves)


def _first_needed(
    own: Sequence[Turn], maker: int, readers: Mapping[tuple[int, int], Ranges]
) -> list[int]:
    """Return the first byte of the tensor that is read at or after each turn."""
    needed, found = _ALL, list[int]()
    for layer, part in reversed(own):
        if layer != maker:
            needed = min(
                needed, *(ranges[part][0] for key, ranges in readers.items() if key[0] == layer)
            )
        found.append(needed)
    return found[::-1]
