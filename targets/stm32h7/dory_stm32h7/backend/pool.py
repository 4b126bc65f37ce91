"""Maximum and average pooling."""

from __future__ import annotations

from dory_core.api import (
    Feature,
    FunctionCall,
    Layer,
    Number,
    Rejection,
    Struct,
    Symbol,
    Tile,
    caches,
    ops,
    reject_maximum,
    reject_type,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.accesses import pixels_first
from dory_stm32h7.backend.epilogue import epilogue, reject_epilogue
from dory_stm32h7.backend.instance import (
    BYTES,
    HALVES,
    OUTPUTS,
    InstanceKernel,
    kernel_arguments,
    pad_token,
    pad_value,
    step_arguments,
    tile_arguments,
    type_macros,
)
from dory_stm32h7.backend.weighted import output_extra

_INPUTS = (*BYTES, *HALVES)
_TILE = ("x", "y", "x_h", "x_w", "y_h", "y_w", "y_c", "pad_top", "pad_left")


class MaxPoolKernel(InstanceKernel, caches.MemoryAccesses):
    """Maximum over a window, four channels at a time."""

    name = "dory_stm32h7_maxpool"
    template = "maxpool"
    summary = "Maximum pooling of four channels at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window; the maximum is stored as it is."""
        return reject_maximum(layer) or reject_type(layer.inputs[0], "input", _INPUTS)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Taps of four channels, and of the channels that are left."""
        taps = layer.window.taps
        tap = costs.MAXPOOL_TAP if layer.inputs[0].bits == 8 else costs.MAXPOOL_WIDE_TAP
        four = costs.POOL_FOUR + taps * tap
        one = costs.POOL_FOUR + taps * costs.POOL_NARROW
        pixel = costs.POOL_PIXEL + tile.c_out // 4 * four + tile.c_out % 4 * one
        return costs.CALL + tile.h * tile.w * pixel

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """All channels of a pixel, four at a time."""
        return pixels_first(layer, tile, word=32 // layer.output.bits)

    def label(self, layer: Layer) -> str:
        """The element type."""
        return f"{self.name}_{layer.inputs[0].type_name}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        window = layer.window
        arguments = (*tile_arguments(*_TILE), *kernel_arguments(window), *step_arguments(window))
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        return type_macros("X", layer.inputs[0])


class AvgPoolKernel(InstanceKernel, caches.MemoryAccesses):
    """Sum over a window, four channels at a time; requantisation divides."""

    name = "dory_stm32h7_avgpool"
    template = "avgpool"
    features = InstanceKernel.features | {Feature.PAD_VALUE}
    summary = "Average pooling of four channels at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window; parameters are the same for all channels."""
        kind = layer.op
        if not isinstance(kind, ops.AvgPool):
            return Rejection("it computes average pooling only")
        if any(step.is_channelwise for step in kind.requants):
            return Rejection("its requantisation differs from channel to channel")
        return (
            reject_type(layer.inputs[0], "input", _INPUTS)
            or reject_type(layer.output, "output", OUTPUTS if kind.requants else ("i32",))
            or reject_epilogue(layer)
        )

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Taps of four channels, and of the channels that are left."""
        taps, output = layer.window.taps, costs.POOL_OUTPUT + output_extra(epilogue(layer))
        sums = taps * costs.AVGPOOL_TAP
        if _is_wide(layer):
            rows = layer.window.kernel[0]
            sums = taps * costs.AVGPOOL_WIDE_TAP + rows * costs.AVGPOOL_WIDE_ROW
        four = costs.POOL_FOUR + sums + 4 * output
        one = costs.POOL_FOUR + taps * costs.POOL_NARROW + output
        pixel = costs.POOL_PIXEL + tile.c_out // 4 * four + tile.c_out % 4 * one
        return costs.CALL + tile.h * tile.w * pixel

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """All channels of a pixel, four at a time."""
        return pixels_first(layer, tile)

    def label(self, layer: Layer) -> str:
        """Types and requantisation."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        wide = "_wide" if _is_wide(layer) else ""
        return f"{self.name}{wide}{pad_token(layer)}_{x}_{y}{epilogue(layer).suffix}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        window = layer.window
        arguments = (
            *tile_arguments(*_TILE),
            *kernel_arguments(window),
            *step_arguments(window),
            ("requant", epilogue(layer).struct(arrays=False)),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        types = (*type_macros("X", layer.inputs[0]), *type_macros("Y", layer.output))
        padding = ("DORY_PAD_VALUE", pad_value(layer))
        return (*types, padding, ("DORY_WIDE", int(_is_wide(layer))), *epilogue(layer).macros)


def _is_wide(layer: Layer) -> bool:
    """Return True when the sums of windows exceed 16 bits."""
    x, taps = layer.inputs[0], layer.window.taps
    lo, hi = layer.ranges.acc_lo, layer.ranges.acc_hi
    if pad_value(layer):  # it is added to the sum of the elements inside
        lo, hi = min(lo, taps * min(x.lo, 0)), max(hi, taps * x.hi)
    return x.bits > 8 or lo < -32768 or hi > (32767 if x.signed else 65535)


class RealPoolKernel(InstanceKernel):
    """Average over a window in binary32, as onnxruntime computes it."""

    name = "dory_stm32h7_realpool"
    template = "realpool"
    features = InstanceKernel.features | {Feature.REALS, Feature.MEAN_INSIDE}
    summary = "Average pooling in binary32"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window; only a clip follows."""
        op = layer.op
        if not isinstance(op, ops.AvgPool) or op.real is None:
            return Rejection("it computes averages in binary32 only")
        steps = op.requants
        clips = len(steps) == 1 and (steps[0].mul, steps[0].add, steps[0].div) == ((1,), (0,), 1)
        if not clips or steps[0].lo is None:
            return Rejection("what follows it is more than a clip")
        return reject_type(layer.inputs[0], "input", BYTES) or reject_type(
            layer.output, "output", BYTES
        )

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Taps of each channel, and its divisions."""
        channel = costs.REALPOOL_OUTPUT + layer.window.taps * costs.REALPOOL_TAP
        pixel = costs.POOL_PIXEL + tile.c_out * channel
        return costs.CALL + tile.h * tile.w * pixel

    def label(self, layer: Layer) -> str:
        """Types, and what counts."""
        inside = "" if layer.of(ops.AvgPool).counts_padding else "_inside"
        return f"{self.name}{inside}_{layer.inputs[0].type_name}_{layer.output.type_name}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        op = layer.of(ops.AvgPool)
        real, step = op.real, op.requants[0]
        assert real is not None
        arguments = (
            *tile_arguments(*_TILE),
            *kernel_arguments(op.window),
            *step_arguments(op.window),
            ("requant", Struct({"lo": step.lo, "hi": step.hi})),
            ("scale", Symbol(f"{real.scale.hex()}f")),
            ("out_scale", Symbol(f"{real.out_scale.hex()}f")),
            ("zero_point", real.zero_point),
            ("out_zero", real.out_zero),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        macros = (
            *type_macros("X", layer.inputs[0]),
            *type_macros("Y", layer.output),
            ("DORY_INSIDE", int(not layer.of(ops.AvgPool).counts_padding)),
        )
        return macros
