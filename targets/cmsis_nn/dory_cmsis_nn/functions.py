"""What functions of CMSIS-NN accept: of each convolution, and of fully connected layers and pools.

Kernels are the library as it is, whose requantisation is that of TensorFlow Lite Micro. A target
adds buffers and cycles, which depend on the core.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dory_cmsis_nn.kernel import CmsisKernel, WeightedCmsisKernel
from dory_cmsis_nn.parameters import turned
from dory_core.api import (
    Feature,
    Layer,
    Number,
    Rejection,
    Tile,
    WeightBlock,
    ops,
    reject_maximum,
)

_FEATURES = frozenset({Feature.PAD_VALUE, Feature.TWO_ADDENDS})


class Convolution(WeightedCmsisKernel):
    """Convolution with any filter and groups."""

    function = "arm_convolve_s8"
    name = "arm_convolve_s8_tflm"
    summary = "CMSIS-NN as it is: convolution"
    features = _FEATURES

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window; one input channel per group is for the depthwise kernels."""
        conv = layer.op
        if not isinstance(conv, ops.Conv):
            return Rejection("it computes convolutions only")
        if conv.groups > 1 and conv.weights.shape[1] == 1:
            return Rejection("it computes no depthwise convolution")
        return self.reject(layer)


class Pointwise(WeightedCmsisKernel):
    """1x1 convolution; the copy of the input leaves out pixels that strides skip."""

    function = "arm_convolve_1x1_s8_fast"
    name = "arm_convolve_1x1_s8_fast_tflm"
    summary = "CMSIS-NN as it is: 1x1 convolution"
    features = _FEATURES

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
        if _is_strided(layer):
            return tile.h * tile.w * tile.c_in
        return super().copied_bytes(layer, tile)

    def has_scratch(self, layer: Layer) -> bool:
        """For the copy."""
        return _is_strided(layer) or super().has_scratch(layer)


def _is_strided(layer: Layer) -> bool:
    conv = layer.op
    return isinstance(conv, ops.Conv) and conv.window.strides != (1, 1)


class Depthwise(WeightedCmsisKernel):
    """Depthwise convolution with filters of any size."""

    function = "arm_depthwise_conv_s8_opt"
    name = "arm_depthwise_conv_s8_opt_tflm"
    summary = "CMSIS-NN as it is: depthwise convolution"
    features = _FEATURES

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

    def arranged(self, weights: npt.NDArray[Any]) -> bytes:
        """Taps, then the channels of the tile."""
        return np.moveaxis(weights[:, 0], 0, 2).astype(np.int8).tobytes()


class Depthwise3x3(Depthwise):
    """Depthwise convolution with filters of 3x3."""

    function = "arm_depthwise_conv_3x3_s8"
    name = "arm_depthwise_conv_3x3_s8_tflm"
    summary = "CMSIS-NN as it is: depthwise convolution with 3x3 filters"

    def reject_window(self, window: ops.Window) -> Rejection | None:
        """At most one column and row of padding."""
        if window.kernel != (3, 3):
            return Rejection("it computes filters of 3x3 only")
        if max(window.pads) > 1:
            return Rejection("it pads by one row and column at most")
        return None


class FullyConnected(WeightedCmsisKernel):
    """Fully connected layer."""

    function = "arm_fully_connected_per_channel_s8"
    name = "arm_fully_connected_per_channel_s8_tflm"
    summary = "CMSIS-NN as it is: fully connected layer"
    features = frozenset({Feature.TWO_ADDENDS})

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any number of inputs and outputs."""
        if not isinstance(layer.op, ops.Linear):
            return Rejection("it computes fully connected layers only")
        return self.reject(layer)


class MaxPool(CmsisKernel):
    """Maximum pooling."""

    name = function = "arm_max_pool_s8"
    summary = "CMSIS-NN: maximum pooling"

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
