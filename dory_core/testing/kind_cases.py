"""Cases of the conformance matrix with the kinds of layers that slide no window over a sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dory_core.ir import Array, Graph, LogSoftmax, Lstm, Requant, ops, requant
from dory_core.testing.graphs import I8, U8, GraphBuilder

__all__ = ["KINDS_NETWORKS", "KIND_LAYERS"]

Make = Callable[[GraphBuilder], object]
_ROUND = requant(1, 1 << 19, 1 << 20, add_negative=(1 << 19) - 1)


@dataclass(frozen=True, slots=True)
class KindCase:
    """A network of one layer.

    Attributes:
        shape, values: Of its input.
    """

    name: str
    make: Make
    shape: tuple[int, int, int] = (12, 15, 14)
    values: tuple[int, int] = I8

    def build(self) -> Graph:
        """Return the network."""
        builder = GraphBuilder(self.shape, values=self.values, seed=len(self.name))
        self.make(builder)
        return builder.graph()


def _table(seed: int, rows: int = 1, values: tuple[int, int] = I8) -> Array:
    table = np.random.default_rng(seed).integers(values[0], values[1] + 1, (rows, 256))
    return Array(table if rows > 1 else table[0])


def _softmax(scale: float) -> Array:
    falling = np.floor(np.exp(-np.arange(256) * scale) * 2**31)
    return Array(np.minimum(falling, 2**31 - 1).astype(np.int64))


def _log_softmax(scale: float) -> Array:
    differences = np.arange(256) * scale
    powers = np.rint(np.exp(-differences) * 2**19)
    return Array(np.stack([powers, -differences * 2**26]).astype(np.int64))


def _halves(size: int, count: int) -> Array:
    """Return the taps of an interpolation with half-pixel centres and 10-bit fractions."""
    scale = (1024 * size + count // 2) // count
    place = np.arange(count) * scale + scale // 2 - 512
    lower = np.clip(place // 1024, 0, size - 1)
    upper = np.clip(-(-place // 1024), 0, size - 1)
    weight = place - 1024 * lower
    return Array(np.stack([lower, upper, 1024 - weight, weight], axis=1))


def _nearest(size: int, count: int) -> Array:
    place = np.arange(count) * size // count
    return Array(np.stack([place, place, np.ones_like(place), np.zeros_like(place)], axis=1))


def _scaled(b: GraphBuilder, source: str, height: int, width: int) -> str:
    _, h, w = b.shape_of(source)
    fields = {"rows": _halves(h, height), "columns": _halves(w, width)}
    return b.layer(ops.Resize, source, **fields, requants=(_ROUND,))


def _transposed(b: GraphBuilder, channels: int, window: ops.Window, source: str = "input") -> str:
    c_in = b.shape_of(source)[0]
    weights = np.random.default_rng(3).integers(-128, 128, (channels, c_in, *window.kernel))
    steps = (requant(range(3, 3 + channels), 77, 1 << 13, -128, 127),)
    bias = Array(np.arange(channels) * 37)
    fields = {"weights": Array(weights), "window": window, "bias": bias, "zero_point": -5}
    return b.layer(ops.ConvTranspose, source, **fields, requants=steps)


def _gate(b: GraphBuilder) -> str:
    """Multiply an image by one value per channel, as squeeze-and-excitation does."""
    gate = b.avg_pool(ops.Window(kernel=(15, 14)), output=I8)
    zeros = (requant(1, 3), requant(1, 128))
    return b.layer(ops.Mul, "input", gate, operand_requants=zeros, requants=(_step(40),))


def _step(div_bits: int) -> Requant:
    return requant((1 << 30) + 12345, 1 << 39, 1 << div_bits, -128, 127)


def _constant(b: GraphBuilder) -> str:
    values = np.random.default_rng(8).integers(-50, 50, (12, 15, 1))
    return b.layer(ops.Maximum, "input", constant=Array(values))


def _reshaped(b: GraphBuilder) -> str:
    b.layer(ops.Reshape, "input", shape=(15, 12, 14))
    return b.conv(4, ops.Window(kernel=(1, 1)), output=I8)


_UP = ops.Window(kernel=(3, 3), strides=(2, 2), pads=(0, 0, 1, 1))

KIND_LAYERS: tuple[KindCase, ...] = (
    KindCase("mul_gate", _gate),
    KindCase("maximum_of_constant", _constant),
    KindCase("lut", lambda b: b.layer(ops.Lut, "input", table=_table(1))),
    KindCase(
        "lut_of_channels", lambda b: b.layer(ops.Lut, "input", table=_table(2, 12)), values=U8
    ),
    KindCase(
        "softmax",
        lambda b: b.layer(
            ops.Softmax, "input", table=_softmax(0.02), requants=(requant(1, -128, 1, -128, 127),)
        ),
    ),
    KindCase(
        "log_softmax",
        lambda b: b.layer(
            LogSoftmax, "input", table=_log_softmax(0.05), requants=(requant(1, 127, 1, *I8),)
        ),
    ),
    KindCase("argmax", lambda b: b.layer(ops.ArgMax, "input")),
    KindCase("concat_channels", lambda b: b.layer(ops.Concat, "input", b.extra_input(I8), axis=0)),
    KindCase(
        "concat_rows",  # of sizes at which the second input cannot lie in the output
        lambda b: b.layer(ops.Concat, "input", b.extra_input(I8), axis=1),
        shape=(11, 13, 9),
    ),
    KindCase(
        "slice",
        lambda b: b.layer(ops.Slice, "input", begin=(2, 14, 1), size=(6, 5, 12), step=(1, -3, 1)),
    ),
    KindCase(
        "pad", lambda b: b.layer(ops.Pad, "input", before=(0, 1, 2), after=(3, 0, 1), value=-128)
    ),
    KindCase("transpose", lambda b: b.layer(ops.Transpose, "input", perm=(2, 1, 0))),
    KindCase("reshape", _reshaped),
    KindCase("resize_bilinear", lambda b: _scaled(b, "input", 22, 9)),
    KindCase(
        "resize_nearest",
        lambda b: b.layer(ops.Resize, "input", rows=_nearest(15, 30), columns=_nearest(14, 28)),
    ),
    KindCase("conv_transpose", lambda b: _transposed(b, 9, _UP), shape=(7, 6, 5)),
)


def _excited() -> Graph:
    """Gates of channels, two inputs, two outputs, a slice of a tensor with other readers."""
    b = GraphBuilder((6, 14, 12), values=I8, seed=21, name="excited")
    other = b.extra_input(I8)
    first = b.conv(16, ops.Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)), output=I8)
    mean = b.avg_pool(ops.Window(kernel=(7, 6)), output=I8)
    gate = b.layer(
        ops.Lut, b.conv(16, ops.Window(kernel=(1, 1)), source=mean, output=I8), table=_table(5)
    )
    gated = b.layer(
        ops.Mul, first, gate, operand_requants=(None, requant(1, 128)), requants=(_step(37),)
    )
    half = b.layer(ops.Slice, other, begin=(0, 0, 0), size=(6, 7, 6), step=(1, 2, 2))
    joined = b.layer(ops.Concat, gated, half, first, axis=0)
    b.conv(10, ops.Window(kernel=(1, 1)), source=joined, output=I8)
    low = b.layer(ops.Minimum, b.last, constant=Array(np.arange(10).reshape(10, 1, 1) * 9))
    place = b.layer(ops.ArgMax, low)
    b.linear(5, source=low, output=I8)
    share = b.layer(
        ops.Softmax, b.last, table=_softmax(0.03), requants=(requant(1, -128, 1, -128, 127),)
    )
    return b.graph((share, place))


def _pyramid() -> Graph:
    """An image that becomes smaller and larger again, joined with itself."""
    b = GraphBuilder((4, 12, 10), values=I8, seed=22, name="pyramid")
    fine = b.conv(8, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)), output=I8)
    coarse = b.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)), source=fine)
    up = _scaled(b, coarse, 12, 10)
    learnt = _transposed(b, 8, ops.Window(kernel=(2, 2), strides=(2, 2)), coarse)
    total = b.layer(ops.Concat, fine, up, learnt, axis=2)
    framed = b.layer(ops.Pad, total, before=(0, 1, 0), after=(0, 1, 0), value=7)
    b.conv(6, ops.Window(kernel=(3, 3), pads=(0, 1, 0, 1)), source=framed, output=I8)
    turned = b.layer(ops.Transpose, b.last, perm=(0, 2, 1))
    flat = b.layer(ops.Reshape, turned, shape=(72, 1, 30))
    return b.graph((b.linear(4, source=flat), turned))


_WORD = (-(1 << 15), (1 << 15) - 1)


def _recurrent() -> Graph:
    """An LSTM over the rows of the input, with state, and a classifier of its last row."""
    b = GraphBuilder((11, 9, 1), values=I8, seed=23, name="recurrent")
    random, half = np.random.default_rng(24), 1 << 15
    state = b.state((13, 3, 1), values=I8, initial=-3)
    found = b.layer(
        Lstm,
        "input",
        state,
        weights=Array(random.integers(-128, 128, (4, 13, 11 + 13))),
        bias=Array(random.integers(-3000, 3000, (2, 4, 13))),
        gates=(
            *(requant(9, 4, 8, *_WORD, add_negative=3) for _ in range(8)),
            requant(1, half // 2, half, *_WORD),
            requant(1, half, 2 * half, *_WORD),
            requant(3, 1, 2),
            requant(1, -11 << 23, 1 << 23, *I8),
        ),
        table=Array(np.rint(65535 / (1 + np.exp(-np.arange(256) / 24)) + 0.5).astype(np.int64)),
        clip=20000,
    )
    left = b.layer(ops.Slice, found, begin=(0, 8, 0), size=(13, 3, 1))
    rows = b.layer(ops.Slice, found, begin=(0, 0, 0), size=(13, 9, 1))
    last = b.layer(ops.Slice, rows, begin=(0, 8, 0), size=(13, 1, 1))
    return b.graph((b.linear(5, source=last, output=I8), rows), {state: left})


KINDS_NETWORKS: tuple[tuple[str, Callable[[], Graph]], ...] = (
    ("excited", _excited),
    ("pyramid", _pyramid),
    ("recurrent", _recurrent),
)
