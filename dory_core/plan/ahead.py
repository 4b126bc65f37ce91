"""What a part of a layer does for the next part, or for a later layer, and finds done for it."""

from __future__ import annotations

from collections.abc import Iterator

from dory_core.hardware.copies import AS_IT_IS
from dory_core.plan import LayerStep
from dory_core.plan.constants import constants_of_parts
from dory_core.plan.memories import L1, constants_of
from dory_core.plan.operations import AHEAD, Address, AtTile, Copy, Operation, Value, When
from dory_core.plan.spans import Tiles, table


def x_is_there(step: LayerStep, tiles: Tiles) -> Value:
    """Return True when the part before has left the part's inputs in L1."""
    return table("x_is_there", [int(part.finds_inputs) for part in step.parts], tiles.part)


def w_comes(step: LayerStep, tiles: Tiles) -> Value:
    """Return True when the load of the part's first constants was started before it."""
    found = [int(step.finds_constants(number)) for number in range(len(step.parts))]
    return table("w_comes", found, tiles.part)


def load_for_later(later: LayerStep | None) -> Iterator[Operation]:
    """Yield the load of the first constants of a later layer."""
    if later is None:
        return
    weights, block = later.weights, later.block("w")
    assert weights is not None and weights.linked and block is not None
    chunk = weights.chunks[later.parts[0].chunk]
    first = chunk.tiles[0][0]
    yield Copy(
        AHEAD,
        True,
        Address(L1, block.offsets[0], AHEAD),
        Address(constants_of(later.index), chunk.offset + first.offset, AHEAD),
        (first.size, 1, 1),
        carriage=later.carriages.get("w", AS_IT_IS),
    )


def load_for_next_part(step: LayerStep, tiles: Tiles) -> Iterator[Operation]:
    """Yield the load of the next part's first constants, at the tile that starts it."""
    parts, part = step.parts, tiles.part
    counts = [one.schedule.count for one in parts]
    at = [
        count if one.ahead is None else one.ahead for one, count in zip(parts, counts, strict=True)
    ]
    if at == counts:
        return
    weights, block = step.weights, step.block("w")
    assert weights is not None and block is not None
    following = [*parts[1:], parts[-1]]
    firsts = [weights.chunks[one.chunk].tiles[0][0] for one in following]
    copies = table("next_w_copy", [one.w_copy for one in following], part)
    memory, starts = constants_of_parts(step, following)
    places = [start + first.offset for start, first in zip(starts, firsts, strict=True)]
    load = Copy(
        AHEAD,
        True,
        Address(L1, block.offsets[0] + copies * block.bytes, AHEAD),
        Address(memory, table("next_w", places, part), "w"),
        (table("next_w_size", [first.size for first in firsts], part), 1, 1),
        carriage=step.carriages.get("w", AS_IT_IS),
    )
    number = table("ahead_at", at, part)
    condition = AtTile(number) if tiles.tiled else number == 0
    assert not isinstance(condition, bool), "the last part never loads for a next one"
    yield When(condition, (load,), "the next part's first constants")
