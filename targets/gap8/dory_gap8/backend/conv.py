"""Dense convolutions: the im2col kernel for any filter, and the one for 1x1 filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Constraint,
    FunctionCall,
    Layer,
    Number,
    Rejection,
    geometry,
    ops,
    size,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.dense import DenseKernel, reject_weighted, weighted_epilogue
from dory_gap8.backend.instance import Arguments, call_text, tile_arguments
from dory_gap8.backend.packing import packed_bytes, per_byte

if TYPE_CHECKING:
    from dory_core.api import Tile


def geometry_arguments(window: ops.Window) -> Arguments:
    """Return the arguments that the shape of a window fixes."""
    return (
        ("kernel_h", window.kernel[0]),
        ("kernel_w", window.kernel[1]),
        ("stride_h", window.strides[0]),
        ("stride_w", window.strides[1]),
        ("dilation_h", window.dilations[0]),
        ("dilation_w", window.dilations[1]),
    )


class ConvolutionKernel(DenseKernel):
    """What both dense convolutions share: weights in rows of taps and channels (OHWI)."""

    template = "conv"

    def filter_array(self, layer: Layer, c_in: tuple[int, int]) -> npt.NDArray[Any]:
        """Rows of (tap row, tap column, input channel); between merged groups there are zeros."""
        conv = layer.of(ops.Conv)
        weights = conv.weights.values
        outputs, fan_in, *kernel = weights.shape
        if conv.groups > 1:
            merged = merged_groups(layer)
            group = np.arange(outputs) // (outputs // conv.groups) % merged
            image = np.zeros((outputs, merged, fan_in, *kernel), dtype=np.int64)
            image[np.arange(outputs), group] = weights
            weights = image.reshape(outputs, merged * fan_in, *kernel)
        else:
            weights = weights[:, c_in[0] : c_in[1]]
        rows: npt.NDArray[Any] = np.moveaxis(weights, 1, 3)
        return rows.reshape(outputs, kernel[0] * kernel[1], -1)

    def column_shape(self, layer: Layer, tile: Tile) -> tuple[Number, Number]:
        """Taps and input channels, those of a group."""
        kernel_h, kernel_w = layer.window.kernel
        group_in, _ = group_channels(layer)
        return kernel_h * kernel_w, group_in or tile.c_in

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        group_in, group_out = group_channels(layer)
        arguments = (
            *tile_arguments("x", "weights", "y"),
            *self.partial_arguments(),
            *self._gather_arguments(layer),
            *tile_arguments("x_h", "x_w", "x_c", "y_h", "y_w", "y_c"),
            ("group_in", group_in or size("x_c")),
            ("group_out", group_out or size("y_c")),
            *geometry_arguments(layer.window),
            ("requant", weighted_epilogue(layer).struct()),
        )
        return call_text(self.symbol(layer), self.template, arguments)

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Two columns per core."""
        if not self.gathers(layer):
            return 0
        columns = self.columns(layer)
        length = columns.length(*self.column_shape(layer, tile))
        return 2 * self.cores * columns.slot_bytes * length

    def gathers(self, layer: Layer) -> bool:
        """Return True when columns are laid into the scratch."""
        return True

    def pair_cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return the cycles of filling the columns of two pixels."""
        window = layer.window
        taps, channels = self.column_shape(layer, tile)
        rows_of_taps = group_channels(layer)[0] == 0 and window.dilations[1] == 1
        runs = window.kernel[0] if rows_of_taps or window.kernel[1] == 1 else taps
        bits = layer.inputs[0].bits
        pair: Number = cal.IM2COL_PAIR
        if runs > 1 or (bits >= 8 and window.kernel[1] > 1 and not rows_of_taps):
            pair = pair + cal.IM2COL_RUN * runs
            pair = pair + cal.IM2COL_TENTHS * packed_bytes(taps * channels, bits) // 10
        if bits < 8:
            signed = layer.inputs[0].signed
            vector = cal.UNPACK_VECTOR_SIGNED if signed else cal.UNPACK_VECTOR
            pair = pair + 2 * vector * (self.columns(layer).length(taps, channels) // 4)
        return pair

    def extra_macros(self, layer: Layer) -> tuple[tuple[str, str], ...]:
        """Whether columns are filled, and what that costs in addition to an output channel."""
        return (
            ("DORY_GATHERS", str(int(self.gathers(layer)))),
            (
                "DORY_GAP8_IM2COL_CHANNELS",
                str(cal.IM2COL_CHANNELS if self.gathers(layer) else 0),
            ),
        )

    def _gather_arguments(self, layer: Layer) -> Arguments:
        return tile_arguments("scratch", "pad_top", "pad_left") if self.gathers(layer) else ()


def merged_groups(layer: Layer) -> int:
    """Return how many groups are computed as one, so that their inputs and outputs fill bytes."""
    conv = layer.of(ops.Conv)
    outputs, fan_in = layer.output.channels // conv.groups, conv.weights.shape[1]
    for merged in range(1, conv.groups):
        whole_in = merged * fan_in % per_byte(layer.inputs[0].bits) == 0
        whole_out = merged * outputs % per_byte(layer.output.bits) == 0
        if conv.groups % merged == 0 and whole_in and whole_out:
            return merged
    return conv.groups


def group_channels(layer: Layer) -> tuple[int, int]:
    """Return input and output channels of a (merged) group; (0, 0) for a dense convolution."""
    conv = layer.op
    if not isinstance(conv, ops.Conv) or conv.groups == 1:
        return 0, 0
    merged = merged_groups(layer)
    return merged * conv.weights.shape[1], merged * (layer.output.channels // conv.groups)


@dataclass(frozen=True)
class ConvKernel(ConvolutionKernel):
    """Convolution: columns of two pixels per core, then blocks of 4 channels x 2 pixels."""

    kind = "conv"
    title = "convolution"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any filter, stride, dilation, padding and groups, except one input channel per group."""
        conv = layer.op
        if not isinstance(conv, ops.Conv):
            return Rejection("it computes convolutions only")
        if conv.groups > 1 and conv.weights.shape[1] == 1:
            return Rejection("it computes no depthwise convolution: one input channel per filter")
        if conv.groups > 1 and self.partial:
            return Rejection("the input channels of a convolution in groups come with its outputs")
        return reject_weighted(layer, packed=True)

    def constraints(self, layer: Layer, tile: Tile) -> tuple[Constraint, ...]:
        """Tiles that repay im2col, as long as partial sums are the alternative.

        Below these sizes gathering outweighs multiplying, and tiles of fewer input channels are
        several times faster.
        """
        _, group = group_channels(layer)
        if group:
            whole = f"groups are computed together: output channels in multiples of {group}"
            return (Constraint(tile.c_out % group == 0, whole),)
        if self.partial or layer.inputs[0].channels == 1:
            return ()
        full = geometry.extent(layer)
        channels = min(cal.LEAST_CHANNELS, full.c_out)
        pixels = min(self.cores, full.h * full.w)
        return (
            Constraint(tile.c_out >= channels, f"im2col serves at least {channels} channels"),
            Constraint(tile.h * tile.w >= pixels, f"a tile has at least {pixels} pixels"),
        )

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Filling the columns of two pixels, then their product."""
        pair = self.pair_cycles(layer, tile)
        return self.shared_cycles(layer, tile, pair, tile.c_out, group_channels(layer)[1] or 1)


@dataclass(frozen=True)
class PointwiseKernel(ConvolutionKernel):
    """1x1 convolution, any stride; inputs of whole bytes are multiplied where they lie."""

    kind = "pointwise"
    title = "1x1 convolution"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Dense 1x1 filters without padding."""
        if not isinstance(layer.op, ops.Conv) or not layer.op.is_pointwise:
            return Rejection("it computes dense 1x1 convolutions only")
        if any(layer.op.window.pads):
            return Rejection("it computes 1x1 convolutions without padding only")
        return reject_weighted(layer, packed=True)

    def gathers(self, layer: Layer) -> bool:
        """Only packed inputs are taken apart before."""
        return layer.inputs[0].bits < 8

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """The product; columns that start off a word load in two cycles."""
        pair = self.pair_cycles(layer, tile) if self.gathers(layer) else 0
        return self.shared_cycles(layer, tile, pair, tile.c_out)
