"""A toy chip with an accelerator that has layouts and a weight memory of its own.

The array reads tiles in L1, which the cores do not reach: they compute in place in L2, on HWC.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dory_core.api import (
    Argument,
    FunctionCall,
    Items,
    Kernel,
    Layer,
    Layout,
    Link,
    Local,
    Memory,
    Number,
    Operand,
    OutputFile,
    Rejection,
    Struct,
    Symbol,
    Tile,
    Traits,
    WeightBlock,
    named,
    ops,
    portable_kernels,
)
from tests.toy.chip import Kernels, ToyChip

SOURCES = Path(__file__).parent / "c"

PLANES = Layout("planes", 1, 16, 16, 4)
BLOCKS = Layout("blocks", 8, 8)
PADDED = Layout("padded", 0, 16)
VECTOR = Layout("vector", 0, 16, reversed_bytes=4)
WEIGHT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Array(Kernel):
    """What the kernels of the array share.

    layout: of tensors in L2 and in L1. reads_padding: windows that reach behind the last column
    read the padding there.
    """

    layout: Layout = PLANES
    engine: str = "array"
    fetches: str = "array weights"
    name: str = "array"
    reads_padding: bool = False
    kind: ClassVar[type] = ops.Conv

    def accepts(self, layer: Layer) -> Rejection | None:
        if not isinstance(layer.op, self.kind):
            reason = f"it computes {self.kind.__name__}, not {layer.op.kind}"
            return Rejection(reason, other_kind=True)
        return self._refusal(layer)

    def _refusal(self, layer: Layer) -> Rejection | None:
        steps = layer.op.requants
        if len(steps) != 1 or steps[0].shift is None or steps[0].lo is None:
            return Rejection("it requantises once, by a shift, and clips")
        weights = getattr(layer.op, "weights", None)
        if weights is not None and not -128 <= weights.bounds[0] <= weights.bounds[1] <= 127:
            return Rejection("its weights have 8 bits")
        return None

    def traits(self, layer: Layer) -> Traits:
        full = layer.output.width % self.layout.width_multiple == 0
        return Traits(self._inputs(layer), replace(self.layout, clean=full), fetches=self.fetches)

    def _inputs(self, layer: Layer) -> tuple[Layout, ...]:
        return (replace(self.layout, clean=self.reads_padding and layer.window.pads[3] > 0),)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        return 50 + tile.h * tile.w * tile.c_out * tile.c_in // 4

    def symbol(self, layer: Layer) -> str:
        return f"array_{layer.op.kind.lower()}"

    def headers(self, layer: Layer) -> tuple[str, ...]:
        return ("array.h",)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        names = ("array.h", "array.c")
        return tuple(OutputFile.from_package(SOURCES / n, f"kernels/{n}") for n in names)

    def _call(
        self, layer: Layer, function: str, arguments: dict[str, Argument], **fields: Any
    ) -> FunctionCall:
        [step] = layer.op.requants
        x, y = layer.inputs[0], layer.output
        values = {
            "x": _initialiser(self.traits(layer).inputs[0]),
            "y": _initialiser(self.traits(layer).output),
            "x_width": x.width,
            "y_width": y.width,
            "reads_padding": int(self.reads_padding),
            "x_signed": int(x.signed),
            "shift": step.shift,
            "lo": step.lo,
            "hi": step.hi,
            **fields,
        }
        sizes = named("x_h", "x_c", "y_h", "y_c", "pad_top", "pad_left")
        before = (
            Local("static const array_layer_t", "layer", Struct(values)),
            Local("const array_tile_t", "tile", Items(tuple(sizes.values()))),
        )
        first = {"layer": Symbol("&layer"), "tile": Symbol("&tile")}
        return FunctionCall(function, {**first, **arguments}, before)


def _initialiser(layout: Layout) -> Items:
    sizes = (layout.channel_block, layout.channel_multiple, layout.width_multiple)
    return Items((*sizes, int(layout.reversed_bytes)))


def _block(layer: Layer, c_out: tuple[int, int], weights: np.ndarray) -> WeightBlock:
    """Return int64 mul and add of each channel, then the weights."""
    [step] = layer.op.requants
    channels = layer.output.channels
    mul = np.broadcast_to(np.array(step.mul, dtype="<i8"), channels)
    add = np.broadcast_to(np.array(step.add, dtype="<i8"), channels).copy()
    if layer.weighted.bias is not None:
        add += mul * layer.weighted.bias.values
    part = slice(*c_out)
    data = mul[part].tobytes() + add[part].tobytes() + weights.astype(np.int8).tobytes()
    return WeightBlock(data + bytes(-len(data) % 8), {"weights": 0})


class ArrayConv(Array):
    """Dense and depthwise convolution."""

    __slots__ = ()

    def _refusal(self, layer: Layer) -> Rejection | None:
        conv = layer.op
        assert isinstance(conv, ops.Conv)
        if conv.groups > 1 and not conv.is_depthwise:
            return Rejection("it knows no groups but depthwise ones")
        if conv.window.dilations != (1, 1):
            return Rejection("it knows no dilation")
        return Array._refusal(self, layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        shape = layer.weighted.weights.values.shape
        return (tile.c_out * (16 + shape[1] * shape[2] * shape[3]) + 7) // 8 * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        return _block(layer, c_out, layer.weighted.weights.values[slice(*c_out)])

    def call(self, layer: Layer) -> FunctionCall:
        conv = layer.op
        assert isinstance(conv, ops.Conv)
        return self._call(
            layer,
            "array_conv",
            {"l2_x": Operand("l2_x", "uintptr_t"), **named("x", "weights", "y")},
            kernel_h=conv.window.kernel[0],
            kernel_w=conv.window.kernel[1],
            stride_h=conv.window.strides[0],
            stride_w=conv.window.strides[1],
            depthwise=int(conv.groups > 1),
        )


class ArrayLinear(Array):
    """Fully connected layer whose input is HWC with padded channels."""

    __slots__ = ()
    kind = ops.Linear

    def traits(self, layer: Layer) -> Traits:
        return Traits((VECTOR,), VECTOR, fetches=self.fetches)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        return (tile.c_out * (16 + VECTOR.size_bytes(layer.inputs[0])) + 7) // 8 * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        x = layer.inputs[0]
        values = layer.weighted.weights.values[slice(*c_out)]
        rows = values.reshape(len(values), x.height * x.width, x.channels)
        padding = VECTOR.padded_channels(x.channels) - x.channels
        return _block(layer, c_out, np.pad(rows, ((0, 0), (0, 0), (0, padding))))

    def call(self, layer: Layer) -> FunctionCall:
        width = VECTOR.size_bytes(layer.inputs[0])
        return self._call(layer, "array_linear", named("x", "weights", "y"), x_width=width)


class ArrayAdd(Array):
    """Sum of two tensors."""

    __slots__ = ()
    kind = ops.Add

    def _refusal(self, layer: Layer) -> Rejection | None:
        add = layer.op
        assert isinstance(add, ops.Add)
        if any(r is not None and not r.is_identity for r in add.operand_requants):
            return Rejection("it does not requantise operands")
        if layer.inputs[0].signed != layer.inputs[1].signed:
            return Rejection("one operand has a sign")
        if any((step.mul, step.add) != ((1,), (0,)) for step in add.requants):
            return Rejection("it shifts sums, without a factor")
        return Array._refusal(self, layer)

    def _inputs(self, layer: Layer) -> tuple[Layout, ...]:
        return (replace(self.layout, clean=False),) * 2

    def call(self, layer: Layer) -> FunctionCall:
        return self._call(layer, "array_add", named("x", "x2", "y"))


def array_first(layer: Layer, **more: Any) -> tuple[Kernel, ...]:
    """Return the array's kernels, then those of the cores, in place."""
    conv = ArrayConv(name="array_conv", **more)
    linear, add = ArrayLinear(name="array_linear"), ArrayAdd(name="array_add", fetches="")
    return (conv, linear, add, *portable_kernels(in_place=True, engine="cores"))


def array_chip(
    kernels: Kernels = array_first,
    *,
    cores: int = 1,
    l1_bytes: int = 6 * 1024,
    l2_bytes: int = 128 * 1024,
    resident_l1: bool = False,
    weight_bytes: int = WEIGHT_BYTES,
    dma_alignment: int = 4,
    blocking: bool = False,
) -> ToyChip:
    """Return a chip with the array. kernels: of a layer, best first."""
    tiles = Memory("tiles", l1_bytes, holds=frozenset({"activations"}), alignment_bytes=16)
    weights = Memory("weights of the array", weight_bytes, holds=frozenset({"array weights"}))
    dma = Link(
        1,
        2,
        setup_cycles=70,
        bytes_per_cycle=8.0,
        alignment_bytes=dma_alignment,
        blocking=blocking,
        core_cycles_per_byte=0.0,  # the cores do not reach L1
    )
    return ToyChip(
        kernels,
        cores,
        ((tiles, weights), Memory("SRAM", l2_bytes, alignment_bytes=16)),
        (dma,),
        resident_l1=resident_l1,
        conversion_cycles=3.0,
    )
