"""Kernels of whole bytes on packed tensors: L1 holds a tile packed, and once more as bytes.

A convolution uses every input and weight many times. So it is cheaper to take each element apart
once per tile than in the inner loop, and the fast kernels of bytes compute the rest. The tile in L2
and the one that the DMA moves stay packed; the scratch holds the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dory_core.api import (
    Argument,
    Constraint,
    FunctionCall,
    Kernel,
    Layer,
    Number,
    Operand,
    OutputFile,
    Rejection,
    Struct,
    Tensor,
    Term,
    Traits,
    WeightBlock,
    ceil_div,
    named,
    ops,
    requantisation,
    size,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.instance import ClusterKernel, shipped
from dory_gap8.backend.packing import Constants, per_byte, weight_bits, weight_words
from dory_gap8.code_sizes import UNPACKED

if TYPE_CHECKING:
    from dory_core.api import Tile

# Output pixels from which on taking weights apart once is cheaper than in the inner loop, by the
# cycles of both kernels for 16 to 512 channels; depthwise layers have few weights.
LEAST_PIXELS = 8
LEAST_PIXELS_DEPTHWISE = 4


class ByteKernel(Protocol):
    """The methods of the inner kernel in addition to those of every kernel."""

    def constants(self, layer: Layer) -> Constants | None:
        """Return the form of the weight block, of which weights are the last part.

        None: it holds weights of any width as bytes, which are not taken apart.
        """


def _eights(size: Number) -> Number:
    return ceil_div(size, 8) * 8


@dataclass(frozen=True)
class UnpackingKernel(Kernel):
    """Runs ``inner``, a kernel of bytes, on packed inputs, weights or outputs."""

    inner: ClusterKernel

    @property
    def cores(self) -> int:
        """Cores that share a tile."""
        return self.inner.cores

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name within the target."""
        return f"{self.inner.name}_unpacked"

    @property
    def features(self) -> frozenset[str]:  # type: ignore[override]
        """Those of the kernel inside."""
        return self.inner.features

    @property
    def summary(self) -> str:  # type: ignore[override]
        """What the kernel computes, for tables."""
        return f"{self.inner.summary}, tiles unpacked"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Convolutions with something packed that the kernel inside takes as bytes."""
        x, y = layer.inputs[0], layer.output
        if not isinstance(layer.op, ops.Conv):
            return Rejection("it computes convolutions only")
        if not is_packed(layer):
            return Rejection("it computes on packed inputs, weights or outputs only")
        w_bits = weight_bits(layer.op)
        if x.bits > 8 and w_bits < 8:
            return Rejection(f"weights of {w_bits} bits become bytes, its input is {x.type_name}")
        least = LEAST_PIXELS if layer.op.groups == 1 else LEAST_PIXELS_DEPTHWISE
        if w_bits < 8 and y.height * y.width < least:
            return Rejection(
                f"{y.height * y.width} output pixels do not repay unpacking the weights"
            )
        return self.inner.accepts(wide(layer))

    def _weight_bits(self, layer: Layer) -> int:
        """Return the width of the weights in the weight block."""
        return 8 if self._known(layer) is None else weight_bits(layer.weighted)

    def constraints(self, layer: Layer, tile: Tile) -> tuple[Constraint, ...]:
        """Those of the kernel inside."""
        return self.inner.constraints(wide(layer), tile)

    def traits(self, layer: Layer) -> Traits:
        """Inputs as those of the kernel inside."""
        return Traits(planar=self.inner.traits(wide(layer)).planar)

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The bytes of packed tiles, then the scratch of the kernel inside."""
        size = self.inner.scratch_bytes(wide(layer), tile)
        if layer.inputs[0].bits < 8:
            size = size + _eights(tile.x_h * tile.x_w * tile.c_in)
        if self._weight_bits(layer) < 8:
            size = size + _eights(self._words(layer, tile.c_out) * self._word(layer))
        if layer.output.bits < 8:
            size = size + _eights(tile.h * tile.w * tile.c_out)
        return size

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Those of the kernel inside."""
        return self.inner.terms(wide(layer), tile)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The block of the kernel inside, its weights packed."""
        if self._weight_bits(layer) == 8:
            return self.inner.weight_bytes(wide(layer), tile)
        form = self._constants(layer)
        channels = ceil_div(tile.c_out, form.channels) * form.channels
        return _eights(channels * form.parameters + 4 * self._words(layer, tile.c_out))

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the block of the kernel inside, its weights packed."""
        block = self.inner.weight_block(wide(layer), c_out, c_in)
        bits = self._weight_bits(layer)
        if bits == 8 or block is None:
            return block
        start, slots = block.parts["weights"], self._words(layer, c_out[1] - c_out[0])
        slots = int(slots) * self._word(layer)
        weights = np.zeros((1, slots), dtype=np.int8)
        found = np.frombuffer(block.data, np.int8, offset=start)[:slots]
        weights[0, : len(found)] = found
        data = block.data[:start] + weight_words(weights, bits).tobytes()
        return WeightBlock(data + bytes(-len(data) % 8), block.parts)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """The kernel inside, and each element once."""
        x, y = layer.inputs[0], layer.output
        cycles = self.inner.cycles(wide(layer), tile) + cal.UNPACK_TILE
        if x.bits < 8:
            element = cal.UNPACK_ELEMENT_SIGNED if x.signed else cal.UNPACK_ELEMENT
            cycles = cycles + ceil_div(tile.x_h * tile.x_w * tile.c_in, 8 * self.cores) * element
            if x.channels % per_byte(x.bits):
                pixels = ceil_div(tile.x_h * tile.x_w, self.cores)
                cycles = cycles + pixels * cal.UNPACK_PIXEL
        if self._weight_bits(layer) < 8:
            vectors = self._words(layer, tile.c_out) * (self._word(layer) // 4)
            cycles = cycles + ceil_div(vectors, self.cores) * cal.UNPACK_VECTOR_SIGNED
        if y.bits < 8:
            elements = ceil_div(tile.h * tile.w * tile.c_out, 8 * self.cores)
            cycles = cycles + elements * cal.PACK_ELEMENT
            if y.channels % per_byte(y.bits):
                cycles = cycles + ceil_div(tile.h * tile.w, self.cores) * cal.UNPACK_PIXEL
        return cycles

    def symbol(self, layer: Layer) -> str:
        """The function of the kernel inside."""
        return self.inner.symbol(wide(layer))

    def code_bytes(self, layer: Layer) -> int | None:
        """The kernel inside."""
        return self.inner.code_bytes(wide(layer))

    def running_bytes(self, layer: Layer) -> int | None:
        """Return those of the inner kernel; the loops that unpack are short."""
        return self.inner.running_bytes(wide(layer))

    def shared_code(self, layer: Layer) -> Mapping[str, int]:
        """What takes elements apart and packs them."""
        x, y, bits = layer.inputs[0], layer.output, self._weight_bits(layer)
        names = [f"dory_gap8_unpack_{x.type_name}"] if x.bits < 8 else []
        names += [f"dory_gap8_unpack_weights_i{bits}"] if bits < 8 else []
        names += [f"dory_gap8_pack_{y.bits}"] if y.bits < 8 else []
        return {name: UNPACKED[name] for name in names}

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """The header of the kernel inside, and of what is called around it."""
        return (*self.inner.headers(wide(layer)), "dory_gap8_unpacked.h", "dory_hal.h")

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """The sources of the kernel inside, and of what is called around it."""
        inner = self.inner.sources(wide(layer))
        names = ("packed.h", "share.h", "simd.h", "unpacked.c", "unpacked.h")
        files = {f.path: f for f in (*inner, *(shipped(f"dory_gap8_{n}") for n in names))}
        return tuple(files.values())

    def call(self, layer: Layer) -> FunctionCall:
        """Unpack, meet, compute, and where outputs are packed meet and pack them."""
        x, y, bits = layer.inputs[0], layer.output, self._weight_bits(layer)
        x_pixels, y_pixels = size("x_h") * size("x_w"), size("y_h") * size("y_w")
        words = self._words(layer, size("y_c")) if bits < 8 else 0
        counts = (
            ("x", x.bits, x_pixels * size("x_c")),
            ("weights", bits, words * self._word(layer) if bits < 8 else 0),
            ("y", y.bits, y_pixels * size("y_c")),
        )
        bytes_of: dict[str, Operand] = {}
        end: Number = 0
        for name, width, count in counts:
            if width < 8:
                bytes_of[name] = Operand("scratch", offset=end)
                end = end + _eights(count)
        bytes_of["scratch"] = Operand("scratch", offset=end)
        meet, before, after = FunctionCall("dory_barrier"), [], ()
        if x.bits < 8:
            values = {"bytes": bytes_of["x"], **named("x"), "pixels": x_pixels, **named("x_c")}
            before.append(FunctionCall(f"dory_gap8_unpack_{x.type_name}", values))
        if bits < 8:
            values = {"bytes": bytes_of["weights"], **named("weights"), "words": words}
            before.append(FunctionCall(f"dory_gap8_unpack_weights_i{bits}", values))
        if y.bits < 8:
            values = {**named("y"), "bytes": bytes_of["y"], "pixels": y_pixels, **named("y_c")}
            after = (meet, FunctionCall(f"dory_gap8_pack_{y.bits}", values))
        inner = self.inner.call(wide(layer))
        [(name, struct)] = inner.arguments.items()
        assert isinstance(struct, Struct)
        members = {n: _moved(value, bytes_of) for n, value in struct.members.items()}
        arguments = {name: replace(struct, members=members, literal=True)}
        return FunctionCall(
            inner.function, arguments, (*before, *([meet] if before else [])), after
        )

    def _known(self, layer: Layer) -> Constants | None:
        inner: ByteKernel = self.inner  # type: ignore[assignment]
        return inner.constants(wide(layer))

    def _constants(self, layer: Layer) -> Constants:
        found = self._known(layer)
        assert found is not None
        return found

    def _word(self, layer: Layer) -> int:
        """Return the weights of a word."""
        return 4 * per_byte(weight_bits(layer.weighted))

    def _words(self, layer: Layer, c_out: Number) -> Number:
        """Return the words of the packed weights of ``c_out`` channels."""
        form = self._constants(layer)
        channels = ceil_div(c_out, form.channels) * form.channels
        return ceil_div(channels * form.weights, self._word(layer))


def is_packed(layer: Layer) -> bool:
    """Return True when inputs, weights or outputs are stored in less than 8 bits."""
    narrow = any(t.bits < 8 for t in (*layer.inputs, layer.output))
    return narrow or (isinstance(layer.op, ops.Conv | ops.Linear) and weight_bits(layer.op) < 8)


def wide(layer: Layer) -> Layer:
    """Return the layer as the kernel of bytes sees it."""
    inputs = tuple(_wide_tensor(x) for x in layer.inputs)
    return replace(layer, op=_wide_weights(layer), inputs=inputs, output=_wide_tensor(layer.output))


def _moved(value: Argument, bytes_of: Mapping[str, Operand]) -> Argument:
    """Return an argument of the kernel inside with the places of what is unpacked."""
    if not isinstance(value, Operand) or value.name not in bytes_of:
        return value
    return replace(bytes_of[value.name], type=value.type)


@requantisation.cached_per_layer
def _wide_weights(layer: Layer) -> ops.Conv | ops.Linear:
    """Return one and the same layer each time: what is found of it is kept by its identity."""
    kind = layer.weighted
    return kind if kind.weight_bits == 8 else replace(kind, weight_bits=8)


def _wide_tensor(tensor: Tensor) -> Tensor:
    return replace(tensor, bits=8) if tensor.bits < 8 else tensor
