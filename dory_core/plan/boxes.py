"""The copies of a layer's tiles: which box of a tensor in L2, in which layout, to where in L1."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dory_core.errors import DoryError
from dory_core.ir import pixel_bytes
from dory_core.ir.geometry import Tile
from dory_core.kernels.call import OPERANDS
from dory_core.plan import Form, LayerStep, OperandPlan
from dory_core.plan.operations import Copy, Value
from dory_core.plan.spans import Tiles, product, table
from dory_core.schedule.boxes import tile_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """A box of a tensor in L2.

    Attributes:
        offset: Byte of its first element in the arena.
        h, w, c: Its size, padding of the layout included.
        c_bytes: Bytes of c channels of a pixel.
        pixel, row: Bytes from pixel to pixel and from row to row of the whole tensor, or of a block
            of its channels.
        whole_rows: The box takes all columns.
        blocks, block: How many blocks of channels it has, and bytes from one to the next in the
            whole tensor.
        whole_blocks: The box takes all rows.
    """

    offset: Value
    h: Value
    w: Value
    c: Value
    c_bytes: Value
    pixel: int
    row: int
    whole_rows: bool = True
    blocks: Value = 1
    block: int = 0
    whole_blocks: bool = False


def operand_plan(step: LayerStep, name: str) -> OperandPlan:
    """Return how x, x2 or y lies in L2 and moves."""
    return step.output if name == "y" else step.inputs[OPERANDS.index(name)]


def shaped(copy: Copy, plan: OperandPlan, box: Box) -> Copy:
    """Return the copy of a box, dense in L1.

    The length of an only row is rounded up where the DMA moves multiples.
    """
    size: Value
    if plan.form == Form.BLOCKS:
        size = product(box.h, box.row)
        if box.whole_blocks:
            copy = replace(copy, shape=(product(box.blocks, size), 1, 1))
        else:
            shape = (size, box.blocks, 1)
            copy = replace(copy, shape=shape, l1_strides=(size, 0), l2_strides=(box.block, 0))
    elif plan.form == Form.ROWS:
        size = product(box.w, box.pixel)
        if box.whole_rows:
            copy = replace(copy, shape=(product(box.h, size), 1, 1))
        else:
            shape = (size, box.h, 1)
            copy = replace(copy, shape=shape, l1_strides=(size, 0), l2_strides=(box.row, 0))
    else:
        size, first = box.c_bytes, box.c_bytes
        if plan.form == Form.CHANNELS:
            bits = plan.place.tensor.bits
            if bits < 8:
                raise DoryError(f"channels of {bits} bits cannot be told apart by the DMA")
            size, first = bits // 8, 1
            plane = product(box.h, box.w, size)
            copy = replace(
                copy, element_bytes=size, channels=box.c, l1_channel=plane, l2_channel=size
            )
        copy = replace(
            copy,
            shape=(first, box.w, box.h),
            l1_strides=(size, product(box.w, size)),
            l2_strides=(box.pixel, box.row),
        )
    multiple, (n0, n1, n2) = copy.carriage.multiple, copy.shape
    if multiple > 1:
        copy = replace(copy, shape=((n0 + (multiple - 1)) // multiple * multiple, n1, n2))
    return copy


def operand_box(step: LayerStep, tiles: Tiles, name: str) -> Box:
    """Return the box of x, x2 or y that a tile reads or writes.

    An input that is read as a vector is one pixel of all elements.
    """
    plan = operand_plan(step, name)
    tensor, layout, is_output = plan.place.tensor, plan.layout, name == "y"
    operand = 0 if is_output else OPERANDS.index(name)
    starts = [part.output if is_output else part.inputs[operand] for part in step.parts]
    base = table(name, starts, tiles.part)
    vector = step.layer.op.reads_vector and not is_output
    if vector and not layout.is_hwc:
        size = layout.size_bytes(tensor)
        return Box(base, 1, 1, 1, size, size, size)
    side = "" if is_output else "x_"
    place = "" if is_output or step.layer.op.follows_output(operand) else "x_"
    axes = (tiles.axes["h"], tiles.axes["w"], tiles.axes["o"] if is_output else tiles.x_channels)
    sides = (place, place, side)
    h_start, w_start, c_start = (
        axis.get(f"{one}start") for axis, one in zip(axes, sides, strict=True)
    )
    h, w, c = (axis.get(f"{one}size") for axis, one in zip(axes, sides, strict=True))
    if not is_output:
        all_c, all_h, all_w = step.layer.whole_axes(operand)
        h_start, h = (0, tensor.height) if all_h else (h_start, h)
        # A kernel in place gets whole rows, except for columns that are cut into parts.
        all_w = all_w or (step.in_place and not vector and not cuts_columns(step, tiles))
        w_start, w = (0, tensor.width) if all_w else (w_start, w)
        c_start, c = (0, tensor.channels) if all_c else (c_start, c)
    pixel, row, block = layout.strides(tensor)
    if layout.is_hwc:
        width = tensor.width
        if vector:
            width, pixel, row = 1, tensor.size_bytes, tensor.size_bytes
        offset = base + h_start * row + w_start * pixel + _channel_bytes(step, name, c_start)
        return Box(offset, h, w, c, _channel_bytes(step, name, c), pixel, row, _is(w, width))
    c, width = layout.padded_channels(c), layout.padded_width(tensor.width)
    if not block:
        return Box(base + h_start * row + c_start, h, width, c, c, pixel, row)
    return Box(
        base + c_start * (block // pixel) + h_start * row,
        h,
        width,
        c,
        c,
        pixel,
        row,
        blocks=c // pixel,
        block=block,
        whole_blocks=_is(h, tensor.height),
    )


def cuts_columns(step: LayerStep, tiles: Tiles) -> bool:
    """Return True when each part of a layer in place has columns of its own, of the only row.

    Parts that are groups of channels have all columns.
    """
    columns = tiles.axes["w"].get("size")
    return step.in_place and len(step.parts) > 1 and not _is(columns, step.layer.output.width)


def _channel_bytes(step: LayerStep, name: str, channels: Value) -> Value:
    """Return the bytes of some channels of a pixel of an HWC tensor, of all pixels of a vector."""
    if name != "y" and step.layer.op.reads_vector:
        return operand_bytes(step, name, Tile(channels, 1, 1, channels, 1, 1))
    return pixel_bytes(channels, operand_plan(step, name).place.tensor.bits)


def _is(size: Value, whole: int) -> bool:
    """Return True when a size is that of the whole tensor in all tiles."""
    return isinstance(size, int) and size == whole


def operand_bytes(step: LayerStep, name: str, tile: Tile) -> Value:
    """Return the bytes that a tile of an operand has in L1."""
    found: Value = tile_bytes(step.layer, name, operand_plan(step, name).layout, tile)
    return found
