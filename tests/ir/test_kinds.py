"""Kinds without a window: what they compute, element by element, and their text."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest

from dory_core.errors import NotSupported
from dory_core.ir import (
    Add,
    ArgMax,
    Array,
    Concat,
    Conv,
    ConvTranspose,
    Graph,
    Layer,
    LogSoftmax,
    Lut,
    MatMul,
    Maximum,
    MaxPool,
    Mul,
    Op,
    Pad,
    Pairwise,
    Piecewise,
    PooledConv,
    Quotient,
    Reshape,
    Resize,
    Slice,
    Softmax,
    Tensor,
    Transpose,
    WideSoftmax,
    Window,
    reference,
    requant,
)
from dory_core.ir.fixed_point import logarithm
from dory_core.ir.parse import parse_graph
from dory_core.ir.ranges import infer_types
from dory_core.ir.text import graph_text
from dory_core.testing.kernels import alone, typed, values_of
from dory_core.testing.random_layers import OTHER_KINDS, LayerSpace, RandomLayers


def quotient(layer: Quotient, a: int, b: int) -> int:
    """The accumulator of a Quotient, in exact fractions that are rounded to 24 digits."""
    first, second = (
        in_binary32(Fraction(scale) * value)
        for scale, value in ((layer.scale, a), (layer.scale2, b))
    )
    if layer.turned:
        first, second = second, first
    if not second:
        return 1 << 23 if first > 0 else -1 << 23
    found = in_binary32(in_binary32(first / second) / Fraction(layer.out_scale))
    return max(-1 << 23, min(1 << 23, round(found)))


def in_binary32(value: Fraction) -> Fraction:
    """The number of 24 digits that is nearest, ties to even."""
    if not value:
        return value
    ulp = Fraction(2) ** -40
    while abs(value) / ulp >= 1 << 24:
        ulp *= 2
    while abs(value) / ulp < 1 << 23:
        ulp /= 2
    return round(value / ulp) * ulp


def share_of_words(layer: WideSoftmax, pixel: list[int], channel: int) -> int:
    """The accumulator of a softmax of 16 bits."""

    def value(table: Array, at: int) -> int:
        piece, inside = divmod(at, 128)
        low, high = (int(table.values[n]) for n in (piece, piece + 1))
        return low + (2 * (high - low) * inside + 128) // 256

    differences = [one - max(pixel) for one in pixel]
    exps = [value(layer.exps, layer.argument[0].scalar(d, 0)) for d in differences]
    zeros = 32 - sum(exps).bit_length()
    fraction = (sum(exps) * 2**zeros + 2**14) // 2**15 - 2**16
    inverse = value(layer.inverses, min(fraction, 65535))
    return (2 * exps[channel] * inverse + 2 ** (31 - zeros)) // 2 ** (32 - zeros)


def filtered(layer: PooledConv, x: np.ndarray, c: int, row: int, column: int) -> int:
    """The sum of a place of the convolution in a PooledConv."""
    window, total = layer.window, 0 if layer.bias is None else int(layer.bias.values[c])
    for i, ky, kx in np.ndindex(layer.weights.shape[1:]):
        down = row * window.strides[0] // layer.pool[0] + ky - window.pads[0]
        right = column * window.strides[1] // layer.pool[1] + kx - window.pads[1]
        inside = 0 <= down < x.shape[1] and 0 <= right < x.shape[2]
        value = int(x[i, down, right]) if inside else window.pad_value
        total += value * int(layer.weights.values[c, i, ky, kx])
    return total


def scalar(layer: Op, x: list[np.ndarray], shape: tuple[int, ...], place: tuple[int, ...]) -> int:
    """The accumulator of one element, from the words of the docstrings."""
    c, h, w = place
    if isinstance(layer, Pairwise):
        second = x[1] if layer.constant is None else layer.constant.values
        at = tuple(n if size > 1 else 0 for n, size in zip(place, second.shape, strict=True))
        a, b = (
            int(value) if step is None else step.scalar(int(value), c)
            for value, step in zip((x[0][place], second[at]), layer.operand_requants, strict=True)
        )
        if isinstance(layer, Add):
            return a + b
        if isinstance(layer, Mul):
            return a * b
        if isinstance(layer, Quotient):
            return quotient(layer, a, b)
        return max(a, b) if isinstance(layer, Maximum) else min(a, b)
    if isinstance(layer, Lut):
        table = layer.table.values
        row = table if table.ndim == 1 else table[c]
        return int(row[int(x[0][place]) % 256])
    if isinstance(layer, Piecewise):
        piece, inside = divmod(layer.argument[0].scalar(int(x[0][place]), c), 2**layer.piece_bits)
        return int(layer.table.values[0, piece] + layer.table.values[1, piece] * inside)
    if isinstance(layer, WideSoftmax):
        return share_of_words(layer, x[0][:, h, w].tolist(), c)
    if isinstance(layer, ArgMax):
        pixel = x[0][:, h, w].tolist()
        return pixel.index(max(pixel))
    if isinstance(layer, Concat):
        offset = place[layer.axis]
        for one in x:
            if offset < one.shape[layer.axis]:
                at = list(place)
                at[layer.axis] = offset
                return int(one[tuple(at)])
            offset -= one.shape[layer.axis]
    if isinstance(layer, Slice):
        at = (b + s * n for b, s, n in zip(layer.begin, layer.step, place, strict=True))
        return int(x[0][tuple(at)])
    if isinstance(layer, Pad):
        at = [n - b for n, b in zip(place, layer.before, strict=True)]
        inside = all(0 <= n < size for n, size in zip(at, x[0].shape, strict=True))
        return int(x[0][tuple(at)]) if inside else layer.value
    if isinstance(layer, Transpose):
        at = [0, 0, 0]
        for axis, source in enumerate(layer.perm):
            at[source] = place[axis]
        return int(x[0][tuple(at)])
    if isinstance(layer, Reshape):
        number = (h * shape[2] + w) * shape[0] + c
        channels, _, columns = x[0].shape
        pixel, channel = divmod(number, channels)
        return int(x[0][channel, pixel // columns, pixel % columns])
    if isinstance(layer, Resize):
        y0, y1, u0, u1 = (int(n) for n in layer.rows.values[h])
        x0, x1, v0, v1 = (int(n) for n in layer.columns.values[w])
        taps = itertools.product(((y0, u0), (y1, u1)), ((x0, v0), (x1, v1)))
        return sum(int(x[0][c, row, column]) * a * b for (row, a), (column, b) in taps)
    if isinstance(layer, MatMul):
        matrices = (h if one.shape[1] > 1 else 0 for one in x)
        columns, rows = x[0][c, next(matrices)], x[1][:, next(matrices), w]
        first, second = layer.zero_points
        pairs = zip(columns, rows, strict=True)
        return sum((int(a) - first) * (int(b) - second) for a, b in pairs)
    if isinstance(layer, PooledConv):
        return max(
            filtered(layer, x[0], c, h * layer.pool[0] + row, w * layer.pool[1] + column)
            for row, column in np.ndindex(layer.pool)
        )
    assert isinstance(layer, ConvTranspose)
    window, total = layer.window, 0 if layer.bias is None else int(layer.bias.values[c])
    for i, row, column in np.ndindex(x[0].shape):
        for ky, kx in np.ndindex(window.kernel):
            if (
                row * window.strides[0] + ky * window.dilations[0] - window.pads[0] == h
                and column * window.strides[1] + kx * window.dilations[1] - window.pads[1] == w
            ):
                value = int(x[0][i, row, column]) - layer.zero_point
                total += value * int(layer.weights.values[c, i, ky, kx])
    return total


#: Kinds whose elements need all others; they have tests of their own.
NOT_BY_PLACE = (
    "softmax",
    "wide_softmax",
    "log_softmax",
    "shares",
    "norm",
    "l2_norm",
    "layer_norm",
    "instance_norm",
    "lstm",
    "lstm_of_words",
)


@pytest.mark.parametrize("kind", [kind for kind in OTHER_KINDS if kind not in NOT_BY_PLACE])
def test_elements_are_those_of_the_definition(kind: str) -> None:
    draw = RandomLayers(LayerSpace(), seed=len(kind))
    for _ in range(12):
        layer = draw.layer(kind)
        inputs = [values_of(x, draw.numbers) for x in layer.inputs]
        found = reference.run_layer(layer, tuple(inputs))
        assert found.shape == layer.output.shape
        for n in draw.numbers.integers(0, found.size, 25):
            place = np.unravel_index(n, found.shape)
            at = int(place[0]), int(place[1]), int(place[2])
            acc = scalar(layer.op, inputs, found.shape, at)
            assert layer.ranges.acc_lo <= acc <= layer.ranges.acc_hi
            expected = reduce(lambda v, s: s.scalar(v, at[0]), layer.op.requants, acc)
            assert found[at] == expected, (layer.op, at)
        assert layer.output.lo <= found.min() and found.max() <= layer.output.hi


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_text_comes_back(kind: str) -> None:
    draw = RandomLayers(LayerSpace(weight_bits=(8, 4)), seed=7)
    for _ in range(10):
        graph = network_of(draw.layer(kind))
        text = graph_text(graph, constants=True)
        assert parse_graph(text) == graph, text


def network_of(layer: Layer) -> Graph:
    return infer_types("net", layer.inputs, (layer.op,), (layer.output.name,))


def high_product(a: int, b: int) -> int:
    """gemmlowp's SaturatingRoundingDoublingHighMul, with C's division."""
    product = a * b
    nudged = product + (1 << 30 if product >= 0 else 1 - (1 << 30))
    return abs(nudged) // (1 << 31) * (1 if nudged >= 0 else -1)


def rounded(a: int, shift: int) -> int:
    """gemmlowp's RoundingDivideByPOT."""
    rest, half = a & ((1 << shift) - 1), ((1 << shift) - 1) >> 1
    return (a >> shift) + (rest > half + (a < 0))


def softmax_of_pixel(table: list[int], pixel: list[int], share_bits: int) -> list[int]:
    """TensorFlow Lite's reference/softmax.h, in Python integers."""
    powers = [table[max(pixel) - x] for x in pixel]
    total = sum(rounded(e, 12) for e in powers)
    zeros = 32 - total.bit_length()
    share = (total << zeros) - (1 << 31)
    half = (share + (1 << 31) - 1 + 1) // 2
    x = 1515870810 + high_product(half, -1010580540)
    for _ in range(3):
        error = (1 << 29) - high_product(half, x)
        x += high_product(x, error) * 4
    scale = min(2 * x, (1 << 31) - 1)
    exponent = 12 - zeros + 31 - share_bits
    return [rounded(high_product(scale, e), exponent) for e in powers]


@pytest.mark.parametrize(("kind", "share_bits"), [("softmax", 8), ("wide_softmax", 16)])
def test_softmax_is_that_of_the_reference(kind: str, share_bits: int) -> None:
    draw = RandomLayers(LayerSpace(), seed=3)
    for _ in range(20):
        layer = draw.layer(kind)
        x = values_of(layer.inputs[0], draw.numbers)
        found = reference.run_layer(layer, (x,))
        table = layer.of(Softmax).table.values.tolist()
        [step] = layer.op.requants
        for h, w in np.ndindex(x.shape[1:]):
            expected = softmax_of_pixel(table, x[:, h, w].tolist(), share_bits)
            assert [step.scalar(v, 0) for v in expected] == found[:, h, w].tolist()


def test_logarithm_is_that_of_reals() -> None:
    sums = np.unique(np.geomspace(1 << 19, (1 << 31) - 1, 20_000).astype(np.int64))
    wanted = np.log(sums / 2.0**19) * 2**26
    assert np.abs(logarithm(sums) - wanted).max() < 2**26 / 10_000


def test_log_softmax_is_that_of_reals_to_a_sixteenth() -> None:
    scale, distances = 0.07, np.arange(256)
    powers = np.rint(np.exp(-distances * scale) * 2**19)
    table = Array(np.stack([powers, -distances * scale * 2**26]).astype(np.int64))
    layer = typed(
        alone(LogSoftmax, table=table, requants=(requant(1, 127, 1, -128, 127),)),
        (9, 20, 20, -128, 127),
    )
    x = values_of(layer.inputs[0], np.random.default_rng(4))
    real = (x - x.max(axis=0)) * scale
    real -= np.log(np.exp(real).sum(axis=0))
    found = reference.run_layer(layer, (x,))
    assert np.abs(found - np.maximum(real * 16 + 127, -128)).max() < 0.51


def test_one_of_two_equal_channels_has_half_of_a_softmax() -> None:
    table = Array(np.minimum(np.floor(np.exp(-np.arange(256) / 10) * 2**31), 2**31 - 1).astype(int))
    layer = typed(
        alone(Softmax, table=table, requants=(requant(1, -128, 1, -128, 127),)),
        (2, 1, 1, -128, 127),
    )
    assert reference.run_layer(layer, (np.full((2, 1, 1), 5),)).reshape(-1).tolist() == [0, 0]
    far = reference.run_layer(layer, (np.array([[[127]], [[-128]]]),))
    assert far.reshape(-1).tolist() == [127, -128]


X = (3, 4, 5, -128, 127)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (alone(Concat, inputs=("a",), axis=3), "axis 3"),
        (alone(Slice, begin=(0, 0, 0), size=(3, 4, 6)), "reads beyond an input"),
        (alone(Slice, begin=(0, 3, 0), size=(1, 2, 1), step=(1, 2, 1)), "reads beyond"),
        (alone(Slice, begin=(0, 3, 0), size=(1, 2, 1), step=(1, 0, 1)), "reads beyond"),
        (alone(Pad, before=(0, -1, 0), after=(0, 0, 0)), "that is a Slice"),
        (alone(Transpose, perm=(0, 1, 1)), "no permutation"),
        (alone(Reshape, shape=(7, 1, 1)), "60 elements in a shape"),
        (alone(Resize, rows=Array([[0, 4, 1, 0]]), columns=Array([[0, 0, 1, 0]])), "reads beyond"),
        (alone(Lut, table=Array(np.zeros(255, int))), "table of shape"),
        (alone(Lut, table=Array(np.zeros((2, 256), int))), "table of shape"),
        (alone(Lut, table=Array(np.zeros(256, int)), requants=(requant(2),)), "no requantisation"),
        (alone(Softmax, table=Array(np.arange(256))), "does not fall"),
        (alone(LogSoftmax, table=Array(np.arange(256))), "a table of shape"),
        (alone(LogSoftmax, table=Array(np.zeros((2, 256), np.int8))), "do not fall from 1"),
        (alone(Mul, constant=Array(np.ones((3, 2, 1), int)), inputs=("a",)), "operands of shapes"),
        (alone(Mul, constant=Array(np.ones((3, 1, 1), int))), "2 inputs, expected 1"),
        (
            alone(
                ConvTranspose,
                weights=Array(np.ones((2, 2, 1, 1), int)),
                window=Window(kernel=(1, 1)),
            ),
            "do not fit 3 input channels",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(layer: Op, reason: str) -> None:
    tensors = tuple(Tensor(name, *X, 8, True) for name in layer.inputs)
    with pytest.raises(NotSupported, match=reason) as caught:
        infer_types("net", tensors, (layer,), (layer.output,))
    assert f"{layer.kind} '{layer.name}'" in caught.value.message


def test_a_table_takes_the_values_of_one_byte() -> None:
    table = alone(Lut, table=Array(np.arange(256)))
    with pytest.raises(NotSupported, match="those of one byte"):
        typed(table, (3, 4, 5, -1, 128))
    found = typed(table, (3, 4, 5, -2, 1)).output
    assert (found.lo, found.hi) == (0, 255)  # bytes 254, 255, 0 and 1


def test_weights_of_one_element_add_up_at_a_border() -> None:
    """TensorFlow Lite places the first row of a doubled image at -1/4 of the first one."""
    rows = Array([[0, 0, 1280, -256], [0, 1, 768, 256]])
    layer = alone(Resize, rows=rows, columns=rows, requants=(requant(1, 1 << 19, 1 << 20),))
    found = typed(layer, (3, 2, 2, -128, 127))
    assert (found.output.lo, found.output.hi, found.output.type_name) == (-128, 127, "i8")


def test_parameters_are_the_weights_and_biases_of_every_kind() -> None:
    weights, bias = Array(np.ones((3, 2, 2, 2), np.int64)), Array(np.ones(3, np.int64))
    two = Window(kernel=(2, 2))
    assert alone(ConvTranspose, weights=weights, bias=bias, window=two).parameters == 27
    assert alone(Conv, weights=weights, window=two).parameters == 24
    assert alone(Lut, table=Array(np.arange(256))).parameters == 0


def test_titles_name_the_window_and_the_groups() -> None:
    window = Window(kernel=(3, 2), strides=(2, 1), dilations=(1, 2), pads=(1, 0, 0, 0))
    weights = Array(np.ones((4, 1, 3, 2), np.int64))
    text = "3x2, stride 2x1, dilation 1x2, pads 1 0 0 0 (top left bottom right)"
    assert alone(Conv, weights=weights, window=window).title == f"Conv {text}"
    assert alone(Conv, weights=weights, window=window, groups=4).title == f"depthwise Conv {text}"
    assert alone(Conv, weights=weights, window=window, groups=2).title == f"Conv {text}, 2 groups"
    assert alone(MaxPool, window=Window(kernel=(2, 2))).title == "MaxPool 2x2, stride 1x1"
    assert alone(Reshape, shape=(1, 1, 1)).title == "Reshape"


def test_copies_are_stored_as_their_source() -> None:
    pad = typed(alone(Pad, before=(0, 1, 1), after=(0, 0, 0), value=3), (3, 4, 5, -128, 127))
    assert pad.output.type_name == "i8"
    small = Tensor("input", 3, 4, 5, 0, 7, 8, True)
    layer = alone(Slice, begin=(0, 0, 0), size=(1, 1, 1))
    assert infer_types("net", (small,), (layer,), ("layer_00",)).tensors["layer_00"].signed
