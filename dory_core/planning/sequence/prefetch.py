"""Fetching constants as early as free L2 allows."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from dory_core.plan.block_ids import BlockId
from dory_core.plan.blocks import Block, Request, align_up
from dory_core.planning.packing.heuristics import gap
from dory_core.planning.sequence.part_sequence import Fetch, PartSequence

# Transfers that may be in flight at once; each one needs a ticket.
IN_FLIGHT = 32


def prefetch(
    program: PartSequence, blocks: Iterable[Block], arena_bytes: int, alignment: int
) -> tuple[PartSequence, dict[BlockId, int]]:
    """Return the program with early fetches, and the offset of every block.

    Chunks of constants are fetched in the order of their use. Each chunk starts as early as a place
    of the arena is free until its use, but not before the chunk in front of it. All other blocks
    keep their offsets, and the arena its size. A place that is free from a start on is also free
    from any later start, so the start is found by bisection.

    Args:
        program: The sequence, whose fetches start one position ahead.
        blocks: Offsets of the blocks of home, in bytes.
        arena_bytes: Bytes of home.
        alignment: Granule of offsets, in bytes.
    """
    offsets = {block.id: block.offset for block in blocks}
    requests = _Lives(program.requests)
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
            early = request.needed(middle, request.last)
            found = _places(early, following, requests, offsets, arena_bytes, alignment)
            if found is None:
                low = middle + 1
            else:
                high, places = middle, found
        requests.add(request.needed(high, request.last))
        offsets.update(places)
        done.append(fetch._replace(start=high))
    moved = {block: requests.by_id[block] for block in program.requests}
    return replace(program, requests=moved, fetches=[*done, *others]), offsets


class _Lives:
    """Requests by block and by position, so that those of a range are found without the others."""

    _STEP = 16  # positions that share a list

    def __init__(self, requests: Mapping[BlockId, Request]) -> None:
        self.by_id: dict[BlockId, Request] = {}
        self._by_step: dict[int, set[BlockId]] = {}
        for request in requests.values():
            self.add(request)

    def _steps(self, request: Request) -> range:
        return range(request.first // self._STEP, request.last // self._STEP + 1)

    def add(self, request: Request) -> None:
        self.by_id[request.id] = request
        for step in self._steps(request):
            self._by_step.setdefault(step, set()).add(request.id)

    def pop(self, block: BlockId) -> Request:
        request = self.by_id.pop(block)
        for step in self._steps(request):
            self._by_step[step].remove(block)
        return request

    def beside(self, request: Request) -> Iterator[Request]:
        """Yield the requests that share a position with one."""
        for block in set().union(*(self._by_step.get(step, ()) for step in self._steps(request))):
            if self.by_id[block].overlaps(request):
                yield self.by_id[block]


def _places(
    request: Request,
    following: BlockId | None,
    requests: _Lives,
    offsets: dict[BlockId, int],
    arena_bytes: int,
    alignment: int,
) -> dict[BlockId, int] | None:
    """Return the offset of ``request``, and of the next chunk where that has to make room."""
    beside = list(requests.beside(request))
    place = _free(request, beside, offsets, arena_bytes, alignment)
    if place is not None:
        return {request.id: place}
    if following is None:
        return None
    rest = [other for other in beside if other.id != following]
    place = _free(request, rest, offsets, arena_bytes, alignment)
    if place is None:
        return None
    after = requests.by_id[following]
    rest = [other for other in requests.beside(after) if other.id != following]
    if request.overlaps(after):
        rest.append(request)
    moved = _free(after, rest, ChainMap({request.id: place}, offsets), arena_bytes, alignment)
    return None if moved is None else {request.id: place, following: moved}


def _free(
    request: Request,
    beside: Iterable[Request],
    offsets: Mapping[BlockId, int],
    arena_bytes: int,
    alignment: int,
) -> int | None:
    """Return the lowest offset that is free beside others."""
    busy = sorted(
        (offsets[r.id], offsets[r.id] + align_up(r.size_bytes, alignment)) for r in beside
    )
    size = align_up(request.size_bytes, alignment)
    place = gap(busy, size)
    return place if place + size <= arena_bytes else None
