"""Random quantised networks: every element of every layer equals what onnxruntime computes.

Layers that onnxruntime computes in reals may be one step away, and what follows them is compared on
onnxruntime's values. Which layers those are is compared with the operators that it left in reals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from dory_qdq.importer import parse
from dory_qdq.qlinear import FORMS
from dory_qdq.testing import (
    MORE_OPERATORS,
    OPERATORS,
    Builder,
    as_qoperator,
    infer,
    random_network,
    write_golden,
)
from onnx import TensorProto, helper

from dory_core.api import NotSupported, VerificationFailed
from dory_core.importing import FrontendOptions
from dory_core.testing import make_vectors

pytest.importorskip("onnxruntime", reason="the extra test of dory-qdq is not installed")


MULTI = 6


#: Forms of QDQ files with QLinear operators, with weights of int8 and of uint8.
QOPERATOR = {zero: partial(as_qoperator, weight_zero=zero) for zero in (0, 128, 77)}


Form = Callable[[bytes], bytes]


def difference(model: bytes, folder: Path, seed: int = 0) -> str:
    """Return how an import differs from onnxruntime, empty when it does not."""
    path = folder / "net.onnx"
    path.write_bytes(model)
    graph, inference = parse(path, FrontendOptions()), infer(model, folder, seed, inferences=2)
    try:
        _, report = make_vectors(graph, [write_golden(inference.golden, folder / "golden.npz")])
    except VerificationFailed as error:
        return error.message
    assert report is not None and report.layers
    outputs = {op.tensor for op in graph.ops if op.output in graph.outputs}
    if not outputs <= {layer.tensor for layer in report.layers}:
        return f"the outputs {sorted(outputs)} were not compared"
    return " ".join(sorted(inference.unexpected(graph)))


def wrong(
    seeds: range, folder: Path, operators: int, names: tuple[str, ...], form: Form = bytes
) -> Iterator[object]:
    """Yield the networks that differ, and how. form: makes another form of each file."""
    for seed in seeds:
        name = names[seed % len(names)] if names else ""
        how = difference(form(random_network(seed, operators, name)), folder, seed)
        if how:
            yield seed, name, how


def test_networks_of_one_operator_are_exact(tmp_path: Path) -> None:
    assert list(wrong(range(3 * len(OPERATORS)), tmp_path, 1, tuple(OPERATORS))) == []


@pytest.mark.parametrize("seeds", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_differences_and_pools_with_ceil_mode_are_exact(seeds: int, tmp_path: Path) -> None:
    names = tuple(MORE_OPERATORS)
    assert list(wrong(range(seeds * len(names)), tmp_path, 1, names)) == []


def test_networks_of_several_operators_are_exact(tmp_path: Path) -> None:
    assert list(wrong(range(12), tmp_path, MULTI, ())) == []


def test_files_of_qlinear_operators_have_them_all() -> None:
    found, weights = set(), set()
    for seed in range(2 * len(OPERATORS)):
        name = tuple(OPERATORS)[seed % len(OPERATORS)]
        model = onnx.load_from_string(QOPERATOR[77](random_network(seed, 1, name)))
        found |= {node.op_type for node in model.graph.node}
        kinds = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
        gemms = (node for node in model.graph.node if node.op_type == "QGemm")
        weights |= {kinds[node.input[3]] for node in gemms}
    assert TensorProto.UINT8 in weights
    assert set(FORMS) <= found and found.isdisjoint({"Conv", "Gemm", "MatMul", "Add", "Mul"})


@pytest.mark.sample(3)
@pytest.mark.parametrize("zero", QOPERATOR)
def test_qlinear_operators_are_exact(zero: int, tmp_path: Path) -> None:
    seeds, names = range(2 * len(OPERATORS)), tuple(OPERATORS)
    assert list(wrong(seeds, tmp_path, 1, names, QOPERATOR[zero])) == []
    assert list(wrong(range(6), tmp_path, MULTI, (), QOPERATOR[zero])) == []


@pytest.mark.parametrize("seed", [2, 5, 17])
def test_an_input_of_rows_that_several_layers_read_is_exact(seed: int, tmp_path: Path) -> None:
    assert list(wrong(range(seed, seed + 1), tmp_path, 1, ("attention",))) == []


@pytest.mark.parametrize("zero", QOPERATOR)
def test_products_of_qlinear_matmul_are_exact(zero: int, tmp_path: Path) -> None:
    assert list(wrong(range(12), tmp_path, 1, ("product",), QOPERATOR[zero])) == []


@pytest.mark.slow
@pytest.mark.parametrize("zero", QOPERATOR)
def test_many_networks_of_qlinear_operators_are_exact(zero: int, tmp_path: Path) -> None:
    seeds, names = range(14 * len(OPERATORS)), tuple(OPERATORS)
    assert list(wrong(seeds, tmp_path, 1, names, QOPERATOR[zero])) == []
    assert list(wrong(range(200), tmp_path, MULTI, (), QOPERATOR[zero])) == []


@pytest.mark.parametrize("value", [np.inf, -np.inf, 3e38])
def test_padding_beyond_all_values_is_the_last_one(value: float, tmp_path: Path) -> None:
    builder = Builder(np.random.default_rng(1))
    x = builder.input((1, 3, 4, 4))
    pads = builder.constant(np.array([0, 0, 1, 0, 0, 0, 0, 2], np.int64))
    out = builder.node("Pad", [x.name, pads, builder.constant(np.float32(value))])
    last = builder.quantised(out, (1, 3, 5, 6), x.scale, x.zero)
    assert difference(builder.model([(last.stored, last.shape)]), tmp_path) == ""


def test_inputs_that_are_transposed_first_are_read_from_goldens_in_their_order(
    tmp_path: Path,
) -> None:
    """NHWC exporters: the golden has the stored input behind the Transpose."""
    builder = Builder(np.random.default_rng(5))
    builder.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 6, 5, 3)))
    turned = builder.node("Transpose", ["x"], perm=[0, 3, 1, 2])
    last = OPERATORS["conv"](builder, builder.quantised(turned, (1, 3, 6, 5), 0.01))
    model = builder.model([(last.stored, last.shape)])
    assert difference(model, tmp_path) == ""
    assert parse(tmp_path / "net.onnx", FrontendOptions()).inputs == ("x",)


@pytest.mark.parametrize("behind", [False, True], ids=["input", "layer"])
def test_clips_of_stored_integers_as_brevitas_writes_them(behind: bool, tmp_path: Path) -> None:
    """QCDQ: 4 bits in a type of 8 bits."""
    builder = Builder(np.random.default_rng(4), signed=True)
    shape = (1, 3, 6, 6)
    if behind:
        reals = OPERATORS["relu"](builder, builder.input(shape)).name
    else:
        reals = "x"
        builder.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, shape))
    parameters = builder.parameters(0.05, 0, True)
    stored = builder.node("QuantizeLinear", [reals, *parameters])
    bounds = [builder.constant(np.array(bound, np.int8)) for bound in (-8, 7)]
    clipped = builder.node("Clip", [stored, *bounds])
    real = builder.node("DequantizeLinear", [clipped, *parameters])
    values = builder.rng.integers(-8, 8, (4, 3, 3, 3)).astype(np.int8)
    weights = builder.weights(values, np.full(4, 0.05, np.float32), 0)
    out = builder.node("Conv", [real, weights])
    last = builder.quantised(out, (1, 4, 4, 4), builder.scale())
    assert difference(builder.model([(last.stored, last.shape)]), tmp_path) == ""


@pytest.mark.slow
def test_a_thousand_networks_of_one_operator_are_exact(tmp_path: Path) -> None:
    count = -(-1000 // len(OPERATORS)) * len(OPERATORS)
    assert list(wrong(range(count), tmp_path, 1, tuple(OPERATORS))) == []


@pytest.mark.slow
def test_three_hundred_networks_of_several_operators_are_exact(tmp_path: Path) -> None:
    assert list(wrong(range(300), tmp_path, MULTI, ())) == []


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(2.0, 3.0), (0.5, 0.7), (1.5, 0.8)])
def test_resize_of_opset_10_takes_places_without_a_half(
    scales: tuple[float, float], mode: str, tmp_path: Path
) -> None:
    builder = Builder(np.random.default_rng(1))
    x = builder.input((1, 2, 5, 6))
    sizes = builder.constant(np.array([1, 1, *scales], np.float32))
    out = builder.node("Resize", [x.name, sizes], mode=mode)
    shape = (1, 2, *(int(size * scale) for size, scale in zip((5, 6), scales, strict=True)))
    last = builder.quantised(out, shape, x.scale, x.zero)
    assert difference(builder.model([(last.stored, shape)], 10), tmp_path) == ""


def test_goldens_of_int8_need_no_names_of_nodes(tmp_path: Path) -> None:
    builder = Builder(np.random.default_rng(1), signed=True)
    last = OPERATORS["softmax"](builder, builder.input((1, 5)))
    for node in builder.nodes:
        node.name = ""
    assert difference(builder.model([(last.stored, last.shape)]), tmp_path) == ""


def test_all_results_of_a_head_are_left_to_the_host(tmp_path: Path) -> None:
    builder = Builder(np.random.default_rng(1))
    x = OPERATORS["sigmoid"](builder, builder.input((1, 9)))
    count = builder.constant(np.array([2], np.int64))
    values, places = "values", "places"
    builder.nodes.append(helper.make_node("TopK", [x.name, count], [values, places], "TopK_1"))
    model = onnx.load_from_string(builder.model([(x.stored, x.shape)]))
    del model.graph.output[:]
    model.graph.output.extend(
        helper.make_tensor_value_info(name, kind, (1, 2))
        for name, kind in ((values, TensorProto.FLOAT), (places, TensorProto.INT64))
    )
    onnx.save(model, str(tmp_path / "net.onnx"))
    graph = parse(tmp_path / "net.onnx", FrontendOptions())
    assert "host post-processing left out: TopK" in graph.notes
    assert len(graph.outputs) == 1


@pytest.mark.parametrize("operator", ["LogSoftmax", "ArgMax", "ArgMin"])
def test_heads_that_are_quantised_again_are_refused(operator: str, tmp_path: Path) -> None:
    builder = Builder(np.random.default_rng(1))
    out = builder.node(operator, [builder.input((1, 4)).name])
    last = builder.quantised(out, (1, 4), 0.1)
    (tmp_path / "net.onnx").write_bytes(builder.model([(last.stored, last.shape)]))
    with pytest.raises(NotSupported, match=f"{operator} .*only if it stands behind the last"):
        parse(tmp_path / "net.onnx", FrontendOptions())


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("rounded", [False, True], ids=["integers", "reals"])
@pytest.mark.parametrize("operator", ["Conv", "Gemm"])
def test_clips_of_constants_as_brevitas_writes_weights(
    operator: str, rounded: bool, signed: bool, tmp_path: Path
) -> None:
    """QCDQ: weights of 4 bits per channel, stored as integers or quantised in the file."""
    builder = Builder(np.random.default_rng(4), signed=signed)
    x = builder.input((1, 8, 5, 5) if operator == "Conv" else (1, 8))
    shape = (4, 8, 3, 3) if operator == "Conv" else (4, 8)
    scales = builder.constant(builder.rng.uniform(0.01, 0.05, 4).astype(np.float32))
    zeros = builder.constant(np.zeros(4, np.int8))
    values = builder.rng.integers(-12, 12, shape).astype(np.int8)
    stored = builder.constant(values)
    if rounded:
        reals = builder.constant(values.astype(np.float32) * np.float32(0.03))
        stored = builder.node("QuantizeLinear", [reals, builder.constant(np.float32(0.03))])
        zeros = builder.constant(np.zeros(4, np.uint8))
    bounds = (0, 15) if rounded else (-8, 7)
    kind = np.uint8 if rounded else np.int8
    clip = builder.node("Clip", [stored, *(builder.constant(np.array(b, kind)) for b in bounds)])
    weights = builder.node("DequantizeLinear", [clip, scales, zeros], axis=0)
    attributes = {} if operator == "Conv" else {"transB": 1}
    out = builder.node(operator, [x.name, weights], **attributes)
    last = builder.quantised(out, (1, 4, 3, 3) if operator == "Conv" else (1, 4), 0.05)
    assert difference(builder.model([(last.stored, last.shape)]), tmp_path) == ""


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (2, 0, 3, 1), (0, 3, 2, 1), (0, 1, 3, 2)])
def test_inputs_that_move_before_they_are_quantised(order: tuple[int, ...], tmp_path: Path) -> None:
    """torch's exporter writes a Linear over the channels of an image so."""
    builder = Builder(np.random.default_rng(8))
    shape = (1, 6, 4, 5)
    info = helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)
    builder.inputs.append(info)
    turned = builder.node("Transpose", ["image"], perm=order)
    rows, columns = 120 // shape[order[-1]], shape[order[-1]]
    sizes = builder.constant(np.array([rows, columns], np.int64))
    x = builder.quantised(builder.node("Reshape", [turned, sizes]), (rows, columns), 0.01)
    values = builder.rng.integers(-20, 21, (3, columns)).astype(np.int8)
    weights = builder.weights(values, np.full(3, 0.01, np.float32), 0)
    last = builder.quantised(builder.node("Gemm", [x.name, weights], transB=1), (rows, 3), 0.02)
    assert difference(builder.model([(last.stored, last.shape)]), tmp_path) == ""


def test_linear_resizes_of_stored_integers_are_refused_as_such(tmp_path: Path) -> None:
    builder = Builder(np.random.default_rng(4))
    x = builder.input((1, 2, 3, 3))
    sizes = builder.constant(np.array([1, 1, 2, 2], np.float32))
    out = builder.node("Resize", [x.stored, "", sizes], mode="linear")
    real = builder.node("DequantizeLinear", [out, *builder.parameters(x.scale, x.zero, False)])
    last = builder.quantised(real, (1, 2, 6, 6), x.scale)
    (tmp_path / "net.onnx").write_bytes(builder.model([(last.stored, last.shape)]))
    with pytest.raises(NotSupported, match=r"Resize .*linear Resize of stored integers .*not supp"):
        parse(tmp_path / "net.onnx", FrontendOptions())
