"""Interpolation, and nearest neighbours."""

from __future__ import annotations

from dory_core.api import (
    Argument,
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
    reject_type,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import BYTES, VectorKernel, reject_bytes
from dory_cortex_m55.backend.forms import ONE_CHANNEL
from dory_cortex_m55.backend.requant import form_of, reject_form

_VECTOR, _FOUR = 16, 4


class ResizeKernel(VectorKernel):
    """Sums of four pixels by weights, or runs of bytes of the nearest ones."""

    name = "dory_cortex_m55_resize"
    file = "resize"
    more = ("runs.h",)
    summary = "Interpolation of four channels at a time, and nearest neighbours"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes; parameters are the same for all channels."""
        if not isinstance(layer.op, ops.Resize):
            return Rejection("it computes interpolation", other_kind=True)
        if any(step.is_channelwise for step in layer.op.requants):
            return Rejection("its requantisation differs from channel to channel")
        if not _is_nearest(layer):
            return reject_bytes(layer) or reject_form(layer)
        x, y = layer.inputs[0], layer.output
        if x.type_name != y.type_name:
            return Rejection(f"its input is {x.type_name}, its output {y.type_name}")
        return reject_type(x, "input", BYTES)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Taps of all rows and columns, and parameters of one channel eight times."""
        taps = 16 * (layer.output.height + layer.output.width)
        return taps + (0 if _is_nearest(layer) else 8 * form_of(layer).channel_bytes)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the taps, then the parameters."""
        data = layer.of(ops.Resize).taps.astype("<i4").tobytes()
        if _is_nearest(layer):
            return WeightBlock(data, {"weights": 0})
        block = data + form_of(layer).parameters(ONE_CHANNEL)
        return WeightBlock(block, {"weights": 0, "mul": len(data)})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Pixels, of runs of bytes or of channels in fours."""
        if _is_nearest(layer):
            pixel = costs.RESIZE_RUN + ceil_div(tile.c_out, _VECTOR) * costs.COPY_VECTOR
        else:
            each = costs.RESIZE_FOUR + form_of(layer).cycles // 2
            pixel = costs.PIXEL + ceil_div(tile.c_out, _FOUR) * each
        return costs.CALL + tile.h * tile.w * pixel

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile, with the places of its first elements."""
        members: dict[str, Argument] = {
            **named("x", "y", "x_w", "x_row", "x_column"),
            **named("y_h", "y_w", "y_c", "y_row", "y_column"),
            "taps": Operand("weights", "const int32_t *"),
            "height": layer.output.height,
            "x_signed": int(layer.inputs[0].signed),
            "is_nearest": int(_is_nearest(layer)),
        }
        if not _is_nearest(layer):
            members["requant"] = form_of(layer).struct()
        return self.struct_call(layer, members)


def _is_nearest(layer: Layer) -> bool:
    """Return True when outputs are elements of the input as they are."""
    return layer.of(ops.Resize).is_gather and not layer.op.requants
