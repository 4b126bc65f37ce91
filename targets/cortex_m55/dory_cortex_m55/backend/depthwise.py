"""Depthwise convolutions: windows of a channel as vectors of 16 taps."""

from __future__ import annotations

from dataclasses import dataclass

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
    ops,
    reject_weights,
    size,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import (
    VectorKernel,
    by_bytes,
    bytes_of,
    extents,
    flip_of,
    in_blocks,
    pad_value,
    places_of,
    reject_elements,
    reject_padding,
    turned_window,
    whole,
    window_members,
)
from dory_cortex_m55.backend.requant import form_of, reject_form

_EIGHT = 8
# Channels that are computed together, and bytes of a column of theirs: four rows, and room so that
# columns lie in different banks (dory_cortex_m55_depthwise.c).
_BLOCK, _COLUMN = 16, 68
# Taps of a word, words of a vector.
_FOUR = 4


class DepthwiseKernel(VectorKernel):
    """One filter for each channel: windows as words of four taps, 16 taps an instruction."""

    name = "dory_cortex_m55_depthwise"
    file = "depthwise"
    more = ("finish.c", "finish.h")
    summary = "Depthwise convolution, 16 taps an instruction"
    features = VectorKernel.features | {Feature.PAD_VALUE}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window, as many outputs as inputs."""
        conv = layer.op
        if not isinstance(conv, ops.Conv):
            return Rejection("it computes convolutions", other_kind=True)
        if not conv.is_depthwise or layer.output.channels != layer.inputs[0].channels:
            return Rejection("it computes depthwise convolutions with one filter per channel")
        wrong = reject_elements(layer.inputs[0], "input")
        wrong = wrong or reject_elements(layer.output, "output") or reject_padding(layer)
        return wrong or _reject_halves(layer) or reject_form(layer)

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Channels in blocks, and wide tiles."""
        return (
            Term("CHANNELS_IN_BLOCKS", 1e6, in_blocks(layer, tile, _channels(layer))),
            Term("LONG_ROWS", 1e2, _sizes(layer, tile)[1]),
        )

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters and filters of channels in eights."""
        each = form_of(layer).channel_bytes + 16 * _vectors(layer)
        return whole(tile.c_out, _EIGHT) * each

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return parameters and filters: columns, four taps a word."""
        form, places, words = form_of(layer), places_of(c_out), _words(_window(layer))
        parameters = form.parameters(places)
        filters = layer.of(ops.Conv).weights.values.reshape(-1, *layer.window.kernel)
        if _by_columns(layer):
            filters = filters.swapaxes(1, 2)
        kernel_h, kernel_w = filters.shape[1:]
        columns = words.vectors * _FOUR // words.planes
        parts = _vectors(layer) // words.vectors
        filled = np.zeros((len(places), parts, columns, words.planes * _FOUR), np.int8)
        for number, part in enumerate((filters - filters // 2, filters // 2)[:parts]):
            own = part if parts > 1 else filters
            filled[:, number, :kernel_w, :kernel_h] = own[places].swapaxes(1, 2)
        filled[places < 0] = 0
        return WeightBlock(parameters + filled.tobytes(), {"mul": 0, "weights": len(parameters)})

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Where vectors and words lie, sums of two rows, padding, and planes of words."""
        window = _window(layer)
        words, (_, width) = _words(window), _sizes(layer, tile)
        even = whole(width, 2)
        columns = even * window.strides[1] + words.vectors * words.wide * window.dilations[1]
        plane = whole(columns * _COLUMN, 16) + 8
        offsets = 4 * int(whole(_vectors(layer), 4)) + 16
        return offsets + 2 * 4 * _BLOCK * even + 16 + words.planes * plane

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Words of rows, then the sums of each channel, then their requantisation."""
        window = _window(layer)
        words, (height, width) = _words(window), _sizes(layer, tile)
        blocks = ceil_div(tile.c_out, _channels(layer))
        channels = whole(tile.c_out, _EIGHT) * bytes_of(layer.inputs[0])
        columns = width * window.strides[1] + (window.kernel[1] - 1) * window.dilations[1]
        column = costs.FLIPPED_COLUMN if _flips(layer) else costs.PLANE_COLUMN
        laid = words.planes * (costs.PLANE + columns * column)
        vectors = _vectors(layer)
        if vectors == 1:
            one = costs.CHANNEL + ceil_div(width, 2) * costs.TWO_OUTPUTS
        else:
            one = costs.CHANNEL + width * (costs.OUTPUT + vectors * costs.OUTPUT_VECTOR)
        sums, passes = height * one, height
        if vectors == 1 and _in_pairs(window):
            two = costs.CHANNEL_OF_TWO + ceil_div(width, 2) * costs.FOUR_OUTPUTS
            sums, passes = height // 2 * two + height % 2 * one, ceil_div(height, 2)
        calls, eights = height * blocks, ceil_div(ceil_div(tile.c_out, _EIGHT), blocks)
        finish = form_of(layer).finish_cycles(eights, calls * width, calls)
        if by_bytes(layer):
            finish += calls * width * costs.BOTH_BYTES
        laid = passes * blocks * (costs.ROW + laid)
        return costs.CALL + laid + channels * sums + finish

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        form, words = form_of(layer), _words(_window(layer))
        x, y = layer.inputs[0], layer.output
        members: dict[str, Argument] = {
            "x": Operand("x"),
            "y": Operand("y"),
            "scratch": Operand("scratch"),
            "weights": Operand("weights", "const int8_t *"),
            **extents(size("y_c") * bytes_of(x), size("y_c") * bytes_of(y), _by_columns(layer)),
            "c": size("y_c"),
            "x_bytes": bytes_of(x),
            "y_bytes": bytes_of(y),
            **window_members(_window(layer)),
            "planes": words.planes,
            "vectors": _vectors(layer),
            "window_vectors": words.vectors,
            "flip": _flips(layer),
            "padding": pad_value(layer) & 0xFF,
            "requant": form.struct(),
        }
        return self.struct_call(layer, members)


def _channels(layer: Layer) -> int:
    """Return how many channels are computed together: a block is one of bytes."""
    return _BLOCK // bytes_of(layer.inputs[0])


def _flips(layer: Layer) -> int:
    """Return the bits that give two bytes of a row a sign: both of two, or the lower one."""
    return 0x80 if by_bytes(layer) else flip_of(layer.inputs[0]) * 0x101


def _by_columns(layer: Layer) -> bool:
    """Return True when rows of the kernel are columns of the layer: they are longer."""
    return layer.output.height > layer.output.width


def _window(layer: Layer) -> ops.Window:
    """Return the window as the kernel sees it."""
    return turned_window(layer.window) if _by_columns(layer) else layer.window


def _sizes(layer: Layer, tile: Tile) -> tuple[Number, Number]:
    """Return the rows of outputs of a tile as the kernel sees them, and the pixels of each."""
    return (tile.w, tile.h) if _by_columns(layer) else (tile.h, tile.w)


@dataclass(frozen=True, slots=True)
class _Words:
    """A window as words of four taps below each other.

    Attributes:
        planes: Words of a column: 1, 2 or a multiple of 4.
        vectors: Vectors of four words.
        wide: Columns that a vector has a part of.
    """

    planes: int
    vectors: int
    wide: int


def _words(window: ops.Window) -> _Words:
    """Return the words of a window."""
    kernel_h, kernel_w = window.kernel
    planes = -(-kernel_h // _FOUR)
    planes = planes if planes < _FOUR - 1 else int(whole(planes, _FOUR))
    wide = max(_FOUR // planes, 1)
    vectors = -(-kernel_w // wide) * max(planes // _FOUR, 1)
    return _Words(planes, vectors, wide)


def _reject_halves(layer: Layer) -> Rejection | None:
    """Return why weights are no sums of two bytes."""
    return reject_weights(layer) and reject_weights(layer, 9)


def _vectors(layer: Layer) -> int:
    """Return the vectors of a filter: twice those of a window where weights are two bytes."""
    return _words(_window(layer)).vectors * (1 if reject_weights(layer) is None else 2)


def _in_pairs(window: ops.Window) -> bool:
    """Return True when two rows of outputs are computed at once."""
    small = max(window.kernel) < _FOUR
    return small and window.strides == (1, 1) and window.dilations == (1, 1)
