"""Transfers between L3 and L2, in pieces that the link can move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter

from dory_core.hardware.links import Link
from dory_core.plan import ExtTransfer, Place
from dory_core.plan.block_ids import BlockId
from dory_core.plan.blocks import align_up
from dory_core.planning.sequence.part_sequence import Fetch, PartSequence, Store


def transfers(
    link: Link | None,
    program: PartSequence,
    places: Mapping[BlockId, Place],
    source: Callable[[Fetch | Store], int],
) -> tuple[ExtTransfer, ...]:
    """Return all transfers in order of their start, with a ticket slot each.

    Args:
        link: The link between home and the level below.
        program: The sequence of parts.
        places: The places of the blocks of home.
        source: The byte of the level below at which a transfer starts or ends.
    """
    events: list[Fetch | Store] = [*program.fetches, *program.stores]
    if not events:
        return ()
    assert link is not None
    transfers = [
        piece
        for event in events
        for piece in _pieces(link, event, places[event.block].offset, source(event))
    ]
    transfers.sort(key=itemgetter(5, 4, 6))  # start, incoming, wait
    busy: list[int] = []  # per slot: the position at which its transfer is waited for
    placed = []
    for transfer in transfers:
        start, wait = transfer[5:]
        # A slot may be taken again at the position of its wait: waits come before starts, but a
        # transfer that blocks is waited for after others have started.
        slot = next((i for i, until in enumerate(busy) if until < start), len(busy))
        busy[slot : slot + 1] = [wait]
        placed.append(ExtTransfer(*transfer, slot))
    return tuple(placed)


#: Fields of an ExtTransfer except its slot.
_Piece = tuple[BlockId, int, int, int, bool, int, int]


def _pieces(link: Link, event: Fetch | Store, block: int, below: int) -> Iterator[_Piece]:
    """Yield a transfer in pieces that the link can move; one where it has no limit."""
    if isinstance(event, Fetch):
        incoming, here, wait = True, block, event.use
    else:
        incoming, here, wait = False, block + event.block_offset, event.wait
    # Blocks start on multiples of the unit, and what follows them up to one belongs to no block.
    unit = link.alignment_bytes
    size = align_up(event.size, unit)
    assert here % unit == below % unit == 0, event
    most = link.piece_bytes or size
    for at in range(0, size, most):
        length = min(most, size - at)
        yield event.block, here + at, below + at, length, incoming, event.start, wait
