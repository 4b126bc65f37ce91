"""Kernels of bytes without sums of products: copies, interpolation, softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dory_core.api import (
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Symbol,
    WeightBlock,
    ceil_div,
    minimum,
    ops,
    reject_type,
    size,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.instance import (
    Arguments,
    ClusterKernel,
    Instance,
    c_type,
    call_text,
    reject_channelwise,
    tile_arguments,
)
from dory_gap8.backend.requant import Epilogue, epilogue, reject_requants

if TYPE_CHECKING:
    from dory_core.api import Tile

_BYTES = ("u8", "i8")
# Of a concatenation, as many as ``dory_gap8_concat_t`` has places for.
_MOST_INPUTS = 16


def reject_bytes(layer: Layer) -> Rejection | None:
    """Return why input or output are no bytes."""
    return reject_type(layer.inputs[0], "input", _BYTES) or reject_type(
        layer.output, "output", _BYTES
    )


class OneInstance(ClusterKernel):
    """A kernel with one instance for all layers. template: of its C. purpose: in a sentence."""

    template: ClassVar[str]
    purpose: ClassVar[str]

    def label(self, layer: Layer) -> str:
        """One for all layers."""
        return self.name

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        macros = (("DORY_CORES", str(self.cores)),)
        return Instance(self.template, self.label(layer), self.purpose, macros)


@dataclass(frozen=True)
class ConcatKernel(OneInstance):
    """Inputs one after the other along an axis."""

    name = "dory_gap8_concat"
    summary = "inputs one after the other"
    template = "concat"
    purpose = "Inputs one after the other along an axis."

    def accepts(self, layer: Layer) -> Rejection | None:
        """Whole bytes; elements that keep their size."""
        if not isinstance(layer.op, ops.Concat):
            return Rejection("it puts inputs one after the other only", other_kind=True)
        if len(layer.inputs) > _MOST_INPUTS:
            return Rejection(f"it takes up to {_MOST_INPUTS} inputs")
        bits = {x.bits for x in (*layer.inputs, layer.output)}
        if len(bits) > 1 or min(bits) < 8:
            return Rejection("its inputs and its output are not of one size, in whole bytes")
        return None

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Runs of each input, word by word; cores share the runs, or each of them."""
        axis, size = layer.of(ops.Concat).axis, layer.output.bits // 8
        runs = {0: tile.h * tile.w, 1: 1, 2: tile.h}[axis]
        words = ceil_div(tile.h * tile.w * tile.c_out * size, 4)
        per_run = len(layer.inputs) * cal.CONCAT_RUN
        ways = [
            ceil_div(runs, self.cores // n)
            * (per_run + ceil_div(ceil_div(words, runs), n) * cal.MOVE_WORD)
            for n in (1, 2, 4, 8)
            if n <= self.cores
        ]
        return cal.CALL + (ways[0] if len(ways) == 1 else minimum(*ways))

    def call(self, layer: Layer) -> FunctionCall:
        """One call with all inputs."""
        axis, inputs = layer.of(ops.Concat).axis, layer.inputs
        element = layer.output.bits // 8
        h, w, c = size("y_h"), size("y_w"), size("y_c")
        # Runs, elements of a unit, units of the output tile and the first of them, by axis.
        count, unit, length, first = (
            (h * w, element, c, size("y_channel")),
            (1, w * c * element, h, size("y_row")),
            (h, c * element, w, size("y_column")),
        )[axis]
        names = ("x", *(f"x{n}" for n in range(2, len(inputs) + 1)))
        arguments: Arguments = (
            *((f"x[{n}]", Operand(name)) for n, name in enumerate(names)),
            *((f"sizes[{n}]", x.shape[axis]) for n, x in enumerate(inputs)),
            ("y", Operand("y")),
            ("inputs", len(inputs)),
            ("count", count),
            ("unit", unit),
            ("first", first),
            ("length", length),
        )
        return call_text(self.symbol(layer), self.template, arguments)


@dataclass(frozen=True)
class MoveKernel(OneInstance):
    """Slices of neighbours, and padding along any axis."""

    name = "dory_gap8_move"
    summary = "slices and padding of bytes"
    template = "move"
    purpose = "Slices and padding of bytes."

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes that stay what they are and keep their order."""
        op = layer.op
        if not isinstance(op, ops.Slice | ops.Pad):
            return Rejection("it computes Slice and Pad only", other_kind=True)
        if isinstance(op, ops.Slice) and op.step != (1, 1, 1):
            return Rejection("it takes neighbours only, not every second element or backwards")
        if op.requants:
            return Rejection("it has no requantisation behind copies")
        if layer.inputs[0].type_name != layer.output.type_name:
            return Rejection("its output has another type than its input")
        return reject_bytes(layer)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Pixels of a core, word by word."""
        pixel = cal.MOVE_PIXEL + ceil_div(tile.c_out, 4) * cal.MOVE_WORD
        return cal.CALL + ceil_div(tile.h * tile.w, self.cores) * pixel

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the places of the tiles."""
        op, value = layer.op, 0
        if isinstance(op, ops.Pad):
            begin, value = tuple(-n for n in op.before), op.value
        else:
            begin = layer.of(ops.Slice).begin
        channel, row, column = begin
        arguments: Arguments = (
            *tile_arguments("x", "y", "x_h", "x_w", "x_c", "y_h", "y_w", "y_c"),
            ("row", row + size("y_row") - size("x_row")),
            ("column", column + size("y_column") - size("x_column")),
            ("channel", channel + size("y_channel") - size("x_channel")),
            ("value", Symbol(f"0x{(value & 255) * 0x01010101:08x}u")),
        )
        return call_text(self.symbol(layer), self.template, arguments)


@dataclass(frozen=True)
class TransposeKernel(ClusterKernel):
    """Axes in another order."""

    name = "dory_gap8_transpose"
    summary = "axes of bytes in another order"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes that stay what they are."""
        if not isinstance(layer.op, ops.Transpose):
            return Rejection("it computes Transpose only", other_kind=True)
        if layer.op.requants:
            return Rejection("it has no requantisation behind copies")
        if layer.inputs[0].type_name != layer.output.type_name:
            return Rejection("its output has another type than its input")
        return reject_bytes(layer)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Pixels of a core, byte by byte or, where channels stay channels, word by word."""
        channels = tile.c_out * cal.TRANSPOSE_BYTE
        if layer.of(ops.Transpose).perm[0] == 0:
            channels = ceil_div(tile.c_out, 4) * cal.MOVE_WORD
        return cal.CALL + ceil_div(tile.h * tile.w, self.cores) * (cal.TRANSPOSE_PIXEL + channels)

    def label(self, layer: Layer) -> str:
        """One where channels stay channels, another one where they do not."""
        return f"{self.name}_{'pixels' if layer.of(ops.Transpose).perm[0] == 0 else 'bytes'}"

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        runs = int(layer.of(ops.Transpose).perm[0] == 0)
        macros = (("DORY_CORES", str(self.cores)), ("DORY_RUNS", str(runs)))
        return Instance("transpose", self.label(layer), "Axes in another order.", macros)

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the distances of elements in the input."""
        pitches = (1, size("x_w") * size("x_c"), size("x_c"))
        own, read = (
            [size(f"{tensor}_{axis}") for axis in ("channel", "row", "column")] for tensor in "yx"
        )
        perm = layer.of(ops.Transpose).perm
        steps = [pitches[source] for source in perm]
        first = sum(
            (own[axis] - read[source]) * pitches[source] for axis, source in enumerate(perm)
        )
        arguments: Arguments = (
            *tile_arguments("x", "y", "y_h", "y_w", "y_c"),
            ("first", first),
            *zip(("channel", "row", "column"), steps, strict=True),
        )
        return call_text(self.symbol(layer), "transpose", arguments)


@dataclass(frozen=True)
class ResizeKernel(ClusterKernel):
    """Interpolation between two rows and two columns, or nearest neighbours."""

    name = "dory_gap8_resize"
    summary = "interpolation and nearest neighbours of bytes"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes; a requantisation that is the same for all channels."""
        op = layer.op
        if not isinstance(op, ops.Resize):
            return Rejection("it computes Resize only", other_kind=True)
        if not op.requants and not op.is_gather:
            return Rejection("its sums are not requantised")
        if not op.requants and layer.inputs[0].type_name != layer.output.type_name:
            return Rejection("its output has another type than its input")
        return (
            reject_bytes(layer)
            or reject_channelwise(op.requants)
            or reject_requants(layer, op.requants)
        )

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the taps of all rows and columns."""
        return 16 * (layer.output.height + layer.output.width)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the taps of all rows, then of all columns."""
        taps = layer.of(ops.Resize).taps
        return WeightBlock(taps.astype("<i4").tobytes(), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Pixels of a core, channel by channel."""
        channels = ceil_div(tile.c_out, 4) * cal.MOVE_WORD
        if layer.op.requants:
            channels = tile.c_out * (cal.RESIZE_CHANNEL + self._epilogue(layer).step_cycles)
        pixels = ceil_div(tile.h * tile.w, self.cores)
        return cal.CALL + pixels * (cal.RESIZE_PIXEL + channels)

    def label(self, layer: Layer) -> str:
        """Types and requantisation."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        return f"{self.name}_{x}_{y}{self._epilogue(layer).suffix}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the places of the tiles."""
        chosen = self._epilogue(layer)
        requant = (("requant", chosen.struct(arrays=False)),) if chosen.steps else ()
        arguments: Arguments = (
            ("x", Operand("x")),
            ("taps", Operand("weights", "const int32_t *")),
            ("y", Operand("y")),
            *tile_arguments("x_w", "x_row", "x_column"),
            *tile_arguments("y_h", "y_w", "y_c", "y_row", "y_column"),
            ("height", layer.output.height),
            *requant,
        )
        return call_text(self.symbol(layer), "resize", arguments)

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        macros = (
            ("DORY_X_T", c_type(x)),
            ("DORY_Y_T", c_type(y)),
            ("DORY_CORES", str(self.cores)),
            ("DORY_COPIES", str(int(not layer.op.requants))),
            *self._epilogue(layer).macros,
        )
        purpose = f"Interpolation between two rows and two columns, {x} to {y}."
        return Instance("resize", self.label(layer), purpose, macros)

    @staticmethod
    def _epilogue(layer: Layer) -> Epilogue:
        return epilogue(layer)


@dataclass(frozen=True)
class SoftmaxKernel(ClusterKernel):
    """Softmax over the channels of each pixel, in the integers of TensorFlow Lite."""

    name = "dory_gap8_softmax"
    summary = "softmax of bytes"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes; what follows adds a zero point and clips."""
        op = layer.op
        if not isinstance(op, ops.Softmax):
            return Rejection("it computes Softmax only", other_kind=True)
        steps = op.requants
        if len(steps) != 1 or steps[0].offset is None or steps[0].lo is None:
            return Rejection("what follows it is more than a sum and a clip")
        return reject_bytes(layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the exponentials."""
        return 4 * 256

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the exponentials."""
        table = layer.of(ops.Softmax).table.values
        return WeightBlock(table.astype("<i4").tobytes(), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Pixels of a core: largest channel and sum, then shares."""
        pixel = cal.SOFTMAX_PIXEL + tile.c_in * cal.SOFTMAX_SUM + tile.c_out * cal.SOFTMAX_SHARE
        return cal.CALL + ceil_div(tile.h * tile.w, self.cores) * pixel

    def label(self, layer: Layer) -> str:
        """The types."""
        return f"{self.name}_{layer.inputs[0].type_name}_{layer.output.type_name}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call for the pixels of the tile."""
        step = layer.op.requants[0]
        arguments: Arguments = (
            ("x", Operand("x")),
            ("table", Operand("weights", "const int32_t *")),
            ("y", Operand("y")),
            ("pixels", size("y_h") * size("y_w")),
            *tile_arguments("x_c", "y_c"),
            ("channel", size("y_channel")),
            ("add", step.add[0]),
            ("lo", step.lo),
            ("hi", step.hi),
        )
        return call_text(self.symbol(layer), "softmax", arguments)

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        macros = (
            ("DORY_X_T", c_type(x)),
            ("DORY_Y_T", c_type(y)),
            ("DORY_CORES", str(self.cores)),
        )
        return Instance("softmax", self.label(layer), f"Softmax, {x} to {y}.", macros)
