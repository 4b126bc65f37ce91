"""Fast packings: blocks are placed one after another at the lowest or tightest free place.

Every optimal packing is the lowest-place packing of some order (sort its blocks by offset), so that
trying good orders finds the optimum nearly always and the exact solver is seldom needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
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


def _filled(
    order: Iterable[int],
    sizes: Sequence[int],
    near: Sequence[Sequence[int]],
    tight: bool = False,
    top: int | None = None,
    fixed: Mapping[int, tuple[int, int]] = MappingProxyType({}),
) -> list[tuple[int, int] | None]:
    """Place blocks one after another, and return (start, end) of each.

    Nearly all of the time of a packing passes here: blocks are numbers.

    Args:
        order: The blocks.
        sizes: Aligned bytes of each.
        near: As of :class:`Neighbours`.
        tight: Whether they lie in the smallest gap, not at the lowest free place.
        top: The first block that ends there or higher is the last one; None for no such bytes.
        fixed: (start, end) of blocks that have their places.
    """
    spans: list[tuple[int, int] | None] = [None] * len(sizes)
    for number, place in fixed.items():
        spans[number] = place
    most = inf if top is None else top
    for number in order:
        size, offset = sizes[number], 0
        taken = [span for n in near[number] if (span := spans[n])]
        taken.sort()
        if tight:
            offset = gap(taken, size, tight)
        else:
            for start, end in taken:
                if start - offset >= size:
                    break
                if end > offset:
                    offset = end
        spans[number] = offset, offset + size
        if offset + size >= most:
            break
    return spans


def lowest_place(order: Sequence[Request], alignment: int) -> Offsets:
    """Place the blocks in ``order``, each at the lowest free place, and return their offsets.

    Args:
        order: The blocks.
        alignment: Granule of offsets, in bytes.
    """
    numbers, near = neighbours(order)
    sizes = _by_number(order, numbers, alignment)
    spans = _filled((numbers[one.id] for one in order), sizes, near)
    return {one.id: span[0] for one in order if (span := spans[numbers[one.id]])}


def _by_number(
    requests: Iterable[Request], numbers: Mapping[BlockId, int], alignment: int
) -> list[int]:
    """Return the aligned bytes of blocks in the order of their numbers."""
    ordered = sorted(requests, key=lambda one: numbers[one.id])
    return [align_up(one.size_bytes, alignment) for one in ordered]


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
    numbers, near = neighbours(requests)
    sizes = _by_number(requests, numbers, alignment)
    ids = sorted(numbers, key=numbers.__getitem__)

    def offsets() -> Offsets:
        return {block: span[0] for block, span in zip(ids, spans, strict=True) if span}

    best_peak: int | None = None
    best_order: tuple[int, ...] = ()
    for requested in orders(requests):
        order = tuple(numbers[one.id] for one in requested)
        for tight in (False, True):
            spans = _filled(order, sizes, near, tight, top=best_peak)
            peak = _highest(spans)
            if best_peak is None or peak < best_peak:
                best_peak, best_order = peak, order
                yield peak, offsets()
    order = best_order
    seen = {order}
    effort = max(8, _REORDERINGS // max(1, len(requests) // 16))
    spans = _filled(order, sizes, near)
    for _ in range(effort):
        order = _promote(order, spans, near, ids)
        if order in seen:
            break
        seen.add(order)
        spans = _filled(order, sizes, near)
        peak = _highest(spans)
        if best_peak is None or peak < best_peak:
            best_peak = peak
            yield peak, offsets()


def _highest(spans: Iterable[tuple[int, int] | None]) -> int:
    """Return the end of the highest block."""
    return max(span[1] for span in spans if span)


def _promote(
    order: tuple[int, ...],
    spans: Sequence[tuple[int, int] | None],
    near: Sequence[Sequence[int]],
    ids: Sequence[BlockId],
) -> tuple[int, ...]:
    """Move the block that ends highest in front of the first block that it competes with."""
    peak = _highest(spans)
    ends = (n for n, span in enumerate(spans) if span and span[1] == peak)
    top = max(ends, key=ids.__getitem__)
    rest, beside = [n for n in order if n != top], set(near[top])
    place = next((i for i, n in enumerate(rest) if n in beside), 0)
    return (*rest[:place], top, *rest[place:])


def fit_into(
    requests: Sequence[Request],
    alignment: int,
    room: int,
    fixed: Mapping[BlockId, int] = MappingProxyType({}),
    above: Mapping[BlockId, BlockId] = MappingProxyType({}),
) -> Offsets | None:
    """Return offsets of all blocks within ``room`` bytes, None when none of the orders fits.

    Args:
        requests: The blocks.
        alignment: Granule of offsets, in bytes.
        room: Bytes of the memory.
        fixed: Offsets of those blocks that stay where they are; where one lies outside the room, or
            two overlap, nothing fits.
        above: Blocks that lie at a greater offset than another one, with that.
    """
    numbers, near = neighbours(requests)
    sizes = _by_number(requests, numbers, alignment)
    spans = {numbers[block]: (at, at + sizes[numbers[block]]) for block, at in fixed.items()}
    if any(start < 0 or end > room for start, end in spans.values()):
        return None
    for number, (start, end) in spans.items():
        if any(n in spans and spans[n][0] < end and start < spans[n][1] for n in near[number]):
            return None
    for requested in orders([r for r in requests if r.id not in fixed]):
        order = [numbers[one.id] for one in requested]
        for tight in (False, True):
            found = _filled(order, sizes, near, tight, room + 1, spans)
            if any(span is None or span[1] > room for span in found):
                continue
            offsets = {block: span[0] for block, n in numbers.items() if (span := found[n])}
            if all(offsets[upper] > offsets[lower] for upper, lower in above.items()):
                return offsets
    return None
