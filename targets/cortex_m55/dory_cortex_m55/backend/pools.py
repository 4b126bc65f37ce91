"""Pools: maxima, sums, and means in binary32."""

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
    Struct,
    Symbol,
    Tile,
    WeightBlock,
    ceil_div,
    named,
    ops,
    reject_maximum,
    reject_type,
    size,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import (
    BYTES,
    VectorKernel,
    bytes_of,
    pad_value,
    reject_bytes,
    reject_elements,
    window_members,
)
from dory_cortex_m55.backend.forms import ONE_CHANNEL
from dory_cortex_m55.backend.requant import form_of, reject_form

_TABLE = 256
# Scales with which no sum of bytes is subnormal, or infinite: the vector unit takes such for 0.
_LEAST = 2.0**-90


class PoolKernel(VectorKernel):
    """What pools share."""

    file = "pool"

    def members(self, layer: Layer) -> dict[str, Argument]:
        """Return the members of the struct that both kinds have."""
        return {
            **named("x", "y", "x_h", "x_w", "y_h", "y_w"),
            "c": size("y_c"),
            **named("pad_top", "pad_left"),
            **window_members(layer.window),
            "x_signed": int(layer.inputs[0].signed),
            "x_bytes": bytes_of(layer.inputs[0]),
            "y_bytes": bytes_of(layer.output),
        }


class MaxPoolKernel(PoolKernel):
    """Maximum over a window, 16 channels at a time."""

    name = "dory_cortex_m55_maxpool"
    summary = "Maximum pooling of 16 channels at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window; the maximum is stored as it is."""
        return reject_maximum(layer) or reject_type(layer.inputs[0], "input", BYTES)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Taps of 16 channels."""
        vector = costs.POOL_VECTOR + layer.window.taps * costs.MAXPOOL_TAP
        return costs.CALL + tile.h * tile.w * (costs.PIXEL + ceil_div(tile.c_out, 16) * vector)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        return self.struct_call(layer, self.members(layer))


class AvgPoolKernel(PoolKernel):
    """Sum over a window, four channels at a time; the requantisation divides."""

    name = "dory_cortex_m55_avgpool"
    summary = "Average pooling of four channels at a time"
    features = PoolKernel.features | {Feature.PAD_VALUE}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window, one requantisation for all channels."""
        kind = layer.op
        if not isinstance(kind, ops.AvgPool) or kind.real is not None:
            return Rejection("it computes averages in integers", other_kind=True)
        if any(step.is_channelwise for step in kind.requants):
            return Rejection("its requantisation differs from channel to channel")
        wrong = reject_elements(layer.inputs[0], "input")
        return wrong or reject_elements(layer.output, "output") or reject_form(layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of one channel, eight times."""
        return 8 * form_of(layer).channel_bytes

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the parameters of one channel eight times."""
        form = form_of(layer)
        return WeightBlock(form.parameters(ONE_CHANNEL), {"mul": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Taps of four channels."""
        each = costs.POOL_VECTOR + layer.window.taps * costs.AVGPOOL_TAP
        each += form_of(layer).cycles // 2
        return costs.CALL + tile.h * tile.w * (costs.PIXEL + ceil_div(tile.c_out, 4) * each)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        form = form_of(layer)
        members: dict[str, Argument] = {
            **self.members(layer),
            "padding": pad_value(layer),
            "requant": form.struct(),
        }
        return self.struct_call(layer, members)


class MeanKernel(PoolKernel):
    """Mean over a window in binary32, as onnxruntime computes it."""

    name = "dory_cortex_m55_mean"
    summary = "Average pooling in binary32, four channels at a time"
    features = PoolKernel.features | {Feature.REALS, Feature.MEAN_INSIDE}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window; only a clip follows."""
        kind = layer.op
        if not isinstance(kind, ops.AvgPool) or kind.real is None:
            return Rejection("it computes averages in binary32", other_kind=True)
        steps = kind.requants
        if len(steps) != 1 or steps[0].offset != 0 or steps[0].lo is None:
            return Rejection("what follows it is more than a clip")
        if not all(_LEAST < scale < 1 / _LEAST for scale in (kind.real.scale, kind.real.out_scale)):
            return Rejection("sums of its scale may be beyond the normal numbers of binary32")
        return reject_bytes(layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The table."""
        return 4 * _TABLE

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the number that each byte stands for."""
        real, x = layer.of(ops.AvgPool).real, layer.inputs[0]
        assert real is not None
        values = np.arange(x.lo, x.hi + 1)
        table = np.zeros(_TABLE, np.float32)
        meant = (values - real.zero_point).astype(np.float32) * np.float32(real.scale)
        table[values & 0xFF] = meant
        return WeightBlock(table.astype("<f4").tobytes(), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Taps of four channels."""
        each = costs.MEAN_FOUR + layer.window.taps * costs.MEAN_TAP
        return costs.CALL + tile.h * tile.w * (costs.PIXEL + ceil_div(tile.c_out, 4) * each)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        kind = layer.of(ops.AvgPool)
        real, (step,) = kind.real, kind.requants
        assert real is not None and step.lo is not None and step.hi is not None
        pool = {**self.members(layer), "requant": Struct({"lo": step.lo, "hi": step.hi})}
        members: dict[str, Argument] = {
            "pool": Struct(pool),
            "table": Operand("weights", "const int32_t *"),
            "out_scale": Symbol(f"{np.float32(real.out_scale).item().hex()}f"),
            "out_zero": real.out_zero,
            "inside": int(not kind.counts_padding),
        }
        return self.struct_call(layer, members, "mean")
