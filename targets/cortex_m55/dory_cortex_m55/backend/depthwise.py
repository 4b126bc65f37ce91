"""Depthwise convolutions, eight channels at a time."""

from __future__ import annotations

import numpy as np

from dory_core.api import (
    Argument,
    Feature,
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Term,
    Tile,
    WeightBlock,
    ceil_div,
    minimum,
    named,
    ops,
    reject_weights,
    size,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import (
    VectorKernel,
    numbers_of,
    pad_value,
    reject_bytes,
    whole,
    window_members,
)
from dory_cortex_m55.backend.requant import form_of, reject_form

_EIGHT = 8
# Even and odd channels of eight, as products of 16 bits become sums of 32.
_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
_INT16 = (1 << 15) - 1


class DepthwiseKernel(VectorKernel):
    """One filter for each channel, eight channels at a time."""

    name = "dory_cortex_m55_depthwise"
    file = "depthwise"
    summary = "Depthwise convolution of eight channels at a time"
    features = VectorKernel.features | {Feature.PAD_VALUE}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window, as many outputs as inputs."""
        conv = layer.op
        if not isinstance(conv, ops.Conv):
            return Rejection("it computes convolutions", other_kind=True)
        if not conv.is_depthwise or layer.output.channels != layer.inputs[0].channels:
            return Rejection("it computes depthwise convolutions with one filter per channel")
        return reject_bytes(layer) or reject_weights(layer) or reject_form(layer)

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Channels in eights, and wide tiles: few of their windows reach beyond the border."""
        return (
            Term("CHANNELS_IN_EIGHTS", 1e6, (tile.c_out - 1) % _EIGHT),
            Term("WIDE_TILE", 1e2, tile.w),
        )

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters and filters of channels in eights."""
        each = form_of(layer).channel_bytes + layer.window.taps
        return whole(tile.c_out, _EIGHT) * each

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return arrays of parameters, the bias, and filters of eight channels, tap by tap."""
        form, numbers = form_of(layer), numbers_of(c_out, _EIGHT)
        order = numbers.reshape(-1, _EIGHT)[:, _ORDER].reshape(-1)
        parameters = form.parameters(order, form.bias)
        filters = layer.of(ops.Conv).weights.values.reshape(layer.output.channels, -1)
        taken = np.where(numbers[:, None] < 0, 0, filters[numbers]).astype(np.int8)
        eights = taken.reshape(-1, _EIGHT, taken.shape[1]).swapaxes(1, 2)
        parts = {"mul": 0, "bias": len(parameters) - 4 * len(numbers), "weights": len(parameters)}
        return WeightBlock(parameters + eights.tobytes(), parts)

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Offsets of taps, sums of a row, a window of all channels; loads go on after it."""
        taps = layer.window.taps
        sums = 4 * tile.w * whole(tile.c_out, _EIGHT)
        return 8 * taps + sums + taps * tile.c_out + _EIGHT

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Eights of channels, and windows that are copied where they reach beyond the border."""
        taps, together = layer.window.taps, _together(layer)
        eights = ceil_div(tile.c_out, _EIGHT)
        if layer.window.kernel == (3, 3) and together > 1:
            each = costs.EIGHT_3X3
        else:
            groups = int(ceil_div(taps, together))
            each = costs.EIGHT + taps * costs.EIGHT_TAP + groups * costs.EIGHT_GROUP
        each += costs.EIGHT_JOINED + 2 * costs.finish(form_of(layer).form)
        inside = tile.h * tile.w * (costs.PIXEL + eights * each)
        copied = taps * (costs.RUN + ceil_div(tile.c_out, 16) * costs.COPY_VECTOR)
        return costs.CALL + inside + _border(layer.window, tile) * copied

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        form = form_of(layer)
        channels = (size("y_c") + 7) // _EIGHT * _EIGHT
        members: dict[str, Argument] = {
            "x": Operand("x"),
            "y": Operand("y"),
            "scratch": Operand("scratch"),
            "weights": Operand("weights", "const int8_t *"),
            "bias": Operand("bias", "const int32_t *"),
            **named("x_h", "x_w", "y_h", "y_w"),
            "c": size("y_c"),
            **named("pad_top", "pad_left"),
            **window_members(layer.window),
            "together": _together(layer),
            "x_signed": int(layer.inputs[0].signed),
            "padding": pad_value(layer) & 0xFF,
            "requant": form.struct(channels * form.word_bytes),
        }
        return self.struct_call(layer, members)


def _together(layer: Layer) -> int:
    """Return how many taps that follow each other have no sum of products beyond 16 bits."""
    x = layer.inputs[0]
    largest = max(abs(x.lo), abs(x.hi), abs(pad_value(layer)), 1)
    filters = layer.of(ops.Conv).weights.values.reshape(layer.output.channels, -1)
    sums = np.abs(filters.astype(np.int64)) * largest
    taps = sums.shape[1]
    for count in range(taps, 1, -1):
        groups = range(0, taps, count)
        if all(sums[:, at : at + count].sum(axis=1).max() <= _INT16 for at in groups):
            return count
    return 1


def _border(window: ops.Window, tile: Tile) -> Number:
    """Return the outputs of a tile whose windows reach beyond the border, where it has all four."""
    top, left, bottom, right = window.pads
    stride_h, stride_w = window.strides
    rows = -(-top // stride_h) + -(-bottom // stride_h)
    columns = -(-left // stride_w) + -(-right // stride_w)
    return minimum(tile.h, rows) * tile.w + minimum(tile.w, columns) * tile.h
