"""The cases of the conformance matrix: layers and small networks, with tags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dory_core.ir import (
    AvgPool,
    Conv,
    Graph,
    Linear,
    Operator,
    Requant,
    Window,
    mean_requant,
    requant,
)
from dory_core.ir.ranges import infer_types
from dory_core.testing.graphs import I8, U8, U16, GraphBuilder
from dory_core.testing.kind_cases import KIND_LAYERS, KINDS_NETWORKS


@dataclass(frozen=True, slots=True)
class Case:
    """A Graph to run.

    Attributes:
        name: Name of the case.
        tags: Features of the case, which a target may declare as refused.
        build: Function that makes the Graph.
    """

    name: str
    tags: frozenset[str]
    build: Callable[[], Graph]

    def __str__(self) -> str:
        return self.name


def _win(
    kernel: int | tuple[int, int],
    stride: int | tuple[int, int] = 1,
    pads: int | tuple[int, int, int, int] = 0,
    dilation: int | tuple[int, int] = 1,
) -> Window:
    def pair(value: int | tuple[int, int]) -> tuple[int, int]:
        return (value, value) if isinstance(value, int) else value

    four = (pads, pads, pads, pads) if isinstance(pads, int) else pads
    return Window(kernel=pair(kernel), strides=pair(stride), pads=four, dilations=pair(dilation))


def _conv(
    name: str, shape: tuple[int, int, int], channels: int, window: Window, **more: object
) -> Case:
    values = more.pop("values", U8)
    tags = {"conv"}
    if values != U8 or more.get("output", U8) == I8:
        tags.add("signed" if values == I8 or more.get("output") == I8 else "16-bit")
    if more.get("groups", 1) != 1:
        depthwise = more["groups"] == shape[0] == channels
        tags.add("depthwise" if depthwise else "grouped")
    if window.dilations != (1, 1):
        tags.add("dilation")

    def build() -> Graph:
        builder = GraphBuilder(shape, values=values, seed=len(name))  # type: ignore[arg-type]
        builder.conv(channels, window, **more)  # type: ignore[arg-type]
        return builder.graph()

    return Case(f"conv_{name}", frozenset(tags), build)


def _with(
    name: str,
    tags: str,
    shape: tuple[int, int, int],
    make: Callable[[GraphBuilder], object],
    values: tuple[int, int] = U8,
) -> Case:
    def build() -> Graph:
        builder = GraphBuilder(shape, values=values, seed=len(name))
        make(builder)
        return builder.graph()

    return Case(name, frozenset(tags.split()), build)


def layer_cases() -> tuple[Case, ...]:
    """Return single layers over kinds, shapes and precisions."""
    kinds = (Case(name, frozenset({"kinds"}), build) for name, build in KIND_LAYERS)
    return (*_convolutions(), *_depthwise(), *_linear(), *_pools(), *_additions(), *kinds)


def _convolutions() -> tuple[Case, ...]:
    """Return convolutions, dense and grouped."""
    return (
        _conv("3x3", (16, 20, 20), 24, _win(3, 1, 1)),
        _conv("3x3_odd_everything", (7, 13, 11), 9, _win(3, 1, 1)),
        _conv("3x3_stride_2", (8, 17, 23), 13, _win(3, 2, 1)),
        _conv("5x5_first_layer", (3, 33, 29), 16, _win(5, 2, (2, 1, 1, 2))),
        _conv("7x7", (1, 24, 24), 8, _win(7, 1, 3)),
        _conv("1x1", (40, 9, 9), 33, _win(1)),
        _conv("1x1_stride_2", (12, 15, 14), 20, _win(1, 2)),
        _conv("1x1_on_one_pixel", (70, 1, 1), 50, _win(1)),
        _conv("anisotropic", (6, 19, 25), 10, _win((5, 3), (1, 2), (2, 1, 2, 1))),
        _conv("dilated", (8, 20, 20), 8, _win(3, 1, (2, 2, 2, 2), 2)),
        _conv("1d_causal_dilated", (12, 1, 70), 16, _win((1, 3), 1, (0, 8, 0, 0), (1, 4))),
        _conv("asymmetric_pads", (5, 16, 16), 6, _win(3, 2, (0, 0, 1, 1))),
        _conv("much_padding", (4, 3, 3), 5, _win(3, 1, (4, 3, 2, 4))),
        _conv("bias", (9, 8, 8), 12, _win(3, 1, 1), bias=True),
        _conv("wide_requant", (16, 12, 12), 16, _win(3, 1, 1), wide=True),
        _conv("odd_divisor", (16, 12, 12), 16, _win(3, 1, 1), div=(1 << 22) - 1),
        _conv("scalar_requant", (16, 12, 12), 16, _win(3, 1, 1), per_channel=False),
        _conv("two_requants", (8, 10, 10), 8, _win(3, 1, 1), second=True),
        _conv("raw_output", (8, 6, 6), 10, _win(3, 1, 1), output=None),
        _conv("raw_pointwise", (24, 5, 5), 7, _win(1), output=None),
        _conv("signed_output", (8, 9, 9), 16, _win(3, 1, 1), output=I8),
        _conv("signed_input", (8, 9, 9), 16, _win(3, 1, 1), values=I8),
        _conv("signed_pointwise", (20, 9, 9), 16, _win(1), values=I8, output=I8),
        _conv("16_bit_input", (8, 9, 9), 16, _win(3, 1, 1), values=U16),
        _conv("16_bit_pointwise", (20, 9, 9), 16, _win(1), values=U16),
        _conv("grouped", (12, 10, 10), 18, _win(3, 1, 1), groups=3),
        _conv("channel_multiplier", (6, 10, 10), 12, _win(3, 1, 1), groups=6),
        _conv("deep_3x3", (256, 8, 8), 40, _win(3, 1, 1)),
        _conv("deep_1x1", (2048, 3, 3), 24, _win(1)),
    )


def _depthwise() -> tuple[Case, ...]:
    """Return depthwise convolutions."""
    depthwise = {"groups": 20}
    return (
        _conv("depthwise", (20, 21, 19), 20, _win(3, 1, 1), **depthwise),
        _conv("depthwise_stride_2", (20, 20, 20), 20, _win(3, 2, (0, 0, 1, 1)), **depthwise),
        _conv("depthwise_5x5", (20, 14, 14), 20, _win(5, 1, 2), **depthwise),
        _conv("depthwise_dilated", (20, 14, 14), 20, _win(3, 1, 2, 2), **depthwise),
        _conv("depthwise_1d", (20, 1, 60), 20, _win((1, 5), 1, (0, 4, 0, 0)), **depthwise),
        _conv("depthwise_wide", (20, 14, 14), 20, _win(3, 1, 1), wide=True, **depthwise),
        _conv("depthwise_16_bit", (20, 9, 9), 20, _win(3, 1, 1), values=U16, **depthwise),
    )


def _linear() -> tuple[Case, ...]:
    """Return fully connected layers."""
    return (
        _with("linear", "linear", (16, 6, 6), lambda b: b.linear(10)),
        _with("linear_bias", "linear", (16, 4, 4), lambda b: b.linear(33, bias=True)),
        _with("linear_hidden", "linear", (30, 3, 3), lambda b: b.linear(20, output=U8, bias=True)),
        _with("linear_wide", "linear", (64, 1, 1), lambda b: b.linear(31, output=U8, wide=True)),
        _with("linear_long", "linear", (64, 20, 20), lambda b: b.linear(6)),
        _with("linear_16_bit", "linear 16-bit", (40, 2, 2), lambda b: b.linear(9), U16),
    )


def _pools() -> tuple[Case, ...]:
    """Return pools."""
    return (
        _with("max_pool", "pool", (12, 21, 18), lambda b: b.max_pool(_win(2, 2))),
        _with("max_pool_3", "pool", (12, 21, 18), lambda b: b.max_pool(_win(3, 2, 1))),
        _with(
            "max_pool_signed",
            "pool signed",
            (5, 9, 9),
            lambda b: b.max_pool(_win(2, 1, (1, 0, 0, 1))),
            (-128, 20),
        ),
        _with("max_pool_16_bit", "pool 16-bit", (5, 9, 9), lambda b: b.max_pool(_win(2, 2)), U16),
        _with("avg_pool", "pool", (12, 20, 20), lambda b: b.avg_pool(_win(2, 2))),
        _with("avg_pool_padded", "pool", (7, 13, 13), lambda b: b.avg_pool(_win(3, 2, 1))),
        _with("avg_pool_global", "pool", (50, 7, 7), lambda b: b.avg_pool(_win(7))),
        _with(
            "avg_pool_in_reals",
            "pool signed reals",
            (18, 10, 9),
            lambda b: b.real_mean(_win((3, 2), 2)),
            I8,
        ),
        _with(
            "avg_pool_16_bit",
            "pool 16-bit",
            (9, 8, 8),
            lambda b: b.avg_pool(_win(4), output=U16),
            U16,
        ),
    )


def _additions() -> tuple[Case, ...]:
    """Return additions."""
    return (
        _with("add_unclipped", "add", (16, 12, 12), lambda b: b.add("input", b.extra_input())),
        _with(
            "add_16_bit",
            "add 16-bit",
            (16, 12, 12),
            lambda b: b.add("input", b.extra_input(), operands=(requant(2), None), requants=()),
        ),
        _with(
            "add_of_16_bits",
            "add 16-bit",
            (9, 7, 7),
            lambda b: b.add("input", b.extra_input(), requants=(requant(5, 7, 900, 0, 255),)),
            U16,
        ),
        _with(
            "add_three_steps",
            "add",
            (16, 12, 12),
            lambda b: b.add(
                "input",
                b.extra_input(),
                operands=(requant(77, 13, 64, 0, 255), requant(31, -9, 15)),
                requants=(requant(3, 0, 8), requant(201, 99, 127, 0, 255)),
            ),
        ),
        _with(
            "add_signed",
            "add signed",
            (10, 8, 8),
            lambda b: b.add(
                "input",
                b.extra_input(I8),
                operands=(requant(77, 13, 64, -128, 127), requant(31, -9, 15)),
                requants=(requant(3, 0, 8, -128, 127),),
            ),
            I8,
        ),
    )


def _residual() -> Graph:
    b = GraphBuilder((8, 18, 14), seed=1, name="residual")
    stem = b.conv(16, _win(3, 2, 1))
    left = b.conv(16, _win(3, 1, 1), source=stem)
    left = b.conv(16, _win(1), source=left, wide=True)
    total = b.add(left, stem)
    b.conv(24, _win(1, 2), source=total)
    b.avg_pool(_win(2, 2))
    b.linear(10)
    return b.graph()


def _mobile() -> Graph:
    b = GraphBuilder((3, 32, 32), seed=2, name="mobile")
    b.conv(8, _win(3, 2, (0, 0, 1, 1)), wide=True)
    for channels, stride in ((16, 1), (24, 2), (24, 1)):
        width = b.shape_of(b.last)[0]
        b.conv(width, _win(3, stride, 1), groups=width)
        b.conv(channels, _win(1), wide=stride == 2)
    b.avg_pool(_win(8))
    b.linear(10, bias=True)
    return b.graph()


def _branches() -> Graph:
    b = GraphBuilder((6, 12, 12), seed=3, name="branches")
    first = b.max_pool(_win(2, 2))
    one = b.conv(12, _win(3, 1, 1), source=first)
    two = b.conv(12, _win(1), source=first)
    three = b.add(one, two)
    four = b.conv(12, _win(3, 1, 1), source=one)
    five = b.add(three, four, requants=(requant(1, 0, 256), requant(9, 4, 8, 0, 255)))
    six = b.add(five, two)
    b.linear(7, source=six, output=U8)
    b.linear(5)
    return b.graph()


def _temporal() -> Graph:
    b = GraphBuilder((4, 1, 90), seed=4, name="temporal")
    x = b.conv(16, _win((1, 3), 1, (0, 2, 0, 0)))
    for dilation in (2, 4):
        pad = 2 * dilation
        y = b.conv(16, _win((1, 3), 1, (0, pad, 0, 0), (1, dilation)), source=x)
        x = b.add(y, x, requants=(requant(1, 0, 128), requant(7, 0, 8, 0, 255)))
    b.conv(8, _win((1, 5), (1, 4)))
    b.linear(4)
    return b.graph()


def _from_input() -> Graph:
    b = GraphBuilder((9, 11, 10), seed=5, name="residual_from_input")
    y = b.conv(9, _win(3, 1, 1))
    y = b.add(y, "input")
    b.conv(9, _win(3, 1, 1), groups=9, source=y)
    b.linear(3)
    return b.graph()


def _pooled() -> Graph:
    """A first layer whose outputs are pooled, of unsigned and of signed bytes, and odd sizes."""
    b = GraphBuilder((1, 31, 42), I8, seed=12, name="pooled")
    b.conv(12, _zeros(_win(5, 2, 2)), output=I8, bias=True)
    b.max_pool(_win(2, 2))
    b.conv(8, _win(3, 1, 1))
    b.max_pool(_win(2, 2))
    b.linear(5)
    return b.graph()


def _zero_points() -> Graph:
    """Bytes whose zero is -128, padded with it, and rounding that is symmetric around zero."""
    b = GraphBuilder((3, 14, 13), I8, seed=6, name="zero_points")
    b.conv(8, _win(3, 2, 1), output=I8, bias=True)
    stem = b.conv(8, _zeros(_win(3, 1, 1)), groups=8, output=I8, bias=True)
    b.conv(12, _win(1), output=I8, bias=True)
    b.conv(8, _zeros(_win(3, 1, (0, 0, 2, 2))), output=I8)
    b.add(b.last, stem, operands=(requant(3), requant(5)), requants=(_rounded(1, 3),))
    b.max_pool(_win(1, 2))
    b.avg_pool(_win(2, 1))
    b.linear(6, output=I8)
    graph = b.graph()
    ops = [_symmetric(op) for op in graph.ops]
    inputs = tuple(graph.tensors[name] for name in graph.inputs)
    return infer_types(graph.name, inputs, tuple(ops), graph.outputs)


def _state() -> Graph:
    """Three states: the last rows of a tensor, a running sum, and a tensor that is read first."""
    b = GraphBuilder((6, 2, 9), seed=7, name="state")
    rows, sums, late = b.state((8, 4, 9), U8, 3), b.state((8, 2, 9)), b.state((8, 2, 9), U8, 255)
    new = b.conv(8, _win(1))
    seen = b.concat(rows, new, axis=1)
    b.conv(8, _win((5, 3), 1, (0, 1, 0, 1)), source=seen)
    total = b.add(b.last, sums, requants=(requant(1, 0, 90, 0, 255),))
    b.conv(8, _win(3, 1, 1), source=late)
    joined = b.add(b.last, total, requants=(requant(1, 0, 80, 0, 255),))
    delayed = b.conv(8, _win(1), source=joined)
    left = b.slice((0, 2, 0), (8, 4, 9), source=seen)
    out = b.linear(5, source=delayed)
    return b.graph((out,), {rows: left, sums: total, late: delayed})


def _zeros(window: Window) -> Window:
    return replace(window, pad_value=-128)


def _rounded(mul: int, bits: int) -> Requant:
    half = 1 << bits - 1
    return requant(mul, half, 1 << bits, *I8, add_negative=half - 1)


def _symmetric(op: Operator) -> Operator:
    """Return a layer whose requantisation rounds away from zero on both sides."""
    if isinstance(op, AvgPool):
        return replace(op, requants=(mean_requant(op.window.taps, *I8),))
    if not isinstance(op, Conv | Linear):
        return op
    (step,) = op.requants
    half = step.div // 2
    less = tuple(half - max(m // 2, 1) for m in step.mul)
    return replace(op, requants=(replace(step, add=(half,), add_negative=less),))


def network_cases() -> tuple[Case, ...]:
    """Return small networks."""
    return (
        Case("residual", frozenset({"add", "16-bit"}), _residual),
        Case("mobile", frozenset({"depthwise"}), _mobile),
        Case("branches", frozenset({"add", "16-bit", "pool"}), _branches),
        Case("temporal", frozenset({"dilation", "add"}), _temporal),
        Case("residual_from_input", frozenset({"add", "16-bit"}), _from_input),
        Case("pooled", frozenset({"pool", "signed"}), _pooled),
        Case("zero_points", frozenset({"add", "depthwise", "pool", "signed"}), _zero_points),
        Case("state", frozenset({"add", "kinds", "state"}), _state),
        *(Case(name, frozenset({"kinds"}), build) for name, build in KINDS_NETWORKS),
    )
