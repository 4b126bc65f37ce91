"""The copies of a layer's tiles: which box of a tensor in L2, in which layout, to where in L1."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dory_core.errors import DoryError
from dory_core.ir import Layer, Linear, Tensor, pixel_bytes
from dory_core.ir.layout import Layout
from dory_core.plan import BLOCKS, LayerStep, OperandPlan
from dory_core.program.operations import Value
from dory_core.program.spans import Tiles, product, table

CHANNELS = "channels"


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """A box of a tensor in L2.

    offset: byte of its first element in the arena. h, w, c: its size, padding of the layout
    included. c_bytes: bytes of c channels of a pixel. bits: of an element. pixel, row: bytes from
    pixel to pixel and from row to row of the whole tensor, or of a block of its channels.
    whole_rows: the box takes all columns. blocks, block: how many blocks of channels it has, and
    bytes from one to the next in the whole tensor. whole_blocks: the box takes all rows.
    """

    offset: Value
    h: Value
    w: Value
    c: Value
    c_bytes: Value
    bits: int
    pixel: int
    row: int
    whole_rows: bool
    blocks: Value = 1
    block: int = 0
    whole_blocks: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """How a box is copied; fields as of :class:`dory_core.program.operations.Copy`."""

    shape: tuple[Value, Value, Value]
    l1_strides: tuple[Value, Value] = (0, 0)
    l2_strides: tuple[int, int] = (0, 0)
    element_bytes: int = 1
    channels: Value | None = None
    l1_channel: Value = 0
    l2_channel: int = 0


def copy_shape(form: str, box: Box, multiple: int = 1) -> Shape:
    """Return how a box is copied, dense in L1.

    form: as of ``OperandPlan``. multiple: the length of its only row is rounded up to a multiple.
    """
    shape = _shape(form, box)
    if multiple == 1:
        return shape
    n0, n1, n2 = shape.shape
    return replace(shape, shape=((n0 + (multiple - 1)) // multiple * multiple, n1, n2))


def _shape(form: str, box: Box) -> Shape:
    if form == BLOCKS:
        size = product(box.h, box.row)
        if box.whole_blocks:
            return Shape((product(box.blocks, size), 1, 1))
        return Shape((size, box.blocks, 1), (size, 0), (box.block, 0))
    if form == "rows":
        size = product(box.w, box.pixel)
        if box.whole_rows:
            return Shape((product(box.h, size), 1, 1))
        return Shape((size, box.h, 1), (size, 0), (box.row, 0))
    if form != CHANNELS:
        size = box.c_bytes
        return Shape((size, box.w, box.h), (size, product(box.w, size)), (box.pixel, box.row))
    if box.bits < 8:
        raise DoryError(f"channels of {box.bits} bits cannot be told apart by a transfer of bytes")
    element = box.bits // 8
    return Shape(
        (1, box.w, box.h),
        (element, product(box.w, element)),
        (box.pixel, box.row),
        element,
        box.c,
        product(box.h, box.w, element),
        element,
    )


def part_offset(step: LayerStep, tiles: Tiles, name: str) -> Value:
    """Return where x, x2 or y of the part starts in its arena of L2."""
    operand = {"x": 0, "x2": 1}.get(name)
    values = [part.output if operand is None else part.inputs[operand] for part in step.parts]
    return table(name, values, tiles.part)


def input_box(step: LayerStep, tiles: Tiles, name: str, plan: OperandPlan) -> Box:
    """Return the box that a tile reads; the input of a Linear is one pixel of all elements."""
    tensor, layout = plan.place.tensor, plan.layout
    base = part_offset(step, tiles, name)
    linear = isinstance(step.layer.op, Linear)
    if linear and not layout.is_hwc:
        size = layout.size_bytes(tensor)
        return Box(base, 1, 1, 1, size, tensor.bits, size, size, True)
    rows, columns, channels = tiles.axes["h"], tiles.axes["w"], tiles.x_channels
    h_start, c_start = rows.get("x_start"), channels.get("x_start")
    h, w, c = (axis.get("x_size") for axis in (rows, columns, channels))
    if not layout.is_hwc:
        return _layout_box(layout, tensor, base, (h_start, h), (c_start, c))
    width, pixel = tensor.width, pixel_bytes(tensor.channels, tensor.bits)
    if linear:
        width, pixel = 1, tensor.size_bytes
    offset = (
        base
        + h_start * (width * pixel)
        + columns.get("x_start") * pixel
        + input_channel_bytes(step.layer, tensor, c_start)
    )
    c_bytes = input_channel_bytes(step.layer, tensor, c)
    return Box(offset, h, w, c, c_bytes, tensor.bits, pixel, width * pixel, _is(w, width))


def output_box(step: LayerStep, tiles: Tiles) -> Box:
    """Return the box that a tile writes."""
    tensor, layout = step.output.place.tensor, step.output.layout
    base = part_offset(step, tiles, "y")
    rows, columns, channels = tiles.axes["h"], tiles.axes["w"], tiles.axes["o"]
    h_start, c_start = rows.get("start"), channels.get("start")
    h, w, c = (axis.get("size") for axis in (rows, columns, channels))
    if not layout.is_hwc:
        return _layout_box(layout, tensor, base, (h_start, h), (c_start, c))
    pixel = pixel_bytes(tensor.channels, tensor.bits)
    row = tensor.width * pixel
    c_bytes = channel_bytes(c, tensor.bits)
    offset = base + h_start * row + columns.get("start") * pixel
    offset = offset + channel_bytes(c_start, tensor.bits)
    return Box(offset, h, w, c, c_bytes, tensor.bits, pixel, row, _is(w, tensor.width))


def _is(size: Value, whole: int) -> bool:
    """Return whether a size is that of the whole tensor in all tiles."""
    return isinstance(size, int) and size == whole


def _layout_box(
    layout: Layout,
    tensor: Tensor,
    base: Value,
    rows: tuple[Value, Value],
    channels: tuple[Value, Value],
) -> Box:
    """Return whole rows of some channels, both as (start, size)."""
    (h_start, h), (c_start, c) = rows, channels
    width = layout.padded_width(tensor.width)
    padded: Value = layout.padded_channels(c)
    if not layout.channel_block:
        pixel = int(layout.padded_channels(tensor.channels))
        offset = base + h_start * (width * pixel) + c_start
        return Box(offset, h, width, padded, padded, 8, pixel, width * pixel, True)
    row = width * layout.channel_block
    return Box(
        base + c_start * (tensor.height * width) + h_start * row,
        h,
        width,
        padded,
        padded,
        8,
        layout.channel_block,
        row,
        True,
        blocks=padded // layout.channel_block,
        block=tensor.height * row,
        whole_blocks=_is(h, tensor.height),
    )


def channel_bytes(channels: Value, bits: int) -> Value:
    """Return the bytes of consecutive channels of a pixel."""
    return channels * (bits // 8) if bits >= 8 else (channels * bits + 7) // 8


def input_channel_bytes(layer: Layer, tensor: Tensor, channels: Value) -> Value:
    """Return the bytes of consecutive input channels, as tiles count them.

    Those of a Linear run over all pixels: where sub-byte pixels end inside a byte, they are whole
    pixels.
    """
    if not isinstance(layer.op, Linear) or tensor.channels * tensor.bits % 8 == 0:
        return channel_bytes(channels, tensor.bits)
    return channels // tensor.channels * pixel_bytes(tensor.channels, tensor.bits)


def tile_bytes(step: LayerStep, name: str, sizes: dict[str, Value]) -> Value:
    """Return the bytes that a tile of x, x2 or y has in L1. sizes: of the tile, by name."""
    plan = step.output if name == "y" else step.inputs[name == "x2"]
    tensor, layout = plan.place.tensor, plan.layout
    side = "y" if name == "y" else "x"
    h, w, c = (sizes[f"{side}_{axis}"] for axis in "hwc")
    if not layout.is_hwc:
        if isinstance(step.layer.op, Linear) and name != "y":
            return layout.size_bytes(tensor)
        return product(h, layout.padded_width(tensor.width), layout.padded_channels(c))
    if name == "y":
        return product(h, w, channel_bytes(c, tensor.bits))
    return product(h, w, input_channel_bytes(step.layer, tensor, c))
