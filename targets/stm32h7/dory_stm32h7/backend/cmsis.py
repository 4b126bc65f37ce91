"""The kernels of CMSIS-NN on cores without vectors, exact, with proven parameters, in two forms.

One is the library as it is, whose requantisation is that of TensorFlow Lite Micro; in the other one
requantisation is replaced, for all other networks.
"""

from __future__ import annotations

from dory_cmsis_nn import functions
from dory_cmsis_nn.kernel import CmsisKernel
from dory_cmsis_nn.library import CmsisNn
from dory_cmsis_nn.parameters import Parameters, taps_of, turned, weights_of

from dory_core.api import (
    Feature,
    Kernel,
    Layer,
    Number,
    Rejection,
    Term,
    Tile,
    caches,
    ceil_div,
    ops,
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
from dory_stm32h7.backend.cmsis_parameters import find_parameters
from dory_stm32h7.backend.instance import TimedKernel
from dory_stm32h7.objective import BETA_BLOCK


class _OnCore(CmsisKernel, TimedKernel, caches.MemoryAccesses):
    """A function with what a call and turned bits take."""

    def copy_tenths(self, layer: Layer, tile: Tile) -> Number:
        """Return the tenths of cycles of a call, and of turning bits of input and output."""
        count = costs.CMSIS_CALL + costs.CMSIS_TURN * self.copied_bytes(layer, tile) // 4
        if turned(layer.output):
            count = count + costs.CMSIS_TURN * tile.h * tile.w * tile.c_out // 4
        return count


class _Replaced(CmsisKernel):
    """The library with its requantisation replaced by the upper half of a product."""

    native = False
    features = frozenset({Feature.PAD_VALUE})

    def parameters(self, layer: Layer) -> Parameters | Rejection | None:
        """Those of the product."""
        return find_parameters(layer)


class NativeConv(functions.Convolution, _OnCore):
    """Convolution with any filter and groups."""

    def buffer_bytes(self, layer: Layer, tile: Tile) -> Number:
        """arm_convolve_s8_get_buffer_size: two columns of 16-bit numbers."""
        return 4 * (ceil_div(taps_of(layer) * tile.c_in, 4) * 4)

    def buffer_size(self, layer: Layer) -> Number:
        """The same with the channels of the tile."""
        return (taps_of(layer) * size("x_c") + 3) // 4 * 16

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """Columns of two pixels, then all weights; columns are copies of rows of channels."""
        weights = int(self.weight_bytes(layer, tile))
        x, *others = columns(layer, tile, weights, 3, 4, together=2, store=1)
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


class NativePointwise(functions.Pointwise, _OnCore):
    """1x1 convolution."""

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


class NativeDepthwise3x3(functions.Depthwise3x3, _OnCore):
    """Depthwise convolution with filters of 3x3."""

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """All channels of a pixel."""
        weights, copies = self.weight_bytes(layer, tile), self.copied_bytes(layer, tile)
        return pixels_first(layer, tile, int(weights), int(copies))

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Taps within the image, in fours of channels."""
        rows, columns = _taps_inside(layer)
        taps = (costs.CMSIS_DEPTHWISE_3X3_ROW + costs.CMSIS_DEPTHWISE_3X3_TAP * columns) * rows
        four = int(taps) + costs.CMSIS_DEPTHWISE_3X3_FOUR[self.native]
        pixel = costs.CMSIS_DEPTHWISE_3X3_PIXEL + tile.c_out // 4 * four
        pixel = pixel + tile.c_out % 4 * costs.CMSIS_DEPTHWISE_3X3_ONE[self.native]
        return self.copy_tenths(layer, tile) + tile.h * tile.w * pixel


class NativeDepthwise(functions.Depthwise, _OnCore):
    """Depthwise convolution with filters of any size."""

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """All channels of a pixel."""
        weights, copies = self.weight_bytes(layer, tile), self.copied_bytes(layer, tile)
        return pixels_first(layer, tile, int(weights), int(copies))

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


class NativeLinear(functions.FullyConnected, _OnCore):
    """Fully connected layer."""

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


class CmsisLogits(_OnCore):
    """Fully connected layer with 32-bit outputs."""

    name = function = "arm_nn_mat_mult_nt_t_s8_s32"
    summary = "CMSIS-NN: fully connected layer with 32-bit outputs"

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


class CmsisMaxPool(functions.MaxPool, _OnCore):
    """Maximum pooling."""

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


class CmsisConv(_Replaced, NativeConv):
    """Convolution with its requantisation replaced."""

    name = "arm_convolve_s8"
    summary = "CMSIS-NN: convolution"


class CmsisPointwise(_Replaced, NativePointwise):
    """1x1 convolution with its requantisation replaced."""

    name = "arm_convolve_1x1_s8_fast"
    summary = "CMSIS-NN: 1x1 convolution"


class CmsisDepthwise3x3(_Replaced, NativeDepthwise3x3):
    """Depthwise convolution with filters of 3x3 with its requantisation replaced."""

    name = "arm_depthwise_conv_3x3_s8"
    summary = "CMSIS-NN: depthwise convolution with 3x3 filters"


class CmsisDepthwise(_Replaced, NativeDepthwise):
    """Depthwise convolution with its requantisation replaced."""

    name = "arm_depthwise_conv_s8_opt"
    summary = "CMSIS-NN: depthwise convolution"


class CmsisLinear(_Replaced, NativeLinear):
    """Fully connected layer with its requantisation replaced."""

    name = "arm_fully_connected_per_channel_s8"
    summary = "CMSIS-NN: fully connected layer"


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
