"""GRU, LSTM and RNN: `dory quantize` writes their cells, whose integers are onnxruntime's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dory_qdq.importer import import_file
from dory_qdq.quantize.choices import Choices
from dory_qdq.quantize.preparation import prepare
from dory_qdq.quantize.quantiser import quantise
from dory_qdq.quantize.samples import read_samples
from dory_qdq.testing import Builder, infer, write_golden
from onnx import TensorProto, helper, numpy_helper

from dory_core.api import NotSupported
from dory_core.testing import CompileOptions, compile_network
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

pytest.importorskip("onnxruntime", reason="the extra quantize is not installed")

STEPS, FEATURES, UNITS = 4, 5, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def network(op: str, folder: Path, states: bool = False, **attributes: Any) -> Path:
    """A recurrent layer between a Transpose and a Gemm, as torch exports it with batch_first."""
    random, rows = np.random.default_rng(3), GATES[op] * UNITS
    count = 2 if attributes.get("direction") == "bidirectional" else 1
    shapes = {"w": (count, rows, FEATURES), "r": (count, rows, UNITS), "b": (count, 2 * rows)}
    if states:
        shapes |= {"h": (count, 1, UNITS)} | ({"c": (count, 1, UNITS)} if op == "LSTM" else {})
    constants = {name: random.normal(0, 0.6, shape) for name, shape in shapes.items()}
    constants["weights"] = random.normal(0, 0.5, (3, count * UNITS))
    stored = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in constants.items()]
    stored.append(numpy_helper.from_array(np.array([STEPS, count * UNITS]), "flat"))
    outputs = ["all", "last", *(["cell"] if op == "LSTM" else [])]
    inputs = ["turned", "w", "r", "b", *(["", "h"] if states else [])]
    inputs += ["c"] if states and op == "LSTM" else []
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0, 2]),
        helper.make_node(op, inputs, outputs, op, hidden_size=UNITS, **attributes),
        helper.make_node("Transpose", ["all"], ["steps_first"], perm=[2, 0, 1, 3]),
        helper.make_node("Reshape", ["steps_first", "flat"], ["rows"]),
        helper.make_node("Gemm", ["rows", "weights"], ["scores"], transB=1),
    ]
    results = [("scores", (STEPS, 3)), *((name, (count, 1, UNITS)) for name in outputs[1:])]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in results]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, STEPS, FEATURES))]
    graph = helper.make_graph(nodes, "recurrent", given, infos, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "float.onnx"
    onnx.save(model, str(path))
    return path


FORMS: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {}),
    ("LSTM", {"direction": "bidirectional", "states": True}),
    ("GRU", {"linear_before_reset": 1}),
    ("GRU", {"linear_before_reset": 1, "direction": "bidirectional", "states": True}),
    ("GRU", {"direction": "reverse"}),
    ("RNN", {"states": True}),
]


@pytest.mark.parametrize(("op", "form"), FORMS)
def test_cells_compute_what_the_layer_does(op: str, form: dict[str, Any], tmp_path: Path) -> None:
    import onnxruntime

    path = network(op, tmp_path, **form)
    ready = prepare(path)
    assert not {node.op_type for node in ready.proto.graph.node} & {*GATES}
    x = np.random.default_rng(1).normal(size=(1, STEPS, FEATURES)).astype(np.float32)
    found, expected = (
        onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": x})
        for data in (ready.proto.SerializeToString(), path.read_bytes())
    )
    assert len(found) == len(expected) > 1
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("op", "form"), FORMS[1:4:2])
def test_quantised_cells_are_exact_in_applications(
    op: str, form: dict[str, Any], tmp_path: Path
) -> None:
    ready = prepare(network(op, tmp_path, **form))
    samples = np.random.default_rng(2).normal(size=(16, STEPS, FEATURES)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=samples)
    read = read_samples(tmp_path / "data.npz", ready.inputs)
    data = quantise(ready, read, Choices(), "minmax").SerializeToString()
    (tmp_path / "net.onnx").write_bytes(data)
    golden = write_golden(infer(data, tmp_path, 1).golden, tmp_path / "golden.npz")
    options = CompileOptions(tmp_path / "net.onnx", "gap8", "qdq", tmp_path / "a", (golden,))
    compile_network(options, load_plugins())
    assert_exact(tmp_path / "a", plugins=load_plugins())


@pytest.mark.parametrize(
    ("op", "form", "words"),
    [
        ("LSTM", {"activations": ["Sigmoid", "Relu", "Tanh"]}, "its activations are Sigmoid, Relu"),
        ("LSTM", {"clip": 2.0}, "it clips its cells"),
        ("LSTM", {"input_forget": 1}, "gates are coupled"),
    ],
)
def test_what_the_cells_do_not_have_is_refused(
    op: str, form: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(NotSupported, match=words) as caught:
        prepare(network(op, tmp_path, **form))
    assert "default activations" in caught.value.hint


@pytest.mark.parametrize("op", [*GATES])
def test_layers_in_a_quantised_file_are_refused_with_the_way_out(op: str, tmp_path: Path) -> None:
    b = Builder(np.random.default_rng(1))
    x = b.input((STEPS, 1, FEATURES))
    sizes = ((1, GATES[op] * UNITS, FEATURES), (1, GATES[op] * UNITS, UNITS))
    weights = [b.constant(np.ones(size, np.float32)) for size in sizes]
    out = b.node(op, [x.name, *weights], hidden_size=UNITS)
    last = b.quantised(out, (STEPS, 1, 1, UNITS), 0.01)
    (tmp_path / "net.onnx").write_bytes(b.model([(last.stored, last.shape)]))
    with pytest.raises(NotSupported, match=f"{op} .*not supported") as caught:
        import_file(tmp_path / "net.onnx")
    assert "dory quantize" in caught.value.hint


def test_scales_that_are_computed_while_the_network_runs_are_refused(tmp_path: Path) -> None:
    b = Builder(np.random.default_rng(1))
    x = b.input((STEPS, 1, FEATURES))
    out = b.node("DynamicQuantizeLSTM", [x.name] * 12, "com.microsoft", hidden_size=UNITS)
    last = b.quantised(out, (STEPS, 1, 1, UNITS), 0.01)
    (tmp_path / "net.onnx").write_bytes(b.model([(last.stored, last.shape)]))
    with pytest.raises(NotSupported, match="scales are computed while the network runs"):
        import_file(tmp_path / "net.onnx")
