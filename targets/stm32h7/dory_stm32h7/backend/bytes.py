"""Functions of one byte, interpolation and softmax."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Feature,
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Symbol,
    Tile,
    WeightBlock,
    ceil_div,
    ops,
    reject_type,
    requantisation,
    size,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.epilogue import epilogue, reject_epilogue
from dory_stm32h7.backend.instance import (
    BYTES,
    OUTPUTS,
    InstanceKernel,
    c_type,
    tile_arguments,
    type_macros,
)
from dory_stm32h7.backend.weighted import output_extra

# Pixels from which on a pair of a tensor and numbers becomes a table for each channel.
_TABLE_PIXELS = 16


class LutKernel(InstanceKernel):
    """A table of 256 outputs, or one for each channel."""

    name = "dory_stm32h7_lut"
    template = "lut"
    summary = "Function of one byte by a table"
    features = InstanceKernel.features | {Feature.OTHER_OPERAND}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes to numbers of whole bytes; pairs of a tensor and numbers are such functions."""
        if not isinstance(layer.op, ops.Lut | ops.Pairwise) or (
            requantisation.byte_table(layer) is None
        ):
            return Rejection("it computes functions of one byte only")
        pixels = layer.output.height * layer.output.width
        if isinstance(layer.op, ops.Pairwise) and _is_channelwise(layer) and pixels < _TABLE_PIXELS:
            return Rejection(f"tables of channels are too large for {pixels} pixels")
        return reject_type(layer.inputs[0], "input", BYTES) or reject_type(
            layer.output, "output", OUTPUTS
        )

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The table, or those of the channels."""
        return (tile.c_out if _is_channelwise(layer) else 1) * (32 * layer.output.bits)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Tables in the type of the output; bytes that the input never has may be anything."""
        table, y = _table(layer), layer.output
        rows = table[slice(*c_out)] if _is_channelwise(layer) else table
        kind = f"<{'i' if y.signed else 'u'}{y.bits // 8}"
        return WeightBlock(np.clip(rows, y.lo, y.hi).astype(kind).tobytes(), {"weights": 0})

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Elements."""
        each = costs.LUT_CHANNELWISE if _is_channelwise(layer) else costs.LUT_ELEMENT
        return costs.CALL + tile.h * tile.w * tile.c_out * each

    def label(self, layer: Layer) -> str:
        """Type of the output, one table or many."""
        many = "_by_channel" if _is_channelwise(layer) else ""
        return f"{self.name}{many}_{layer.output.type_name}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call for all elements of the tile."""
        arguments = (
            *tile_arguments("x", "y", "y_c"),
            ("table", Operand("weights")),
            ("pixels", size("y_h") * size("y_w")),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        macros = (
            ("DORY_Y_T", c_type(layer.output)),
            ("DORY_CHANNELWISE", int(_is_channelwise(layer))),
        )
        return macros


class ResizeKernel(InstanceKernel):
    """Interpolation between two rows and two columns, or nearest neighbours."""

    name = "dory_stm32h7_resize"
    template = "resize"
    summary = "Interpolation and nearest neighbours"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Sums of 32 bits; parameters are the same for all channels."""
        op, x, y = layer.op, layer.inputs[0], layer.output
        if not isinstance(op, ops.Resize):
            return Rejection("it computes interpolation only")
        if any(step.is_channelwise for step in op.requants):
            return Rejection("its requantisation differs from channel to channel")
        if _copies(layer) and x.type_name != y.type_name:
            return Rejection(f"its input is {x.type_name}, its output {y.type_name}")
        return (
            reject_type(x, "input", OUTPUTS)
            or reject_type(y, "output", OUTPUTS)
            or reject_epilogue(layer)
        )

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Taps of all rows and columns."""
        return 16 * (layer.output.height + layer.output.width)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Taps of all rows, then of all columns."""
        taps = layer.of(ops.Resize).taps
        return WeightBlock(taps.astype("<i4").tobytes(), {"weights": 0})

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Pixels, channel by channel or in runs of bytes; repeated rows are copies."""
        moved = ceil_div(tile.c_out * layer.output.bits // 8, 16) * costs.MOVE_16
        if _copies(layer):
            pixel: Number = costs.RESIZE_COPIED + moved
        else:
            channel = costs.RESIZE_CHANNEL + output_extra(epilogue(layer))
            pixel = costs.RESIZE_PIXEL + tile.c_out * channel
        rows, repeated = layer.output.height, _repeated_rows(layer)
        mean = (pixel * (rows - repeated) + moved * repeated) // rows
        return costs.CALL + tile.h * tile.w * mean

    def label(self, layer: Layer) -> str:
        """Types and requantisation."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        form = "_nearest" if _copies(layer) else ""
        return f"{self.name}{form}_{x}_{y}{epilogue(layer).suffix}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the places of the tiles."""
        arguments = (
            *tile_arguments("x", "y", "x_w", "x_row", "x_column"),
            *tile_arguments("y_h", "y_w", "y_c", "y_row", "y_column"),
            ("taps", Operand("weights", "const int32_t *")),
            ("height", layer.output.height),
            ("requant", epilogue(layer).struct(arrays=False)),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        macros = (
            *type_macros("X", layer.inputs[0]),
            *type_macros("Y", layer.output),
            ("DORY_COPIES", int(_copies(layer))),
            *epilogue(layer).macros,
        )
        return macros


class SoftmaxKernel(InstanceKernel):
    """Softmax over the channels of each pixel."""

    name = "dory_stm32h7_softmax"
    template = "softmax"
    features = InstanceKernel.features | {Feature.REALS}
    summary = "Softmax of bytes, in integers or in binary32"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes; what follows adds a zero point and clips."""
        op = layer.op
        if not isinstance(op, ops.Softmax):
            return Rejection("it computes softmax only")
        steps = op.requants
        if len(steps) != 1 or steps[0].offset is None or steps[0].lo is None:
            return Rejection("what follows it is more than a sum and a clip")
        return reject_type(layer.inputs[0], "input", BYTES) or reject_type(
            layer.output, "output", BYTES
        )

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The exponentials."""
        return 4 * 256

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Exponentials, 32 bits each."""
        table = layer.of(ops.Softmax).table.values
        return WeightBlock(table.astype("<i4").tobytes(), {"weights": 0})

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Pixels: largest channel, sum, shares."""
        real = bool(layer.of(ops.Softmax).factor)
        pixel = costs.SOFTMAX_PIXEL[real]
        pixel += tile.c_in * costs.SOFTMAX_SUM[real] + tile.c_out * costs.SOFTMAX_SHARE[real]
        return costs.CALL + tile.h * tile.w * pixel

    def label(self, layer: Layer) -> str:
        """Types and arithmetic."""
        real = "_binary32" if layer.of(ops.Softmax).factor else ""
        return f"{self.name}{real}_{layer.inputs[0].type_name}_{layer.output.type_name}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call for the pixels of the tile."""
        op = layer.of(ops.Softmax)
        step = op.requants[0]
        arguments = (
            *tile_arguments("x", "y", "x_c", "y_c"),
            ("table", Operand("weights")),
            ("pixels", size("y_h") * size("y_w")),
            ("channel", size("y_channel")),
            ("factor", Symbol(f"{op.factor}.0f")),
            ("add", step.add[0]),
            ("lo", step.lo),
            ("hi", step.hi),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        macros = (
            ("DORY_X_T", c_type(layer.inputs[0])),
            ("DORY_Y_T", c_type(layer.output)),
            ("DORY_REAL", int(bool(layer.of(ops.Softmax).factor))),
        )
        return macros


def _table(layer: Layer) -> npt.NDArray[np.int64]:
    table = requantisation.byte_table(layer)
    if table is None:
        raise TypeError("the layer was rejected")
    return table


def _is_channelwise(layer: Layer) -> bool:
    return _table(layer).ndim == 2


def _copies(layer: Layer) -> bool:
    """Return True when every output is one element of the input as it is."""
    op = layer.of(ops.Resize)
    return op.is_gather and not op.requants


def _repeated_rows(layer: Layer) -> int:
    """Return the rows of the output that equal those before them."""
    rows = layer.of(ops.Resize).rows.values
    return int((rows[1:] == rows[:-1]).all(axis=1).sum())
