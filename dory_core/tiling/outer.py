"""Outer tiles: the parts of a layer that does not fit L2 as a whole.

A layer is cut into stripes of output rows (of columns for 1-D data), whose input and output are
contiguous in memory, and into groups of output channels, whose constants are contiguous. Each
stripe x group is a *part* with a tile loop of its own. Section 4.2.1 of the TC 2021 paper.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, lcm
from typing import NamedTuple

from dory_core.ir import Layer, Tensor, pixel_bytes
from dory_core.ir.geometry import (
    Span,
    axis_span,
    channel_granule,
    is_channelwise,
    output_granule,
    own_channels,
    spans,
)
from dory_core.ir.layout import HWC, Layout
from dory_core.kernels.kernel import PLAIN, Traits

# Channels of a group: kernels work on four at a time.
GROUP_STEP = 4


class Split(NamedTuple):
    """How a layer is cut into stripes and groups of channels.

    Attributes:
        stripes: Number of stripes, at least 1.
        groups: Number of groups of channels, at least 1.
        stripes_outer: Whether the loop over stripes is the outer one, so that constants are fetched
            once per stripe. Otherwise the input is fetched once per group.
        step: Granule of output rows (or columns): every stripe but the last is a multiple of it, so
            that the link below can move it.
        group_step: Granule of channels of every group but the last.
        place: Index of the layer in its fused chain.
        chain: Length of the fused chain, 1 for a layer outside one.
        starts: The first output row (or column) of each stripe, in a fused chain, also in one of
            a single layer, where rows come from the caller or go there; empty elsewhere.
    """

    stripes: int = 1
    groups: int = 1
    stripes_outer: bool = True
    step: int = 1
    group_step: int = GROUP_STEP
    place: int = 0
    chain: int = 1
    starts: tuple[int, ...] = ()

    @property
    def takes_turns(self) -> bool:
        """Whether the parts of the layer wait for those of others, or for rows of the caller."""
        return bool(self.starts)


WHOLE = Split()


@dataclass(frozen=True, slots=True)
class Cuts:
    """The limits of how a layer may be cut.

    Attributes:
        whole: The uncut layer, with the granules of its cuts.
        stripes, groups: The largest number of each.
    """

    whole: Split
    stripes: int
    groups: int

    @classmethod
    def of(cls, layer: Layer, traits: Traits, in_place: bool, alignment: int = 1) -> Cuts:
        """Return the limits for a layer.

        Args:
            layer: The layer.
            traits: Those of its kernel.
            in_place: Whether the kernel works in place.
            alignment: Granule of the start of stripes, in bytes.
        """
        step, channels = stripe_step(layer, alignment, traits.output), group_step(traits.output)
        return cls(
            Split(step=step, group_step=channels),
            max_stripes(layer, step, traits),
            max_groups(layer, channels, in_place, traits),
        )


@dataclass(frozen=True, slots=True)
class Part:
    """One stripe x group of a layer.

    Attributes:
        stripe, group: Their numbers.
        stripe_span: Output and input rows (or columns).
        group_span: (first output channel, number of channels).
    """

    stripe: int
    group: int
    stripe_span: Span
    group_span: tuple[int, int]


#: The limits of a layer that is never cut.
UNCUT = Cuts(WHOLE, 1, 1)


def stripe_axis(layer: Layer) -> int | None:
    """Return the axis along which stripes are contiguous: 0 rows, 1 columns; None: no stripes."""
    if layer.op.reads_vector:
        return None
    if layer.output.height > 1:
        return 0 if layer.is_local(0) else None
    if layer.inputs[0].height == 1 and layer.output.width > 1 and layer.is_local(1):
        return 1
    return None


def stripe_total(layer: Layer) -> int:
    """Return the output rows (or columns) that stripes divide, 1 without stripes."""
    axis = stripe_axis(layer)
    return 1 if axis is None else (layer.output.height, layer.output.width)[axis]


def stripe_spans(layer: Layer, stripes: int, step: int = 1) -> tuple[Span, ...]:
    """Return the stripes with their inputs; all but the last are equal multiples of ``step``."""
    axis = stripe_axis(layer)
    if axis is None:
        height = layer.inputs[0].height
        return (Span(0, layer.output.height, 0, height),)
    total = stripe_total(layer)
    size = -(-total // min(stripes, total))
    size = min(total, -(-size // step) * step)
    return tuple(axis_span(layer, axis, start, count) for start, count in spans(total, size))


def stripes_of(layer: Layer, split: Split) -> tuple[Span, ...]:
    """Return the stripes of a split with their inputs."""
    axis = stripe_axis(layer)
    if axis is None or not split.starts:
        return stripe_spans(layer, split.stripes, split.step)
    ends = (*split.starts[1:], stripe_total(layer))
    pairs = zip(split.starts, ends, strict=True)
    return tuple(axis_span(layer, axis, start, end - start) for start, end in pairs)


def max_stripes(layer: Layer, step: int = 1, traits: Traits = PLAIN) -> int:
    """Return the largest number of stripes that are multiples of ``step``.

    It is 1 where rows (columns) of a tensor are not contiguous in the layouts of the kernel.
    """
    layouts = (*traits.inputs, traits.output)
    if any(one.channel_block for one in layouts):
        return 1
    if stripe_axis(layer) == 1 and not traits.is_hwc:
        return 1
    return -(-stripe_total(layer) // step)


def stripe_step(layer: Layer, alignment: int, layout: Layout = HWC) -> int:
    """Return the granule of output rows (or columns) of stripes that start aligned.

    Args:
        layer: The layer.
        alignment: Granule of the start of a stripe, in bytes.
        layout: The layout of the output.
    """
    axis = stripe_axis(layer)
    if axis is None:
        return 1
    return alignment // gcd(alignment, stripe_pitch(layer.output, axis, layout))


def group_spans(layer: Layer, groups: int, step: int = GROUP_STEP) -> tuple[tuple[int, int], ...]:
    """Return (first channel, count) of each group: balanced, in multiples of ``step``."""
    total = layer.output.channels
    if groups == 1:
        return ((0, total),)
    step = _least_group(layer, step)
    size = -(-total // groups)
    return spans(total, min(total, -(-size // step) * step))


def group_step(layout: Layout) -> int:
    """Return the granule of channels of groups for a layout of the output."""
    reversed_bytes = 1 if layout.channel_block else layout.reversed_bytes
    return lcm(GROUP_STEP, layout.channel_multiple, reversed_bytes)


def _least_group(layer: Layer, step: int) -> int:
    """Return the granule of channels of a group.

    A group has two filters or more where each has its own input channels, for a single one is no
    part of them.
    """
    granule = lcm(step, output_granule(layer))
    alone = is_channelwise(layer) and granule == channel_granule(layer)
    return granule * 2 if alone else granule


def max_groups(
    layer: Layer, step: int = GROUP_STEP, in_place: bool = False, traits: Traits = PLAIN
) -> int:
    """Return the largest number of channel groups; 1 without constants worth splitting.

    Args:
        layer: The layer.
        step: Granule of channels.
        in_place: Whether the kernel works in place, so that a group must be a range of bytes.
        traits: Those of the kernel. A group of a layer that keeps channels apart has slices of
            pixels.
    """
    total, least = layer.output.channels, _least_group(layer, step)
    if is_channelwise(layer):
        if in_place or traits.fetches or not traits.is_hwc or least >= total:
            return 1
        if layer.op.of_channels(least, total) is None:
            return 1
    elif not layer.op.has_channel_groups:
        return 1
    if in_place and (layer.output.height, layer.output.width) != (1, 1):
        return 1
    return -(-total // least)


def parts(layer: Layer, split: Split) -> Iterator[Part]:
    """Return the parts of a layer in order of execution.

    Args:
        layer: The layer.
        split: How it is cut.
    """
    stripes = tuple(enumerate(stripes_of(layer, split)))
    groups = tuple(enumerate(group_spans(layer, split.groups, split.group_step)))
    if split.stripes_outer:
        for s, stripe in stripes:
            for g, group in groups:
                yield Part(s, g, stripe, group)
    else:
        for g, group in groups:
            for s, stripe in stripes:
                yield Part(s, g, stripe, group)


def stripe_pitch(tensor: Tensor, axis: int, layout: Layout = HWC) -> int:
    """Return the bytes from one row (axis 0) or column (axis 1) to the next of a tensor."""
    if not layout.is_hwc:
        return int(layout.box_bytes(tensor, tensor.channels, 1))
    pixel = pixel_bytes(tensor.channels, tensor.bits)
    return tensor.width * pixel if axis == 0 else pixel


def input_range(layer: Layer, operand: int, stripe: Span, layout: Layout = HWC) -> tuple[int, int]:
    """Return (first byte, bytes) of an input that a stripe reads.

    It is all of the input without stripes, or where each row of the output needs all of it.

    Args:
        layer: The layer.
        operand: Number of the input.
        stripe: The stripe.
        layout: The layout of the input.
    """
    tensor, axis = layer.inputs[operand], stripe_axis(layer)
    if axis is None or layout.channel_block or layer.whole_axes(operand)[axis + 1]:
        return 0, layout.size_bytes(tensor)
    pitch = stripe_pitch(tensor, axis, layout)
    return stripe.x_start * pitch, stripe.x_size * pitch


def output_range(layer: Layer, stripe: Span, layout: Layout = HWC) -> tuple[int, int]:
    """Return (first byte, bytes) of the output rows that a stripe writes."""
    tensor, axis = layer.output, stripe_axis(layer)
    if axis is None or layout.channel_block:
        return 0, layout.size_bytes(tensor)
    pitch = stripe_pitch(tensor, axis, layout)
    return stripe.start * pitch, stripe.size * pitch


def input_channel(layer: Layer, operand: int, channel: int) -> int:
    """Return the first channel of an input that a group reads.

    Args:
        layer: The layer.
        operand: Number of the input.
        channel: The first output channel of the group.
    """
    if not is_channelwise(layer) or layer.whole_axes(operand)[0]:
        return 0
    return own_channels(layer, channel)


def channel_offset(tensor: Tensor, channel: int, layout: Layout = HWC) -> int:
    """Return the offset of the first channel of a group in a tensor, in bytes."""
    if layout.channel_block:
        return int(layout.box_bytes(tensor, channel, tensor.height))
    return channel * tensor.bits // 8
