"""Cases of the conformance matrix for kinds of layers without a window."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from dory_core.ir import Array, Graph, Lstm, Operator, Requant, ops, requant
from dory_core.ir.kinds.resize import linear_taps
from dory_core.testing.graphs import I8, GraphBuilder
from dory_core.testing.kernel_cases import network_of

__all__ = ["KINDS_NETWORKS", "KIND_LAYERS", "example_layers"]

Build = Callable[[], Graph]
_ROUND = requant(1, 1 << 19, 1 << 20, add_negative=(1 << 19) - 1)


def example_layers(operators: Iterable[type[Operator]]) -> tuple[tuple[str, Build], ...]:
    """Return the networks of one layer by name that operators give as examples."""
    return tuple(
        (name, partial(network_of, kind, sample, name))
        for kind in operators
        for name, sample in kind.examples().items()
    )


def _table(seed: int, rows: int = 1, values: tuple[int, int] = I8) -> Array:
    table = np.random.default_rng(seed).integers(values[0], values[1] + 1, (rows, 256))
    return Array(table if rows > 1 else table[0])


def _softmax(scale: float) -> Array:
    falling = np.floor(np.exp(-np.arange(256) * scale) * 2**31)
    return Array(np.minimum(falling, 2**31 - 1).astype(np.int64))


def _scaled(b: GraphBuilder, source: str, height: int, width: int) -> str:
    _, h, w = b.shape_of(source)
    fields = {"rows": linear_taps(h, height), "columns": linear_taps(w, width)}
    return b.layer(ops.Resize, source, **fields, requants=(_ROUND,))


def _transposed(b: GraphBuilder, channels: int, window: ops.Window, source: str = "input") -> str:
    c_in = b.shape_of(source)[0]
    weights = np.random.default_rng(3).integers(-128, 128, (channels, c_in, *window.kernel))
    steps = (requant(range(3, 3 + channels), 77, 1 << 13, -128, 127),)
    bias = Array(np.arange(channels) * 37)
    fields = {"weights": Array(weights), "window": window, "bias": bias, "zero_point": -5}
    return b.layer(ops.ConvTranspose, source, **fields, requants=steps)


def _step(div_bits: int) -> Requant:
    return requant((1 << 30) + 12345, 1 << 39, 1 << div_bits, -128, 127)


def _gated() -> Graph:
    """Multiply an image by one value per channel, as squeeze-and-excitation does."""
    b = GraphBuilder((12, 15, 14), values=I8, seed=8)
    gate = b.avg_pool(ops.Window(kernel=(15, 14)), output=I8)
    zeros = (requant(1, 3), requant(1, 128))
    b.layer(ops.Mul, "input", gate, operand_requants=zeros, requants=(_step(40),))
    return b.graph()


def _reshaped() -> Graph:
    builder = GraphBuilder((12, 15, 14), values=I8, seed=7)
    builder.layer(ops.Reshape, "input", shape=(15, 12, 14))
    builder.conv(4, ops.Window(kernel=(1, 1)), output=I8)
    return builder.graph()


#: Networks of a layer each, and of those that need another one.
KIND_LAYERS: tuple[tuple[str, Build], ...] = (
    ("mul_gate", _gated),
    *example_layers(ops.KINDS),
    ("reshape", _reshaped),
)


def _excited() -> Graph:
    """Channel gates, two inputs, two outputs, and a slice of a tensor with other readers."""
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
    """An image that is reduced, enlarged and concatenated with itself."""
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


def _attention() -> Graph:
    """Two heads of attention over nine tokens, whose scores pass a softmax."""
    b = GraphBuilder((12, 1, 9), values=I8, seed=25, name="attention")
    one = ops.Window(kernel=(1, 1))
    query, key, value = (
        b.layer(ops.Reshape, b.conv(12, one, source="input", output=I8), shape=(6, 9, 2))
        for _ in range(3)
    )
    scores = b.layer(
        ops.MatMul,
        b.layer(ops.Transpose, key, perm=(1, 2, 0)),
        b.layer(ops.Transpose, query, perm=(0, 2, 1)),
        zero_points=(3, -7),
        requants=(requant(range(5, 14), 300, 1 << 11, *I8),),
    )
    shares = b.layer(
        ops.Softmax, scores, table=_softmax(0.05), requants=(requant(1, -128, 1, *I8),)
    )
    mixed = b.layer(
        ops.MatMul,
        b.layer(ops.Transpose, value, perm=(0, 2, 1)),
        shares,
        zero_points=(0, -128),
        requants=(requant(41, 1 << 12, 1 << 13, *I8),),
    )
    tokens = b.layer(ops.Reshape, b.layer(ops.Transpose, mixed, perm=(0, 2, 1)), shape=(12, 1, 9))
    b.conv(12, one, source=tokens, output=I8)
    return b.graph((b.layer(ops.Add, b.last, "input"),))


KINDS_NETWORKS: tuple[tuple[str, Callable[[], Graph]], ...] = (
    ("excited", _excited),
    ("pyramid", _pyramid),
    ("recurrent", _recurrent),
    ("attention", _attention),
)
