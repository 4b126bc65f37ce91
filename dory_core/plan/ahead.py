"""What a part of a layer finds in L1, and what it loads for a later layer."""

from __future__ import annotations

from collections.abc import Iterator

from dory_core.hardware.copies import AS_IT_IS
from dory_core.hardware.links import WORD_BYTES
from dory_core.plan import LayerStep
from dory_core.plan.memories import L1, constants_of, l2_memory
from dory_core.plan.operations import AHEAD, Address, Copy, Operation, Value
from dory_core.plan.spans import Tiles, table


def x_is_there(step: LayerStep, tiles: Tiles) -> Value:
    """Return True when the part before has left the part's inputs in L1."""
    return table("x_is_there", [int(part.finds_inputs) for part in step.parts], tiles.part)


def load_for_later(step: LayerStep, later: LayerStep | None) -> Iterator[Operation]:
    """Yield the load of the first constants of a later layer, which a layer starts."""
    if later is None:
        return
    assert step.ahead is not None
    weights, block = later.weights, later.block("w")
    assert weights is not None and block is not None
    part = later.parts[0]
    chunk = weights.chunks[part.chunk]
    first = chunk.tiles[0][0]
    if weights.linked:
        source = Address(constants_of(later.index), chunk.offset + first.offset, AHEAD)
    else:
        source = Address(l2_memory(0), (part.weights or 0) + first.offset, AHEAD)
    row, pitch = (WORD_BYTES, WORD_BYTES) if step.ahead.by_words else (first.size, 0)
    yield Copy(
        AHEAD,
        True,
        Address(L1, block.offsets[0], AHEAD),
        source,
        (row, first.size // row, 1),
        l1_strides=(pitch, 0),
        l2_strides=(pitch, 0),
        carriage=later.carriages.get("w", AS_IT_IS),
    )
