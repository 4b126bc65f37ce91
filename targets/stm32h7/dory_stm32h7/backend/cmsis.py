"""The kernels of CMSIS-NN, exact: requantisation is replaced and its parameters are proven."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dory_core.expr import ceil_div
from dory_core.hardware import OutputFile
from dory_core.ir import Conv, Linear, MaxPool, Tensor, TypedLayer, Window
from dory_core.kernel import Access, Kernel, Number, Rejection, WeightBlock
from dory_core.tiling.geometry import Tile
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.accesses import (
    columns,
    copied,
    fully_connected,
    pixels_first,
    rows_first,
)
from dory_stm32h7.backend.cmsis_library import CmsisNn
from dory_stm32h7.backend.epilogue import find_epilogue
from dory_stm32h7.backend.instance import BYTES, CountedKernel, reject_type, tile_arguments

_INT32 = (1 << 31) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """y = ((acc + bias) * mul + rest) >> 32; int64, shape (C,). None: no requantisation."""

    bias: npt.NDArray[np.int64] | None
    mul: npt.NDArray[np.int64] | None = None
    rest: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class CmsisKernel(CountedKernel):
    """A function of CMSIS-NN. library: where its sources lie."""

    library: CmsisNn

    function: ClassVar[str]

    @property
    def name(self) -> str:  # type: ignore[override]
        """The function."""
        return self.function

    def symbol(self, layer: TypedLayer) -> str:
        """Our call of the function."""
        return f"dory_{self.function}"

    def headers(self, layer: TypedLayer) -> tuple[str, ...]:
        """The header of all calls."""
        return ("dory_cmsis_nn.h",)

    def sources(self, layer: TypedLayer) -> tuple[OutputFile, ...]:
        """The library's files, untouched, and ours."""
        return self.library.application_files(self.function)

    def buffer_bytes(self, layer: TypedLayer, tile: Tile) -> Number:
        """Return what the library's own function says about its buffer."""
        return 0

    def copied_bytes(self, layer: TypedLayer, tile: Tile) -> Number:
        """Return the bytes of the copy of the input."""
        x = tile.c_in if isinstance(layer.layer, Linear) else tile.x_h * tile.x_w * tile.c_in
        return x if _turned(layer.inputs[0]) else 0

    def scratch_bytes(self, layer: TypedLayer, tile: Tile) -> Number:
        """The library's buffer, and a copy of the input where bits are turned over."""
        return ceil_div(self.buffer_bytes(layer, tile) + self.copied_bytes(layer, tile), 8) * 8

    def reject_types(self, layer: TypedLayer, output: tuple[str, ...] = BYTES) -> Rejection | None:
        """Return why types are not possible."""
        return reject_type(layer.inputs[0], "input", BYTES) or reject_type(
            layer.output, "output", output
        )

    def weight_bytes(self, layer: TypedLayer, tile: Tile) -> Number:
        """Parameters of each channel, then weights."""
        found = _parameters(layer)
        if isinstance(found, Rejection):
            return 0
        channel = 4 * sum(p is not None for p in (found.mul, found.rest, found.bias))
        return ceil_div(tile.c_out * (channel + _weights(layer)[0].size), 8) * 8

    def weight_block(
        self, layer: TypedLayer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """``mul``, ``add`` and ``bias`` of each channel, then ``weights`` as the library wants."""
        found = _parameters(layer)
        if isinstance(found, Rejection):
            return None
        parts: dict[str, int] = {}
        data = b""
        for name, values in (("mul", found.mul), ("add", found.rest), ("bias", found.bias)):
            if values is not None:
                parts[name] = len(data)
                data += values[slice(*c_out)].astype("<i4").tobytes()
        parts["weights"] = len(data)
        data += self.arranged(_weights(layer)[slice(*c_out)])
        return WeightBlock(data + bytes(-len(data) % 8), parts)

    def arranged(self, weights: npt.NDArray[Any]) -> bytes:
        """Return weights in the library's order: rows of outputs, taps, then channels."""
        rows = np.moveaxis(weights, 1, 3) if weights.ndim == 4 else weights
        return rows.astype(np.int8).tobytes()

    def call(self, layer: TypedLayer) -> str:
        """One call with the sizes of the tile."""
        kind, y = layer.layer, layer.output
        window = kind.window if isinstance(kind, (Conv, MaxPool)) else Window(kernel=(1, 1))
        grouped = isinstance(kind, Conv) and kind.groups > 1
        turned_y = _turned(y)
        lo, hi = _bounds(layer)
        has = _parts(layer)
        arguments = [
            *tile_arguments("x", "y"),
            ("weights", "$weights" if "weights" in has else "0"),
            ("mul", "(const int32_t *)(const void *)$mul" if "mul" in has else "0"),
            ("rest", "(const int32_t *)(const void *)$add" if "mul" in has else "0"),
            ("bias", "(const int32_t *)(const void *)$bias" if "bias" in has else "0"),
            ("scratch", "$scratch" if self._has_scratch(layer) else "0"),
            ("buffer", self.buffer_text(layer)),
            *tile_arguments("x_h", "x_w", "x_c", "y_h", "y_w", "y_c", "pad_top", "pad_left"),
            ("group_in", str(_weights(layer).shape[1]) if grouped else "$x_c"),
            ("kernel_h", str(window.kernel[0])),
            ("kernel_w", str(window.kernel[1])),
            ("stride_h", str(window.strides[0])),
            ("stride_w", str(window.strides[1])),
            ("dilation_h", str(window.dilations[0])),
            ("dilation_w", str(window.dilations[1])),
            ("x_offset", str(128 * _turned(layer.inputs[0]))),
            ("y_offset", str(128 * turned_y)),
            ("lo", str(lo)),
            ("hi", str(hi)),
        ]
        lines = ",\n".join(f"    .{name} = {value}" for name, value in arguments)
        return f"{self.symbol(layer)}(&(const dory_cmsis_nn_t){{\n{lines}}});"

    def buffer_text(self, layer: TypedLayer) -> str:
        """Return the size of the library's buffer as a C expression."""
        return "0"

    def _has_scratch(self, layer: TypedLayer) -> bool:
        return self.buffer_text(layer) != "0" or _turned(layer.inputs[0])

    def _copy_instructions(self, layer: TypedLayer, tile: Tile) -> Number:
        """Return the instructions that turn bits of input and output."""
        count = costs.CALL + costs.CMSIS_TURN * self.copied_bytes(layer, tile) // 4
        if _turned(layer.output):
            count = count + costs.CMSIS_TURN * tile.h * tile.w * tile.c_out // 4
        return count


class _Weighted(CmsisKernel):
    """A kernel with weights. hundredths: instructions per hundred multiplications."""

    hundredths: ClassVar[int]

    def reject(self, layer: TypedLayer) -> Rejection | None:
        """Return why types, weights or requantisation are not possible."""
        weights = _weights(layer)
        if weights.min() < -128 or weights.max() > 127:
            return Rejection("its weights exceed 8 bits")
        rejection = self.reject_types(layer)
        if rejection is not None:
            return rejection
        found = _parameters(layer)
        return found if isinstance(found, Rejection) else None

    def instructions(self, layer: TypedLayer, tile: Tile) -> Number:
        """Multiplications, requantisation, copies."""
        outputs = tile.h * tile.w * tile.c_out
        fan_in = int(_weights(layer)[0].size)
        each = self.hundredths * fan_in // 100 + costs.CMSIS_OUTPUT
        return self._copy_instructions(layer, tile) + outputs * each


class CmsisConv(_Weighted):
    """Convolution with any filter and groups."""

    function = "arm_convolve_s8"
    summary = "CMSIS-NN: convolution"
    hundredths = costs.CMSIS_CONV

    def accepts(self, layer: TypedLayer) -> Rejection | None:
        """Any window; one input channel per group is for the depthwise kernels."""
        conv = layer.layer
        if not isinstance(conv, Conv):
            return Rejection("it computes convolutions only")
        if conv.groups > 1 and conv.weights.shape[1] == 1:
            return Rejection("it computes no depthwise convolution")
        return self.reject(layer)

    def buffer_bytes(self, layer: TypedLayer, tile: Tile) -> Number:
        """arm_convolve_s8_get_buffer_size: two columns of 16-bit numbers."""
        return 4 * (ceil_div(_taps(layer) * tile.c_in, 4) * 4)

    def buffer_text(self, layer: TypedLayer) -> str:
        """The same with the channels of the tile."""
        return f"({_taps(layer)} * $x_c + 3) / 4 * 16"

    def accesses(self, layer: TypedLayer, tile: Tile, line_bytes: int) -> tuple[Access, ...]:
        """Columns of two pixels, then all weights; columns are copies of rows of channels."""
        weights = int(self.weight_bytes(layer, tile))
        x, *others = columns(layer, tile, weights, 3, 4)
        return (*copied(x, int(self.copied_bytes(layer, tile))), *others)

    def instructions(self, layer: TypedLayer, tile: Tile) -> Number:
        """Columns beside what all have."""
        fan_in, taps = int(_weights(layer)[0].size), _taps(layer)
        column = costs.CMSIS_COLUMN_TENTHS * fan_in // 10 + costs.CMSIS_TAP * taps
        groups = tile.c_in // _weights(layer).shape[1]
        return super().instructions(layer, tile) + tile.h * tile.w * groups * column


class CmsisPointwise(_Weighted):
    """1x1 convolution; the copy of the input leaves out pixels that strides skip."""

    function = "arm_convolve_1x1_s8_fast"
    summary = "CMSIS-NN: 1x1 convolution"
    hundredths = costs.CMSIS_POINTWISE

    def accepts(self, layer: TypedLayer) -> Rejection | None:
        """Dense 1x1 filters without padding."""
        conv = layer.layer
        if not isinstance(conv, Conv) or not conv.is_pointwise:
            return Rejection("it computes dense 1x1 convolutions only")
        if any(conv.window.pads):
            return Rejection("it computes 1x1 convolutions without padding only")
        return self.reject(layer)

    def copied_bytes(self, layer: TypedLayer, tile: Tile) -> Number:
        """The pixels that are used, where strides skip some."""
        if self._strided(layer):
            return tile.h * tile.w * tile.c_in
        return super().copied_bytes(layer, tile)

    def accesses(self, layer: TypedLayer, tile: Tile, line_bytes: int) -> tuple[Access, ...]:
        """All pixels for every two output channels."""
        weights, copies = self.weight_bytes(layer, tile), self.copied_bytes(layer, tile)
        return rows_first(layer, tile, int(weights), int(copies), line_bytes)

    def _has_scratch(self, layer: TypedLayer) -> bool:
        return self._strided(layer) or super()._has_scratch(layer)

    @staticmethod
    def _strided(layer: TypedLayer) -> bool:
        conv = layer.layer
        return isinstance(conv, Conv) and conv.window.strides != (1, 1)


class _Depthwise(_Weighted):
    def accepts(self, layer: TypedLayer) -> Rejection | None:
        """One filter per channel, no dilation."""
        conv = layer.layer
        if not isinstance(conv, Conv) or not conv.is_depthwise:
            return Rejection("it computes depthwise convolutions only")
        if conv.groups != layer.output.channels:
            return Rejection("it computes one filter per channel")
        if conv.window.dilations != (1, 1):
            return Rejection("it computes no dilated filters")
        return self.reject_window(conv.window) or self.reject(layer)

    def reject_window(self, window: Window) -> Rejection | None:
        """Return why the window is not possible."""
        return None

    def accesses(self, layer: TypedLayer, tile: Tile, line_bytes: int) -> tuple[Access, ...]:
        """All channels of a pixel."""
        weights, copies = self.weight_bytes(layer, tile), self.copied_bytes(layer, tile)
        return pixels_first(layer, tile, int(weights), int(copies))

    def arranged(self, weights: npt.NDArray[Any]) -> bytes:
        """Taps, then the channels of the tile."""
        return np.moveaxis(weights[:, 0], 0, 2).astype(np.int8).tobytes()


class CmsisDepthwise3x3(_Depthwise):
    """Depthwise convolution with filters of 3x3."""

    function = "arm_depthwise_conv_3x3_s8"
    summary = "CMSIS-NN: depthwise convolution with 3x3 filters"
    hundredths = costs.CMSIS_DEPTHWISE_3X3

    def reject_window(self, window: Window) -> Rejection | None:
        """At most one column and row of padding."""
        if window.kernel != (3, 3):
            return Rejection("it computes filters of 3x3 only")
        if max(window.pads) > 1:
            return Rejection("it pads by one row and column at most")
        return None


class CmsisDepthwise(_Depthwise):
    """Depthwise convolution with filters of any size."""

    function = "arm_depthwise_conv_s8_opt"
    summary = "CMSIS-NN: depthwise convolution"
    hundredths = costs.CMSIS_DEPTHWISE

    def buffer_bytes(self, layer: TypedLayer, tile: Tile) -> Number:
        """arm_depthwise_conv_s8_opt_get_buffer_size_dsp: a window of 16-bit numbers."""
        return 2 * _taps(layer) * tile.c_in

    def buffer_text(self, layer: TypedLayer) -> str:
        """The same with the channels of the tile."""
        return f"{2 * _taps(layer)} * $x_c"


class CmsisLinear(_Weighted):
    """Fully connected layer."""

    function = "arm_fully_connected_per_channel_s8"
    summary = "CMSIS-NN: fully connected layer"
    hundredths = costs.CMSIS_LINEAR

    def accepts(self, layer: TypedLayer) -> Rejection | None:
        """Any number of inputs and outputs."""
        if not isinstance(layer.layer, Linear):
            return Rejection("it computes fully connected layers only")
        return self.reject(layer)

    def accesses(self, layer: TypedLayer, tile: Tile, line_bytes: int) -> tuple[Access, ...]:
        """All inputs for every output."""
        return fully_connected(layer, tile, int(self.weight_bytes(layer, tile)), 1)


class CmsisLogits(CmsisKernel):
    """Fully connected layer with 32-bit outputs."""

    function = "arm_nn_mat_mult_nt_t_s8_s32"
    summary = "CMSIS-NN: fully connected layer with 32-bit outputs"

    def accepts(self, layer: TypedLayer) -> Rejection | None:
        """No requantisation."""
        kind = layer.layer
        if not isinstance(kind, Linear):
            return Rejection("it computes fully connected layers only")
        if kind.requants:
            return Rejection("it has no requantisation")
        weights = kind.weights.values
        if weights.min() < -128 or weights.max() > 127:
            return Rejection("its weights exceed 8 bits")
        return self.reject_types(layer, ("i32",))

    def accesses(self, layer: TypedLayer, tile: Tile, line_bytes: int) -> tuple[Access, ...]:
        """All inputs for every output."""
        return fully_connected(layer, tile, int(self.weight_bytes(layer, tile)), 1)

    def instructions(self, layer: TypedLayer, tile: Tile) -> Number:
        """Multiplications and copies."""
        fan_in = int(_weights(layer)[0].size)
        each = costs.CMSIS_LINEAR * fan_in // 100 + costs.CMSIS_OUTPUT
        return self._copy_instructions(layer, tile) + tile.c_out * each


class CmsisMaxPool(CmsisKernel):
    """Maximum pooling."""

    function = "arm_max_pool_s8"
    summary = "CMSIS-NN: maximum pooling"

    def accepts(self, layer: TypedLayer) -> Rejection | None:
        """Any window without dilation."""
        kind = layer.layer
        if not isinstance(kind, MaxPool):
            return Rejection("it computes maximum pooling only")
        if kind.requants:
            return Rejection("it has no requantisation after the maximum")
        if kind.window.dilations != (1, 1):
            return Rejection("it computes no dilated windows")
        if _turned(layer.inputs[0]) != _turned(layer.output):
            return Rejection("input and output have different ranges")
        return self.reject_types(layer, (layer.inputs[0].type_name,))

    def weight_bytes(self, layer: TypedLayer, tile: Tile) -> Number:
        """No constants."""
        return 0

    def weight_block(
        self, layer: TypedLayer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """No constants."""
        return None

    def accesses(self, layer: TypedLayer, tile: Tile, line_bytes: int) -> tuple[Access, ...]:
        """All channels of a pixel."""
        return pixels_first(layer, tile, copied_bytes=int(self.copied_bytes(layer, tile)))

    def instructions(self, layer: TypedLayer, tile: Tile) -> Number:
        """Taps and copies."""
        kind = layer.layer
        assert isinstance(kind, MaxPool)
        taps = kind.window.kernel[0] * kind.window.kernel[1]
        outputs = tile.h * tile.w * tile.c_out
        return self._copy_instructions(layer, tile) + outputs * taps * costs.CMSIS_MAXPOOL_TAP


def cmsis_kernels(library: CmsisNn) -> list[Kernel]:
    """Return the kernels of CMSIS-NN, the more special ones first."""
    return [
        CmsisPointwise(library),
        CmsisConv(library),
        CmsisDepthwise3x3(library),
        CmsisDepthwise(library),
        CmsisLinear(library),
        CmsisLogits(library),
        CmsisMaxPool(library),
    ]


def _turned(tensor: Tensor) -> bool:
    """Return True where the highest bit is turned over to make a signed byte of an element."""
    return tensor.bits == 8 and not tensor.signed and tensor.hi > 127


def _weights(layer: TypedLayer) -> npt.NDArray[Any]:
    kind = layer.layer
    if not isinstance(kind, (Conv, Linear)):
        return np.zeros((1, 0), dtype=np.int8)
    return kind.weights.values


def _taps(layer: TypedLayer) -> int:
    kind = layer.layer
    return kind.window.kernel[0] * kind.window.kernel[1] if isinstance(kind, Conv) else 1


def _bounds(layer: TypedLayer) -> tuple[int, int]:
    """Return the bounds of outputs as the library sees them."""
    y, requants = layer.output, layer.layer.requants
    if y.bits != 8:
        return 0, 0
    lo, hi = (-128, 127) if y.signed or _turned(y) else (0, 127)
    offset = 128 * _turned(y)
    if requants and requants[-1].lo is not None and requants[-1].hi is not None:
        lo, hi = max(lo, requants[-1].lo - offset), min(hi, requants[-1].hi - offset)
    return lo, hi


def _parts(layer: TypedLayer) -> tuple[str, ...]:
    """Return the parts of a weight block."""
    if isinstance(layer.layer, MaxPool):
        return ()
    found = _parameters(layer)
    if isinstance(found, Rejection):
        return ()
    names = ("mul", found.mul), ("bias", found.bias)
    return (*(n for n, values in names if values is not None), "weights")


def _parameters(layer: TypedLayer) -> Parameters | Rejection:
    """Return the library's parameters of a layer with weights, or why none are exact."""
    found = find_epilogue(layer)
    if isinstance(found, Rejection):
        return found
    if not found.steps:
        return Parameters(found.bias)
    line = found.steps[0]
    if len(found.steps) > 1 or line.shift != 32:
        return Rejection("its requantisation is no product of which the upper half is the output")
    channels = layer.output.channels
    mul = np.broadcast_to(line.mul, (channels,))
    add = np.broadcast_to(line.add, (channels,))
    if (mul == 0).any():
        return Rejection("a channel is constant, which the library's requantisation cannot express")
    bias, rest = np.divmod(add, mul)
    ends = (layer.ranges.acc_lo + int(bias.min()), layer.ranges.acc_hi + int(bias.max()))
    kind = layer.layer
    own = getattr(kind, "bias", None)
    margin = 0 if own is None else int(np.abs(own.values).max())
    if max(-ends[0], ends[1]) + margin > _INT32:
        return Rejection("its accumulator with the bias exceeds 32 bits")
    return Parameters(bias, mul, rest)
