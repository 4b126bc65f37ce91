"""The kernel of Kite: 3x3 convolutions of bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dory_core.api import (
    Constraint,
    FunctionCall,
    Kernel,
    Layer,
    Number,
    Operand,
    OutputFile,
    Rejection,
    Struct,
    Tile,
    WeightBlock,
    maximum,
    named,
    ops,
    reject_type,
    reject_weights,
)

_C = Path(__file__).parent / "kernels"
_FILES = ("dory_kite_conv3x3.c", "dory_kite_conv3x3.h")
_BYTES = ("u8", "i8")

# Measured on the bench: cycles of a call, of an output, and of a product.
CALL, OUTPUT, PRODUCT = 60, 40, 3


class Conv3x3(Kernel):
    """A 3x3 convolution, four output channels at a time, any stride and padding of zeros.

    The constants of a tile are weights as [c_out / 4][3][3][c_in][4], then int32 factors and int64
    addends of the channels.
    """

    name = "dory_kite_conv3x3"
    summary = "3x3 convolution of bytes, four channels at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Say why not in a sentence for the person at the keyboard."""
        conv = layer.op
        if not isinstance(conv, ops.Conv):
            return Rejection("it computes convolutions", other_kind=True)
        if conv.window.kernel != (3, 3) or conv.window.dilations != (1, 1):
            return Rejection("its window is 3x3 without dilation")
        if conv.groups != 1:
            return Rejection("it knows no groups")
        if layer.output.channels % 4:
            return Rejection("it computes four output channels at a time")
        if len(conv.requants) != 1 or conv.requants[0].shift is None:
            return Rejection("it requantises once, by a factor and a shift")
        step = conv.requants[0]
        if step.lo is None or max(map(abs, step.mul)) >= 1 << 31:
            return Rejection("it clips, and its factors have 32 bits")
        return (
            reject_weights(layer)  # those of uint8 files less their zero point have 9 bits
            or reject_type(layer.inputs[0], "input", _BYTES)
            or reject_type(layer.output, "output", _BYTES)
        )

    def constraints(self, layer: Layer, tile: Tile) -> tuple[Constraint, ...]:
        """Return what tiles have to be."""
        return (Constraint(tile.c_out % 4 == 0, "four output channels are computed at a time"),)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the constants of a tile: a multiple of 8, since c_out is one of 4."""
        size = tile.c_out * (9 * tile.c_in + 12)
        return (size + 7) // 8 * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the constants of some output channels."""
        part = slice(*c_out)
        weights = layer.weighted.weights.values[part].astype(np.int8)
        count, channels = weights.shape[:2]
        fours = weights.reshape(count // 4, 4, channels, 3, 3).transpose(0, 3, 4, 2, 1)
        [step] = layer.op.requants
        mul = np.broadcast_to(np.array(step.mul, "<i4"), layer.output.channels)[part]
        add = np.broadcast_to(np.array(step.add, "<i8"), layer.output.channels)[part].copy()
        if layer.weighted.bias is not None:
            add += mul.astype("<i8") * layer.weighted.bias.values[part]
        data = fours.tobytes() + mul.tobytes()
        parts = {"weights": 0, "mul": fours.size, "add": len(data)}
        data += add.tobytes()
        return WeightBlock(data + bytes(-len(data) % 8), parts)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return the cycles of a call."""
        outputs = tile.h * tile.w * tile.c_out
        return CALL + outputs * (OUTPUT + PRODUCT * maximum(9 * tile.c_in, 1))

    def symbol(self, layer: Layer) -> str:
        """Return the C function."""
        return "dory_kite_conv3x3"

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call: operands and sizes of the tile, and constants of the layer."""
        conv = layer.op
        assert isinstance(conv, ops.Conv)
        [step] = conv.requants
        members = {
            "x": Operand("x"),
            "weights": Operand("weights", "const int8_t *"),
            "mul": Operand("mul", "const void *"),
            "add": Operand("add"),
            "y": Operand("y"),
            **named("x_h", "x_w", "x_c", "x_pitch"),
            **named("y_h", "y_w", "y_c", "y_pitch"),
            **named("pad_top", "pad_left"),
            "stride_h": conv.window.strides[0],
            "stride_w": conv.window.strides[1],
            "x_signed": int(layer.inputs[0].signed),
            "shift": step.shift,
            "lo": step.lo,
            "hi": step.hi,
        }
        arguments = Struct(members, "dory_kite_conv3x3_t")
        return FunctionCall(self.symbol(layer), {"arguments": arguments})

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """Return what the layer includes."""
        return ("dory_kite_conv3x3.h",)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """Return the files of the kernel."""
        return tuple(OutputFile.from_package(_C / name, f"kernels/{name}") for name in _FILES)
