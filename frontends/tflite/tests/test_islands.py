"""Functions of one byte: of reals between a DEQUANTIZE and a QUANTIZE, and those of LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dory_tflite.byte_functions import Quantisation
from dory_tflite.golden import golden_arrays, random_inputs
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.reals import NoNumberError, quantised, table_of
from dory_tflite.testing import TfliteBuilder

from dory_core.api import Graph, NotSupported
from dory_core.testing import CompileOptions, compile_network, run_reference
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

SHAPE = (1, 4, 4, 6)
ALL = slice(0, 256)


def real(b: TfliteBuilder, code: str, *sources: int, shape: tuple[int, ...] = SHAPE) -> int:
    y = b.plain(shape, "FLOAT32")
    b.operator(code, sources, (y,))
    return y


def stored(b: TfliteBuilder, source: int, scale: float = 0.1, zero: int = 0) -> int:
    y = b.tensor(b.tensors[source].shape, scale, zero)
    b.operator("QUANTIZE", (source,), (y,))
    return y


def halves(b: TfliteBuilder, source: int) -> list[int]:
    parts = [b.plain((1, 4, 4, 3), "FLOAT32") for _ in range(2)]
    b.operator("SPLIT", (b.constant(np.int32(3)), source), parts, NumSplits=2)
    return parts


def imported(b: TfliteBuilder, *outputs: int) -> Graph:
    return import_model(model_of(b.build(outputs), Path("net.tflite"))).graph


def refusal(b: TfliteBuilder, *outputs: int) -> str:
    with pytest.raises(NotSupported) as caught:
        imported(b, *outputs)
    return caught.value.message


@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
def test_a_gate_of_an_unrolled_lstm_and_elu_are_exact(target: str, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="the extra golden is not installed")
    b = TfliteBuilder()
    x, moved = b.input(SHAPE, 0.05, 3), b.tensor(SHAPE, 0.04, -9)
    b.operator("QUANTIZE", (x,), (moved,))
    first, second = halves(b, real(b, "DEQUANTIZE", moved))
    elu = real(b, "ELU", second, shape=(1, 4, 4, 3))
    data = b.build((stored(b, first, 0.04, -9), stored(b, elu, 0.02, -70)))
    (tmp_path / "net.tflite").write_bytes(data)
    model, random = model_of(data, Path("net.tflite")), np.random.default_rng(1)
    golden = tmp_path / "golden.npz"
    np.savez(golden, **golden_arrays(data, model, [random_inputs(model, random)]))
    options = CompileOptions(tmp_path / "net.tflite", target, "tflite", tmp_path / "a", (golden,))
    assert compile_network(options, load_plugins()).golden_exact
    assert_exact(tmp_path / "a", plugins=load_plugins())


def test_reals_that_are_only_moved_cost_no_table() -> None:
    b = TfliteBuilder()
    x, y = b.input(SHAPE, 0.05, 3), b.tensor(SHAPE, 1 / 256, -128)
    b.operator("LOGISTIC", (x,), (y,))
    first, _ = halves(b, real(b, "DEQUANTIZE", y))
    graph = imported(b, stored(b, first, 1 / 256, -128))
    assert [op.kind for op in graph.ops] == ["Lut", "Slice"]


def _two_tensors(b: TfliteBuilder, x: int) -> int:
    other = b.input(SHAPE, 0.03, 0)
    return real(b, "MUL", real(b, "DEQUANTIZE", x), real(b, "DEQUANTIZE", other))


def _each_channel(b: TfliteBuilder, x: int) -> int:
    return real(b, "MUL", real(b, "DEQUANTIZE", x), b.constant(np.float32([1, 2, 3, 4, 5, 6])))


def _padded(b: TfliteBuilder, x: int) -> int:
    around = b.constant(np.int32([[0, 0], [1, 1], [1, 1], [0, 0]]))
    return real(b, "PAD", real(b, "EXP", real(b, "DEQUANTIZE", x)), around, shape=(1, 6, 6, 6))


def _sums(b: TfliteBuilder, x: int) -> int:
    return real(b, "SUM", real(b, "DEQUANTIZE", x), b.constant(np.int32([3])), shape=(1, 4, 4, 1))


def _joined(b: TfliteBuilder, x: int) -> int:
    reals = real(b, "DEQUANTIZE", x)
    return real(b, "CONCATENATION", reals, real(b, "NEG", reals), shape=(1, 8, 4, 6))


def _one_operand(b: TfliteBuilder, x: int) -> int:
    return real(b, "MUL", real(b, "DEQUANTIZE", x))


def _logarithm(b: TfliteBuilder, x: int) -> int:
    return real(b, "LOG", real(b, "DEQUANTIZE", x))


@pytest.mark.parametrize(
    ("island", "words"),
    [
        (_two_tensors, "operator 2 MUL .*operands are reals of two tensors; supported are"),
        (_each_channel, "operator 1 MUL .*has several values; supported is one"),
        (_one_operand, "operator 1 MUL .*input 1 is missing"),
        (_padded, "operator 2 PAD .*pads reals that are 1 where their bytes are zero"),
        (_sums, "operator 1 SUM .*where reals become integers again: supported are functions"),
        (_joined, "operator 2 CONCATENATION .*reals of different functions"),
        (_logarithm, "operator 2 QUANTIZE .*a value of it is nan, which no integer of 32 bits"),
    ],
)
def test_what_is_no_function_of_one_element_is_refused(
    island: Callable[[TfliteBuilder, int], int], words: str
) -> None:
    b = TfliteBuilder()
    x = b.input(SHAPE, 0.05, 3)
    message = refusal(b, stored(b, island(b, x)))
    import re

    assert re.match(words, message), message


def test_padding_of_plain_reals_is_exact() -> None:
    b = TfliteBuilder()
    x = b.input(SHAPE, 0.05, 3)
    around = b.constant(np.int32([[0, 0], [1, 1], [1, 1], [0, 0]]))
    padded = real(b, "PAD", real(b, "DEQUANTIZE", x), around, shape=(1, 6, 6, 6))
    graph = imported(b, stored(b, padded, 0.1, -7))
    values = run_reference(graph, {"t0": np.full((6, 4, 4), 103)})[graph.outputs[0]]
    assert values[0, 0, 0] == -7 and values[0, 1, 1] == 43


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2e9])
def test_reals_without_an_integer_are_refused(value: float) -> None:
    y = Quantisation(0.5, 0)
    values = np.zeros(256, np.float32)
    values[7] = value
    assert quantised(values, y, slice(8, 256))[8] == 0
    with pytest.raises(NoNumberError):
        quantised(values, y, ALL)


def test_tables_saturate_below_and_refuse_above() -> None:
    x, y = Quantisation(0.1, -128), Quantisation(0.05, 5)
    with np.errstate(all="ignore"):
        assert table_of(np.log, x, y, ALL)[0] == -128
    with pytest.raises(NoNumberError):
        table_of(lambda values: np.exp(values * 10), x, y, ALL)


@pytest.mark.parametrize(
    "code", ["EXP", "LOG", "GELU", "GELU approximate", "RELU_N1_TO_1", "RELU_0_TO_1"]
)
def test_tables_of_lite_equal_its_reference_kernels(code: str) -> None:
    lite = pytest.importorskip("ai_edge_litert.interpreter", reason="no ai-edge-litert")
    random = np.random.default_rng(len(code))
    values = np.arange(-128, 128, dtype=np.int8)[None]
    for _ in range(12):
        b, zero = TfliteBuilder(), int(random.integers(-128, 128))
        scale = float(np.float32(random.uniform(0.003, 0.05)))
        x = b.input((1, 256), scale, -128 if code == "LOG" else zero)
        factor = 40 if code == "EXP" else 0.7
        y = b.tensor((1, 256), float(np.float32(scale * factor)), int(random.integers(-128, 128)))
        options = {"Approximate": True} if code.endswith("approximate") else {}
        b.operator(code.split()[0], (x,), (y,), **options)
        data = b.build((y,))
        other = lite.Interpreter(
            model_content=data, experimental_op_resolver_type=lite.OpResolverType.BUILTIN_REF
        )
        other.allocate_tensors()
        other.set_tensor(0, values)
        other.invoke()
        graph = import_model(model_of(data, Path("net.tflite"))).graph
        given = values.astype(np.int64).reshape(256, 1, 1)
        found = run_reference(graph, {"t0": given})[graph.outputs[0]]
        assert np.array_equal(found.reshape(-1), other.get_tensor(1).reshape(-1)), (scale, zero)
        assert any("LiteRT's" in note for note in graph.notes)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("RSQRT", "128 steps below zero"),
        ("LOG", "a value of it is nan"),
        ("SQRT", "not supported for INT8, only for reals between a DEQUANTIZE and a QUANTIZE"),
    ],
)
def test_functions_outside_of_their_domain_are_refused(code: str, words: str) -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 8), 0.05, 0), b.tensor((1, 8), 0.05, 0)
    b.operator(code, (x,), (y,))
    assert words in refusal(b, y)


def test_selu_as_keras_writes_it_equals_lite() -> None:
    lite = pytest.importorskip("ai_edge_litert.interpreter", reason="no ai-edge-litert")
    b = TfliteBuilder()
    shape, y_scale = (1, 256), (0.01648, -36)
    x = b.input(shape, 0.01782, -16)

    def constant(scale: float, zero: int, value: int) -> int:
        return b.constant(np.array(value, np.int8), [scale], [zero])

    def step(code: str, *sources: int, scale: float, zero: int) -> int:
        y = b.tensor(shape, scale, zero)
        b.operator(code, sources, (y,))
        return y

    above, y = b.plain(shape, "BOOL"), b.tensor(shape, *y_scale)
    b.operator("GREATER", (x, constant(3.922e-9, 0, 0)), (above,))
    high = step("MUL", x, constant(0.00412, -128, 127), scale=y_scale[0], zero=y_scale[1])
    power = step("EXP", x, scale=0.05387, zero=-112)
    less = step("SUB", power, constant(0.003922, -128, 127), scale=0.08781, zero=-111)
    low = step("MUL", less, constant(0.006895, -128, 127), scale=y_scale[0], zero=y_scale[1])
    b.operator("SELECT", (above, high, low), (y,))
    data = b.build((y,))
    other = lite.Interpreter(
        model_content=data, experimental_op_resolver_type=lite.OpResolverType.BUILTIN_REF
    )
    other.allocate_tensors()
    values = np.arange(-128, 128, dtype=np.int8)[None]
    other.set_tensor(0, values)
    other.invoke()
    graph = import_model(model_of(data, Path("net.tflite"))).graph
    assert graph.ops[-1].kind == "Lut" and graph.ops[-1].inputs == ("t0",)
    found = run_reference(graph, {"t0": values.astype(np.int64).reshape(256, 1, 1)})
    assert np.array_equal(found[graph.outputs[0]].reshape(-1), other.get_tensor(y).reshape(-1))


def test_choices_by_other_tensors_are_refused() -> None:
    b = TfliteBuilder()
    x, other = b.input(SHAPE, 0.05, 3), b.input(SHAPE, 0.05, 3)
    above, y = b.plain(SHAPE, "BOOL"), b.tensor(SHAPE, 0.05, 3)
    b.operator("GREATER", (x, b.constant(np.int8(5), [0.1])), (above,))
    b.operator("SELECT_V2", (above, x, other), (y,))
    assert "is no function of the bytes that its condition compares" in refusal(b, y)
    b = TfliteBuilder()
    x, above = b.input(SHAPE, 1.5, 3), b.plain(SHAPE, "BOOL")
    b.operator("GREATER", (x, b.constant(np.int8(5), [0.1])), (above,))
    assert "supported only if the scales are below 1" in refusal(b, above)
