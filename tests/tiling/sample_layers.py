"""Random layers of every kind, a kernel without C, and the objective terms of the paper."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from dory_core.expr import Expr, ceil_div, maximum
from dory_core.ir import (
    Add,
    Array,
    AvgPool,
    Conv,
    Layer,
    LayerRanges,
    Linear,
    MaxPool,
    Tensor,
    Window,
)
from dory_core.ir.geometry import (
    extent,
    input_bytes,
    is_channelwise,
    output_bytes,
)
from dory_core.kernels.binding import bind_kernel
from dory_core.kernels.call import FunctionCall
from dory_core.kernels.kernel import Constraint, Kernel, Rejection, Term, Traits
from dory_core.testing.kernels import alone
from dory_core.tiling.problem import formulate

RANGES = LayerRanges(-1000, 1000, 32, -1000, 1000)


class SampleKernel(Kernel):
    """Takes every layer; shaped like an im2col kernel on 8 cores."""

    def __init__(
        self,
        name: str = "sample",
        accumulates: bool = False,
        rows: int = 0,
        rejection: str = "",
        im2col: bool = True,
    ) -> None:
        """rows: tiles must have a multiple of it or be the whole image (0: any)."""
        self.name = name
        self.splits_input = accumulates
        self.rows = rows
        self.rejection = rejection
        self.im2col = im2col

    def accepts(self, layer):
        return Rejection(self.rejection) if self.rejection else None

    def traits(self, layer):
        return Traits(accumulates=self.splits_input and isinstance(layer.op, (Conv, Linear)))

    def constraints(self, layer, tile):
        if not self.rows:
            return ()
        fits = maximum(tile.h % self.rows == 0, tile.h == extent(layer).h)
        return (Constraint(fits, f"tiles have multiples of {self.rows} rows"),)

    def _taps(self, layer):
        window = layer.op.sliding
        return window.taps if window else 1

    def scratch_bytes(self, layer, tile):
        if not self.im2col or not isinstance(layer.op, Conv):
            return 0
        return 16 * self._taps(layer) * tile.c_in

    def weight_bytes(self, layer, tile):
        if not isinstance(layer.op, (Conv, Linear)):
            return 0
        per_output = 1 if is_channelwise(layer) else tile.c_in
        bits = layer.op.weight_bits
        row = (per_output * self._taps(layer) * bits + 7) // 8
        return (tile.c_out * (row + 8) + 7) // 8 * 8

    def cycles(self, layer, tile):
        depth = 1 if is_channelwise(layer) else tile.c_in
        work = ceil_div(tile.w, 2) * ceil_div(tile.c_out, 4) * (20 + 14 * self._taps(layer) * depth)
        return 100 + ceil_div(tile.h, 8) * work

    def symbol(self, layer):
        return "sample"

    def call(self, layer):
        return FunctionCall("sample", {})

    def headers(self, layer):
        return ()

    def sources(self, layer):
        return ()


def paper_terms(layer: Layer, kernel: Kernel) -> Callable[[object], Sequence[Term]]:
    """Return the terms of the TC 2021 paper, section 4.2.2, for the tile and its border tile."""

    def terms(tile):
        used = input_bytes(layer, tile) + output_bytes(layer, tile)
        used = used + kernel.weight_bytes(layer, tile)
        result = [Term("L1_USE", 0.5, used)]
        for suffix, part in (("", tile), ("_BORDER", tile.last)):
            result += [
                Term("HIDE_IM2COL" + suffix, 1e2, part.c_out),
                Term("PAR_BALANCE" + suffix, 1e6, (part.h - 1) % 8),
                Term("MATMUL_W" + suffix, 1e6, (part.w - 1) % 2),
                Term("MATMUL_CH" + suffix, 1e6, (part.c_out - 1) % 4),
            ]
        return result

    return terms


def tensor(name: str, c: int, h: int, w: int, bits: int = 8) -> Tensor:
    return Tensor(name, c, h, w, 0, (1 << bits) - 1, bits, False)


def _weights(*shape: int) -> Array:
    return Array(np.zeros(shape, dtype=np.int8))


def conv(
    c_in: int = 16,
    c_out: int = 16,
    size: tuple[int, int] = (16, 16),
    kernel: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (1, 1, 1, 1),
    dilations: tuple[int, int] = (1, 1),
    groups: int = 1,
    bits: tuple[int, int, int] = (8, 8, 8),
    name: str = "Conv_0",
) -> Layer:
    """Return a convolution. size: of the input. bits: of x, weights, y."""
    window = Window(kernel=kernel, strides=strides, dilations=dilations, pads=pads)
    layer = alone(
        Conv,
        name=name,
        weights=_weights(c_out, c_in // groups, *kernel),
        window=window,
        groups=groups,
        weight_bits=bits[1],
    )
    x = tensor("input", c_in, *size, bits[0])
    y = tensor("layer_00", c_out, *window.output_size(*size), bits[2])
    return Layer(layer, (x,), y, RANGES)


def pool(kind: type, c: int, size: tuple[int, int], window: Window) -> Layer:
    layer = alone(kind, window=window)
    y = tensor("layer_00", c, *window.output_size(*size))
    return Layer(layer, (tensor("input", c, *size),), y, RANGES)


def add(c: int, size: tuple[int, int]) -> Layer:
    operands = (tensor("input", c, *size), tensor("input_1", c, *size))
    return Layer(alone(Add), operands, tensor("layer_00", c, *size), RANGES)


def linear(c: int, size: tuple[int, int], c_out: int, bits: tuple[int, int] = (8, 8)) -> Layer:
    layer = alone(Linear, weights=_weights(c_out, c * size[0] * size[1]), weight_bits=bits[1])
    x, y = tensor("input", c, *size, bits[0]), tensor("layer_00", c_out, 1, 1, 32)
    return Layer(layer, (x,), y, RANGES)


def _window(rng: random.Random, size: tuple[int, int]) -> Window:
    while True:
        kernel = (rng.choice((1, 2, 3, 5)), rng.choice((1, 2, 3, 5)))
        dilations = (rng.choice((1, 1, 1, 2)), rng.choice((1, 1, 1, 2)))
        pads = tuple(rng.randrange(k) for k in (*kernel, *kernel))
        window = Window(
            kernel=kernel,
            strides=(rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2))),
            dilations=dilations,
            pads=pads,
        )
        if min(window.output_size(*size)) >= 1:
            return window


def random_layer(seed: int, largest: int = 20, channels: int = 40) -> Layer:
    """Return a layer of any kind with odd sizes, strides, dilations and asymmetric padding."""
    rng = random.Random(seed)
    size = (rng.randint(1, largest), rng.randint(1, largest))
    kind = rng.choice(("conv", "conv", "depthwise", "grouped", "max", "avg", "add", "linear"))
    c = rng.randint(1, channels)
    if kind == "add":
        return add(c, size)
    if kind == "linear":
        c = rng.randint(1, 16)
        bits = (rng.choice((2, 4, 8)), rng.choice((4, 8)))
        return linear(c, (rng.randint(1, 4), rng.randint(1, 4)), rng.randint(1, 40), bits)
    window = _window(rng, size)
    if kind in ("max", "avg"):
        return pool(MaxPool if kind == "max" else AvgPool, c, size, window)
    groups, c_in, c_out = 1, c, rng.randint(1, channels)
    if kind == "depthwise":
        groups = c_in = c_out = max(c, 2)
    elif kind == "grouped":
        groups = rng.randint(2, 5)
        c_in, c_out = groups * rng.randint(1, 8), groups * rng.randint(1, 8)
    bits = tuple(rng.choice((2, 4, 8, 8, 8)) for _ in range(3))
    return conv(
        c_in,
        c_out,
        size,
        window.kernel,
        window.strides,
        window.pads,
        window.dilations,
        groups,
        bits,
    )


def full_bytes(problem) -> int:
    """Return the bytes that the largest tile of a problem needs."""
    used = problem.bytes_used
    return int(used.bounds[1]) if isinstance(used, Expr) else int(used)


def formulated(layer, kernel, terms=None):
    """Return the formulation of a layer on a kernel that accepts it."""
    return formulate(layer, bind_kernel(kernel, layer), terms)
