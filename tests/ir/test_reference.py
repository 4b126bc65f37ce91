"""The reference executor against loops written out."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dory_core.errors import NotSupported, UsageError
from dory_core.ir import (
    Add,
    Array,
    AvgPool,
    Conv,
    Graph,
    Linear,
    MaxPool,
    Tensor,
    Window,
    mean_requant,
    requant,
)
from dory_core.ir.ranges import infer_types
from dory_core.ir.reference import random_inputs, run
from dory_core.testing.kernels import alone


@st.composite
def windows(draw: st.DrawFn) -> tuple[Window, int, int]:
    """A window with everything asymmetric, and a (height, width) that it fits into."""
    kernel, strides, dilations = (
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))) for _ in range(3)
    )
    spans = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    pads = tuple(draw(st.integers(0, spans[axis])) for axis in (0, 1, 0, 1))
    height, width = (draw(st.integers(max(1, s + 1), s + 4)) for s in spans)
    window = Window(kernel=kernel, strides=strides, dilations=dilations, pads=pads)  # type: ignore[arg-type]
    return window, height, width


def seen(
    image: np.ndarray, window: Window, channel: int, y: int, x: int
) -> list[tuple[int, int, int | None]]:
    """Return (tap row, tap column, element or None for padding) of one window."""
    found = []
    for ky, kx in product(range(window.kernel[0]), range(window.kernel[1])):
        row = y * window.strides[0] + ky * window.dilations[0] - window.pads[0]
        column = x * window.strides[1] + kx * window.dilations[1] - window.pads[1]
        inside = 0 <= row < image.shape[1] and 0 <= column < image.shape[2]
        found.append((ky, kx, int(image[channel, row, column]) if inside else None))
    return found


def check(graph: Graph, seed: int, expected: Callable[[np.ndarray, int, int, int], int]) -> None:
    image = random_inputs(graph, seed)
    result = run(graph, image)["layer_00"]
    assert result.dtype == np.int64
    for c, y, x in np.ndindex(result.shape):
        assert result[c, y, x] == expected(image["input"], c, y, x)


@settings(deadline=None, max_examples=60)
@given(windows(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
def test_convolution(
    case: tuple[Window, int, int], groups: int, fan_in: int, per_group: int, seed: int
) -> None:
    window, height, width = case
    generator = np.random.default_rng(seed)
    outputs = groups * per_group
    weights = generator.integers(-128, 128, (outputs, fan_in, *window.kernel))
    bias = generator.integers(-1000, 1000, outputs)
    steps = (requant(generator.integers(-9, 9, outputs).tolist(), 5, 7, -128, 127),)
    layer = alone(
        Conv,
        weights=Array(weights),
        window=window,
        bias=Array(bias),
        groups=groups,
        requants=steps,
    )
    source = Tensor("input", groups * fan_in, height, width, -128, 127, 8, True)
    graph = infer_types("net", (source,), (layer,), ("layer_00",))

    def expected(image: np.ndarray, c: int, y: int, x: int) -> int:
        acc = int(bias[c])
        for i in range(fan_in):
            for ky, kx, value in seen(image, window, c // per_group * fan_in + i, y, x):
                acc += int(weights[c, i, ky, kx]) * (value or 0)
        assert graph.ranges[0].acc_lo <= acc <= graph.ranges[0].acc_hi
        return steps[0].scalar(acc, c)

    check(graph, seed, expected)


@settings(deadline=None, max_examples=40)
@given(windows(), st.integers(0, 99))
def test_pools(case: tuple[Window, int, int], seed: int) -> None:
    window, height, width = case
    source = Tensor("input", 2, height, width, -128, 127, 8, True)
    top = alone(MaxPool, window=window)
    total = alone(AvgPool, window=window)
    graph = infer_types("net", (source,), (total,), ("layer_00",))
    check(graph, seed, lambda image, c, y, x: sum(v or 0 for *_, v in seen(image, window, c, y, x)))
    image = random_inputs(graph, seed)["input"]
    covered = all(
        any(v is not None for *_, v in seen(image, window, 0, y, x))
        for y in range(graph.tensors["layer_00"].height)
        for x in range(graph.tensors["layer_00"].width)
    )
    if covered:
        graph = infer_types("net", (source,), (top,), ("layer_00",))
        check(
            graph,
            seed,
            lambda image, c, y, x: max(
                v for *_, v in seen(image, window, c, y, x) if v is not None
            ),
        )


@settings(deadline=None, max_examples=40)
@given(windows(), st.integers(-9, 9), st.integers(0, 99))
def test_padding_with_a_value(case: tuple[Window, int, int], value: int, seed: int) -> None:
    window, height, width = case
    window = replace(window, pad_value=value)
    source = Tensor("input", 2, height, width, -128, 127, 8, True)
    weights = np.random.default_rng(seed).integers(-128, 128, (2, 1, *window.kernel))
    layer = alone(Conv, weights=Array(weights), window=window, groups=2)

    def padded(image: np.ndarray, c: int, y: int, x: int) -> list[tuple[int, int]]:
        return [
            (int(weights[c, 0, ky, kx]), value if v is None else v)
            for ky, kx, v in seen(image, window, c, y, x)
        ]

    graph = infer_types("net", (source,), (layer,), ("layer_00",))
    check(graph, seed, lambda *at: sum(w * v for w, v in padded(*at)))
    graph = infer_types("net", (source,), (alone(AvgPool, window=window),), ("layer_00",))
    check(graph, seed, lambda *at: sum(v for _, v in padded(*at)))


@settings(deadline=None, max_examples=60)
@given(windows(), st.integers(-9, 9), st.integers(0, 99))
def test_mean_of_what_lies_inside(case: tuple[Window, int, int], origin: int, seed: int) -> None:
    window, height, width = case
    source = Tensor("input", 2, height, width, -128, 127, 8, True)
    layer = alone(AvgPool, window=window, counts_padding=False, origin=origin)
    try:
        graph = infer_types("net", (source,), (layer,), ("layer_00",))
    except NotSupported:
        return  # a window in the padding

    def expected(image: np.ndarray, c: int, y: int, x: int) -> int:
        inside = [v - origin for *_, v in seen(image, window, c, y, x) if v is not None]
        return origin + mean_requant(len(inside)).scalar(sum(inside), 0)

    check(graph, seed, expected)


def test_linear_columns_are_in_hwc_order() -> None:
    weights = np.arange(-12, 12).reshape(1, 24)
    layer = alone(Linear, weights=Array(weights), bias=Array([7]))
    source = Tensor("input", 4, 2, 3, 0, 255, 8, False)
    graph = infer_types("net", (source,), (layer,), ("layer_00",))
    image = random_inputs(graph, 3)["input"]
    expected = 7 + sum(
        int(weights[0, (y * 3 + x) * 4 + c]) * int(image[c, y, x])
        for c, y, x in np.ndindex(image.shape)
    )
    assert run(graph, {"input": image})["layer_00"].tolist() == [[[expected]]]


def test_add_requantises_each_operand_before_the_sum_and_twice_behind_it() -> None:
    operands = (requant(3, 1, 2), requant(-1, 0, 1, -100, 100))
    layer = alone(
        Add, operand_requants=operands, requants=(requant(1, 0, 4), requant(5, 0, 3, 0, 255))
    )
    left = Tensor("input", 2, 3, 3, 0, 255, 8, False)
    right = Tensor("input_1", 2, 3, 3, 0, 255, 8, False)
    graph = infer_types("net", (left, right), (layer,), ("layer_00",))
    values = random_inputs(graph, 5)
    result = run(graph, values)["layer_00"]
    for at in np.ndindex(result.shape):
        x, z = int(values["input"][at]), int(values["input_1"][at])
        total = (3 * x + 1) // 2 + max(-z, -100)
        assert result[at] == min(max(total // 4 * 5 // 3, 0), 255)


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (np.zeros((1, 2, 2), int), "shape"),
        (np.full((2, 2, 2), 256), r"\[256, 256\]"),
        (np.full((2, 2, 2), -1), r"\[-1, -1\]"),
        (np.full((2, 2, 2), 0.5), "not integers"),
    ],
)
def test_wrong_inputs_are_rejected(image: np.ndarray, reason: str) -> None:
    layer = alone(MaxPool, window=Window(kernel=(1, 1)))
    source = Tensor("input", 2, 2, 2, 0, 255, 8, False)
    graph = infer_types("net", (source,), (layer,), ("layer_00",))
    with pytest.raises(UsageError, match=reason):
        run(graph, {"input": image})
    with pytest.raises(UsageError, match="no values"):
        run(graph, {})
