"""Independent check of a memory plan. It shares no code with the planners.

One sweep over the steps keeps the live blocks sorted by offset. Every block is compared with its
two neighbours when it becomes live.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dory_core.checks.held import bug
from dory_core.errors import DoryError

if TYPE_CHECKING:
    from dory_core.plan.block_ids import BlockId
    from dory_core.plan.blocks import Bin, Block, Packing, Request


def verify_packing(
    requests: Iterable[Request],
    packing: Packing,
    *,
    alignment: int,
    capacity_bytes: int | None = None,
    memory: str = "memory",
) -> None:
    """Check that ``packing`` is a legal placement of ``requests``.

    Every request has exactly one block of its size over at least its live range. Offsets are
    aligned. Two blocks with overlapping live ranges share no byte. A slice lies at its offset in
    its block, which is live as long as the slice. A persistent block is live at every step.

    Args:
        requests: The blocks that the network needs.
        packing: Their offsets, and the peak.
        alignment: Divisor of every offset, in bytes.
        capacity_bytes: Limit of the peak, None for no limit.
        memory: Name of the memory, for messages.

    Raises:
        DoryError: When the packing is not legal, which is a bug.
    """
    requests = tuple(requests)
    _verify_requests(requests, packing.blocks, memory)
    own = _verify_slices(requests, packing.blocks, memory)
    _verify_extent(replace(packing, blocks=own), alignment, capacity_bytes, memory)
    _verify_overlaps(own, memory)


def verify_bins(
    requests: Sequence[Request], packings: Mapping[str, Packing], bins: Sequence[Bin]
) -> None:
    """Check the packings of the memories of a level.

    Args:
        requests: The blocks that the network needs.
        packings: The packing of each memory, by its name.
        bins: The memories of the level.

    Raises:
        DoryError: When a packing is not legal, or a memory does not hold the role of a block.
    """
    known = {b.name: b for b in bins}
    for name in packings:
        if name not in known:
            raise bug(f"a plan uses memory '{name}', which the level does not have")
    roles = {r.id: r.role for r in requests}
    everything: list[Block] = []
    for name, packing in packings.items():
        memory = known[name]
        own = _verify_slices(requests, packing.blocks, name)
        _verify_extent(replace(packing, blocks=own), memory.alignment, memory.size_bytes, name)
        _verify_overlaps(own, name)
        for block in packing.blocks:
            role = roles.get(block.id)
            if memory.holds is not None and role is not None and role not in memory.holds:
                raise bug(f"{name} does not hold {role}, but block '{block.id}' lies there")
        everything.extend(packing.blocks)
    _verify_requests(requests, everything, "the level")


def _verify_requests(requests: Iterable[Request], blocks: Sequence[Block], memory: str) -> None:
    by_id: dict[BlockId, Block] = {}
    for new in blocks:
        if new.id in by_id:
            raise bug(f"'{new.id}' has two blocks in {memory}")
        by_id[new.id] = new
    wanted = set()
    for r in requests:
        wanted.add(r.id)
        block = by_id.get(r.id)
        if block is None:
            raise bug(f"'{r.id}' has no block in {memory}")
        if block.size != r.size_bytes:
            raise bug(f"'{r.id}' needs {r.size_bytes} bytes, its block has {block.size}")
        if block.first > r.first or block.last < r.last:
            raise bug(
                f"'{r.id}' is needed in steps {r.first} to {r.last}, its block lives from "
                f"{block.first} to {block.last}"
            )
    for block_id in by_id:
        if block_id not in wanted:
            raise bug(f"no request is for block '{block_id}' in {memory}")


def _verify_slices(
    requests: Sequence[Request], blocks: Sequence[Block], memory: str
) -> tuple[Block, ...]:
    """Return the blocks that are not slices of other blocks; raise DoryError for a wrong slice."""
    by_id = {block.id: block for block in blocks}
    begin = min((r.first for r in requests), default=0)
    end = max((r.last for r in requests), default=0)
    slices = set()
    for r in requests:
        block = by_id.get(r.id)
        if block is None:
            continue  # in another memory of the level
        if r.persistent and (block.first > begin or block.last < end):
            raise bug(f"'{r.id}' is kept from one execution to the next, its block is not")
        if r.within is None:
            continue
        slices.add(r.id)
        whole = by_id.get(r.within)
        if whole is None or block.offset != whole.offset + r.at_bytes or block.end > whole.end:
            raise bug(f"'{r.id}' does not lie at {r.at_bytes} of '{r.within}' in {memory}")
        if whole.first > block.first or whole.last < block.last:
            raise bug(f"'{r.id}' is live when '{r.within}', which it is a slice of, is not")
    return tuple(block for block in blocks if block.id not in slices)


def _verify_extent(
    packing: Packing, alignment: int, capacity_bytes: int | None, memory: str
) -> None:
    for block in packing.blocks:
        if block.offset < 0:
            raise bug(f"'{block.id}' starts at {block.offset}, before {memory}")
        if block.offset % alignment:
            raise bug(f"'{block.id}' starts at {block.offset}, not a multiple of {alignment}")
        if block.offset + block.size > packing.peak_bytes:
            raise bug(
                f"'{block.id}' ends at {block.offset + block.size}, after the peak "
                f"{packing.peak_bytes} of {memory}"
            )
    if capacity_bytes is not None and packing.peak_bytes > capacity_bytes:
        raise bug(f"{memory} has {capacity_bytes} bytes, the plan uses {packing.peak_bytes}")


def _verify_overlaps(blocks: Sequence[Block], memory: str) -> None:
    # Live ranges are inclusive, so a block ends at last + 1. At equal steps ends (0) go before
    # starts (1).
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


def _overlap(first: Block, second: Block, step: int, memory: str) -> DoryError:
    return bug(
        f"'{first.id}' at {first.offset} (+{first.size}) and '{second.id}' at {second.offset} "
        f"(+{second.size}) of {memory} are both live in step {step}"
    )
