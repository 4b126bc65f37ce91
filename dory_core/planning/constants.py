"""Constants of layers as tables: their sizes before they are encoded, and their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dory_core.hardware.memories import BUFFER_ALIGNMENT
from dory_core.ir import Layer
from dory_core.plan import LayerWeights, WeightChunk, WeightTile
from dory_core.plan.blocks import align_up
from dory_core.schedule.loops import Schedule
from dory_core.tiling.outer import Split, group_spans
from dory_core.tiling.tiled import TiledLayer

WORD = 4  # constants are tables of 32-bit words
L3_IMAGE = "weights/l3.bin"  # what L3 holds before the first inference


def weight_buffer_bytes(tiled: TiledLayer) -> int:
    """Return the most bytes of the constants of a tile; 0 without constants.

    They are those of the buffer in L1, except for kernels that read or fetch them where they lie.
    """
    if tiled.in_place or tiled.traits.fetches:
        return int(tiled.bound.weight_bytes(tiled.tiling.tile))
    return next((int(b.bytes) for b in tiled.tiling.buffers if b.name == "w"), 0)


def has_constants(tiled: TiledLayer) -> bool:
    """Return True when a layer has constants."""
    return tiled.schedule.has_weights or (
        bool(tiled.traits.fetches) and weight_buffer_bytes(tiled) > 0
    )


def chunk_sizes(layer: Layer, tiled: TiledLayer, split: Split, unit: int = 1) -> tuple[int, ...]:
    """Return the bytes of each group's constants; empty for a layer without constants.

    Args:
        layer: The layer.
        tiled: The largest part of the layer.
        split: How it is cut.
        unit: Blocks are padded to multiples of it, in bytes.
    """
    if not has_constants(tiled):
        return ()
    bound, tile = tiled.bound, tiled.tiling.tile
    sizes = []
    for _, count in group_spans(layer, split.groups, split.group_step):
        total = 0
        for at in range(0, count, tile.c_out):
            c_out = min(tile.c_out, count - at)
            for source in tiled.schedule.c_in:
                block = replace(tile, c_out=c_out, c_in=source.size)
                total += align_up(int(bound.weight_bytes(block)), unit)
        sizes.append(total)
    return tuple(sizes)


def encode_chunks(
    tiled: TiledLayer,
    groups: Sequence[tuple[int, Schedule]],
    unit: int = 1,
    chunk_unit: int = 1,
) -> tuple[WeightChunk, ...]:
    """Return the constants of a layer, one chunk per group of output channels.

    Args:
        tiled: Its largest part.
        groups: First output channel of each group and a tile loop that covers the group.
        unit: Blocks are padded to multiples of it, in bytes.
        chunk_unit: Chunks start on multiples of it, in bytes.
    """
    if not has_constants(tiled):
        return ()
    bound, most = tiled.bound, weight_buffer_bytes(tiled)
    chunks: list[WeightChunk] = []
    offset = largest = 0
    for first, schedule in groups:
        data = bytearray()
        rows: list[tuple[WeightTile, ...]] = []
        for output in schedule.c_out:
            row: list[WeightTile] = []
            for source in schedule.c_in:
                block = bound.weight_block(
                    (first + output.start, first + output.start + output.size),
                    (source.start, source.start + source.size),
                )
                if len(block.data) > most:
                    raise bound.error(_other_size(len(block.data), most))
                largest = max(largest, len(block.data))
                padded = block.data + bytes(-len(block.data) % unit)
                row.append(WeightTile(len(data), len(padded), output.size, block.parts))
                data += padded
            rows.append(tuple(row))
        chunks.append(WeightChunk(offset, bytes(data), tuple(rows)))
        offset += align_up(len(data), max(WORD, chunk_unit))
    if align_up(largest, BUFFER_ALIGNMENT) < most:
        raise bound.error(_other_size(largest, most))
    return tuple(chunks)


def _other_size(found: int, said: int) -> str:
    return f"has a weight_block of {found} bytes, its weight_bytes says {said}"


def table_size(chunks: Sequence[WeightChunk]) -> int:
    """Return the bytes of the table that the chunks form."""
    return chunks[-1].offset + align_up(len(chunks[-1].data), WORD)


def table_bytes(weights: LayerWeights) -> bytes:
    """Return the table of a layer's constants."""
    table = bytearray(weights.size)
    for chunk in weights.chunks:
        table[chunk.offset : chunk.offset + len(chunk.data)] = chunk.data
    return bytes(table)
