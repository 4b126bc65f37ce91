"""The kernels of CMSIS-NN, exact, with proven parameters, each with weights in two forms.

One is the library as it is, whose requantisation is that of TensorFlow Lite Micro; in the other one
requantisation is replaced, for all other networks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Feature,
    Kernel,
    Layer,
    Number,
    Rejection,
    Term,
    Tile,
    WeightBlock,
    caches,
    ceil_div,
    ops,
    reject_maximum,
    size,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.accesses import (
    columns,
    copied,
    fully_connected,
    pixels_first,
    rows_first,
)
from dory_stm32h7.backend.cmsis_kernel import CmsisKernel, WeightedCmsisKernel
from dory_stm32h7.backend.cmsis_library import CmsisNn
from dory_stm32h7.backend.cmsis_parameters import (
    Parameters,
    find_parameters,
    taps_of,
    turned,
    weights_of,
)
from dory_stm32h7.objective import BETA_BLOCK


class CmsisConv(WeightedCmsisKernel, caches.MemoryAccesses):
    """Convolution with any filter and groups."""

    name = function = "arm_convolve_s8"
    summary = "CMSIS-NN: convolution"
    features = frozenset({Feature.PAD_VALUE})

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window; one input channel per group is for the depthwise kernels."""
        conv = layer.op
        if not isinstance(conv, ops.Conv):
            return Rejection("it computes convolutions only")
        if conv.groups > 1 and conv.weights.shape[1] == 1:
            return Rejection("it computes no depthwise convolution")
        return self.reject(layer)

    def buffer_bytes(self, layer: Layer, tile: Tile) -> Number:
        """arm_convolve_s8_get_buffer_size: two columns of 16-bit numbers."""
        return 4 * (ceil_div(taps_of(layer) * tile.c_in, 4) * 4)

    def buffer_size(self, layer: Layer) -> Number:
        """The same with the channels of the tile."""
        return (taps_of(layer) * size("x_c") + 3) // 4 * 16

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """Columns of two pixels, then all weights; columns are copies of rows of channels."""
        weights = int(self.weight_bytes(layer, tile))
        x, *others = columns(layer, tile, weights, 3, 4)
        return (*copied(x, int(self.copied_bytes(layer, tile))), *others)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Columns of pixels, two at a time, by rows of weights, two at a time; for each group."""
        length = int(weights_of(layer)[0].size)
        groups = tile.c_in // weights_of(layer).shape[1]
        pixels, channels = tile.h * tile.w, tile.c_out // groups
        taps = costs.CMSIS_CONV_TAP * taps_of(layer)
        column = costs.CMSIS_CONV_PIXEL + taps + costs.CMSIS_CONV_ELEMENT * length
        block = costs.CMSIS_CONV_VECTOR * (length // 4) + costs.CMSIS_CONV_REST * (length % 4)
        block += costs.CMSIS_CONV_BLOCK[self.native]
        one = costs.CMSIS_CONV_ONE_VECTOR * (length // 4) + costs.CMSIS_CONV_ONE[self.native]
        blocks = pixels // 2 * ceil_div(channels, 2) * block + pixels % 2 * channels * one
        return self.copy_tenths(layer, tile) + groups * (pixels * column + blocks)


class CmsisPointwise(WeightedCmsisKernel, caches.MemoryAccesses):
    """1x1 convolution; the copy of the input leaves out pixels that strides skip."""

    name = function = "arm_convolve_1x1_s8_fast"
    summary = "CMSIS-NN: 1x1 convolution"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Dense 1x1 filters without padding."""
        conv = layer.op
        if not isinstance(conv, ops.Conv) or not conv.is_pointwise:
            return Rejection("it computes dense 1x1 convolutions only")
        if any(conv.window.pads):
            return Rejection("it computes 1x1 convolutions without padding only")
        return self.reject(layer)

    def copied_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The pixels that are used, where strides skip some."""
        if self._strided(layer):
            return tile.h * tile.w * tile.c_in
        return super().copied_bytes(layer, tile)

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """All pixels for every two output channels."""
        weights, copies = self.weight_bytes(layer, tile), self.copied_bytes(layer, tile)
        return rows_first(layer, tile, int(weights), int(copies), line_bytes)

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Many pixels, as each call sums the weights of all channels up; channels in pairs."""
        return (
            Term("FEW_SUMS", BETA_BLOCK, tile.h * tile.w),
            Term("CHANNELS_IN_PAIRS", BETA_BLOCK, (tile.c_out - 1) % 2),
        )

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Each call sums its weights up; then blocks of two pixels and two channels."""
        length = int(weights_of(layer)[0].size)
        pixels, channels = tile.h * tile.w, tile.c_out
        sums = channels * length * costs.CMSIS_POINTWISE_SUM
        rows = sums + ceil_div(channels, 2) * costs.CMSIS_POINTWISE_PAIR
        rest = costs.CMSIS_POINTWISE_REST * (length % 4)
        block = costs.CMSIS_POINTWISE_VECTOR * (length // 4) + rest
        block += costs.CMSIS_POINTWISE_BLOCK[self.native]
        one = costs.CMSIS_POINTWISE_ONE_VECTOR * (length // 4)
        one += costs.CMSIS_POINTWISE_ONE[self.native]
        single = pixels % 2 * (channels // 2) + channels % 2 * pixels
        blocks = pixels // 2 * (channels // 2) * block + single * one
        return self.copy_tenths(layer, tile) + rows + blocks

    def _has_scratch(self, layer: Layer) -> bool:
        return self._strided(layer) or super()._has_scratch(layer)

    @staticmethod
    def _strided(layer: Layer) -> bool:
        conv = layer.op
        return isinstance(conv, ops.Conv) and conv.window.strides != (1, 1)


class _Depthwise(WeightedCmsisKernel, caches.MemoryAccesses):
    features = frozenset({Feature.PAD_VALUE})

    def accepts(self, layer: Layer) -> Rejection | None:
        """One filter per channel, no dilation."""
        conv = layer.op
        if not isinstance(conv, ops.Conv) or not conv.is_depthwise:
            return Rejection("it computes depthwise convolutions only")
        if conv.groups != layer.output.channels:
            return Rejection("it computes one filter per channel")
        if conv.window.dilations != (1, 1):
            return Rejection("it computes no dilated filters")
        return self.reject_window(conv.window) or self.reject(layer)

    def reject_window(self, window: ops.Window) -> Rejection | None:
        """Return why the window is not possible."""
        return None

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """All channels of a pixel."""
        weights, copies = self.weight_bytes(layer, tile), self.copied_bytes(layer, tile)
        return pixels_first(layer, tile, int(weights), int(copies))

    def arranged(self, weights: npt.NDArray[Any]) -> bytes:
        """Taps, then the channels of the tile."""
        return np.moveaxis(weights[:, 0], 0, 2).astype(np.int8).tobytes()


class CmsisDepthwise3x3(_Depthwise):
    """Depthwise convolution with filters of 3x3."""

    name = function = "arm_depthwise_conv_3x3_s8"
    summary = "CMSIS-NN: depthwise convolution with 3x3 filters"

    def reject_window(self, window: ops.Window) -> Rejection | None:
        """At most one column and row of padding."""
        if window.kernel != (3, 3):
            return Rejection("it computes filters of 3x3 only")
        if max(window.pads) > 1:
            return Rejection("it pads by one row and column at most")
        return None

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Taps within the image, in fours of channels."""
        rows, columns = _taps_inside(layer)
        taps = (costs.CMSIS_DEPTHWISE_3X3_ROW + costs.CMSIS_DEPTHWISE_3X3_TAP * columns) * rows
        four = int(taps) + costs.CMSIS_DEPTHWISE_3X3_FOUR[self.native]
        pixel = costs.CMSIS_DEPTHWISE_3X3_PIXEL + tile.c_out // 4 * four
        pixel = pixel + tile.c_out % 4 * costs.CMSIS_DEPTHWISE_3X3_ONE[self.native]
        return self.copy_tenths(layer, tile) + tile.h * tile.w * pixel


class CmsisDepthwise(_Depthwise):
    """Depthwise convolution with filters of any size."""

    name = function = "arm_depthwise_conv_s8_opt"
    summary = "CMSIS-NN: depthwise convolution"

    def buffer_bytes(self, layer: Layer, tile: Tile) -> Number:
        """arm_depthwise_conv_s8_opt_get_buffer_size_dsp: a window of 16-bit numbers."""
        return 2 * taps_of(layer) * tile.c_in

    def buffer_size(self, layer: Layer) -> Number:
        """The same with the channels of the tile."""
        return 2 * taps_of(layer) * size("x_c")

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Columns, then four channels at a time."""
        taps = taps_of(layer)
        element = costs.CMSIS_DEPTHWISE_ELEMENT * taps
        pixel = costs.CMSIS_DEPTHWISE_PIXEL + costs.CMSIS_DEPTHWISE_TAP * taps
        pixel = pixel + tile.c_out * element
        pixel = pixel + tile.c_out // 4 * costs.CMSIS_DEPTHWISE_FOUR[self.native]
        pixel = pixel + tile.c_out % 4 * costs.CMSIS_DEPTHWISE_ONE[self.native]
        return self.copy_tenths(layer, tile) + tile.h * tile.w * pixel


def _taps_inside(layer: Layer) -> tuple[float, float]:
    """Return how many rows and columns of a filter lie within the image, in the mean."""
    window, (_, *sizes), (_, *outputs) = layer.window, layer.inputs[0].shape, layer.output.shape
    rows, columns = (
        sum(0 <= i * stride - before + tap < size for i in range(count) for tap in range(length))
        / count
        for length, stride, before, size, count in zip(
            window.kernel, window.strides, window.pads[:2], sizes, outputs, strict=True
        )
    )
    return rows, columns


class CmsisLinear(WeightedCmsisKernel, caches.MemoryAccesses):
    """Fully connected layer."""

    name = function = "arm_fully_connected_per_channel_s8"
    summary = "CMSIS-NN: fully connected layer"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any number of inputs and outputs."""
        if not isinstance(layer.op, ops.Linear):
            return Rejection("it computes fully connected layers only")
        return self.reject(layer)

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """All inputs for every output."""
        return fully_connected(layer, tile, int(self.weight_bytes(layer, tile)), 1)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Two outputs at a time."""
        length = int(weights_of(layer)[0].size)
        two = costs.CMSIS_LINEAR_VECTOR * (length // 4) + costs.CMSIS_LINEAR_REST * (length % 4)
        blocks = tile.c_out // 2 * two
        blocks = blocks + tile.c_out % 2 * costs.CMSIS_LINEAR_ONE_VECTOR * (length // 4)
        outputs = tile.c_out * costs.CMSIS_LINEAR_OUTPUT[self.native]
        return self.copy_tenths(layer, tile) + blocks + outputs


class CmsisLogits(CmsisKernel, caches.MemoryAccesses):
    """Fully connected layer with 32-bit outputs."""

    name = function = "arm_nn_mat_mult_nt_t_s8_s32"
    summary = "CMSIS-NN: fully connected layer with 32-bit outputs"
    native = True  # it has no requantisation

    def accepts(self, layer: Layer) -> Rejection | None:
        """No requantisation."""
        kind = layer.op
        if not isinstance(kind, ops.Linear):
            return Rejection("it computes fully connected layers only")
        if kind.requants:
            return Rejection("it has no requantisation")
        weights = kind.weights.values
        if weights.min() < -128 or weights.max() > 127:
            return Rejection("its weights exceed 8 bits")
        return self.reject_types(layer, ("i32",))

    def parameters(self, layer: Layer) -> Parameters | Rejection | None:
        """Only the bias."""
        return find_parameters(layer)

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """All inputs for every output."""
        return fully_connected(layer, tile, int(self.weight_bytes(layer, tile)), 1)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Eight inputs by all outputs, and again."""
        length = int(weights_of(layer)[0].size)
        each = costs.CMSIS_LOGITS_EIGHT * (length // 8) + costs.CMSIS_LOGITS_ONE * (length % 4)
        each += costs.CMSIS_LOGITS_FOUR * (length % 8 // 4)
        steps = costs.CMSIS_LOGITS_STEP * int(ceil_div(length, 8))
        return self.copy_tenths(layer, tile) + steps + tile.c_out * each


class CmsisMaxPool(CmsisKernel, caches.MemoryAccesses):
    """Maximum pooling."""

    name = function = "arm_max_pool_s8"
    summary = "CMSIS-NN: maximum pooling"
    native = True  # it has no requantisation

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window without dilation."""
        rejection = reject_maximum(layer)
        if rejection is not None:
            return rejection
        if layer.window.dilations != (1, 1):
            return Rejection("it computes no dilated windows")
        if turned(layer.inputs[0]) != turned(layer.output):
            return Rejection("input and output have different ranges")
        return self.reject_types(layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """No constants."""
        return 0

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """No constants."""
        return None

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """All channels of a pixel."""
        return pixels_first(layer, tile, copied_bytes=int(self.copied_bytes(layer, tile)))

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Taps, in fours of channels."""
        taps = layer.window.taps
        four = costs.CMSIS_MAXPOOL_FOUR + costs.CMSIS_MAXPOOL_TAP_FOUR * taps
        pixel = costs.CMSIS_MAXPOOL_TAP * taps + tile.c_out // 4 * four
        pixel = pixel + tile.c_out % 4 * costs.CMSIS_MAXPOOL_ONE
        return self.copy_tenths(layer, tile) + tile.h * tile.w * pixel


class _Native(WeightedCmsisKernel):
    """The library as it is: its requantisation is that of TensorFlow Lite Micro."""

    native = True
    features = frozenset({Feature.PAD_VALUE, Feature.TWO_ADDENDS})


class NativePointwise(_Native, CmsisPointwise):
    """1x1 convolution with the library's own requantisation."""

    name = "arm_convolve_1x1_s8_fast_tflm"
    summary = "CMSIS-NN as it is: 1x1 convolution"


class NativeConv(_Native, CmsisConv):
    """Convolution with the library's own requantisation."""

    name = "arm_convolve_s8_tflm"
    summary = "CMSIS-NN as it is: convolution"


class NativeDepthwise3x3(_Native, CmsisDepthwise3x3):
    """Depthwise convolution with filters of 3x3 and the library's own requantisation."""

    name = "arm_depthwise_conv_3x3_s8_tflm"
    summary = "CMSIS-NN as it is: depthwise convolution with 3x3 filters"


class NativeDepthwise(_Native, CmsisDepthwise):
    """Depthwise convolution with the library's own requantisation."""

    name = "arm_depthwise_conv_s8_opt_tflm"
    summary = "CMSIS-NN as it is: depthwise convolution"


class NativeLinear(_Native, CmsisLinear):
    """Fully connected layer with the library's own requantisation."""

    name = "arm_fully_connected_per_channel_s8_tflm"
    summary = "CMSIS-NN as it is: fully connected layer"


def cmsis_kernels(library: CmsisNn) -> list[Kernel]:
    """Return the kernels of CMSIS-NN: as they are first, the more special ones first."""
    return [
        NativePointwise(library),
        NativeConv(library),
        NativeDepthwise3x3(library),
        NativeDepthwise(library),
        NativeLinear(library),
        CmsisPointwise(library),
        CmsisConv(library),
        CmsisDepthwise3x3(library),
        CmsisDepthwise(library),
        CmsisLinear(library),
        CmsisLogits(library),
        CmsisMaxPool(library),
    ]
