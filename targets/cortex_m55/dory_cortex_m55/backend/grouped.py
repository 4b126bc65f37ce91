"""Convolutions of groups of channels: each group is a convolution of its own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Argument,
    Constraint,
    FunctionCall,
    Layer,
    Number,
    Rejection,
    Struct,
    Term,
    Tile,
    ops,
    size,
)
from dory_cortex_m55.backend.base import by_bytes, bytes_of, places_of, reject_padding, whole
from dory_cortex_m55.backend.conv import ConvKernel
from dory_cortex_m55.backend.requant import are_sums, form_of
from dory_cortex_m55.backend.rows import EIGHT


class GroupedKernel(ConvKernel):
    """Convolution with several groups, one after another."""

    name = "dory_cortex_m55_grouped"
    summary = "Convolution of groups of channels, each as one of its own"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window, of more groups than one."""
        conv = layer.op
        if not isinstance(conv, ops.Conv):
            return Rejection("it computes convolutions", other_kind=True)
        if conv.groups == 1 or by_bytes(layer):
            return Rejection("it has one group, or is depthwise of 16 bits")
        if are_sums(layer):
            return Rejection("its sums are stored as they are")
        return self.reject(layer) or reject_padding(layer)

    def constraints(self, layer: Layer, tile: Tile) -> tuple[Constraint, ...]:
        """Keep groups whole."""
        own = self.channels(layer)
        return (Constraint(tile.c_out % own == 0, f"groups of {own} output channels are whole"),)

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Many groups."""
        return (Term("COLUMNS_SERVE_MANY", 1e2, tile.c_out),)

    def length(self, layer: Layer) -> int:
        """Taps by input channels of a group."""
        return layer.window.taps * _inputs(layer)

    def channels(self, layer: Layer) -> int:
        """Return the channels of a group."""
        return layer.output.channels // layer.of(ops.Conv).groups

    def places(self, c_out: tuple[int, int], layer: Layer) -> npt.NDArray[np.intp]:
        """Return those of one group after another."""
        own = self.channels(layer)
        return np.concatenate([places_of((at, at + own)) for at in range(*c_out, own)])

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of each group in eights, then their rows."""
        rows = tile.c_out // self.channels(layer) * whole(self.channels(layer), EIGHT)
        form = form_of(layer)
        return rows * (form.channel_bytes + self.pitch(layer)) + form.table_bytes

    def products_cycles(
        self, layer: Layer, channels: Number, lines: Number, length: Number
    ) -> Number:
        """Return the cycles of all groups."""
        own = self.channels(layer)
        return channels // own * super().products_cycles(layer, own, lines, length)

    def laid_cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return the cycles of the columns of all groups."""
        return tile.c_out // self.channels(layer) * super().laid_cycles(layer, tile)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        own, x, y = self.channels(layer), layer.inputs[0], layer.output
        inputs, rows = _inputs(layer) * bytes_of(x), int(whole(own, EIGHT))
        conv: dict[str, Argument] = {**self.conv_members(layer), "x_c": inputs, "y_c": own}
        members: dict[str, Argument] = {
            "conv": Struct(conv),
            "groups": size("y_c") // own,
            "x_step": inputs,
            "y_step": own * bytes_of(y),
            "weights_step": rows * self.pitch(layer),
            "requant_step": rows * form_of(layer).channel_bytes,
        }
        return self.struct_call(layer, members, "grouped")


def _inputs(layer: Layer) -> int:
    """Return the input channels of a group."""
    return layer.inputs[0].channels // layer.of(ops.Conv).groups
