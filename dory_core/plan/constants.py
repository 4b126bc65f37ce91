"""Where the constants of tiles come from, and what their blocks hold."""

from __future__ import annotations

from dory_core.plan import LayerStep
from dory_core.plan.memories import CONSTANTS, l2_memory
from dory_core.plan.operations import Address, Value
from dory_core.plan.spans import Tiles, table

#: Parts of a block of constants that a kernel's call can name.
CONSTANT_PARTS = ("weights", "mul", "add", "bias")


def block_field(step: LayerStep, tiles: Tiles, field: str) -> Value:
    """Return a field of the block of constants of the tile."""
    weights = step.weights
    assert weights is not None
    o, i = tiles.axes["o"], tiles.axes["i"]
    inner = len(i.spans)
    count = len(o.spans) if o.is_tiled else len(step.parts)
    values: list[int | None] = [None] * (count * inner)
    for number, part in enumerate(step.parts):
        start = o.starts[number] if o.is_tiled else number
        for row, blocks in enumerate(weights.chunks[part.chunk].tiles):
            for column, tile in enumerate(blocks):
                value = tile.parts.get(field, 0)
                if field not in CONSTANT_PARTS:
                    value = int(getattr(tile, field))
                at = (start + row) * inner + column
                if values[at] is None:
                    values[at] = value
                assert values[at] == value, f"blocks of layer {step.index} differ"
    place = o.variable if o.is_tiled else tiles.part
    found = [value for value in values if value is not None]
    name = f"{field}_at" if field in CONSTANT_PARTS else f"w_{field}"
    return table(name, found, place * inner + i.variable)


def constants_of_tile(step: LayerStep, tiles: Tiles, part: Value = 0) -> Address:
    """Return where the constants of the tile come from, or ``part`` bytes into them."""
    weights = step.weights
    assert weights is not None
    offset = block_field(step, tiles, "offset") + part
    if weights.linked:
        starts = [weights.chunks[part.chunk].offset for part in step.parts]
        return Address(CONSTANTS, table("chunk", starts, tiles.part) + offset, "w")
    starts = [part.weights or 0 for part in step.parts]
    return Address(l2_memory(0), table("w", starts, tiles.part) + offset, "w")
