"""Convolutions of any window, and fully connected layers: sums of 16 products an instruction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Argument,
    Feature,
    FunctionCall,
    Layer,
    Link,
    Number,
    Operand,
    Rejection,
    Term,
    Tile,
    Traits,
    WeightBlock,
    ceil_div,
    maximum,
    minimum,
    ops,
    size,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import (
    VectorKernel,
    by_bytes,
    bytes_of,
    extents,
    flip_of,
    in_blocks,
    lift_of,
    pad_value,
    places_of,
    reject_elements,
    reject_lifted,
    reject_padding,
    turned_window,
    whole,
    window_members,
)
from dory_cortex_m55.backend.requant import are_sums, form_of, reject_form

EIGHT = 8
VECTOR = 16
# Vectors of a column that stay in registers (dory_cortex_m55_dot.h).
_HELD = 6
# Vectors of a column, and of all rows together, that are few: rows stay there instead.
_MOST_OF_FEW, _FEW = 3, 48
# Pixels that are computed together at most: whose columns are laid in scratch, and others.
_MOST_LAID, _MOST = 32, 64
# Channels whose sums wait for their requantisation (DORY_CORTEX_M55_ROWS), and bytes of sums.
_ROWS = 128
SUMS_BYTES = 4096
# Bytes after columns that a load or a store may touch (dory_cortex_m55_dot.h).
OVERRUN = 32
_COLUMNS = Operand("scratch", offset=SUMS_BYTES)


class RowsKernel(VectorKernel):
    """Rows of weights by columns of inputs, two columns and two rows at a time."""

    file = "conv"
    more = ("finish.c", "finish.h", "dot.h", "runs.h")

    def reject(self, layer: Layer) -> Rejection | None:
        """Return why types, weights or requantisation are not possible."""
        x, y = layer.inputs[0], layer.output
        wrong = reject_elements(x, "input") or reject_lifted(layer)
        if x.bits == 16 and lift_of(layer):
            return Rejection("its weights are no bytes with a sign, and inputs have 16 bits")
        if not are_sums(layer):
            wrong = wrong or reject_elements(y, "output")
        return wrong or reject_form(layer, tables=True)

    def rows(self, layer: Layer) -> npt.NDArray[np.int64]:
        """Return the weights, a row for each output channel."""
        raise NotImplementedError

    def channels(self, layer: Layer) -> int:
        """Return the channels whose sums are over the same columns."""
        return layer.output.channels

    def places(self, c_out: tuple[int, int], layer: Layer) -> npt.NDArray[np.intp]:
        """Return the channel at each place of parameters and weights, -1 for none."""
        return places_of(c_out)

    def lift(self, layer: Layer) -> int:
        """Return the difference of weights and the bytes that are multiplied."""
        return lift_of(layer)

    def is_lifted(self, layer: Layer) -> bool:
        """Return True when sums get something in addition."""
        return bool(self.lift(layer))

    def is_direct(self, layer: Layer) -> bool:
        """Return True when columns are read where they lie."""
        return _is_direct(layer)

    def length(self, layer: Layer) -> int:
        """Return the elements of a column."""
        raise NotImplementedError

    def pitch(self, layer: Layer) -> int:
        """Return the bytes of a row of weights, in whole vectors of inputs."""
        return int(whole(self.length(layer), _lanes(layer)))

    def vectors(self, layer: Layer) -> int:
        """Return the vectors of a column."""
        return self.pitch(layer) // _lanes(layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of channels in eights, their rows, a table."""
        form, rows = form_of(layer), whole(tile.c_out, EIGHT)
        return rows * (form.channel_bytes + self.pitch(layer)) + form.table_bytes

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return parameters, rows of weights and a table."""
        form, rows, places = form_of(layer), self.rows(layer), self.places(c_out, layer)
        if are_sums(layer):
            channels = np.arange(c_out[0], c_out[0] + len(places))
            places = np.where(channels < c_out[1], channels, -1)
        parameters = form.parameters(places)
        pitch = self.pitch(layer)
        filled = np.zeros((len(places), pitch), np.int8)
        stored = rows[places] - lift_of(layer)
        filled[:, : rows.shape[1]] = np.where(places[:, None] < 0, 0, stored)
        data = filled.reshape(-1, 2, self.vectors(layer), _lanes(layer))
        if self.vectors(layer) > _HELD:
            data = data.swapaxes(1, 2)
        parts = {"mul": 0, "weights": len(parameters)}
        block = parameters + data.tobytes()
        if form.table is not None:
            parts["add"] = len(block)
            block += (form.table & 0xFF).astype(np.uint8).tobytes()
        return WeightBlock(block, parts)

    def pixels(self, layer: Layer) -> int:
        """Return how many pixels are computed together: an even number, as the sums have room."""
        rows = min(int(whole(self.channels(layer), EIGHT)), _ROWS)
        most = _MOST if self.is_direct(layer) else _MOST_LAID
        return min(SUMS_BYTES // (4 * rows), most) // 2 * 2

    def columns_bytes(self, layer: Layer) -> int:
        """Return the bytes of the columns of pixels that are computed together."""
        raise NotImplementedError

    def members(self, layer: Layer) -> dict[str, Argument]:
        """Return the members of the struct that all layers have."""
        form, length = form_of(layer), self.length(layer)
        return {
            "x": Operand("x"),
            "y": Operand("y"),
            "weights": Operand("weights", "const int8_t *"),
            "sums": Operand("scratch", "int32_t *"),
            "more": None,
            "lift": self.lift(layer),
            "x_bytes": bytes_of(layer.inputs[0]),
            "y_bytes": bytes_of(layer.output),
            "length": length,
            "pitch": self.pitch(layer),
            "pixels": self.pixels(layer),
            "flip": flip_of(layer.inputs[0]),
            "requant": form.struct(),
        }

    def products_cycles(
        self, layer: Layer, channels: Number, lines: Number, length: Number
    ) -> Number:
        """Return the cycles of all sums of lines of outputs, and their requantisation."""
        most, pixels = self.pixels(layer), lines * length
        vectors = self.vectors(layer)
        eights = ceil_div(channels, EIGHT)
        groups = lines * ceil_div(length, most) * ceil_div(channels, _ROWS)
        finish = form_of(layer).finish_cycles(eights, pixels, groups)
        if self.is_lifted(layer):
            lift = costs.LIFT + vectors * costs.LIFT_VECTOR + eights * costs.LIFT_EIGHT
            finish += pixels * lift
        rows = min(int(whole(self.channels(layer), EIGHT)), _ROWS)
        if vectors <= _MOST_OF_FEW and rows * vectors <= _FEW:
            each, count = (costs.FOUR_OF_1, 2) if vectors == 1 else (costs.TWO_OF[vectors], 4)
            few = eights * count * (groups * costs.FEW + pixels * each)
            return groups * costs.GROUP + few + finish
        if vectors <= _HELD:
            pixel = costs.HELD + vectors * costs.HELD_LOAD
            eight = 4 * (costs.HELD_TWO + 2 * vectors * costs.PRODUCT)
            return groups * costs.GROUP + pixels * (pixel + eights * eight) + finish
        pair = 4 * (costs.BLOCK + vectors * costs.BLOCK_ROUND)
        one = 4 * (costs.BLOCK + vectors * costs.ONE_ROUND)
        pairs, rest = lines * (length // 2), lines * (length % 2)
        return groups * costs.GROUP + eights * (pairs * pair + rest * one) + finish


class ConvKernel(RowsKernel):
    """Convolution of any window with one group."""

    name = "dory_cortex_m55_conv"
    summary = "Convolution, 16 products an instruction, two pixels by two channels"
    features = RowsKernel.features | {Feature.PAD_VALUE}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window, of all channels."""
        conv = layer.op
        if not isinstance(conv, ops.Conv):
            return Rejection("it computes convolutions", other_kind=True)
        if conv.groups != 1:
            return Rejection("it knows no groups")
        if by_bytes(layer):
            return Rejection("it is depthwise")
        return self.reject(layer) or reject_padding(layer)

    def rows(self, layer: Layer) -> npt.NDArray[np.int64]:
        """Taps row by row as the kernel sees them, the channels of each."""
        weights = layer.of(ops.Conv).weights.values.astype(np.int64)
        weights = weights.transpose((0, 3, 2, 1) if _by_columns(layer) else (0, 2, 3, 1))
        return weights.reshape(len(weights), -1)

    def length(self, layer: Layer) -> int:
        """Taps by input channels."""
        return layer.window.taps * layer.inputs[0].channels

    def columns_bytes(self, layer: Layer) -> int:
        """Return the bytes of what windows of pixels have."""
        x = layer.inputs[0]
        row = _window(layer).kernel[1] * x.channels * bytes_of(x)
        return self.laid(layer, self.pixels(layer)) * row + OVERRUN

    def laid(self, layer: Layer, pixels: int) -> int:
        """Return how many rows of inputs some windows of a line have."""
        window = _window(layer)
        if window.dilations[0] > 1:
            return pixels * window.kernel[0]
        return (pixels - 1) * window.strides[0] + window.kernel[0]

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Whole groups of channels, pairs of pixels, and columns that serve many channels."""
        return (
            Term("CHANNELS_IN_EIGHTS", 1e6, in_blocks(layer, tile, EIGHT)),
            Term("PIXELS_IN_PAIRS", 1e6, (_lines(layer, tile)[1] - 1) % 2),
            Term("COLUMNS_SERVE_MANY", 1e2, tile.c_out),
        )

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Sums, and columns unless pixels are columns where they lie."""
        return SUMS_BYTES + (0 if _is_direct(layer) else self.columns_bytes(layer))

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Inputs of windows, then sums of all channels."""
        sums = self.products_cycles(layer, tile.c_out, *_lines(layer, tile))
        return costs.CALL + self.laid_cycles(layer, tile) + sums

    def laid_cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return the cycles of the columns of inputs."""
        if _is_direct(layer):
            return 0
        lines, length = _lines(layer, tile)
        groups = lines * ceil_div(length, self.pixels(layer))
        each, first = self.laid(layer, 2) - self.laid(layer, 1), self.laid(layer, 1)
        rows = lines * length * each + groups * (first - each)
        laid = groups * costs.LAY + rows * _row_cycles(layer)
        return laid + minimum(lines, _beside(layer)) * length * each * costs.BORDER_ROW

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        return self.struct_call(layer, self.conv_members(layer))

    def conv_members(self, layer: Layer) -> dict[str, Argument]:
        """Return the members of a ``dory_cortex_m55_conv_t``."""
        x = layer.inputs[0]
        pixels = size("x_c") * bytes_of(x), size("y_c") * bytes_of(layer.output)
        members: dict[str, Argument] = {
            **self.members(layer),
            "columns": None if _is_direct(layer) else _COLUMNS,
            "x_c": pixels[0],
            "y_c": size("y_c"),
            **extents(*pixels, _by_columns(layer)),
            **window_members(_window(layer)),
            "padding": (pad_value(layer) & 0xFF) ^ flip_of(x),
        }
        if _is_flat(layer):
            members |= {"y_h": size("y_h") * size("y_w"), "y_w": 1}
            members |= dict(zip(("x_row", "y_row"), pixels, strict=True))
        return members


class LinearKernel(RowsKernel):
    """Fully connected layer.

    Each weight is read once: where the core would copy them, they stay where they are linked.
    """

    name = "dory_cortex_m55_linear"
    summary = "Fully connected layer, 16 products an instruction, two outputs at a time"

    def __init__(self, reads: Link | None = None) -> None:
        """Reads: the way of constants to the core, None where a DMA loads them into L1."""
        self._reads = reads

    def traits(self, layer: Layer) -> Traits:
        """Where constants are."""
        return Traits(fetches="" if self._reads is None else Traits.LINKED)

    def accepts(self, layer: Layer) -> Rejection | None:
        """All inputs at once."""
        if not isinstance(layer.op, ops.Linear):
            return Rejection("it computes fully connected layers", other_kind=True)
        return self.reject(layer)

    def symbol(self, layer: Layer) -> str:
        """Return the function: it is a convolution of one pixel."""
        return ConvKernel.name

    def rows(self, layer: Layer) -> npt.NDArray[np.int64]:
        """All inputs of each output."""
        weights = layer.of(ops.Linear).weights.values.astype(np.int64)
        return weights.reshape(len(weights), -1)

    def length(self, layer: Layer) -> int:
        """All elements of the input."""
        return int(np.prod(layer.of(ops.Linear).weights.values.shape[1:]))

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Outputs in eights."""
        return (Term("OUTPUTS_IN_EIGHTS", 1e6, in_blocks(layer, tile, EIGHT)),)

    def columns_bytes(self, layer: Layer) -> int:
        """Return the bytes of the inputs."""
        return self.length(layer) * bytes_of(layer.inputs[0]) + OVERRUN

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Sums, and the inputs as bytes with a sign, where they have none."""
        return SUMS_BYTES + (0 if _is_direct(layer) else self.columns_bytes(layer))

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Sums of all outputs."""
        copied = 0
        if flip_of(layer.inputs[0]):
            copied = costs.LAY + self.vectors(layer) * costs.COPY_VECTOR
        call, sums = costs.CALL + copied, self.products_cycles(layer, tile.c_out, 1, 1)
        if self._reads is None:
            return call + sums
        blocks = ceil_div(tile.c_out, EIGHT), 1, ceil_div(tile.c_out, _ROWS)
        finish = form_of(layer).finish_cycles(*blocks)
        thousandths = round(1000 * self._reads.bytes_per_cycle)
        read = ceil_div(1000 * self.weight_bytes(layer, tile), thousandths)
        return call + finish + self._reads.setup_cycles + maximum(sums - finish, read)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile: one pixel that has all inputs as channels."""
        bytes_of_x = self.length(layer) * bytes_of(layer.inputs[0])
        one = ("x_h", "x_w", "y_h", "y_w", "kernel_h", "kernel_w", "stride_h", "stride_w")
        members: dict[str, Argument] = {
            **self.members(layer),
            "columns": None if _is_direct(layer) else _COLUMNS,
            **dict.fromkeys((*one, "dilation_h", "dilation_w"), 1),
            **dict.fromkeys(("x_c", "x_row", "x_column"), bytes_of_x),
            **dict.fromkeys(("y_c", "y_row", "y_column"), size("y_c")),
            **dict.fromkeys(("pad_top", "pad_left", "padding"), 0),
        }
        return self.struct_call(layer, members)


def _is_direct(layer: Layer) -> bool:
    """Return True when the channels of a pixel are a column as they lie."""
    if isinstance(layer.op, ops.Linear):
        return not flip_of(layer.inputs[0])
    window = layer.window
    return window.kernel == (1, 1) and not any(window.pads) and not flip_of(layer.inputs[0])


def _lanes(layer: Layer) -> int:
    """Return how many inputs a vector has."""
    return VECTOR // bytes_of(layer.inputs[0])


def _is_flat(layer: Layer) -> bool:
    """Return True when all pixels of a tile are one row of columns."""
    return _is_direct(layer) and layer.window.strides == (1, 1)


def _by_columns(layer: Layer) -> bool:
    """Return True when rows of the kernel are columns of the layer: its columns are short."""
    if _is_flat(layer):
        return False
    return layer.output.height < min(layer.output.width, EIGHT)


def _window(layer: Layer) -> ops.Window:
    """Return the window as the kernel sees it."""
    return turned_window(layer.window) if _by_columns(layer) else layer.window


def _lines(layer: Layer, tile: Tile) -> tuple[Number, Number]:
    """Return the lines of outputs of a tile, and how long they are."""
    if _is_flat(layer):
        return 1, tile.h * tile.w
    return (tile.h, tile.w) if _by_columns(layer) else (tile.w, tile.h)


def _row_cycles(layer: Layer) -> int:
    """Return the cycles of laying what a window has in a row of x."""
    window, x, groups = _window(layer), layer.inputs[0], layer.of(ops.Conv).groups
    is_row = window.dilations[1] == 1 and not _by_columns(layer) and groups == 1
    taps = 1 if window.kernel[1] == 1 or is_row else window.kernel[1]
    length = window.kernel[1] * x.channels // groups * bytes_of(x) // taps
    vectors = -(-length // VECTOR)
    run = costs.RUN_OF_ONE if vectors == 1 else costs.RUN + vectors * costs.COPY_VECTOR
    return run if taps == 1 else costs.ROW_OF_TAPS + taps * run


def _beside(layer: Layer) -> int:
    """Return how many lines of outputs have windows that are partly beside of x."""
    top, left, bottom, right = layer.window.pads
    pads = (top, bottom) if _by_columns(layer) else (left, right)
    return sum(-(-pad // _window(layer).strides[1]) for pad in pads)
