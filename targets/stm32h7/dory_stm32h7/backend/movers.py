"""Slices, padding and concatenation."""

from __future__ import annotations

from dory_core.api import (
    FunctionCall,
    Items,
    Layer,
    Number,
    Operand,
    Rejection,
    Tile,
    ceil_div,
    ops,
    reject_type,
    size,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.instance import BYTES, OUTPUTS, InstanceKernel, tile_arguments


class MoveKernel(InstanceKernel):
    """Copies of runs of bytes, and a value next to them."""

    name = "dory_stm32h7_move"
    template = "move"
    summary = "Slices and padding by runs of bytes"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Elements of whole bytes as they are; a slice takes all channels of a range."""
        kind = layer.op
        if not isinstance(kind, ops.Slice | ops.Pad):
            return Rejection("it computes slices and padding only")
        if isinstance(kind, ops.Slice) and kind.step[0] != 1:
            return Rejection(f"it takes every channel of a range, not one in {kind.step[0]}")
        if kind.requants:
            return Rejection("it has no requantisation behind copies")
        x, y = layer.inputs[0], layer.output
        if x.type_name != y.type_name:
            return Rejection(f"its input is {x.type_name}, its output {y.type_name}")
        return reject_type(x, "input", OUTPUTS)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Rows as one run each, else pixels."""
        bytes_ = tile.c_out * _element(layer)
        if _whole_rows(layer):
            run = costs.MOVE_RUN + ceil_div(tile.w * bytes_, 16) * costs.MOVE_16
            return costs.CALL + tile.h * run
        pixel = costs.MOVE_RUN + ceil_div(bytes_, 16) * costs.MOVE_16
        return costs.CALL + tile.h * tile.w * pixel

    def label(self, layer: Layer) -> str:
        """The name, with the word of padding."""
        return f"{self.name}_{_fill(layer):x}" if isinstance(layer.op, ops.Pad) else self.name

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the place of the tile's first element in the input."""
        op = layer.op
        begin, step = (0, 0, 0), (1, 1, 1)
        if isinstance(op, ops.Slice):
            begin, step = op.begin, op.step
        elif isinstance(op, ops.Pad):
            c, h, w = op.before
            begin = (-c, -h, -w)
        channel, row, column = (
            size(f"y_{name}") * by + first - size(f"x_{name}")
            for name, first, by in zip(("channel", "row", "column"), begin, step, strict=True)
        )
        element = _element(layer)
        arguments = (
            *tile_arguments("x", "y", "x_h", "x_w", "y_h", "y_w"),
            *((name, size(name) * element) for name in ("x_c", "y_c")),
            ("channel", channel * element),
            ("row", row),
            ("column", column),
            ("step_h", step[1]),
            ("step_w", step[2]),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        return (("DORY_FILL", f"0x{_fill(layer):08x}u"),)


class TransposeKernel(InstanceKernel):
    """Axes in another order."""

    name = "dory_stm32h7_transpose"
    template = "transpose"
    summary = "Axes of bytes in another order"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes as they are."""
        kind, x = layer.op, layer.inputs[0]
        if not isinstance(kind, ops.Transpose):
            return Rejection("it puts axes in another order only")
        if kind.requants:
            return Rejection("it has no requantisation behind copies")
        if x.type_name != layer.output.type_name:
            return Rejection(f"its input is {x.type_name}, its output {layer.output.type_name}")
        return reject_type(x, "input", BYTES)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Pixels: runs of bytes, or one byte after the other."""
        channels = costs.MOVE_16 * ceil_div(tile.c_out, 16)
        if layer.of(ops.Transpose).perm[0] != 0:
            channels = costs.TRANSPOSE_BYTE * tile.c_out
        return costs.CALL + tile.h * tile.w * (costs.TRANSPOSE_PIXEL + channels)

    def label(self, layer: Layer) -> str:
        """One where channels stay channels, another one where they do not."""
        return f"{self.name}_{'pixels' if layer.of(ops.Transpose).perm[0] == 0 else 'bytes'}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the distances of elements in the input."""
        pitches = (1, size("x_w") * size("x_c"), size("x_c"))
        own, read = (
            [size(f"{tensor}_{axis}") for axis in ("channel", "row", "column")] for tensor in "yx"
        )
        perm = layer.of(ops.Transpose).perm
        first = sum(
            (own[axis] - read[source]) * pitches[source] for axis, source in enumerate(perm)
        )
        steps = zip(("channel", "row", "column"), (pitches[n] for n in perm), strict=True)
        arguments = (*tile_arguments("x", "y", "y_h", "y_w", "y_c"), ("first", first), *steps)
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        return (("DORY_RUNS", int(layer.of(ops.Transpose).perm[0] == 0)),)


class ConcatKernel(InstanceKernel):
    """Copies of runs of bytes from several inputs."""

    name = "dory_stm32h7_concat"
    template = "concat"
    summary = "Inputs one after another by runs of bytes"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Inputs of one size, of whole bytes."""
        if not isinstance(layer.op, ops.Concat):
            return Rejection("it computes concatenation only")
        if layer.op.requants:
            return Rejection("it has no requantisation behind copies")
        y = layer.output
        # Where both hold a value its bytes are the same, whatever the sign.
        other = next((x for x in layer.inputs if x.bits != y.bits), None)
        if other is not None:
            return Rejection(f"its input {other.name} is {other.type_name}, not {y.type_name}")
        return reject_type(y, "output", OUTPUTS)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Runs: those of all inputs in every group."""
        axis, element = layer.of(ops.Concat).axis, layer.output.bits // 8
        outer = (tile.h * tile.w, 1, tile.h)[axis]
        moved = ceil_div(tile.h * tile.w * tile.c_out * element, 16) * costs.MOVE_16
        runs = outer * len(layer.inputs)
        return costs.CALL + runs * costs.CONCAT_RUN + moved

    def label(self, layer: Layer) -> str:
        """One for all layers."""
        return self.name

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the slices of the axis and their bytes."""
        axis, element = layer.of(ops.Concat).axis, layer.output.bits // 8
        h, w, c = size("y_h"), size("y_w"), size("y_c")
        outer, slices, slice_ = (
            (h * w, "channel", element),
            (1, "row", w * c * element),
            (h, "column", c * element),
        )[axis]
        names = ("x", *(f"x{n}" for n in range(2, len(layer.inputs) + 1)))
        sizes = tuple(x.shape[axis] for x in layer.inputs)
        arguments = (
            ("x", Items(tuple(map(Operand, names)), "const void *const")),
            ("sizes", Items(sizes, "const int32_t")),
            *tile_arguments("y"),
            ("outer", outer),
            ("first", size(f"y_{slices}")),
            ("count", size(f"y_{'chw'[axis]}")),
            ("slice", slice_),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        return ()


def _element(layer: Layer) -> int:
    """Return the bytes of an element."""
    return layer.output.bits // 8


def _fill(layer: Layer) -> int:
    """Return a word full of padding."""
    bits = layer.output.bits
    value = layer.op.value if isinstance(layer.op, ops.Pad) else 0
    return (value & ((1 << bits) - 1)) * {8: 0x01010101, 16: 0x00010001, 32: 1}[bits]


def _whole_rows(layer: Layer) -> bool:
    """Return True when runs are rows: all channels, one column after the other."""
    op = layer.op
    if isinstance(op, ops.Slice):
        return op.step[2] == 1 and layer.inputs[0].channels == layer.output.channels
    return layer.inputs[0].channels == layer.output.channels
