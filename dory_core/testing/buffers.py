"""The memory of a kernel under test: buffers and numbers of one tile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dory_core.ir import Tensor
from dory_core.ir.geometry import Span, Tile, read_span
from dory_core.ir.layout import Layout
from dory_core.ir.packing import pack_elements
from dory_core.kernels import call
from dory_core.kernels.call import OPERANDS

if TYPE_CHECKING:
    from dory_core.testing.kernel_cases import KernelCase

__all__ = [
    "NUMBERS",
    "POINTERS",
    "WRITTEN",
    "Buffers",
    "TileSpans",
    "output_buffer",
    "output_values",
    "tile_buffers",
    "tile_numbers",
]

Values = npt.NDArray[np.int64]
Buffers = dict[str, npt.NDArray[Any]]

_PITCHES = ("x_pitch", "y_pitch", *(f"{name}_pitch" for name in OPERANDS[1:]))
_IN_L2 = tuple(f"l2_{name}" for name in OPERANDS)
#: Arguments of ``void call_N(void *const *pointers, const int32_t *numbers)``, in this order.
POINTERS = (
    *("x", "x2", "y", "weights", "mul", "add", "bias", "psum", "scratch"),
    *OPERANDS[2:],
    *_IN_L2,
)
NUMBERS = (
    *("x_h", "x_w", "x_c", "y_h", "y_w", "y_c"),
    *("pad_top", "pad_left", "pad_bottom", "pad_right", "first", "last"),
    *("x_row", "x_column", "x_channel", "y_row", "y_column", "y_channel"),
    *_PITCHES,
)
#: Buffers that a kernel may write.
WRITTEN = ("y", "psum", "scratch")
#: Content of memory that has not been written.
_JUNK = 0xB5

assert {*call.POINTERS} <= {*POINTERS} and {*call.SIZES} <= {*NUMBERS}


@dataclass(frozen=True, slots=True)
class TileSpans:
    """Position of a tile: output channels, rows, columns, and input channels (start, count)."""

    c: Span
    h: Span
    w: Span
    start: int
    count: int


def tile_numbers(case: KernelCase, at: TileSpans) -> dict[str, int]:
    """Return the values of NUMBERS for a tile."""
    layer, traits = case.layer, case.kernel.traits(case.layer)
    h, w = at.h, at.w
    numbers = {
        "x_h": h.x_size,
        "x_w": w.x_size,
        "x_c": at.count,
        "y_h": h.size,
        "y_w": w.size,
        "y_c": at.c.size,
        "pad_top": h.pad_before,
        "pad_left": w.pad_before,
        "pad_bottom": h.pad_after,
        "pad_right": w.pad_after,
        "x_row": h.x_start,
        "x_column": w.x_start,
        "x_channel": at.start,
        "y_row": h.start,
        "y_column": w.start,
        "y_channel": at.c.start,
        "first": int(at.start == 0 or not traits.accumulates),
        "last": int(at.start + at.count == case.channels or not traits.accumulates),
    }
    if traits.in_place and not layer.op.reads_vector:  # it has all rows and columns
        x = layer.inputs[0]
        numbers |= {"x_h": x.height - h.x_start, "x_w": x.width, "x_column": 0}
    pitches = dict.fromkeys(_PITCHES, 0)
    for operand, layout in enumerate(traits.input_layouts(layer)):
        pitches[f"{OPERANDS[operand]}_pitch"] = _input_pitch(case, at, operand, layout)
    output = replace(layer.output, channels=at.c.size, width=_width(layer.output, at.w, traits))
    pitches["y_pitch"] = traits.output.strides(output)[1]
    return numbers | pitches


def _width(tensor: Tensor, w: Span, traits: Any) -> int:
    """Return the columns of the output that the kernel computes."""
    return w.size if traits.output.is_hwc and not traits.in_place else tensor.width


def _input_pitch(case: KernelCase, at: TileSpans, operand: int, layout: Layout) -> int:
    layer, traits = case.layer, case.kernel.traits(case.layer)
    tensor = layer.inputs[operand]
    if layer.op.reads_vector:
        if not layout.is_hwc:
            return layout.size_bytes(tensor)
        return len(_linear_input(case, at, case.inputs[operand], tensor).reshape(-1))
    tile = _input_tile(case, at, operand, layout)
    return tile.width * (tensor.bits // 8) if traits.planar else layout.strides(tile)[1]


def _input_tile(case: KernelCase, at: TileSpans, operand: int, layout: Layout) -> Tensor:
    """Return the tensor of a tile of an operand."""
    tensor, in_place = case.layer.inputs[operand], case.kernel.traits(case.layer).in_place
    c, h, w = case.layer.whole_axes(operand)
    whole = w or in_place or not layout.is_hwc
    (_, rows), (_, columns) = (read_span(case.layer, operand, axis) for axis in (at.h, at.w))
    return replace(
        tensor,
        channels=tensor.channels if c else at.count,
        height=tensor.height if h else rows,
        width=tensor.width if whole else columns,
    )


def tile_buffers(case: KernelCase, at: TileSpans, tile: Tile) -> Buffers:
    """Return inputs and constants of a tile, each in a memory block of exactly its size."""
    return _inputs(case, at) | _constants(case, tile, at)


def _inputs(case: KernelCase, at: TileSpans) -> Buffers:
    """Return the input tiles with channels (of a Linear: elements) start:start + count."""
    layer, traits = case.layer, case.kernel.traits(case.layer)
    buffers: Buffers = {}
    layouts = traits.input_layouts(layer)
    for operand, (values, tensor) in enumerate(zip(case.inputs, layer.inputs, strict=True)):
        name, layout = OPERANDS[operand], layouts[operand]
        if layer.op.reads_vector and layout.is_hwc:
            buffers[name] = _exact(_linear_input(case, at, values, tensor))
            continue
        box = _box(case, at, operand, values)
        if layout.is_hwc:
            box = box if traits.planar else box.transpose(1, 2, 0)
            buffers[name] = _exact(pack_elements(box, tensor))
        else:
            c, h, w = box.shape
            buffers[name] = _laid_out(box, layout, replace(tensor, channels=c, height=h, width=w))
    return buffers


def _linear_input(case: KernelCase, at: TileSpans, values: Values, tensor: Tensor) -> Any:
    box = values.transpose(1, 2, 0).reshape(-1)[at.start : at.start + at.count]
    if tensor.channels * tensor.bits % 8:  # every pixel starts on a byte
        box = box.reshape(-1, tensor.channels)
    return pack_elements(box, tensor)


def _box(case: KernelCase, at: TileSpans, operand: int, values: Values) -> Values:
    """Return the part of an operand that the kernel reads, (C, H, W)."""
    traits = case.kernel.traits(case.layer)
    all_c, all_h, all_w = case.layer.whole_axes(operand)
    if case.layer.op.reads_vector:
        return values
    layout = traits.input_layouts(case.layer)[operand]
    all_w = all_w or traits.in_place or not layout.is_hwc
    (row, rows), columns = (read_span(case.layer, operand, axis) for axis in (at.h, at.w))
    height = values.shape[1] - row if traits.in_place else rows
    axes = (at.start, at.count), (row, height), columns
    return values[
        tuple(
            slice(None) if whole else slice(first, first + size)
            for whole, (first, size) in zip((all_c, all_h, all_w), axes, strict=True)
        )
    ]


def _laid_out(values: Values, layout: Layout, tensor: Tensor) -> npt.NDArray[Any]:
    """Return the bytes in a layout; padding holds random values where the layout allows it."""
    data = np.frombuffer(layout.pack(values, tensor), np.uint8).copy()
    if not layout.clean:
        padding = np.ones(len(data), bool)
        padding[layout.offsets(tensor)] = False
        data[padding] = _JUNK
    return _exact(data)


def output_buffer(case: KernelCase, at: TileSpans) -> npt.NDArray[np.uint8]:
    """Return the memory of an output tile, with arbitrary content."""
    tensor, layout = _output_tile(case, at)
    return np.full(layout.size_bytes(tensor), _JUNK, np.uint8)


def output_values(case: KernelCase, at: TileSpans, data: npt.NDArray[np.uint8]) -> Values:
    """Return the values (c, h, w) of an output tile; check that clean padding is zero."""
    tensor, layout = _output_tile(case, at)
    stored = data.tobytes()
    values = layout.unpack(stored, tensor)
    dirty = layout.clean and layout.pack(values, tensor) != stored
    assert not dirty, f"padding of the output is not zero: {case.label}"
    return values


def _output_tile(case: KernelCase, at: TileSpans) -> tuple[Tensor, Layout]:
    layout, y = case.kernel.traits(case.layer).output, case.layer.output
    return replace(y, channels=at.c.size, height=at.h.size, width=at.w.size), layout


def _constants(case: KernelCase, tile: Tile, at: TileSpans) -> Buffers:
    """Return the parts of the weight block of a tile, each in a memory block of its own."""
    channels = (at.c.start, at.c.start + at.c.size)
    block = case.kernel.weight_block(case.layer, channels, (at.start, at.start + at.count))
    expected = case.kernel.weight_bytes(case.layer, tile)
    given = 0 if block is None else len(block.data)
    assert given == expected, f"weight_bytes {expected}, block of {given}: {case.label}"
    if block is None:
        return {}
    assert expected % 8 == 0, f"a block of {expected} bytes: {case.label}"
    image = np.frombuffer(block.data, np.uint8)
    parts = sorted(block.parts.items(), key=lambda part: part[1])
    ends = [*(offset for _, offset in parts[1:]), len(image)]
    buffers: Buffers = {}
    for (name, offset), end in zip(parts, ends, strict=True):
        assert offset % 4 == 0, f"{name} at byte {offset} of its block: {case.label}"
        buffers[name] = _exact(image[offset:end])
    return buffers


def _exact(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a copy in a memory block of exactly its size."""
    return np.ascontiguousarray(array).copy()
