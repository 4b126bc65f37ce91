"""Sums of two tensors, functions of one byte, and pools."""

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
    Tile,
    WeightBlock,
    ceil_div,
    named,
    ops,
    reject_maximum,
    reject_type,
    requantisation,
    size,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import (
    BYTES,
    VectorKernel,
    count,
    elements,
    pad_value,
    reject_bytes,
    window_members,
)
from dory_cortex_m55.backend.requant import form_of, reject_form

_EIGHT = np.zeros(8, np.intp)  # the same channel eight times
_TABLE = 256
_INT31 = (1 << 30) - 1
_INT32 = (1 << 31) - 1


class LutKernel(VectorKernel):
    """Function of one byte by a table."""

    name = "dory_cortex_m55_lut"
    file = "lut"
    summary = "Function of one byte by a table, 16 at a time"
    features = VectorKernel.features | {Feature.OTHER_OPERAND}

    def accepts(self, layer: Layer) -> Rejection | None:
        """One table for all channels; a pair of a tensor and a number is such a function."""
        if not isinstance(layer.op, ops.Lut | ops.Pairwise):
            return Rejection("it computes functions of one byte", other_kind=True)
        rejection = reject_bytes(layer)
        if rejection is None:
            table = requantisation.byte_table(layer)
            if table is None or table.ndim > 1:
                return Rejection("it has one table of bytes for all channels")
        return rejection

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The table."""
        return _TABLE

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the table."""
        table = requantisation.byte_table(layer)
        assert table is not None
        return WeightBlock((table & 0xFF).astype(np.uint8).tobytes(), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Elements, 16 at a time."""
        return costs.CALL + ceil_div(elements(tile), 16) * costs.LUT_VECTOR

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        members = {**named("x", "y"), "table": Operand("weights"), "count": count()}
        return FunctionCall(self.symbol(layer), members)


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
        return reject_bytes(layer) or reject_form(layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of one channel, eight times."""
        return 8 * form_of(layer).channel_bytes

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the parameters of one channel eight times."""
        form = form_of(layer)
        return WeightBlock(form.parameters(_EIGHT), {"mul": 0})

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
