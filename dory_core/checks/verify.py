"""Independent check of a memory plan. It shares no code with the planners.

One sweep over the steps keeps the live blocks sorted by offset; every block is compared with its
two neighbours at the moment it appears.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dory_core.errors import DoryError

if TYPE_CHECKING:
    from dory_core.plan.blocks import Bin, Block, Packing, Request


def verify_packing(
    requests: Iterable[Request],
    packing: Packing,
    *,
    alignment: int,
    capacity_bytes: int | None = None,
    memory: str = "memory",
) -> None:
    """Raise DoryError (a bug) unless ``packing`` is a legal placement of ``requests``.

    Every request has exactly one block of its size over at least its lifetime; offsets are aligned;
    blocks lie within the peak, the peak within ``capacity_bytes`` (None: no limit); no two blocks
    that live in a common step share a byte. A slice lies at its place in its block and is live
    while that is; a persistent block is live at every step.
    """
    requests = tuple(requests)
    _verify_requests(requests, packing.blocks, memory)
    own = _verify_slices(requests, packing.blocks, memory)
    _verify_extent(replace(packing, blocks=own), alignment, capacity_bytes, memory)
    _verify_overlaps(own, memory)


def verify_bins(
    requests: Sequence[Request], packings: Mapping[str, Packing], bins: Sequence[Bin]
) -> None:
    """Raise DoryError unless every bin is legal and every block lies in one that takes it."""
    known = {b.name: b for b in bins}
    for name in packings:
        if name not in known:
            raise _bug(f"a plan uses memory '{name}', which the level does not have")
    roles = {r.name: r.role for r in requests}
    everything: list[Block] = []
    for name, packing in packings.items():
        memory = known[name]
        own = _verify_slices(requests, packing.blocks, name)
        _verify_extent(replace(packing, blocks=own), memory.alignment, memory.size_bytes, name)
        _verify_overlaps(own, name)
        for block in packing.blocks:
            role = roles.get(block.name)
            if memory.holds is not None and role is not None and role not in memory.holds:
                raise _bug(f"{name} does not hold {role}, but block '{block.name}' lies there")
        everything.extend(packing.blocks)
    _verify_requests(requests, everything, "the level")


def _bug(message: str) -> DoryError:
    return DoryError(
        f"memory plan is wrong: {message}", "This is a bug in dory: please report the network."
    )


def _verify_requests(requests: Iterable[Request], blocks: Sequence[Block], memory: str) -> None:
    by_name: dict[str, Block] = {}
    for block in blocks:
        if block.name in by_name:
            raise _bug(f"'{block.name}' has two blocks in {memory}")
        by_name[block.name] = block
    wanted = set()
    for r in requests:
        wanted.add(r.name)
        found = by_name.get(r.name)
        if found is None:
            raise _bug(f"'{r.name}' has no block in {memory}")
        if found.size != r.size_bytes:
            raise _bug(f"'{r.name}' needs {r.size_bytes} bytes, its block has {found.size}")
        if found.first > r.first or found.last < r.last:
            raise _bug(
                f"'{r.name}' is needed in steps {r.first} to {r.last}, its block lives from "
                f"{found.first} to {found.last}"
            )
    for name in by_name:
        if name not in wanted:
            raise _bug(f"nobody asked for block '{name}' in {memory}")


def _verify_slices(
    requests: Sequence[Request], blocks: Sequence[Block], memory: str
) -> tuple[Block, ...]:
    """Return the blocks that are no slices of others; raise DoryError for a wrong slice."""
    by_name = {block.name: block for block in blocks}
    begin = min((r.first for r in requests), default=0)
    end = max((r.last for r in requests), default=0)
    slices = set()
    for r in requests:
        block = by_name.get(r.name)
        if block is None:
            continue  # in another memory of the level
        if r.persistent and (block.first > begin or block.last < end):
            raise _bug(f"'{r.name}' is kept from one execution to the next, its block is not")
        if not r.within:
            continue
        slices.add(r.name)
        whole = by_name.get(r.within)
        if whole is None or block.offset != whole.offset + r.at_bytes or block.end > whole.end:
            raise _bug(f"'{r.name}' does not lie at {r.at_bytes} of '{r.within}' in {memory}")
        if whole.first > block.first or whole.last < block.last:
            raise _bug(f"'{r.name}' is live when '{r.within}', which it is a slice of, is not")
    return tuple(block for block in blocks if block.name not in slices)


def _verify_extent(
    packing: Packing, alignment: int, capacity_bytes: int | None, memory: str
) -> None:
    for block in packing.blocks:
        if block.offset < 0:
            raise _bug(f"'{block.name}' starts at {block.offset}, before {memory}")
        if block.offset % alignment:
            raise _bug(f"'{block.name}' starts at {block.offset}, not a multiple of {alignment}")
        if block.offset + block.size > packing.peak_bytes:
            raise _bug(
                f"'{block.name}' ends at {block.offset + block.size}, behind the peak "
                f"{packing.peak_bytes} of {memory}"
            )
    if capacity_bytes is not None and packing.peak_bytes > capacity_bytes:
        raise _bug(f"{memory} has {capacity_bytes} bytes, the plan uses {packing.peak_bytes}")


def _verify_overlaps(blocks: Sequence[Block], memory: str) -> None:
    # At equal steps blocks leave (0) before others come (1): lifetimes are inclusive, so a block
    # leaves at last + 1.
    events: list[tuple[int, int, int]] = []
    for i, block in enumerate(blocks):
        events.append((block.first, 1, i))
        events.append((block.last + 1, 0, i))
    live: list[tuple[int, int, int]] = []  # offset, end, index
    for step, arrives, i in sorted(events):
        block = blocks[i]
        entry = (block.offset, block.offset + block.size, i)
        if not arrives:
            live.remove(entry)
            continue
        place = bisect_left(live, entry)
        if place > 0 and live[place - 1][1] > entry[0]:
            raise _overlap(blocks[live[place - 1][2]], block, step, memory)
        if place < len(live) and live[place][0] < entry[1]:
            raise _overlap(blocks[live[place][2]], block, step, memory)
        insort(live, entry)


def _overlap(one: Block, other: Block, step: int, memory: str) -> DoryError:
    return _bug(
        f"'{one.name}' at {one.offset} (+{one.size}) and '{other.name}' at {other.offset} "
        f"(+{other.size}) of {memory} are both live in step {step}"
    )
