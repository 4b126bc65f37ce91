"""The blocks of a layer's constants as C: fields of the block of a tile, and their table."""

from __future__ import annotations

from dory_core.codegen.cexpr import CExpr, atom, closed_form
from dory_core.plan import LayerWeights, WeightTile

#: Parts of a block that a kernel's call can name.
PARTS = ("weights", "mul", "add", "bias")


def _blocks(weights: LayerWeights) -> tuple[tuple[WeightTile, ...], ...]:
    """Return the blocks [output tile][input tile] in the order of the table of channels.

    That has the same tiles of channels once, whatever the sizes of their blocks.
    """
    known: set[tuple[int, ...]] = set()
    rows: list[tuple[WeightTile, ...]] = []
    for chunk in weights.chunks:
        channels = tuple(row[0].channels for row in chunk.tiles)
        if channels not in known:
            known.add(channels)
            rows += chunk.tiles
    return tuple(rows)


def block_field(weights: LayerWeights, field: str) -> CExpr:
    """Return a field of the weight block of tile t: an immediate when all blocks agree."""
    blocks = _blocks(weights)
    values = [
        tile.parts.get(field, 0) if field in PARTS else int(getattr(tile, field))
        for outputs in blocks
        for tile in outputs
    ]
    if len(set(values)) == 1:
        return values[0]
    inner = len(blocks[0])
    if len(blocks) == 1:
        place = "t.i"
    else:
        place = "t.o" if inner == 1 else f"t.o * {inner} + t.i"
    whole = len(weights.chunks) == 1
    form = closed_form(values, str(atom(place))) if whole else None
    if form is not None:
        return form
    return f"blocks[{place}].{field}"


def blocks_table(weights: LayerWeights) -> str:
    """Return the C table of the blocks of all tiles."""
    rows = [
        ", ".join(str(n) for n in (b.offset, b.size, *(b.parts.get(p, 0) for p in PARTS)))
        for outputs in _blocks(weights)
        for b in outputs
    ]
    lines = "".join(f"\n  {{{row}}}," for row in rows)
    return f"static const dory_block_t blocks[{len(rows)}] = {{{lines}\n}};"
