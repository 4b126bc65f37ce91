"""All rolling buffers of a fused chain in one block: each has its largest size only in some turns.

Bytes of a buffer that no layer reads again are free until its maker writes there. Rows of other
buffers may lie in them. So the distance of two buffers follows from the bytes that are live of both
in the same turn, not from their sizes.

    turns of   the maker of x   its reader   the maker of y
    x          | 0 | 1 | 2 |    | 0 | 1 | 2 |    |   | 1 | 2 |
    y                                            | 0 |           in the first row of x

Rows that are read again move to the start of their buffer: late, right before its maker runs, or
early, right after the last turn that used the buffer. Between the two, a buffer whose rows moved
early is free at its end, any other one at its start. So every second buffer moves its rows early:
the free end of one and the free start of the next one lie together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dory_core.plan.blocks import align_up
from dory_core.planning.chains.rolling import Turn
from dory_core.planning.chains.shared_rows import Rolling, SharedRows

#: Bytes by turn.
Bytes = npt.NDArray[np.int64]

#: More bytes than any memory has: where nothing of a buffer is live.
_NONE = 1 << 40
#: Moments of each turn; see :class:`LiveRows`.
_MOMENTS = 3
#: Orders that are tried after the first ones.
_REORDERINGS = 6


class LiveRows(NamedTuple):
    """The range of bytes of a buffer that are live, by moment.

    A turn has three moments: rows move early, rows move late, the layer runs.

    Attributes:
        starts: The first live byte; far after the end where none is live.
        ends: The byte after the last live one.
    """

    starts: Bytes
    ends: Bytes

    @property
    def sizes(self) -> Bytes:
        """The number of live bytes, by turn, while the layer runs."""
        sizes: Bytes = np.maximum(self.ends - self.starts, 0)[_MOMENTS - 1 :: _MOMENTS]
        return sizes


class ChainRows(NamedTuple):
    """The block with all rolling buffers of a chain.

    Attributes:
        size_bytes: Its bytes.
        places: First byte of each buffer, by the name of its first tensor.
        early: The buffers whose rows move early.
    """

    size_bytes: int
    places: Mapping[str, int]
    early: frozenset[str] = frozenset()


class RollingRows:
    """The rolling buffers of the longest chain with the same last layer.

    They serve all shorter chains with that last layer as well: layers before the makers of two
    buffers only add turns between theirs, which changes no distance.

    Attributes:
        live: The live bytes of each buffer by its name, also of buffers that lie in others.
        early: The same where rows move early, of buffers with such rows, in the order of their
            makers.
    """

    def __init__(self, order: Sequence[Turn], buffers: Mapping[str, SharedRows], unit: int) -> None:
        """Find the live bytes.

        Args:
            order: The turns of the chain, those in which rows of inputs come included.
            buffers: The buffers by name.
            unit: Granule of offsets and of copies, in bytes.
        """
        layers = np.fromiter((turn.layer for turn in order), np.int64, len(order))
        at = cache(lambda layer: np.flatnonzero(layers == layer))
        self._unit = unit
        self.live = {name: _live(at, one, len(order), unit) for name, one in buffers.items()}
        self.early = {
            name: _live(at, one, len(order), unit, early=True)
            for name, one in sorted(buffers.items(), key=lambda pair: pair[1].tensors[0].maker)
            if one.tensors[0].maker >= 0 and one.moved_bytes
        }
        self._apart = cache(self._find_apart)
        self.together = cache(self._find_together)

    def _find_together(self, names: tuple[str, ...]) -> ChainRows | None:
        """Return the block of some buffers; None where it is no smaller than all of them."""
        if len(names) < 2:
            return None
        least = int(np.sum([self.live[name].sizes for name in names], axis=0).max())
        movable, best = [name for name in self.early if name in names], None
        for early in ([], movable[1::2], movable[::2]):
            if best is not None and (best.size_bytes <= least or not early):
                break
            found = self._packed(names, frozenset(early), least)
            if found is not None and (best is None or found.size_bytes < best.size_bytes):
                best = found
        return best

    def _packed(
        self, names: tuple[str, ...], early: frozenset[str], least: int
    ) -> ChainRows | None:
        """Return the block of some buffers; None where it is no smaller than all of them.

        Args:
            names: The buffers.
            early: Those whose rows move early.
            least: Bytes below which no block is.
        """
        rows = [(self.early if name in early else self.live)[name] for name in names]
        sizes = [align_up(int(one.ends.max()), self._unit) for one in rows]
        keys = [(name, name in early) for name in names]
        apart = [[self._apart(one, other) for other in keys] for one in keys]
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
        return ChainRows(best, dict(zip(names, found, strict=True)), early) if found else None

    def _find_apart(self, one: tuple[str, bool], other: tuple[str, bool]) -> int:
        """Return the least distance of two buffers, from the start of the lower one to the other.

        Args:
            one: Name of the lower buffer, and whether its rows move early.
            other: The same of the higher one.
        """
        ends, starts = ((self.early if early else self.live)[name] for name, early in (one, other))
        return int((ends.ends - starts.starts).max())


def _live(
    at: Callable[[int], Bytes], buffer: SharedRows, count: int, unit: int, early: bool = False
) -> LiveRows:
    """Return the live bytes of a buffer in each moment.

    Args:
        at: Returns the turns of a layer.
        buffer: The buffer.
        count: Number of turns.
        unit: As for :class:`RollingRows`.
        early: Whether rows move early.
    """
    starts, ends = np.full(_MOMENTS * count, _NONE), np.full(_MOMENTS * count, -_NONE)
    first, places = buffer.tensors[0], buffer.buffers[0]
    makes = at(first.maker)
    origins = np.zeros(count, np.int64)  # bytes of the first tensor at the start of the buffer
    origins[makes] = np.array(first.writes)[:, 0] - np.array(places.writes)
    latest = np.zeros(count, np.int64)
    latest[makes] = makes
    origins = origins[np.maximum.accumulate(latest)]
    moved = {int(makes[part]): move for part, move in places.moves.items()}
    if early:
        used = [at(layer) for one in buffer.tensors for layer in (one.maker, *_readers(one))]
        turns = np.unique(np.concatenate(used))
        for turn in [turn for turn, move in moved.items() if move.size]:
            after = int(turns[np.searchsorted(turns, turn) - 1]) + 1
            origins[after:turn] = origins[turn]
            moved[after] = moved.pop(turn)
    layouts = (origins if early else np.append(origins[:1], origins[:-1]), origins, origins)
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
        before = np.append(0, made[:-1])
        for moment, (until, origin) in enumerate(zip((before, before, made), layouts, strict=True)):
            there, here = needed < until, slice(moment, None, _MOMENTS)
            start = np.where(there, needed - shift - origin, _NONE)
            end = np.where(there, until - shift - origin, -_NONE)
            starts[here], ends[here] = np.minimum(starts[here], start), np.maximum(ends[here], end)
    for turn, move in moved.items():
        moment = _MOMENTS * turn + (0 if early and move.size else 1)
        starts[moment], ends[moment] = min(starts[moment], 0), max(ends[moment], sum(move))
    return LiveRows(starts // unit * unit, -(-ends // unit) * unit)


def _readers(tensor: Rolling) -> Iterator[int]:
    """Yield the numbers of the layers that read a tensor, in the chain."""
    return (layer for layer, _ in tensor.readers)


def _orders(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield orders in which buffers are placed: the largest first, and as they are made."""
    numbers = range(len(sizes))
    yield sorted(numbers, key=lambda n: (-sizes[n], n))
    yield [*numbers]
    yield [*reversed(numbers)]


def _lowest(order: Sequence[int], apart: Sequence[Sequence[int]], unit: int) -> dict[int, int]:
    """Return offsets of buffers, each the lowest one that is free.

    Args:
        order: The order in which they are placed.
        apart: The least distance from each buffer to each other one that lies higher, in bytes.
        unit: Granule of the offsets, in bytes.
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
