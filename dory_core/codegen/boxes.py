"""Boxes of tensors in their layouts, as C expressions: what tiles read and write of L2."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.codegen.axes import TileAxes
from dory_core.codegen.cexpr import CExpr, add, atom, channel_bytes, mul
from dory_core.ir import Layer, Linear, Tensor, pixel_bytes
from dory_core.ir.layout import Layout
from dory_core.plan import LayerStep, OperandPlan


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a tensor in L2 as C expressions.

    offset: byte of its first element in the arena. h, w, c: its size, padding of the layout
    included. c_bytes: bytes of c channels of a pixel. bits: of an element. pixel, row: bytes from
    pixel to pixel and from row to row of the whole tensor, or of a block of its channels.
    whole_rows: the box takes all columns. blocks, block: how many blocks of channels it has, and
    bytes from one to the next in the whole tensor. whole_blocks: the box takes all rows.
    """

    offset: CExpr
    h: CExpr
    w: CExpr
    c: CExpr
    c_bytes: CExpr
    bits: int
    pixel: int
    row: int
    whole_rows: bool
    blocks: CExpr = 1
    block: int = 0
    whole_blocks: bool = False


def part_field(step: LayerStep, name: str) -> CExpr:
    """Return where a part's x, x2, y or w starts in L2: an immediate when all parts agree."""
    operands = {"x": 0, "x2": 1}
    values = {
        part.inputs[operands[name]]
        if name in operands
        else (part.output if name == "y" else part.weights or 0)
        for part in step.parts
    }
    return values.pop() if len(values) == 1 else f"part->{name}"


def input_box(step: LayerStep, axes: TileAxes, name: str, transfer: OperandPlan) -> Box:
    """Return the box that a tile reads; the input of a Linear is one pixel of all elements."""
    tensor, layout = transfer.place.tensor, transfer.layout
    linear = isinstance(step.layer.op, Linear)
    if linear and not layout.is_hwc:
        size = layout.size_bytes(tensor)
        return Box(part_field(step, name), 1, 1, 1, size, tensor.bits, size, size, True)
    h_start, c_start = axes.h.get("x_start"), axes.input.get("x_start")
    h, w, c = (a.get("x_size") for a in (axes.h, axes.w, axes.input))
    if not layout.is_hwc:
        return _layout_box(layout, tensor, part_field(step, name), (h_start, h), (c_start, c))
    width, pixel = tensor.width, pixel_bytes(tensor.channels, tensor.bits)
    if linear:
        width, pixel = 1, tensor.size_bytes
    offset = add(
        part_field(step, name),
        mul(h_start, width * pixel),
        mul(axes.w.get("x_start"), pixel),
        input_channel_bytes(step.layer, tensor, c_start),
    )
    c_bytes = input_channel_bytes(step.layer, tensor, c)
    return Box(offset, h, w, c, c_bytes, tensor.bits, pixel, width * pixel, w == width)


def output_box(step: LayerStep, axes: TileAxes) -> Box:
    """Return the box that a tile writes."""
    tensor, layout = step.output.place.tensor, step.output.layout
    h_start, c_start = axes.h.get("start"), axes.c_out.get("start")
    h, w, c = (a.get("size") for a in (axes.h, axes.w, axes.c_out))
    if not layout.is_hwc:
        return _layout_box(layout, tensor, part_field(step, "y"), (h_start, h), (c_start, c))
    pixel = pixel_bytes(tensor.channels, tensor.bits)
    offset = add(
        part_field(step, "y"),
        mul(h_start, tensor.width * pixel),
        mul(axes.w.get("start"), pixel),
        channel_bytes(c_start, tensor.bits),
    )
    row, c_bytes = tensor.width * pixel, channel_bytes(c, tensor.bits)
    return Box(offset, h, w, c, c_bytes, tensor.bits, pixel, row, w == tensor.width)


def _layout_box(
    layout: Layout,
    tensor: Tensor,
    base: CExpr,
    rows: tuple[CExpr, CExpr],
    channels: tuple[CExpr, CExpr],
) -> Box:
    """Return whole rows of some channels, both as (start, size)."""
    (h_start, h), (c_start, c) = rows, channels
    width = layout.padded_width(tensor.width)
    padded = padded_channels(layout, c)
    if not layout.channel_block:
        pixel = int(layout.padded_channels(tensor.channels))
        offset = add(base, mul(h_start, width * pixel), c_start)
        return Box(offset, h, width, padded, padded, 8, pixel, width * pixel, True)
    row = width * layout.channel_block
    offset = add(base, mul(c_start, tensor.height * width), mul(h_start, row))
    return Box(
        offset,
        h,
        width,
        padded,
        padded,
        8,
        layout.channel_block,
        row,
        True,
        blocks=_blocks(padded, layout.channel_block),
        block=tensor.height * row,
        whole_blocks=h == tensor.height,
    )


def _blocks(padded: CExpr, block: int) -> CExpr:
    if isinstance(padded, int):
        return padded // block
    return padded if block == 1 else f"{atom(padded)} / {block}"


def padded_channels(layout: Layout, channels: CExpr) -> CExpr:
    """Return the channels of a tile with the padding of its layout."""
    multiple = layout.channel_multiple
    if isinstance(channels, int):
        return int(layout.padded_channels(channels))
    return channels if multiple == 1 else f"({channels} + {multiple - 1}) / {multiple} * {multiple}"


def input_channel_bytes(layer: Layer, tensor: Tensor, channels: CExpr) -> CExpr:
    """Return the bytes of ``channels`` consecutive input channels, as tiles count them.

    Those of a Linear run over all pixels: where sub-byte pixels end inside a byte, they are whole
    pixels.
    """
    if not isinstance(layer.op, Linear) or tensor.channels * tensor.bits % 8 == 0:
        return channel_bytes(channels, tensor.bits)
    pixel = pixel_bytes(tensor.channels, tensor.bits)
    if isinstance(channels, int):
        return channels // tensor.channels * pixel
    return mul(f"{channels} / {tensor.channels}", pixel)


def tile_bytes(step: LayerStep, name: str, sizes: dict[str, CExpr]) -> CExpr:
    """Return the bytes that a tile of x, x2 or y has in L1; sizes: of the tile, by name."""
    transfer = step.output if name == "y" else step.inputs[name == "x2"]
    tensor, layout = transfer.place.tensor, transfer.layout
    side = "y" if name == "y" else "x"
    h, w, c = (sizes[f"{side}_{axis}"] for axis in "hwc")
    if layout.is_hwc:
        if name == "y":
            return mul(h, w, channel_bytes(c, tensor.bits))
        return mul(h, w, input_channel_bytes(step.layer, tensor, c))
    if isinstance(step.layer.op, Linear) and name != "y":
        return layout.size_bytes(tensor)
    return mul(h, layout.padded_width(tensor.width), padded_channels(layout, c))
