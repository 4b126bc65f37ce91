"""A part of a layer as a layer of its own: what is tiled, and the tile loops of all parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from dory_core.ir import Layer, Tensor, ops
from dory_core.ir.geometry import (
    Span,
    Tile,
    axis_span,
    channel_spans,
    is_channelwise,
    own_channels,
    spans,
)
from dory_core.schedule.loops import Buffering, LoopOrder, Schedule, make_schedule
from dory_core.tiling.outer import Part, Split, group_spans, stripe_axis, stripes_of


def largest_part(layer: Layer, split: Split) -> Layer:
    """Return a layer of the size of the largest part, for tiling.

    It has the constants of the whole layer: how a kernel stores them depends on all values. A
    stripe inside the image reads no padding at its upper and lower edge, so the layer has no
    padding there, and the input rows of such a stripe.

    Args:
        layer: The layer.
        split: How it is cut.
    """
    stripes = stripes_of(layer, split)
    groups = group_spans(layer, split.groups, split.group_step)
    if len(groups) > 1:
        layer = _of_channels(layer, max(count for _, count in groups))
    if len(stripes) > 1:
        layer = _inner_rows(layer, max(s.size for s in stripes), max(s.x_size for s in stripes))
    return layer


def _of_channels(layer: Layer, count: int) -> Layer:
    """Return a layer with fewer output channels, and their inputs where it keeps them apart."""
    total, inputs, kind = layer.output.channels, layer.inputs, layer.op
    if is_channelwise(layer):
        own = own_channels(layer, count)
        kind = kind.of_channels(count, total) or kind
        inputs = tuple(
            tensor if layer.whole_axes(operand)[0] else replace(tensor, channels=own)
            for operand, tensor in enumerate(inputs)
        )
    return replace(layer, op=kind, inputs=inputs, output=replace(layer.output, channels=count))


def _inner_rows(layer: Layer, rows: int, x_rows: int) -> Layer:
    axis = stripe_axis(layer) or 0
    kind = layer.op
    if (window := kind.sliding) is not None:
        kind = kind.with_sliding(_without_pads(window, axis))
        reach = (window.kernel[axis] - 1) * window.dilations[axis] + 1
        x_rows = max(x_rows, (rows - 1) * window.strides[axis] + reach)
    inputs = tuple(
        tensor if layer.whole_axes(operand)[axis + 1] else _with_rows(tensor, axis, x_rows)
        for operand, tensor in enumerate(layer.inputs)
    )
    output = _with_rows(layer.output, axis, rows)
    return replace(layer, op=kind, inputs=inputs, output=output)


def _with_rows(tensor: Tensor, axis: int, rows: int) -> Tensor:
    return replace(tensor, height=rows) if axis == 0 else replace(tensor, width=rows)


def _without_pads(window: ops.Window, axis: int) -> ops.Window:
    top, left, bottom, right = window.pads
    return replace(window, pads=(0, left, 0, right) if axis == 0 else (top, 0, bottom, 0))


def part_schedules(
    layer: Layer,
    todo: Iterable[Part],
    tile: Tile,
    buffering: Buffering,
    order: LoopOrder,
    has_weights: bool,
) -> tuple[Schedule, ...]:
    """Return the tile loops of parts of a layer.

    Positions are relative to the data of each part: inputs and outputs start at their stripe,
    output channels at their group, input channels at those of the group, or at 0.

    Args:
        layer: The layer.
        todo: Its parts.
        tile: The tile of :func:`largest_part`.
        buffering: Copies of the buffers.
        order: Of the loops.
        has_weights: Whether the kernel has constants to load.
    """
    whole = make_schedule(layer, tile, buffering, order, has_weights)
    axis = stripe_axis(layer)

    @cache
    def along(stripe: Span) -> tuple[Span, ...]:
        return tuple(
            _shift(axis_span(layer, axis or 0, stripe.start + start, size), stripe)
            for start, size in spans(stripe.size, tile.w if axis else tile.h)
        )

    @cache
    def channels(count: int) -> tuple[Span, ...]:
        return channel_spans(layer, tile.c_out, count)

    def of(part: Part) -> Schedule:
        return Schedule(
            order,
            channels(part.group_span[1]),
            along(part.stripe_span) if axis == 0 else whole.h,
            along(part.stripe_span) if axis == 1 else whole.w,
            whole.c_in,
            buffering,
            whole.is_channelwise,
            has_weights,
        )

    return tuple(map(of, todo))


def _shift(span: Span, stripe: Span) -> Span:
    return replace(span, start=span.start - stripe.start, x_start=span.x_start - stripe.x_start)
