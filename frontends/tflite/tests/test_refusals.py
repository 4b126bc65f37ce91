"""Refusals of operators say what was found beside what is supported."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder

from dory_core.api import NotSupported


def refusal(b: TfliteBuilder, output: int) -> NotSupported:
    with pytest.raises(NotSupported) as caught:
        import_model(model_of(b.build((output,)), Path("net.tflite")))
    return caught.value


def float_relu(b: TfliteBuilder) -> int:
    x, y = b.plain((1, 4), "FLOAT32"), b.plain((1, 4), "FLOAT32")
    b.inputs.append(x)
    b.operator("RELU", (x,), (y,))
    return y


def weights_of_an_unread_type(b: TfliteBuilder) -> int:
    x = b.input((1, 4), 0.05, 0)
    w = b.tensor((2, 4), 0.01, 0, "UINT16")
    y = b.tensor((1, 2), 0.05, 0)
    b.operator("FULLY_CONNECTED", (x, w, -1), (y,))
    return y


def scales_that_differ(b: TfliteBuilder) -> int:
    x, y = b.input((1, 4, 4, 2), 0.05, 3), b.tensor((1, 2, 2, 2), 0.07, 3)
    b.operator("MAX_POOL_2D", (x,), (y,), StrideW=2, StrideH=2, FilterWidth=2, FilterHeight=2)
    return y


def weights_that_are_computed(b: TfliteBuilder) -> int:
    x, w, y = b.input((1, 4), 0.05, 0), b.input((2, 4), 0.01, 0), b.tensor((1, 2), 0.05, 0)
    b.operator("FULLY_CONNECTED", (x, w, -1), (y,))
    return y


def weights_of_half_precision(b: TfliteBuilder) -> int:
    w, y = b.constant(np.ones((1, 4), np.int32)), b.plain((1, 4), "FLOAT32")
    b.input((1, 4), 0.05, 0)
    b.operator("DEQUANTIZE", (w,), (y,))
    return y


def other_activation(b: TfliteBuilder) -> int:
    x, y = b.input((1, 4), 0.05, 0), b.tensor((1, 4), 0.05, 0)
    b.operator("ADD", (x, x), (y,), FusedActivationFunction="SIGN_BIT")
    return y


def norm_with_an_activation(b: TfliteBuilder) -> int:
    x, y = b.input((1, 4), 0.05, 0), b.tensor((1, 4), 1 / 128, 0)
    b.operator("L2_NORMALIZATION", (x,), (y,), FusedActivationFunction="RELU")
    return y


def norm_of_another_scale(b: TfliteBuilder) -> int:
    x, y = b.input((1, 4), 0.05, 0), b.tensor((1, 4), 1 / 127, 0)
    b.operator("L2_NORMALIZATION", (x,), (y,))
    return y


def squares_of_unsigned_bytes(b: TfliteBuilder) -> int:
    x, y = (b.tensor((1, 4), 0.05, 3, "UINT8") for _ in range(2))
    b.inputs.append(x)
    b.operator("SQUARED_DIFFERENCE", (x, x), (y,))
    return y


def shapes_that_do_not_match(b: TfliteBuilder) -> int:
    x, other = (b.input((1, n), 0.05, 3) for n in (4, 3))
    y = b.tensor((1, 6), 0.05, 3)
    b.operator("MUL", (x, other), (y,))
    return y


def matrices_of_two_types(b: TfliteBuilder) -> int:
    x, y = b.input((1, 2, 3, 4), 0.05, 0), b.tensor((1, 2, 3, 5), 0.05, 0)
    w = b.tensor((1, 2, 4, 5), 0.05, 0, "UINT8")
    b.inputs.append(w)
    b.operator("BATCH_MATMUL", (x, w), (y,))
    return y


def matrices_that_do_not_fit(b: TfliteBuilder) -> int:
    x, y = b.input((1, 2, 3, 4), 0.05, 0), b.tensor((1, 2, 3, 5), 0.05, 0)
    b.operator("BATCH_MATMUL", (x, b.input((1, 2, 4, 5), 0.05, 0)), (y,), AdjY=True)
    return y


def several_constant_matrices(b: TfliteBuilder) -> int:
    x, y = b.input((1, 2, 3, 4), 0.05, 0), b.tensor((1, 2, 3, 5), 0.05, 0)
    b.operator("BATCH_MATMUL", (x, b.constant(np.ones((2, 4, 5), np.int8), [0.1])), (y,))
    return y


def matrices_of_a_batch(b: TfliteBuilder) -> int:
    x, y = b.input((2, 2, 3, 4), 0.05, 0), b.tensor((2, 2, 3, 3), 0.05, 0)
    b.operator("BATCH_MATMUL", (x, x), (y,), AdjY=True)
    return y


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (norm_with_an_activation, "FusedActivationFunction is RELU; supported only if there is no"),
        (norm_of_another_scale, "supported only if the output has scale 1/128 and zero point 0"),
        (squares_of_unsigned_bytes, "supported only if the input is INT8"),
        (float_relu, "input 0 is FLOAT32, output is FLOAT32; supported only if input and output"),
        (weights_of_an_unread_type, "is UINT16, which is not read; supported only if the weight"),
        (scales_that_differ, "input 0 has scale 0.05 and zero point 3, output has scale 0.07"),
        (weights_that_are_computed, "is INT8 that the network computes; supported only if the w"),
        (weights_of_half_precision, "input 0 is INT32 [1, 4] constant"),
        (matrices_of_two_types, "input 1 is UINT8"),
        (matrices_that_do_not_fit, "shapes [1, 2, 3, 4] and [1, 2, 4, 5] cannot be multiplied"),
        (several_constant_matrices, "is a constant of several matrices, [2, 4, 5]"),
        (matrices_of_a_batch, "[2, 2, 3, 4] has a batch, or four dimensions"),
        (other_activation, "the fused activation is SIGN_BIT; supported only if the fused act"),
    ],
)
def test_what_was_found_stands_beside_what_is_supported(
    network: Callable[[TfliteBuilder], int], words: str
) -> None:
    b = TfliteBuilder()
    error = refusal(b, network(b))
    assert words in error.message
    assert error.hint or network in SELF_EXPLAINING


#: What to change is what the message says.
SELF_EXPLAINING = (
    scales_that_differ,
    norm_with_an_activation,
    norm_of_another_scale,
    squares_of_unsigned_bytes,
)


def test_operands_that_are_not_repeated_are_refused() -> None:
    b = TfliteBuilder()
    error = refusal(b, shapes_that_do_not_match(b))
    assert "operands of shapes [1, 4] and [1, 3] for [1, 6]" in error.message


def test_floats_have_the_way_out() -> None:
    b = TfliteBuilder()
    assert "full integer quantisation" in refusal(b, float_relu(b)).hint


def test_padding_of_five_dimensions_is_refused_but_tables_are_not() -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 4, 4, 2, 4), 0.05, 0), b.tensor((1, 4, 4, 2, 4), 0.05, 0)
    b.operator("RELU", (x,), (y,))
    assert import_model(model_of(b.build((y,)), Path("net.tflite"))).graph.ops[0].kind == "Lut"
    z = b.tensor((1, 6, 4, 2, 4), 0.05, 0)
    b.operator("PAD", (y, b.constant(np.int32([[0, 0], [1, 1], *[[0, 0]] * 3]))), (z,))
    error = refusal(b, z)
    assert "has 4 dimensions that are not 1; this operator supports three" in error.message
    assert "at most three" in error.hint


def test_a_batch_is_refused() -> None:
    b = TfliteBuilder()
    x, y = b.input((2, 1, 4, 4), 0.05, 0), b.tensor((2, 1, 4, 4), 0.05, 0)
    b.operator("RELU", (x,), (y,))
    error = refusal(b, y)
    assert "has a batch, or four dimensions; supported are a batch of 1" in error.message
    assert "batch of 1" in error.hint


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("BIDIRECTIONAL_SEQUENCE_LSTM", "two layers, one of which reads the reversed sequence"),
        ("TOPK_V2", "let it be the last operator"),
        ("CONV_3D", "a sum of CONV_2D"),
    ],
)
def test_operators_that_are_not_read_have_the_way_out(code: str, words: str) -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 4), 0.05, 0), b.tensor((1, 4), 0.05, 0)
    b.operator(code, (x,), (y,))
    assert words in refusal(b, y).hint


def test_reals_of_a_window_in_the_middle_have_the_way_out() -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 2, 2, 4), 0.05, 0), b.tensor((1, 2, 2, 4), 0.05, 0)
    reals = [b.plain((1, 2, 2, 4), "FLOAT32") for _ in range(2)]
    b.operator("DEQUANTIZE", (x,), (reals[0],))
    b.operator("LOCAL_RESPONSE_NORMALIZATION", (reals[0],), (reals[1],))
    b.operator("QUANTIZE", (reals[1],), (y,))
    assert "train the network with batch normalisation" in refusal(b, y).hint


def test_the_largest_elements_at_the_end_are_left_to_the_application() -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 8), 0.05, 0), b.tensor((1, 8), 0.05, 0)
    b.operator("RELU", (x,), (y,))
    reals, most, places = (
        b.plain((1, n), t) for n, t in ((8, "FLOAT32"), (2, "FLOAT32"), (2, "INT32"))
    )
    b.operator("DEQUANTIZE", (y,), (reals,))
    b.operator("TOPK_V2", (reals, b.constant(np.array(2, np.int32))), (most, places))
    graph = import_model(model_of(b.build((most, places)), Path("net.tflite"))).graph
    assert [op.kind for op in graph.ops] == ["Lut"]
    assert any("TOPK_V2" in note for note in graph.notes)


@pytest.mark.parametrize(
    ("code", "shape", "given"),
    [
        ("TRANSPOSE", (), [0]),
        ("TRANSPOSE", (2, 3), [1, 2]),
        ("MEAN", (1, 4, 4, 2), [1, 4]),
        ("REVERSE_V2", (1, 4), [-3]),
        ("CUMSUM", (1, 4), [2]),
        ("ARG_MAX", (1, 4), [3]),
    ],
)
def test_dimensions_that_a_tensor_does_not_have_are_refused(
    code: str, shape: tuple[int, ...], given: list[int]
) -> None:
    b = TfliteBuilder()
    x, y = b.input(shape, 0.05, 0), b.tensor(shape, 0.05, 0)
    b.operator(code, (x, b.constant(np.array(given, np.int32))), (y,))
    message = refusal(b, y).message
    assert re.search(r"the dimensions? (are those|is one) of the input", message)
