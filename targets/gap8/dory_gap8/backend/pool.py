"""Maximum and average pooling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dory_core.api import (
    FunctionCall,
    Layer,
    Number,
    Rejection,
    ceil_div,
    minimum,
    ops,
    reject_maximum,
    reject_type,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.conv import geometry_arguments
from dory_gap8.backend.instance import (
    INPUT_TYPES,
    OUTPUT_TYPES,
    Arguments,
    ClusterKernel,
    Instance,
    c_type,
    call_text,
    element_macros,
    reject_channelwise,
    tile_arguments,
)
from dory_gap8.backend.packing import per_byte
from dory_gap8.backend.requant import Epilogue, epilogue, reject_requants

if TYPE_CHECKING:
    from dory_core.api import Tile

TILE = ("x", "y", "x_h", "x_w", "y_h", "y_w", "y_c", "pad_top", "pad_left")


def _shared_cycles(cores: int, tile: Tile, unit: int, pixel: Callable[[Number], Number]) -> Number:
    """Return the cycles of a call: the cores split over channels as is cheapest, the rest is rows.

    unit: channels that cores do not share. pixel: cycles of one pixel with the given number of
    channels.
    """
    units = ceil_div(tile.c_out, unit)
    ways = [
        ceil_div(tile.h * tile.w, cores // groups) * pixel(ceil_div(units, groups) * unit)
        for groups in (1 << n for n in range(cores.bit_length()))
    ]
    return cal.CALL + (ways[0] if len(ways) == 1 else minimum(*ways))


@dataclass(frozen=True)
class MaxPoolKernel(ClusterKernel):
    """Maximum over a window, which leaves the type of the elements."""

    name = "dory_gap8_maxpool"
    summary = "maximum pooling"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window; the maximum is stored as it is."""
        return reject_maximum(layer) or reject_type(layer.inputs[0], "input", INPUT_TYPES)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """One comparison per tap and word of channels."""
        taps = layer.window.taps
        bits = layer.inputs[0].bits
        if bits > 8:
            step, word = 1, cal.MAXPOOL_ELEMENT_16
        else:
            step, word = 32 // bits, cal.MAXPOOL_WORD + (per_byte(bits) - 1) * cal.MAXPOOL_FIELD
        pixel = cal.POOL_PIXEL + taps * cal.MAXPOOL_TAP
        return _shared_cycles(
            self.cores, tile, per_byte(bits), lambda c: pixel + ceil_div(c, step) * taps * word
        )

    def label(self, layer: Layer) -> str:
        """The element type."""
        return f"dory_gap8_maxpool_{layer.inputs[0].type_name}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        arguments = (*tile_arguments(*TILE), *geometry_arguments(layer.window))
        return call_text(self.symbol(layer), "maxpool", arguments)

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        x = layer.inputs[0].type_name
        vector = f"{x[0]}8"
        macros = (
            *element_macros("X", x),
            ("DORY_X4_T", f"dory_gap8_{vector}x4_t"),
            ("DORY_FROM_WORD_X", f"dory_gap8_from_word_{vector}"),
            ("DORY_TO_WORD_X", f"dory_gap8_to_word_{vector}"),
            ("DORY_MAX4", f"dory_gap8_max4_{vector}"),
            ("DORY_GAP8_PIXEL_CHANNELS", str(cal.MAXPOOL_PIXEL_CHANNELS)),
        )
        return Instance("maxpool", self.label(layer), f"Maximum pooling of {x}.", macros)


@dataclass(frozen=True)
class AvgPoolKernel(ClusterKernel):
    """Sum over a window; the division is part of the requantisation."""

    name = "dory_gap8_avgpool"
    summary = "average pooling"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window; parameters of the requantisation are the same for all channels."""
        kind = layer.op
        if not isinstance(kind, ops.AvgPool):
            return Rejection("it computes average pooling only")
        return (
            reject_channelwise(kind.requants)
            or reject_type(layer.inputs[0], "input", INPUT_TYPES)
            or reject_type(layer.output, "output", OUTPUT_TYPES)
            or reject_requants(layer, kind.requants)
        )

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """One addition per tap and element, then the requantisation."""
        taps = layer.window.taps
        x, y = layer.inputs[0].bits, layer.output.bits
        tap = cal.AVGPOOL_TAP + (cal.ELEMENT_FIELD if x < 8 else 0)
        output = taps * tap + cal.AVGPOOL_OUTPUT + self._epilogue(layer).step_cycles
        output += cal.PACK_OUTPUT if y < 8 else 0
        unit = per_byte(min(x, y))
        return _shared_cycles(self.cores, tile, unit, lambda c: cal.POOL_PIXEL + c * output)

    def label(self, layer: Layer) -> str:
        """Types and requantisation."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        return f"dory_gap8_avgpool_{x}_{y}{self._epilogue(layer).suffix}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        arguments = (
            *tile_arguments(*TILE),
            *geometry_arguments(layer.window),
            *_requant_argument(self._epilogue(layer)),
        )
        return call_text(self.symbol(layer), "avgpool", arguments)

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        macros = (
            *element_macros("X", x),
            ("DORY_Y_BITS", y[1:]),
            ("DORY_Y_T", c_type(y)),
            ("DORY_GAP8_PIXEL_CHANNELS", str(cal.AVGPOOL_PIXEL_CHANNELS)),
            *self._epilogue(layer).macros,
        )
        purpose = f"Average pooling, {x} to {y}."
        return Instance("avgpool", self.label(layer), purpose, macros)

    @staticmethod
    def _epilogue(layer: Layer) -> Epilogue:
        return epilogue(layer)


def _requant_argument(chosen: Epilogue) -> Arguments:
    return (("requant", chosen.struct(arrays=False)),) if chosen.steps else ()
