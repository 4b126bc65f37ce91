"""Fast packings: blocks are placed one after another at the lowest or tightest free place.

Every optimal packing is the lowest-place packing of some order (sort its blocks by offset), so that
trying good orders finds the optimum nearly always and the exact solver is seldom needed.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence

from dory_core.planning.blocks import Request, align_up

Offsets = dict[str, int]

_REORDERINGS = 400


class Arena:
    """One memory that is filled block by block."""

    def __init__(self, alignment: int) -> None:
        self.alignment = alignment
        self.offsets: Offsets = {}
        self._placed: list[tuple[int, int, Request]] = []  # offset, end; in order of offset

    def place(self, request: Request, *, tight: bool = False, limit: int | None = None) -> bool:
        """Put the block at the lowest free offset, or with ``tight`` in the smallest gap.

        Returns False, and places nothing, when it would end behind ``limit``.
        """
        size = align_up(request.size_bytes, self.alignment)
        busy = ((o, e) for o, e, other in self._placed if other.overlaps(request))
        offset = _gap(busy, size, tight)
        if limit is not None and offset + size > limit:
            return False
        self.offsets[request.name] = offset
        insort(self._placed, (offset, offset + size, request), key=lambda entry: entry[0])
        return True


def lowest_place(order: Sequence[Request], alignment: int, tight: bool = False) -> Offsets:
    """Place the blocks in ``order`` and return their offsets by name."""
    arena = Arena(alignment)
    for request in order:
        arena.place(request, tight=tight)
    return arena.offsets


def _gap(occupied: Iterator[tuple[int, int]], size: int, tight: bool) -> int:
    best: tuple[int, int] | None = None  # gap, offset
    edge = 0
    for offset, end in occupied:
        gap = offset - edge
        if gap >= size:
            if not tight:
                return edge
            if best is None or gap < best[0]:
                best = (gap, edge)
        edge = max(edge, end)
    return best[1] if best is not None else edge


def peak_of(requests: Sequence[Request], offsets: Mapping[str, int], alignment: int) -> int:
    """Return the end of the highest block, rounded up to ``alignment``."""
    return max(offsets[r.name] + align_up(r.size_bytes, alignment) for r in requests)


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
        yield tuple(sorted(requests, key=lambda r, key=key: (*key(r), r.name)))  # type: ignore[misc]


def best_fit(requests: Sequence[Request], alignment: int, bound: int) -> Offsets:
    """Return the best packing of all orders; stops at once when its peak reaches ``bound``.

    After the fixed orders the best one is improved: the block that ends highest moves in front of
    the blocks that it shares a step with.
    """
    best: Offsets = {}
    best_peak = -1
    best_order: tuple[Request, ...] = ()
    for order in orders(requests):
        for tight in (False, True):
            offsets = lowest_place(order, alignment, tight)
            peak = peak_of(requests, offsets, alignment)
            if best_peak < 0 or peak < best_peak:
                best, best_peak, best_order = offsets, peak, order
            if best_peak == bound:
                return best
    order = best_order
    seen = {order}
    effort = max(8, _REORDERINGS // max(1, len(requests) // 16))
    offsets = lowest_place(order, alignment)
    for _ in range(effort):
        order = _promote(order, offsets, alignment)
        if order in seen:
            break
        seen.add(order)
        offsets = lowest_place(order, alignment)
        peak = peak_of(requests, offsets, alignment)
        if peak < best_peak:
            best, best_peak = offsets, peak
            if peak == bound:
                break
    return best


def _promote(
    order: tuple[Request, ...], offsets: Mapping[str, int], alignment: int
) -> tuple[Request, ...]:
    """Move the block that ends highest in front of the first block that it competes with."""
    top = max(order, key=lambda r: (offsets[r.name] + align_up(r.size_bytes, alignment), r.name))
    rest = [r for r in order if r is not top]
    place = next((i for i, r in enumerate(rest) if r.overlaps(top)), 0)
    return (*rest[:place], top, *rest[place:])
