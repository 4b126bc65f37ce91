"""Fast packings: blocks are placed one after another at the lowest or tightest free place.

Every optimal packing is the lowest-place packing of some order (sort its blocks by offset), so that
trying good orders finds the optimum nearly always and the exact solver is seldom needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from operator import add
from types import MappingProxyType
from typing import NamedTuple

from dory_core.plan.block_ids import BlockId
from dory_core.plan.blocks import Request, align_up

Offsets = dict[BlockId, int]

_REORDERINGS = 400


class Neighbours(NamedTuple):
    """Blocks by number, because packing looks them up some million times.

    Attributes:
        numbers: The number of each block.
        near: The numbers of the blocks that each one shares a step with.
    """

    numbers: Mapping[BlockId, int]
    near: Sequence[Sequence[int]]


def neighbours(requests: Iterable[Request]) -> Neighbours:
    """Return the blocks that each block shares a step with."""
    numbers: dict[BlockId, int] = {}
    near: list[list[int]] = []
    live: list[tuple[int, int]] = []  # last step, number
    for number, request in enumerate(sorted(requests, key=lambda r: r.first)):
        live = [other for other in live if other[0] >= request.first]
        near.append([other for _, other in live])
        for _, other in live:
            near[other].append(number)
        live.append((request.last, number))
        numbers[request.id] = number
    return Neighbours(numbers, near)


class Arena:
    """One memory that is filled block by block."""

    def __init__(
        self,
        alignment: int,
        neighbours: Neighbours,
        offsets: Mapping[BlockId, int] = MappingProxyType({}),
        sizes: Mapping[BlockId, int] = MappingProxyType({}),
    ) -> None:
        self.alignment = alignment
        self.offsets: Offsets = dict(offsets)
        self._neighbours = neighbours
        self._spans: list[tuple[int, int] | None] = [None] * len(neighbours.near)
        for block, at in offsets.items():
            end = at + align_up(sizes[block], alignment)
            self._spans[neighbours.numbers[block]] = (at, end)

    def place(self, request: Request, *, tight: bool = False, limit: int | None = None) -> bool:
        """Put the block at the lowest free offset, or with ``tight`` in the smallest gap.

        Returns False, and places nothing, when it would end after ``limit``.
        """
        number, spans = self._neighbours.numbers[request.id], self._spans
        size = align_up(request.size_bytes, self.alignment)
        near = [span for n in self._neighbours.near[number] if (span := spans[n])]
        near.sort()
        offset = gap(near, size, tight)
        if limit is not None and offset + size > limit:
            return False
        self.offsets[request.id] = offset
        spans[number] = offset, offset + size
        return True

    def lowest(self, order: Sequence[Request], top: int | None = None) -> Offsets:
        """Put blocks one after another at the lowest free offset, and return all offsets.

        This is :meth:`place` in one loop: nearly all of the time of a packing passes here.

        Args:
            order: The blocks.
            top: Bytes: after a block that ends there or higher none is placed.
        """
        spans, alignment = self._spans, self.alignment
        numbers, neighbours = self._neighbours
        most = inf if top is None else top
        for block, size_bytes, *_ in order:
            size = -(-size_bytes // alignment) * alignment
            number = numbers[block]
            near = [span for n in neighbours[number] if (span := spans[n])]
            near.sort()
            offset = 0
            for start, end in near:
                if start - offset >= size:
                    break
                if end > offset:
                    offset = end
            spans[number] = offset, offset + size
            self.offsets[block] = offset
            if offset + size >= most:
                break
        return self.offsets


def lowest_place(
    order: Sequence[Request],
    alignment: int,
    tight: bool = False,
    near: Neighbours | None = None,
    top: int | None = None,
) -> Offsets:
    """Place the blocks in ``order`` and return their offsets.

    Args:
        order: The blocks.
        alignment: Granule of offsets, in bytes.
        tight: Whether a block goes to the smallest gap that holds it, in place of the lowest one.
        near: Their :func:`neighbours`, where these are known.
        top: Bytes: a packing as high is in vain; after the first block that ends there or higher
            none is placed.
    """
    arena = Arena(alignment, neighbours(order) if near is None else near)
    if not tight:
        return arena.lowest(order, top)
    for request in order:
        if not arena.place(request, tight=True, limit=None if top is None else top - 1):
            arena.place(request, tight=True)
            break
    return arena.offsets


def gap(occupied: Iterable[tuple[int, int]], size: int, tight: bool = False) -> int:
    """Return the lowest free place beside (start, end) in order, or the tightest one."""
    best: tuple[int, int] | None = None  # room, offset
    edge = 0
    for offset, end in occupied:
        room = offset - edge
        if room >= size:
            if not tight:
                return edge
            if best is None or room < best[0]:
                best = (room, edge)
        edge = max(edge, end)
    return best[1] if best is not None else edge


def peak_of(requests: Sequence[Request], offsets: Mapping[BlockId, int], alignment: int) -> int:
    """Return the end of the highest block, rounded up to ``alignment``."""
    return max(offsets[r.id] + align_up(r.size_bytes, alignment) for r in requests)


def _sort_keys() -> tuple[Callable[[Request], tuple[int, ...]], ...]:
    return (
        lambda r: (-r.size_bytes, r.first - r.last, r.first),
        lambda r: (-r.size_bytes * (r.last - r.first + 1), r.first),
        lambda r: (r.first - r.last, -r.size_bytes, r.first),
        lambda r: (r.first, -r.last, -r.size_bytes),
        lambda r: (-r.last, r.first, -r.size_bytes),
    )


def orders(requests: Sequence[Request]) -> Iterator[tuple[Request, ...]]:
    """Yield the orders in which to place blocks, deterministic: by size, area, length, time."""
    for key in _sort_keys():
        yield tuple(sorted(requests, key=lambda r, key=key: (*key(r), r.id)))  # type: ignore[misc]


def best_fit(requests: Sequence[Request], alignment: int, enough: int) -> Offsets:
    """Return the best packing of all orders; stops at once when its peak is ``enough`` or less.

    After the fixed orders the best one is improved: the block that ends highest moves in front of
    the blocks that it shares a step with.
    """
    best: Offsets = {}
    for peak, offsets in _improvements(tuple(requests), alignment):
        best = offsets
        if peak <= enough:
            break
    return best


def _improvements(requests: tuple[Request, ...], alignment: int) -> Iterator[tuple[int, Offsets]]:
    """Yield (peak, offsets) of packings, each better than the one before."""
    near = neighbours(requests)
    sizes = {r.id: align_up(r.size_bytes, alignment) for r in requests}

    def highest(offsets: Mapping[BlockId, int]) -> int:
        ends: Iterator[int] = map(add, offsets.values(), map(sizes.__getitem__, offsets))
        return max(ends)

    best_peak: int | None = None
    best_order: tuple[Request, ...] = ()
    for order in orders(requests):
        for tight in (False, True):
            offsets = lowest_place(order, alignment, tight, near, top=best_peak)
            peak = highest(offsets)
            if best_peak is None or peak < best_peak:
                best_peak, best_order = peak, order
                yield peak, offsets
    order = best_order
    seen = {_ids(order)}
    effort = max(8, _REORDERINGS // max(1, len(requests) // 16))
    offsets = lowest_place(order, alignment, near=near)
    for _ in range(effort):
        order = _promote(order, offsets, sizes)
        ids = _ids(order)
        if ids in seen:
            break
        seen.add(ids)
        offsets = lowest_place(order, alignment, near=near)
        peak = highest(offsets)
        if best_peak is None or peak < best_peak:
            best_peak = peak
            yield peak, offsets


def _ids(order: Sequence[Request]) -> tuple[BlockId, ...]:
    return tuple(r.id for r in order)


def _promote(
    order: tuple[Request, ...], offsets: Mapping[BlockId, int], sizes: Mapping[BlockId, int]
) -> tuple[Request, ...]:
    """Move the block that ends highest in front of the first block that it competes with."""
    top = max(order, key=lambda r: (offsets[r.id] + sizes[r.id], r.id))
    rest = [r for r in order if r is not top]
    place = next((i for i, r in enumerate(rest) if r.overlaps(top)), 0)
    return (*rest[:place], top, *rest[place:])


def fit_into(
    requests: Sequence[Request],
    alignment: int,
    room: int,
    fixed: Mapping[BlockId, int] = MappingProxyType({}),
) -> Offsets | None:
    """Return offsets of all blocks within ``room`` bytes, None when none of the orders fits.

    Args:
        requests: The blocks.
        alignment: Granule of offsets, in bytes.
        room: Bytes of the memory.
        fixed: Offsets of those blocks that stay where they are; where one lies outside the room,
            nothing fits.
    """
    near = neighbours(requests)
    sizes = {r.id: r.size_bytes for r in requests}
    if any(start < 0 or start + sizes[block] > room for block, start in fixed.items()):
        return None
    for order in orders([r for r in requests if r.id not in fixed]):
        for tight in (False, True):
            arena = Arena(alignment, near, fixed, sizes)
            if all(arena.place(r, tight=tight, limit=room) for r in order):
                return arena.offsets
    return None
