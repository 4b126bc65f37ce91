"""Operators behind the last integers: they are left to the application, or have the way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from dory_qdq.importer import import_file
from dory_qdq.testing import OPERATORS, Builder, infer, write_golden
from dory_qdq.testing.builder import Tensor

from dory_core.api import NotSupported
from dory_core.testing import CompileOptions, compile_network
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

IMAGE = (1, 6, 4, 5)
Tail = Callable[[Builder, Tensor, Tensor], list[str]]


def network(tail: Tail, folder: Path) -> Path:
    """Write a network of two branches, whose reals a tail reads."""
    b = Builder(np.random.default_rng(1))
    x = b.input(IMAGE)
    first = OPERATORS["sigmoid"](b, x)
    second = OPERATORS["tanh"](b, x)
    model = onnx.load_from_string(b.model([(name, (1,)) for name in tail(b, first, second)]))
    for output in model.graph.output:
        output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        output.type.tensor_type.ClearField("shape")
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def integers(b: Builder, *values: int) -> str:
    return b.constant(np.array(values, np.int64))


def _reshaped(b: Builder, x: Tensor, y: Tensor) -> list[str]:
    """Reals in another shape, and in another order of elements."""
    flat = b.node("Reshape", [b.node("Softmax", [x.name]), integers(b, 1, -1)])
    return [b.node("Transpose", [flat])]


def _decoded(b: Builder, x: Tensor, y: Tensor) -> list[str]:
    """As detectors end: both branches, constants, comparisons and operators that are not read."""
    boxes = b.node("Mul", [x.name, b.constant(np.float32(2))])
    scores = b.node("Sigmoid", [y.name])
    better = b.node("Cast", [b.node("Greater", [x.name, y.name])], to=1)
    joined = b.node("Concat", [boxes, scores, better], axis=1)
    parts = b.node("Reshape", [joined, integers(b, 1, 18, 20)])
    return [parts, b.node("Hardmax", [scores])]


def _activated_sums(b: Builder, x: Tensor, y: Tensor) -> list[str]:
    """Sums of 32 bits whose activation nothing rounds."""
    flat = b.node("Reshape", [x.name, integers(b, 1, 120)])
    weights = b.weights(b.rng.integers(-9, 9, (3, 120)).astype(np.int8), np.float32(0.02), 0)
    sums = b.node("Gemm", [flat, weights], transB=1)
    return [b.node("Reshape", [b.node("Relu", [sums]), integers(b, 3)])]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("tail", "count", "left"),
    [
        (_reshaped, 1, "Transpose, Reshape, Softmax"),
        (_decoded, 2, "Reshape, Concat, Mul, Sigmoid, Cast, Greater, Hardmax"),
        (_activated_sums, 1, "Reshape, Relu"),
    ],
)
@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
def test_reals_at_the_end_are_left_to_the_application(
    tail: Tail, count: int, left: str, target: str, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")
    path = network(tail, tmp_path)
    graph = import_file(path).graph
    assert len(graph.outputs) == count and f"host post-processing left out: {left}" in graph.notes
    golden = write_golden(infer(path.read_bytes(), tmp_path, 1).golden, tmp_path / "golden.npz")
    options = CompileOptions(path, target, "qdq", tmp_path / "a", (golden,))
    compile_network(options, load_plugins())
    assert_exact(tmp_path / "a", plugins=load_plugins())


def test_a_long_tail(tmp_path: Path) -> None:
    """Longer than Python's stack."""

    def tail(b: Builder, x: Tensor, y: Tensor) -> list[str]:
        name = x.name
        for _ in range(3000):
            name = b.node("Exp", [name])
        return [name]

    graph = import_file(network(tail, tmp_path)).graph
    assert "host post-processing left out: Exp" in graph.notes and len(graph.ops) == 1


def _convolved(b: Builder, x: Tensor, y: Tensor) -> list[str]:
    weights = b.constant(np.ones((2, 6, 1, 1), np.float32))
    return [b.node("Conv", [b.node("Softmax", [x.name]), weights])]


def _grown(b: Builder, x: Tensor, y: Tensor) -> list[str]:
    return [b.node("ConvTranspose", [x.name, b.constant(np.ones((6, 2, 1, 1), np.float32))])]


@pytest.mark.parametrize("tail", [_convolved, _grown])
def test_layers_with_weights_are_not_left_out(tail: Tail, tmp_path: Path) -> None:
    with pytest.raises(NotSupported) as caught:
        import_file(network(tail, tmp_path))
    assert "no QuantizeLinear rounds its result" in caught.value.message
    assert (
        "`dory quantize`" in caught.value.hint and "let the file end before it" in caught.value.hint
    )


@pytest.mark.parametrize("op", ["Sub", "Tile"])
def test_reals_of_the_input_have_the_way_out(op: str, tmp_path: Path) -> None:
    """An operator that computes, and one that moves elements."""
    b = Builder(np.random.default_rng(1))
    x = b.input(IMAGE)
    other = b.constant(np.float32(0.5)) if op == "Sub" else integers(b, 1, 1, 1, 1)
    y = b.quantised(b.node(op, ["input_1", other]), IMAGE, 0.02)
    assert x.name != "input_1"
    path = tmp_path / "net.onnx"
    path.write_bytes(b.model([(y.stored, IMAGE)]))
    with pytest.raises(NotSupported) as caught:
        import_file(path)
    assert "is not quantised" in caught.value.message
    assert "let the file begin after it (onnx.utils.extract_model)" in caught.value.hint
