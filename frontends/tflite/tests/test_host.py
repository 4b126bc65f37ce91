"""Reals and custom operators behind the last integers are left to the application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from dory_tflite.golden import golden_arrays, random_inputs
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder

from dory_core.api import Graph, NotSupported
from dory_core.testing import CompileOptions, compile_network
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

SHAPE = (1, 4, 4, 3)
POST = "CUSTOM TFLite_Detection_PostProcess"


def draft() -> tuple[TfliteBuilder, int, int]:
    """Return a network of one convolution: builder, input and result."""
    b, random = TfliteBuilder(), np.random.default_rng(1)
    x, y = b.input((1, 4, 4, 2), 0.05, 3), b.tensor(SHAPE, 0.2, -7)
    weights = b.constant(random.integers(-127, 128, (3, 1, 1, 2)).astype(np.int8), [0.01])
    b.operator("CONV_2D", (x, weights), (y,), StrideH=1, StrideW=1)
    return b, x, y


def dequantised(b: TfliteBuilder, source: int) -> int:
    real = b.plain(b.tensors[source].shape, "FLOAT32")
    b.operator("DEQUANTIZE", (source,), (real,))
    return real


def head(b: TfliteBuilder, code: str, *sources: int) -> int:
    result = b.plain(SHAPE, "FLOAT32")
    b.operator(code, sources, (result,))
    return result


def imported(b: TfliteBuilder, outputs: Sequence[int]) -> Graph:
    return import_model(model_of(b.build(outputs), Path("net.tflite"))).graph


def refusal(b: TfliteBuilder, outputs: Sequence[int]) -> str:
    with pytest.raises(NotSupported) as caught:
        imported(b, outputs)
    return caught.value.message


@pytest.mark.parametrize("target", ["gap8", "stm32h7", "diana"])
def test_the_integers_before_a_head_are_the_output(target: str, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="the extra golden is not installed")
    b, _, y = draft()
    data = b.build((head(b, "LOG_SOFTMAX", dequantised(b, y)),))
    (tmp_path / "net.tflite").write_bytes(data)
    model, random = model_of(data, Path("net.tflite")), np.random.default_rng(1)
    golden = tmp_path / "golden.npz"
    np.savez(golden, **golden_arrays(data, model, [random_inputs(model, random)]))
    options = CompileOptions(tmp_path / "net.tflite", target, "tflite", tmp_path / "a", (golden,))
    result = compile_network(options, load_plugins())
    assert result.golden_exact
    assert "host post-processing left out: LOG_SOFTMAX" in result.plan.notes
    assert any(
        "float tensor" in note and "(value - -7) * 0.2" in note for note in result.plan.notes
    )
    assert "value = 0.2" in (tmp_path / "a" / "inc" / "dory_network.h").read_text()
    assert_exact(tmp_path / "a", plugins=load_plugins())


def test_detections_take_boxes_and_classes_and_the_application_has_the_anchors() -> None:
    b, x, y = draft()
    classes = b.tensor((1, 4, 4, 2), 1 / 256, -128)
    b.operator("LOGISTIC", (x,), (classes,))
    anchors = b.constant(np.zeros(SHAPE, np.int8), [0.1])
    reals = [dequantised(b, one) for one in (y, classes, anchors)]
    results = [b.plain((1, 10), "FLOAT32") for _ in range(4)]
    b.operator(POST, reals, results)
    graph = imported(b, results)
    assert graph.outputs == tuple(op.output for op in graph.ops)
    assert [op.kind for op in graph.ops] == ["Conv", "Lut"]
    assert f"host post-processing left out: {POST}" in graph.notes


def test_custom_operators_may_read_integers_at_the_end() -> None:
    b, _, y = draft()
    graph = imported(b, (head(b, POST, y), y))
    assert graph.outputs == ("layer_00",)


def test_several_operators_of_reals_and_an_integer_output() -> None:
    b, _, y = draft()
    real = head(b, "NEG", dequantised(b, y))
    last = head(b, "ADD", real, head(b, "EXP", real))
    graph = imported(b, (y, last))
    assert graph.outputs == ("layer_00",)
    assert "host post-processing left out: NEG, EXP, ADD" in graph.notes


def _returns(b: TfliteBuilder, real: int) -> int:
    stored = b.tensor(SHAPE, 0.1, 0)
    b.operator("QUANTIZE", (real,), (stored,))
    return stored


@pytest.mark.parametrize(
    ("island", "first"),
    [
        (lambda b, y: head(b, "CUSTOM mine", dequantised(b, y)), "operator 2 CUSTOM mine"),
        (lambda b, y: head(b, "CUSTOM mine", y), "operator 1 CUSTOM mine"),
        (
            lambda b, y: head(b, "NEG", head(b, "CUSTOM mine", dequantised(b, y))),
            "operator 2 CUSTOM mine",
        ),
    ],
)
def test_what_the_application_computes_is_no_integer_again(
    island: Callable[[TfliteBuilder, int], int], first: str
) -> None:
    b, _, y = draft()
    message = refusal(b, (_returns(b, island(b, y)),))
    assert message.startswith(first) and "QUANTIZE behind it gives integers again" in message


def test_a_head_and_an_island_take_the_same_integers() -> None:
    b, _, y = draft()
    real = head(b, "NEG", dequantised(b, y))
    graph = imported(b, (head(b, "LOG_SOFTMAX", real), _returns(b, real)))
    assert graph.outputs == ("layer_00", "layer_01")
    assert [op.kind for op in graph.ops] == ["Conv", "Lut"]
    assert "host post-processing left out: LOG_SOFTMAX" in graph.notes


def test_reals_that_are_assigned_to_a_variable_are_refused() -> None:
    b, _, y = draft()
    b.operator("ASSIGN_VARIABLE", (b.handle("kept"), head(b, "NEG", dequantised(b, y))), ())
    assert "NEG" in refusal(b, (y,))


def test_a_network_of_reals_alone_has_no_layer() -> None:
    b = TfliteBuilder()
    real = head(b, "LOG_SOFTMAX", dequantised(b, b.input(SHAPE, 0.1, 0)))
    assert "holds no integer layer" in refusal(b, (real,))
