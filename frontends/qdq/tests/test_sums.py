"""Outputs that nothing quantises: 32-bit sums and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from dory_qdq.importer import parse
from dory_qdq.testing import Builder
from onnx import TensorProto

from dory_core.api import Graph
from dory_core.importing import FrontendOptions
from dory_core.testing import make_vectors

ROWS = 6


def network(op: str, scales: npt.NDArray[Any], folder: Path, head: str = "") -> Path:
    """Write a network whose output is the sums of an operator, or a head behind them."""
    b = Builder(np.random.default_rng(3))
    x = b.input((1, 5, 4, 3) if op == "Conv" else (1, 12))
    shape = (ROWS, 5, 3, 2) if op == "Conv" else (ROWS, 12)
    values = b.rng.integers(-64, 65, shape).astype(np.int8)
    bias = b.weights(
        b.rng.integers(-500, 500, ROWS).astype(np.int32), np.float32(x.scale) * scales, 0
    )
    more = {} if op == "Conv" else {"transB": 1}
    out = b.node(op, [x.name, b.weights(values, scales, 0), bias], **more)
    out = b.node(head, [out], axis=1) if head else out
    sizes = (1, 1 if head == "ArgMax" else ROWS, *((2, 2) if op == "Conv" else ()))
    model = onnx.load_from_string(b.model([(out, sizes)]))
    kind = TensorProto.INT64 if head == "ArgMax" else TensorProto.FLOAT
    model.graph.output[0].type.tensor_type.elem_type = kind
    onnx.save(model, str(folder / "net.onnx"))
    return folder / "net.onnx"


def inference(path: Path) -> tuple[Graph, npt.NDArray[Any], npt.NDArray[Any]]:
    """Return a network, its output by dory as real numbers, and that of onnxruntime."""
    ort = pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    values = np.random.default_rng(0).uniform(-1.5, 1.5, given.shape).astype(np.float32)
    (wanted,) = session.run(None, {given.name: values})
    graph = parse(path, FrontendOptions())
    tensor, output = graph.tensors[graph.inputs[0]], graph.tensors[graph.outputs[0]]
    steps = np.rint(values / np.float32(tensor.scale)) + tensor.zero_point
    stored = np.clip(steps, tensor.lo, tensor.hi).astype(np.int64).reshape(tensor.shape)
    (vector,), _ = make_vectors(graph, (), [{tensor.name: stored}])
    scales = np.float32(output.channel_scales or (output.scale,))
    return graph, vector[output.name] * scales[:, None, None], wanted


@pytest.mark.parametrize("op", ["Gemm", "Conv"])
def test_scales_per_channel_give_the_real_numbers_of_onnxruntime(op: str, tmp_path: Path) -> None:
    scales = np.geomspace(0.001, 0.05, ROWS).astype(np.float32)
    graph, reals, wanted = inference(network(op, scales, tmp_path))
    tensor = graph.tensors[graph.outputs[0]]
    x = graph.tensors[graph.inputs[0]].scale
    assert tensor.scale is None and tensor.zero_point == 0
    assert tensor.channel_scales == tuple(float(np.float32(x) * scale) for scale in scales)
    assert np.allclose(reals.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)
    assert any("the largest of them is not the largest real number" in n for n in graph.notes)


def test_equal_scales_are_one_and_nothing_is_noted(tmp_path: Path) -> None:
    scales = np.full(ROWS, 0.01, np.float32)
    graph, reals, wanted = inference(network("Gemm", scales, tmp_path))
    tensor = graph.tensors[graph.outputs[0]]
    assert tensor.scale == pytest.approx(0.01 * (graph.tensors[graph.inputs[0]].scale or 0))
    assert tensor.channel_scales == () and graph.notes == ()
    assert np.allclose(reals.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)


def test_a_class_that_the_host_looks_for_has_the_scales_of_its_sums(tmp_path: Path) -> None:
    scales = np.geomspace(0.05, 0.001, ROWS).astype(np.float32)
    graph, reals, wanted = inference(network("Gemm", scales, tmp_path, "ArgMax"))
    assert int(reals.argmax()) == int(wanted.reshape(-1)[0])
    assert any("scale per channel" in note for note in graph.notes)
