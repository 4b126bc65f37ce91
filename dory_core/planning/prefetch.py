"""Fetching constants as early as free L2 allows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dory_core.planning.blocks import Block, Request, align_up
from dory_core.planning.sequence import Fetch, PartSequence

# Transfers that may be in flight at once; each one needs a ticket.
IN_FLIGHT = 8


def prefetch(
    program: PartSequence, blocks: Iterable[Block], arena_bytes: int, alignment: int
) -> tuple[PartSequence, dict[str, int]]:
    """Return the program with early fetches, and the offset of every block.

    Constants form one stream in order of use. Each chunk is moved to the earliest start, not before
    that of the chunk in front of it, at which some place of the arena is free until its use; all
    other blocks stay where they are, and so does the size of the arena. A place that is free from a
    start on is free from any later one, so the start is found by bisection.
    """
    offsets = {block.name: block.offset for block in blocks}
    requests = dict(program.requests)
    stream = sorted((f for f in program.fetches if f.layer >= 0), key=lambda f: (f.use, f.start))
    others = [f for f in program.fetches if f.layer < 0]
    done: list[Fetch] = []
    for k, fetch in enumerate(stream):
        earliest = max(done[-1].start if done else -1, fetch.ready)
        if k >= IN_FLIGHT:
            earliest = max(earliest, done[k - IN_FLIGHT].use)
        request = requests.pop(fetch.block)
        low, high = min(earliest, fetch.start), fetch.start
        following = stream[k + 1].block if k + 1 < len(stream) else None
        places = {fetch.block: offsets[fetch.block]}
        while low < high:
            middle = (low + high) // 2
            early = replace(request, first=middle)
            found = _places(early, following, requests, offsets, arena_bytes, alignment)
            if found is None:
                low = middle + 1
            else:
                high, places = middle, found
        requests[fetch.block] = replace(request, first=high)
        offsets.update(places)
        done.append(replace(fetch, start=high))
    moved = PartSequence(
        program.runs,
        requests,
        [*done, *others],
        program.stores,
        program.l3_requests,
        program.stripes,
        program.first,
        program.last,
    )
    return moved, offsets


def _places(
    request: Request,
    following: str | None,
    requests: dict[str, Request],
    offsets: dict[str, int],
    arena_bytes: int,
    alignment: int,
) -> dict[str, int] | None:
    """Return the offset of ``request`` and of the chunk behind it where that is in its way."""
    place = _free(request, requests, offsets, arena_bytes, alignment)
    if place is not None:
        return {request.name: place}
    if following is None:
        return None
    rest = dict(requests)
    behind = rest.pop(following)
    place = _free(request, rest, offsets, arena_bytes, alignment)
    if place is None:
        return None
    rest[request.name] = request
    moved = _free(behind, rest, {**offsets, request.name: place}, arena_bytes, alignment)
    return None if moved is None else {request.name: place, following: moved}


def _free(
    request: Request,
    requests: dict[str, Request],
    offsets: dict[str, int],
    arena_bytes: int,
    alignment: int,
) -> int | None:
    """Return the lowest offset that is free over the lifetime of ``request``."""
    busy = sorted(
        (offsets[r.name], offsets[r.name] + align_up(r.size_bytes, alignment))
        for r in requests.values()
        if r.overlaps(request)
    )
    size = align_up(request.size_bytes, alignment)
    edge = 0
    for start, end in busy:
        if start - edge >= size:
            return edge
        edge = max(edge, end)
    return edge if edge + size <= arena_bytes else None
