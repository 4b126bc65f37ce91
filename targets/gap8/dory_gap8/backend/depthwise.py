"""Depthwise convolutions: from CHW, or from HWC where inputs are packed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dory_core.api import (
    FunctionCall,
    Layer,
    Number,
    Rejection,
    Traits,
    WeightBlock,
    ceil_div,
    minimum,
    ops,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.conv import geometry_arguments
from dory_gap8.backend.dense import reject_weighted, weighted_epilogue
from dory_gap8.backend.instance import (
    ClusterKernel,
    Instance,
    c_type,
    call_text,
    tile_arguments,
    vector_macros,
)
from dory_gap8.backend.packing import per_byte, weight_bits, weight_words
from dory_gap8.backend.weights import block_bytes, encode_bytes, padded

if TYPE_CHECKING:
    from dory_core.api import Tile


@dataclass(frozen=True)
class DepthwiseKernel(ClusterKernel):
    """Convolution of each channel on its own to HWC (section 4.3 of the paper).

    cores: cores that share a tile: its channels, and rows where there are fewer channels.
    """

    name = "dory_gap8_depthwise"
    summary = "depthwise convolution"

    def accepts(self, layer: Layer) -> Rejection | None:
        """One input channel per filter; several filters may share one."""
        kind = layer.op
        if not isinstance(kind, ops.Conv) or kind.groups == 1 or kind.weights.shape[1] != 1:
            return Rejection(
                "it computes depthwise convolutions only: one input channel per filter"
            )
        return reject_weighted(layer, packed=True)

    def traits(self, layer: Layer) -> Traits:
        """A plane per channel; packed inputs stay as they are, for no DMA splits bytes."""
        return Traits(planar=layer.inputs[0].bits >= 8)

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The padded input rows of one output row, and packed weights as bytes, per core."""
        conv = layer.of(ops.Conv)
        element = max(layer.inputs[0].bits // 8, 1)
        rows = element * conv.window.kernel[0] * self._pitch(layer, tile)
        weights = self._filter(layer) if weight_bits(conv) < 8 else 0
        return self.cores * per_byte(layer.output.bits) * (rows + weights)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of each channel and its tap rows, padded to 4 taps each and whole words."""
        row = self._filter(layer) // per_byte(weight_bits(layer.of(ops.Conv)))
        return block_bytes(weighted_epilogue(layer), tile.c_out, row)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the filters of a range of output channels."""
        conv = layer.of(ops.Conv)
        taps = conv.weights.values[c_out[0] : c_out[1], 0]
        channels, kernel_h, kernel_w = taps.shape
        image = np.zeros((channels, kernel_h, int(padded(kernel_w))), dtype=np.int64)
        image[..., :kernel_w] = taps
        rows = np.zeros((channels, self._filter(layer)), dtype=np.int64)
        rows[:, : image[0].size] = image.reshape(channels, -1)
        words = weight_words(rows, weight_bits(conv))
        return encode_bytes(weighted_epilogue(layer), words, c_out)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Rows of the core with the most of them: padding, then the pixels."""
        window = layer.window
        kernel_h, kernel_w = window.kernel
        if window.dilations[1] == 1:
            word = cal.DEPTHWISE_WORD_16 if layer.inputs[0].bits > 8 else cal.DEPTHWISE_WORD
            taps = kernel_h * int(padded(kernel_w)) // 4 * word
        else:
            taps = kernel_h * kernel_w * cal.DEPTHWISE_TAP
        pixel = taps + cal.DEPTHWISE_OUTPUT + weighted_epilogue(layer).cycles
        copied = cal.DEPTHWISE_ROW + ceil_div(self._pitch(layer, tile), 4) * cal.DEPTHWISE_ROW_WORD
        row = kernel_h * copied + tile.w * pixel
        if layer.inputs[0].bits < 8:
            fresh = kernel_h
            if window.dilations[0] == 1:
                fresh = min(kernel_h, window.strides[0])
            row = row + fresh * tile.x_w * cal.DEPTHWISE_FIELD
        unit = per_byte(layer.output.bits)
        if unit > 1:
            row = row + tile.w * cal.PACK_OUTPUT
        groups = [1 << n for n in range(self.cores.bit_length())]
        ways = [
            ceil_div(tile.h, self.cores // g) * ceil_div(ceil_div(tile.c_out, unit), g) * unit * row
            for g in groups
        ]
        return cal.CALL + (ways[0] if len(ways) == 1 else minimum(*ways))

    def label(self, layer: Layer) -> str:
        """Types and requantisation."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        w = f"i{weight_bits(layer.of(ops.Conv))}"
        return f"dory_gap8_depthwise_{x}_{w}_{y}{weighted_epilogue(layer).suffix}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        conv = layer.of(ops.Conv)
        arguments = (
            *tile_arguments("x", "weights", "y", "scratch"),
            *tile_arguments("x_h", "x_w", "x_c", "y_h", "y_w", "y_c", "pad_top", "pad_left"),
            *geometry_arguments(conv.window),
            ("multiplier", layer.output.channels // conv.groups),
            ("requant", weighted_epilogue(layer).struct()),
        )
        return call_text(self.symbol(layer), "depthwise", arguments)

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        chosen = weighted_epilogue(layer)
        end = f"{chosen.bits}-bit requantisation" if chosen.steps else "no requantisation"
        w = weight_bits(layer.of(ops.Conv))
        macros = (
            *vector_macros(x),
            ("DORY_W_BITS", str(w)),
            ("DORY_Y_BITS", y[1:]),
            ("DORY_Y_T", c_type(y)),
            *chosen.macros,
        )
        layout = "CHW" if self.traits(layer).planar else "HWC"
        purpose = (
            f"Depthwise convolution from {layout}: {x} inputs, i{w} weights, {y} outputs, {end}."
        )
        return Instance("depthwise", self.label(layer), purpose, macros)

    def _filter(self, layer: Layer) -> int:
        """Return the weights of a channel, tap rows padded, in whole words."""
        conv = layer.of(ops.Conv)
        kernel_h, kernel_w = conv.window.kernel
        word = 4 * per_byte(weight_bits(conv))
        return int(ceil_div(kernel_h * padded(kernel_w), word)) * word

    def _pitch(self, layer: Layer, tile: Tile) -> Number:
        """Return the elements of a padded row: what the last pixel reaches, in whole words."""
        window = layer.window
        reach = (window.kernel[1] - 1) * window.dilations[1]
        return (tile.w - 1) * window.strides[1] + reach + 4
