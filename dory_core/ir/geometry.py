"""Which input box an output box needs, as the operator of a layer says.

Solver, code generator, simulator and estimator share it. The sizes of a :class:`Tile` are numbers
or expressions; the spans of an axis are numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import gcd, lcm

from dory_core.expr import Number, ceil_div, lookup
from dory_core.ir.graph import Layer
from dory_core.ir.kinds.operator import Places
from dory_core.ir.kinds.window import Window
from dory_core.ir.tensor import HALVES_TOGETHER, Tensor, pixel_bytes

__all__ = ["Extent", "extent", "make_tile", "tensor_bytes"]


@dataclass(frozen=True, slots=True)
class Span:
    """One tile along one axis.

    Attributes:
        start, size: Range of output elements.
        x_start, x_size: Range of input elements, clipped at the border of the tensor.
        pad_before, pad_after: Rows or columns of padding that clipping took away; one of them is
            negative where all windows lie in the padding and one unused element is read.
    """

    start: int
    size: int
    x_start: int
    x_size: int
    pad_before: int = 0
    pad_after: int = 0


@dataclass(frozen=True, slots=True)
class Tile:
    """Sizes of one tile: the box of output it computes and the box of input it reads.

    Attributes:
        c_out, h, w: Output box; for layers that keep channels apart (depthwise, pools, pairs) c_out
            is also the input's.
        c_in: Input channels of this tile.
        x_h, x_w: Input rows and columns (largest over the image).
        last: Sizes of the border tile (the ragged last one along every axis), None in a border tile
            itself.
    """

    c_out: Number
    h: Number
    w: Number
    c_in: Number
    x_h: Number
    x_w: Number
    last: Tile | None = None


def is_channelwise(layer: Layer) -> bool:
    """Return True when an output channel depends only on its own group of input channels."""
    return layer.op.channel_groups(layer.inputs[0], layer.output) is not None


def channel_granule(layer: Layer) -> int:
    """Return the number of output channels that a tile can only take together (one group)."""
    groups = layer.op.channel_groups(layer.inputs[0], layer.output)
    return 1 if groups is None else layer.output.channels // groups


def input_channels(layer: Layer) -> int:
    """Return the input channels that can be tiled: all elements where it is read as one vector."""
    x = layer.inputs[0]
    return x.elements if layer.op.reads_vector else x.channels


@dataclass(frozen=True, slots=True)
class Extent:
    """Full sizes of the tiled axes of a layer: the largest tile.

    Attributes:
        c_out: Output channels.
        h, w: Output rows and columns.
        c_in: Input channels; elements where the input is read as one vector.
    """

    c_out: int
    h: int
    w: int
    c_in: int


def extent(layer: Layer) -> Extent:
    """Return the sizes of the axes that tiling splits."""
    y = layer.output
    return Extent(y.channels, y.height, y.width, input_channels(layer))


def _input_size(layer: Layer, size: Number, axis: int) -> Number:
    """Return the largest input size that tiles of ``size`` outputs read along axis 0 (h) or 1 (w).

    It is exact, clipping at both borders included, and grows with ``size``.
    """
    source = layer.op.sliding or layer.places(axis)
    if source is None:
        return size
    x, y = layer.inputs[0], layer.output
    full, total = (x.height, y.height) if axis == 0 else (x.width, y.width)
    table = _input_sizes(source, axis, full, total)
    return lookup("x_h" if axis == 0 else "x_w", table, size)


@cache
def _input_sizes(source: Window | Places, axis: int, full: int, total: int) -> tuple[int, ...]:
    """Return the largest input size for every output size 0..total of one axis."""
    sizes = [0]
    for size in range(1, total + 1):
        largest = 1
        for start in range(0, total, size):
            first, end = _reads(source, axis, start, min(size, total - start))
            largest = max(largest, min(end, full) - max(first, 0))
        sizes.append(max(largest, sizes[-1]))
    return tuple(sizes)


def _reads(window: Window | Places, axis: int, start: int, size: int) -> tuple[int, int]:
    """Return the input range of ``size`` outputs from ``start``, beyond the borders as well."""
    if isinstance(window, tuple):
        places = window[start : start + size]
        return min(first for first, _ in places), max(last for _, last in places) + 1
    first = start * window.strides[axis] - window.pads[axis]
    reach = (window.kernel[axis] - 1) * window.dilations[axis] + 1
    return first, first + (size - 1) * window.strides[axis] + reach


def make_tile(
    layer: Layer, c_out: Number, h: Number, w: Number, c_in: Number | None = None
) -> Tile:
    """Return the Tile of the given output sizes.

    Args:
        layer: The layer.
        c_out: Output channels.
        h: Output rows.
        w: Output columns.
        c_in: Input channels, None: all that c_out needs. For grouped layers it follows from c_out
            and is ignored.
    """
    full = extent(layer)
    if is_channelwise(layer):
        channels = c_out // channel_granule(layer) * (full.c_in // _groups(layer))
    else:
        channels = full.c_in if c_in is None else c_in
    return Tile(c_out, h, w, channels, _input_size(layer, h, 0), _input_size(layer, w, 1))


def with_border(layer: Layer, tile: Tile) -> Tile:
    """Return ``tile`` with ``last`` set to the sizes of the border tile."""
    full = extent(layer)

    def rest(total: int, size: Number) -> Number:
        return total - (ceil_div(total, size) - 1) * size

    c_in = None if is_channelwise(layer) else rest(full.c_in, tile.c_in)
    last = make_tile(
        layer, rest(full.c_out, tile.c_out), rest(full.h, tile.h), rest(full.w, tile.w), c_in
    )
    return replace(tile, last=last)


def _groups(layer: Layer) -> int:
    return layer.op.channel_groups(layer.inputs[0], layer.output) or 1


def output_granule(layer: Layer) -> int:
    """Return the number that output-channel tiles are multiples of (the last one excepted).

    It is one group of a grouped Conv, whole bytes of sub-byte tensors, and fours of halves.
    """
    granule = channel_granule(layer)
    for step in (_together(layer.output), _input_step(layer)):
        granule = lcm(granule, step)
    return granule


def _together(tensor: Tensor) -> int:
    """Return the channels of a tensor that only move together."""
    return HALVES_TOGETHER if tensor.halves else 8 // min(tensor.bits, 8)


def _input_step(layer: Layer) -> int:
    """Return the output channels whose input channels, kept apart, fill whole bytes."""
    if not is_channelwise(layer):
        return 1
    per_group = extent(layer).c_in // _groups(layer)
    bytewise = max(_together(t) for t in layer.inputs)
    return channel_granule(layer) * (bytewise // gcd(bytewise, per_group))


def input_granule(layer: Layer) -> int:
    """Return the number that input-channel tiles are multiples of (the last one excepted).

    A Linear whose sub-byte pixels end inside a byte can only be split between pixels.
    """
    x = layer.inputs[0]
    together = _together(x)
    if layer.op.reads_vector and x.channels % together:
        return x.channels
    return together


def input_bytes(layer: Layer, tile: Tile, operand: int = 0) -> Number:
    """Return the bytes of one input tile in L1 (one buffer, without double buffering)."""
    x, tile = layer.inputs[operand], operand_tile(layer, tile, operand)
    if layer.op.reads_vector:
        if x.bits < 8 and x.channels * x.bits % 8:
            return tile.c_in // x.channels * pixel_bytes(x.channels, x.bits)
        return pixel_bytes(tile.c_in, x.bits)
    return tile.x_h * tile.x_w * pixel_bytes(tile.c_in, x.bits)


def operand_tile(layer: Layer, tile: Tile, operand: int) -> Tile:
    """Return ``tile`` with the sizes of the box that it reads of an operand."""
    c, h, w = layer.whole_axes(operand)
    follows = layer.op.follows_output(operand)
    if not (c or h or w or follows):
        return tile
    x = layer.inputs[operand]
    rows, columns = (tile.h, tile.w) if follows else (tile.x_h, tile.x_w)
    return replace(
        tile,
        c_in=x.channels if c else tile.c_in,
        x_h=x.height if h else rows,
        x_w=x.width if w else columns,
        last=None,
    )


def read_span(layer: Layer, operand: int, span: Span) -> tuple[int, int]:
    """Return (start, size) of the rows or columns of an input that a tile reads."""
    if layer.op.follows_output(operand):
        return span.start, span.size
    return span.x_start, span.x_size


def output_bytes(layer: Layer, tile: Tile) -> Number:
    """Return the bytes of the output tile in L1 (one buffer)."""
    return tile.h * tile.w * pixel_bytes(tile.c_out, layer.output.bits)


def tensor_bytes(layer: Layer, tile: Tile) -> Number:
    """Return the bytes of the tiles of all inputs and of the output in L1 (one buffer each)."""
    used = output_bytes(layer, tile)
    for operand in range(len(layer.inputs)):
        used = used + input_bytes(layer, tile, operand)
    return used


def partial_sum_bytes(tile: Tile) -> Number:
    """Return the bytes of the int32 partial sums of a tile whose input channels are split."""
    return 4 * tile.h * tile.w * tile.c_out


def spans(total: int, size: int) -> tuple[tuple[int, int], ...]:
    """Return (start, size) of the tiles of ``size`` that cover ``total``, the last one ragged."""
    return tuple((start, min(size, total - start)) for start in range(0, total, size))


def axis_spans(layer: Layer, axis: int, size: int) -> tuple[Span, ...]:
    """Return the tiles along axis 0 (h) or 1 (w) of output size ``size``, with their input."""
    y: Tensor = layer.output
    total = y.height if axis == 0 else y.width
    return tuple(axis_span(layer, axis, start, count) for start, count in spans(total, size))


def axis_span(layer: Layer, axis: int, start: int, size: int) -> Span:
    """Return the tile of some outputs along an axis.

    Args:
        layer: The layer.
        axis: 0 rows, 1 columns.
        start: The first output.
        size: Number of outputs.
    """
    source = layer.op.sliding or layer.places(axis)
    if source is None:
        return Span(start, size, start, size)
    full = layer.inputs[0].height if axis == 0 else layer.inputs[0].width
    first, end = _reads(source, axis, start, size)
    x_start, x_end = max(first, 0), min(end, full)
    if x_end <= x_start:  # a window that lies in the padding: read one element, use none
        x_start = min(x_start, full - 1)
        x_end = x_start + 1
    return Span(start, size, x_start, x_end - x_start, x_start - first, end - x_end)


def channel_spans(layer: Layer, size: int, total: int | None = None) -> tuple[Span, ...]:
    """Return the tiles of output channels; for grouped layers with their input channels.

    Args:
        layer: The layer.
        size: Channels of a tile.
        total: Number of channels; None: all of the layer.
    """
    full = extent(layer)
    parts = spans(full.c_out if total is None else total, size)
    if is_channelwise(layer):
        return tuple(
            Span(start, count, own_channels(layer, start), own_channels(layer, count))
            for start, count in parts
        )
    return tuple(Span(start, count, 0, full.c_in) for start, count in parts)


def own_channels(layer: Layer, channels: int) -> int:
    """Return how many input channels belong to output channels of whole groups."""
    return channels // channel_granule(layer) * (extent(layer).c_in // _groups(layer))


def input_spans(layer: Layer, size: int) -> tuple[Span, ...]:
    """Return the tiles of input channels of ``size``, the last one ragged."""
    return tuple(Span(a, n, a, n) for a, n in spans(extent(layer).c_in, size))


def evaluate_tile(tile: Tile, value: Callable[[Number], Number]) -> Tile:
    """Return ``tile`` with ``value`` applied to every size, border tile included."""
    last = evaluate_tile(tile.last, value) if tile.last is not None else None
    return Tile(
        value(tile.c_out),
        value(tile.h),
        value(tile.w),
        value(tile.c_in),
        value(tile.x_h),
        value(tile.x_w),
        last,
    )
