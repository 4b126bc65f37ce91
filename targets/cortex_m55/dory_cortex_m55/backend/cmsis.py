"""Kernels of CMSIS-NN with MVE as they are: exact where rounding is TensorFlow Lite Micro's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from dory_cmsis_nn import functions
from dory_cmsis_nn.kernel import CmsisKernel
from dory_cmsis_nn.library import CmsisNn
from dory_cmsis_nn.parameters import Parameters, taps_of, turned, weights_of

from dory_core.api import Argument, Kernel, Layer, Number, Rejection, Term, Tile, ceil_div, size
from dory_cortex_m55 import calibration as costs

VECTOR = 16
# Columns that the library multiplies at once, and channels of a block of a depthwise layer.
_COLUMNS = 4
_BLOCK = 124


class _OnCore(CmsisKernel):
    """A function whose call may turn bits of input and output."""

    def turned_cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return the cycles of a call, and of turning bits."""
        turned_bytes = self.copied_bytes(layer, tile)
        if turned(layer.output):
            turned_bytes = turned_bytes + tile.h * tile.w * tile.c_out
        return costs.CMSIS_CALL + turned_bytes * costs.CMSIS_TURN // 4


def _products(tile: Tile, channels: Number, length: int) -> Number:
    """Return the cycles of rows of weights by columns, four columns at a time or one."""
    vectors, pixels = -(-length // VECTOR), tile.h * tile.w
    four = costs.CMSIS_FOUR + vectors * costs.CMSIS_FOUR_VECTOR
    one = costs.CMSIS_ONE + vectors * costs.CMSIS_ONE_VECTOR
    return channels * (pixels // _COLUMNS * four + pixels % _COLUMNS * one)


def _in_columns(tile: Tile) -> Term:
    return Term("PIXELS_IN_FOURS", 1e6, (tile.h * tile.w - 1) % _COLUMNS)


class CmsisConv(functions.Convolution, _OnCore):
    """Convolution with any filter and groups."""

    def buffer_bytes(self, layer: Layer, tile: Tile) -> Number:
        """arm_convolve_s8_get_buffer_size_mve: four columns of whole vectors."""
        return _COLUMNS * VECTOR * ceil_div(taps_of(layer) * tile.c_in, VECTOR)

    def buffer_size(self, layer: Layer) -> Argument:
        """The same with the channels of the tile."""
        return (taps_of(layer) * size("x_c") + (VECTOR - 1)) // VECTOR * (_COLUMNS * VECTOR)

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Pixels in fours, and columns that serve many channels."""
        return (_in_columns(tile), Term("COLUMNS_SERVE_MANY", 1e2, tile.c_out))

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Columns of inputs, then all channels; for each group."""
        shape = weights_of(layer)[0].shape
        groups = tile.c_in // shape[0]
        tap = costs.CMSIS_TAP + -(-shape[0] // VECTOR) * costs.CMSIS_TAP_VECTOR
        column = costs.CMSIS_COLUMN + taps_of(layer) * tap
        products = _products(tile, tile.c_out // groups, int(np.prod(shape)))
        return self.turned_cycles(layer, tile) + groups * (tile.h * tile.w * column + products)


class CmsisPointwise(functions.Pointwise, _OnCore):
    """1x1 convolution."""

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Pixels in fours."""
        return (_in_columns(tile),)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Products of columns that lie in the input."""
        products = _products(tile, tile.c_out, int(weights_of(layer)[0].size))
        return self.turned_cycles(layer, tile) + products


class CmsisDepthwise(functions.Depthwise, _OnCore):
    """Depthwise convolution with filters of any size."""

    def buffer_bytes(self, layer: Layer, tile: Tile) -> Number:
        """arm_depthwise_conv_s8_opt_get_buffer_size_mve: four windows of a block of channels."""
        return _COLUMNS * _BLOCK * taps_of(layer)

    def buffer_size(self, layer: Layer) -> Argument:
        """The same."""
        return _COLUMNS * _BLOCK * taps_of(layer)

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Pixels in fours, and windows of many channels."""
        return (_in_columns(tile), Term("WINDOWS_OF_MANY", 1e2, tile.c_out))

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Windows of a block of channels, then four channels of four of them at a time."""
        taps, pixels = taps_of(layer), tile.h * tile.w
        blocks, fours = ceil_div(tile.c_out, _BLOCK), ceil_div(tile.c_out, 4)
        tap = blocks * costs.CMSIS_TAP + ceil_div(tile.c_out, VECTOR) * costs.CMSIS_TAP_VECTOR
        window = blocks * costs.CMSIS_WINDOW + taps * tap
        four = costs.CMSIS_DEPTHWISE_FOUR + taps * costs.CMSIS_DEPTHWISE_FOUR_TAP
        one = costs.CMSIS_DEPTHWISE_ONE + taps * costs.CMSIS_DEPTHWISE_ONE_TAP
        products = fours * (pixels // _COLUMNS * four + pixels % _COLUMNS * one)
        return self.turned_cycles(layer, tile) + pixels * window + products


class CmsisLinear(functions.FullyConnected, _OnCore):
    """Fully connected layer; what the library would add to inputs is in the bias."""

    def parameters(self, layer: Layer) -> Parameters | Rejection | None:
        """With MVE the function takes sums of weights by the offset of inputs with the bias."""
        found = super().parameters(layer)
        if not isinstance(found, Parameters) or found.bias is None:
            return found
        rows = weights_of(layer).astype(np.int64).reshape(len(found.bias), -1)
        return replace(found, bias=found.bias + found.x_offset * rows.sum(axis=1), x_offset=0)

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Outputs in fours."""
        return (Term("OUTPUTS_IN_FOURS", 1e6, (tile.c_out - 1) % _COLUMNS),)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Four outputs at a time, or one."""
        vectors = -(-int(weights_of(layer)[0].size) // VECTOR)
        four = costs.CMSIS_OUTPUTS + vectors * costs.CMSIS_OUTPUTS_VECTOR
        one = costs.CMSIS_OUTPUT + vectors * costs.CMSIS_OUTPUT_VECTOR
        outputs = tile.c_out // _COLUMNS * four + tile.c_out % _COLUMNS * one
        return self.turned_cycles(layer, tile) + outputs


class CmsisMaxPool(functions.MaxPool, _OnCore):
    """Maximum pooling."""

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Taps of vectors of channels."""
        vectors = ceil_div(tile.c_out, VECTOR)
        tap = costs.CMSIS_POOL_TAP + vectors * costs.CMSIS_POOL_TAP_VECTOR
        pixel = costs.CMSIS_POOL + layer.window.taps * tap + vectors * costs.CMSIS_POOL_VECTOR
        return self.turned_cycles(layer, tile) + tile.h * tile.w * pixel


def cmsis_kernels(library: CmsisNn) -> list[Kernel]:
    """Return the kernels of CMSIS-NN, the more special ones first."""
    return [
        CmsisPointwise(library),
        CmsisConv(library),
        CmsisDepthwise(library),
        CmsisLinear(library),
        CmsisMaxPool(library),
    ]
