"""All rolling buffers of a fused chain in one block: each has its largest size only in some turns.

Bytes of a buffer that no layer reads again are free until its maker writes there. In them lie rows
of other buffers. So two buffers need not lie apart by their sizes, but by what is live of both in
the same turn.

    turns of   the maker of x   its reader   the maker of y
    x          | 0 | 1 | 2 |    | 0 | 1 | 2 |    |   | 1 | 2 |
    y                                            | 0 |           in the first row of x
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dory_core.plan.blocks import align_up
from dory_core.planning.rolling import Turn
from dory_core.planning.shared_rows import SharedRows

#: Bytes by turn.
Bytes = npt.NDArray[np.int64]

#: More bytes than any memory has: where nothing of a buffer is live.
_NONE = 1 << 40
#: Orders that are tried after the first ones.
_REORDERINGS = 6


class LiveRows(NamedTuple):
    """Which bytes of a buffer are live, by turn; where none are, the start is far after the end.

    Attributes:
        starts: The first of them.
        ends: The one after the last.
    """

    starts: Bytes
    ends: Bytes

    @property
    def sizes(self) -> Bytes:
        """How many bytes are live."""
        sizes: Bytes = np.maximum(self.ends - self.starts, 0)
        return sizes


class ChainRows(NamedTuple):
    """The block with all rolling buffers of a chain.

    Attributes:
        size_bytes: Its bytes.
        places: First byte of each buffer, by the name of its first tensor.
    """

    size_bytes: int
    places: Mapping[str, int]


class RollingRows:
    """The rolling buffers of the longest chain with the same last layer.

    By how many bytes two buffers lie apart does not depend on the layers before their makers: they
    only add turns between others.

    Attributes:
        live: What is live of each buffer, by its name; also of those in others.
    """

    def __init__(self, order: Sequence[Turn], buffers: Mapping[str, SharedRows], unit: int) -> None:
        """Find what is live.

        Args:
            order: In which the parts of the chain run, and rows of inputs come.
            buffers: By name.
            unit: Granule of places and of what copies write, in bytes.
        """
        layers = np.fromiter((turn.layer for turn in order), np.int64, len(order))
        at = cache(lambda layer: np.flatnonzero(layers == layer))
        self._unit = unit
        self.live = {name: _live(at, one, len(order), unit) for name, one in buffers.items()}
        self._apart = cache(self._find_apart)
        self.together = cache(self._find_together)

    def _find_together(self, names: tuple[str, ...]) -> ChainRows | None:
        """Return the block of some buffers; None where it is no smaller than all of them."""
        rows = [self.live[name] for name in names]
        if len(rows) < 2:
            return None
        sizes = [align_up(int(one.ends.max()), self._unit) for one in rows]
        apart = [[self._apart(one, other) for other in names] for one in names]
        least = int(np.sum([one.sizes for one in rows], axis=0).max())
        best, found = sum(sizes), list[int]()
        for order in _orders(sizes):
            for _ in range(_REORDERINGS):
                places = _lowest(order, apart, self._unit)
                tops = {n: places[n] + sizes[n] for n in order}
                highest = max(order, key=tops.__getitem__)
                if tops[highest] < best:
                    best, found = tops[highest], [places[n] for n in range(len(sizes))]
                rest = [n for n in order if n != highest]
                before = next((i for i, n in enumerate(rest) if apart[n][highest] > 0), 0)
                changed = [*rest[:before], highest, *rest[before:]]
                if best <= least or changed == order:
                    break
                order = changed
            if best <= least:
                break
        return ChainRows(best, dict(zip(names, found, strict=True))) if found else None

    def _find_apart(self, one: str, other: str) -> int:
        """Return by how many bytes a buffer lies before another one, where it lies before it."""
        return int((self.live[one].ends - self.live[other].starts).max())


def _live(at: Callable[[int], Bytes], buffer: SharedRows, count: int, unit: int) -> LiveRows:
    """Return which bytes of a buffer are live in each turn.

    Args:
        at: Tells in which turns a layer runs.
        buffer: The buffer.
        count: Number of turns.
        unit: As for :class:`RollingRows`.
    """
    starts, ends = np.full(count, _NONE), np.full(count, -_NONE)
    first, places = buffer.tensors[0], buffer.buffers[0]
    makes = at(first.maker)
    origins = np.zeros(count, np.int64)  # bytes of the first tensor at the start of the buffer
    origins[makes] = np.array(first.writes)[:, 0] - np.array(places.writes)
    latest = np.zeros(count, np.int64)
    latest[makes] = makes
    origins = origins[np.maximum.accumulate(latest)]
    for tensor, shift in zip(buffer.tensors, buffer.before, strict=True):
        writes, turns = np.array(tensor.writes), at(tensor.maker)
        needed = np.full(count, _NONE)
        for (layer, _), ranges in tensor.readers.items():
            read = at(layer)
            needed[read] = np.minimum(needed[read], np.array(ranges)[:, 0])
        needed = np.minimum.accumulate(needed[::-1])[::-1]
        needed[turns] = np.minimum(needed[turns], writes[:, 0])
        made = np.zeros(count, np.int64)
        made[turns] = writes.sum(axis=1)
        made = np.maximum.accumulate(made)
        there = needed < made
        starts[there] = np.minimum(starts[there], (needed - shift - origins)[there])
        ends[there] = np.maximum(ends[there], (made - shift - origins)[there])
    for part, move in places.moves.items():
        ends[makes[part]] = max(ends[makes[part]], sum(move))
    return LiveRows(starts // unit * unit, -(-ends // unit) * unit)


def _orders(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield orders in which buffers are placed: the largest first, and as they are made."""
    numbers = range(len(sizes))
    yield sorted(numbers, key=lambda n: (-sizes[n], n))
    yield [*numbers]
    yield [*reversed(numbers)]


def _lowest(order: Sequence[int], apart: Sequence[Sequence[int]], unit: int) -> dict[int, int]:
    """Return places of buffers, each the lowest one that is left.

    Args:
        order: In which they are placed.
        apart: By how many bytes each has to lie before each other one, where it lies before it.
        unit: Granule of the places, in bytes.
    """
    places = dict[int, int]()
    for n in order:
        before, place = apart[n], 0
        taken = [(at - before[m], at + apart[m][n]) for m, at in places.items()]
        taken.sort()
        for start, end in taken:
            if start >= place:
                break
            if end > place:
                place = end
        places[n] = -(-place // unit) * unit
    return places
