"""A packing that is too high in some places is repaired there, and left as it is elsewhere.

A network of many parts has hundreds of blocks, but each shares steps with few others. Where a
packing is higher than it may be, the blocks of these steps find new places between all others. Only
where they find none more of them are taken: large networks take as long as their bad places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from dory_core.plan.block_ids import BlockId
from dory_core.plan.blocks import Bin, Request, align_up
from dory_core.planning.packing.exact import SOLVER_EFFORT, solve

#: Effort of the solver for the blocks of some steps.
_EFFORT = SOLVER_EFFORT / 12
#: More steps on each side whose blocks find new places. With fewer than the first there are hardly
#: any; after the last number it is given up: more of them take most of the time.
_BESIDE = (3, 27, 81)


def repaired(
    requests: Sequence[Request], offsets: Mapping[BlockId, int], alignment: int, top: int
) -> dict[BlockId, int] | None:
    """Return a packing that is not higher than some bytes; None where none is found.

    Args:
        requests: The blocks.
        offsets: A packing of them, which is higher.
        alignment: Granule of offsets, in bytes.
        top: Bytes.
    """
    found = dict(offsets)
    if any(align_up(one.size_bytes, alignment) > top for one in requests):
        return None
    start, end = min(one.first for one in requests), max(one.last for one in requests)
    for request in sorted(requests, key=lambda one: (one.first, one.id)):
        if found[request.id] + align_up(request.size_bytes, alignment) <= top:
            continue
        for beside in _BESIDE:
            steps = range(request.first - beside, request.last + beside + 1)
            places = _new_places(requests, found, alignment, top, steps)
            if places is not None or (steps.start <= start and steps.stop > end):
                break
        if places is None:
            return None
        found |= places
    return found


class _Near(NamedTuple):
    """A block near others that find new places.

    Attributes:
        size_bytes: Its bytes.
        first, last: Its live range, counted from the first step of all of them.
        place: Where it stays; None where it finds a new place.
    """

    size_bytes: int
    first: int
    last: int
    place: int | None


def _new_places(
    requests: Sequence[Request],
    offsets: Mapping[BlockId, int],
    alignment: int,
    top: int,
    steps: range,
) -> dict[BlockId, int] | None:
    """Return new places below ``top`` of all blocks of some steps; None where none are found."""
    start, stop = steps.start, steps.stop
    free = [one for one in requests if one.first < stop and one.last >= start]
    first, last = min(one.first for one in free), max(one.last for one in free)
    near = [one for one in requests if one.first <= last and one.last >= first]
    moved = {one.id for one in free}
    blocks = list[_Near]()
    start = min(one.first for one in near)
    for one in near:
        place = None if one.id in moved else offsets[one.id]
        if place is None or place < top:
            size = min(one.size_bytes, top - (place or 0))
            blocks.append(_Near(size, one.first - start, one.last - start, place))
    places = _solved(tuple(blocks), alignment, top)
    if places is None:
        return None
    return dict(zip((one.id for one in near if one.id in moved), places, strict=True))


@lru_cache(maxsize=1024)
def _solved(blocks: tuple[_Near, ...], alignment: int, top: int) -> tuple[int, ...] | None:
    """Return the new places of blocks below ``top``, in order; None where none are found.

    Plans that are compared differ in a few layers: most bad places are the same in many of them.
    """
    requests = [
        Request(BlockId(str(n)), size, first, last)
        for n, (size, first, last, _) in enumerate(blocks)
    ]
    pairs = [*zip(requests, (one.place for one in blocks), strict=True)]
    fixed = {one.id: place for one, place in pairs if place is not None}
    solved, _ = solve(requests, (Bin("memory", top, alignment),), _EFFORT, fixed=fixed)
    if solved is None:
        return None
    return tuple(solved[one.id].offset for one, place in pairs if place is None)
