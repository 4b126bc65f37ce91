"""Slices, padding, concatenation, and axes in another order."""

from __future__ import annotations

from dory_core.api import (
    Argument,
    FunctionCall,
    Items,
    Layer,
    Number,
    Operand,
    Rejection,
    Tile,
    ceil_div,
    named,
    ops,
    reject_type,
    size,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import BYTES, VectorKernel

_VECTOR = 16


class RunsKernel(VectorKernel):
    """What copies of runs share: no arithmetic."""

    file = "move"
    more = ("runs.h",)
    common = ("mve.h",)


class MoveKernel(RunsKernel):
    """Runs of bytes of the input, and a value next to them."""

    name = "dory_cortex_m55_move"
    summary = "Slices and padding by runs of bytes, 16 at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes as they are; a slice takes all channels of a range."""
        kind = layer.op
        if not isinstance(kind, ops.Slice | ops.Pad):
            return Rejection("it computes slices and padding", other_kind=True)
        if isinstance(kind, ops.Slice) and kind.step[0] != 1:
            return Rejection(f"it takes every channel of a range, not one in {kind.step[0]}")
        if kind.requants:
            return Rejection("it has no requantisation behind copies")
        x, y = layer.inputs[0], layer.output
        if x.type_name != y.type_name:
            return Rejection(f"its input is {x.type_name}, its output {y.type_name}")
        return reject_type(x, "input", BYTES)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Rows as one run each, else pixels."""
        op, channels = layer.op, layer.inputs[0].channels
        steps = op.step[2] if isinstance(op, ops.Slice) else 1
        is_whole = steps == 1 and channels == layer.output.channels
        runs, run = tile.h * tile.w, tile.c_out
        if is_whole:
            runs, run = tile.h, tile.w * tile.c_out
        return costs.CALL + runs * (costs.MOVE_RUN + ceil_div(run, _VECTOR) * costs.COPY_VECTOR)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile, with the place of its first element in the input."""
        op = layer.op
        begin, step, value = (0, 0, 0), (1, 1, 1), 0
        if isinstance(op, ops.Slice):
            begin, step = op.begin, op.step
        elif isinstance(op, ops.Pad):
            c, h, w = op.before
            begin, value = (-c, -h, -w), op.value & 0xFF
        places: dict[str, Argument] = {
            name: size(f"y_{name}") * by + first - size(f"x_{name}")
            for name, first, by in zip(("channel", "row", "column"), begin, step, strict=True)
        }
        members: dict[str, Argument] = {
            **named("x", "y", "x_h", "x_w", "x_c", "y_h", "y_w", "y_c"),
            **places,
            "step_h": step[1],
            "step_w": step[2],
            "value": value,
        }
        return self.struct_call(layer, members)


class ConcatKernel(RunsKernel):
    """Runs of bytes from several inputs."""

    name = "dory_cortex_m55_concat"
    summary = "Inputs one after another by runs of bytes, 16 at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Inputs of one size, of whole bytes."""
        if not isinstance(layer.op, ops.Concat):
            return Rejection("it computes concatenation", other_kind=True)
        if layer.op.requants:
            return Rejection("it has no requantisation behind copies")
        # Where both hold a value its bytes are the same, whatever the sign.
        other = next((x for x in layer.inputs if x.bits != layer.output.bits), None)
        if other is not None:
            return Rejection(f"its input {other.name} is {other.type_name}")
        return reject_type(layer.output, "output", (*BYTES, "u16", "i16", "i32"))

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Runs: those of all inputs in every group."""
        axis, element = layer.of(ops.Concat).axis, layer.output.bits // 8
        outer = (tile.h * tile.w, 1, tile.h)[axis]
        vectors = ceil_div(tile.h * tile.w * tile.c_out * element, _VECTOR)
        moved = vectors * costs.COPY_VECTOR
        return costs.CALL + outer * len(layer.inputs) * costs.MOVE_RUN + moved

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile, with the slices of the axis and their bytes."""
        axis, element = layer.of(ops.Concat).axis, layer.output.bits // 8
        h, w, c = size("y_h"), size("y_w"), size("y_c")
        outer, slices, slice_ = (
            (h * w, "channel", element),
            (1, "row", w * c * element),
            (h, "column", c * element),
        )[axis]
        names = ("x", *(f"x{n}" for n in range(2, len(layer.inputs) + 1)))
        members: dict[str, Argument] = {
            "x": Items(tuple(map(Operand, names)), "const uint8_t *const"),
            "sizes": Items(tuple(x.shape[axis] for x in layer.inputs), "const int32_t"),
            **named("y"),
            "outer": outer,
            "first": size(f"y_{slices}"),
            "count": size(f"y_{'chw'[axis]}"),
            "slice": slice_,
        }
        return self.struct_call(layer, members, "concat")


class TransposeKernel(RunsKernel):
    """Axes in another order: runs of channels, or bytes that are apart."""

    name = "dory_cortex_m55_transpose"
    summary = "Axes of bytes in another order, by runs or eight at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes as they are."""
        if not isinstance(layer.op, ops.Transpose):
            return Rejection("it puts axes in another order", other_kind=True)
        if layer.op.requants:
            return Rejection("it has no requantisation behind copies")
        x, y = layer.inputs[0], layer.output
        if x.type_name != y.type_name:
            return Rejection(f"its input is {x.type_name}, its output {y.type_name}")
        return reject_type(x, "input", BYTES)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Pixels as runs, else lines of bytes along the longer of two axes."""
        y, (pixels, channels) = layer.output, (tile.w, tile.c_out)
        if layer.of(ops.Transpose).perm[0] == 0:
            run = costs.RUN_OF_ONE + ceil_div(channels, _VECTOR) * costs.COPY_VECTOR
            return costs.CALL + tile.h * (costs.MOVE_RUN + pixels * run)
        lines, length = (pixels, channels) if y.channels >= y.width else (channels, pixels)
        each = costs.APART_LINE + ceil_div(length, 8) * costs.APART_EIGHT
        return costs.CALL + tile.h * lines * each

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile, with the distances of elements in the input."""
        pitches = (1, size("x_w") * size("x_c"), size("x_c"))
        axes = ("channel", "row", "column")
        perm = layer.of(ops.Transpose).perm
        first = sum(
            (size(f"y_{axis}") - size(f"x_{axes[source]}")) * pitches[source]
            for axis, source in zip(axes, perm, strict=True)
        )
        steps: dict[str, Argument] = dict(zip(axes, (pitches[n] for n in perm), strict=True))
        members: dict[str, Argument] = {
            **named("x", "y", "y_h", "y_w", "y_c"),
            "first": first,
            **steps,
        }
        return self.struct_call(layer, members, "transpose")
