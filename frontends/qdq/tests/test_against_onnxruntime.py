"""Random quantised networks: every element of every layer equals what onnxruntime computes.

Layers that onnxruntime computes in reals may be one step away, and what follows them is compared on
onnxruntime's values. Which layers those are is compared with the operators that it left in reals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dory_qdq.importer import parse
from dory_qdq.numerics import Quantisation, products, sums
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
from onnx import TensorProto, helper, numpy_helper

from dory_core.api import NotSupported, VerificationFailed, ops
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


@pytest.mark.parametrize(("op", "function"), (("QLinearAdd", sums), ("QLinearMul", products)))
def test_all_pairs_of_bytes_are_exact(op: str, function: Callable[..., Any]) -> None:
    """Half of the scales are powers of two: sums and products lie in the middle of integers."""
    import onnxruntime

    rng = np.random.default_rng(2)
    every = np.arange(256, dtype=np.uint8)
    pairs = {"a": np.repeat(every, 256), "b": np.tile(every, 256)}
    given = [(2.0**-7, 154), (float(np.float32(0.009863152168691158)), 73), (2.0**-6, 153)]
    for _ in range(12):
        names = [f"{end}_{which}" for which in "aby" for end in ("scale", "zero")]
        inputs = ["a", *names[:2], "b", *names[2:]]
        node = helper.make_node(op, inputs, ["y"], domain="com.microsoft")
        values = [v for s, z in given for v in (np.float32(s), np.uint8(z))]
        graph = helper.make_graph(
            [node],
            "pairs",
            [helper.make_tensor_value_info(name, TensorProto.UINT8, [65536]) for name in "ab"],
            [helper.make_tensor_value_info("y", TensorProto.UINT8, [65536])],
            [
                onnx.numpy_helper.from_array(np.asarray(v), n)
                for v, n in zip(values, names, strict=True)
            ],
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        found = function(*(Quantisation(s, z, False) for s, z in given), (0, 255))
        np.testing.assert_array_equal(found.reshape(-1), session.run(None, pairs)[0])
        power = rng.random(3) < 0.5
        scales = np.where(power, 2.0 ** -rng.integers(5, 9, 3), rng.uniform(0.004, 0.02, 3))
        given = [(float(np.float32(s)), int(rng.integers(256))) for s in scales]


@pytest.mark.parametrize("seeds", [1, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "form",
    [
        pytest.param(bytes, id="qdq"),
        pytest.param(as_qoperator, id="qoperator", marks=pytest.mark.slow),
    ],
)
def test_ties_are_exact_with_odd_zero_points(
    form: Form, seeds: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A value in the middle of two integers is even with or without the zero point."""

    def odd(builder: Builder) -> int:
        return 2 * int(builder.rng.integers(*((-64, 64) if builder.signed else (0, 128)))) + 1

    monkeypatch.setattr(Builder, "zero", odd)
    powers = (2.0**-8, 2.0**-7, 2.0**-6)
    monkeypatch.setattr(
        Builder, "scale", lambda self, size=1.0: float(size * self.rng.choice(powers))
    )
    names = (*OPERATORS, *MORE_OPERATORS)
    assert list(wrong(range(seeds * len(names)), tmp_path, 1, names, form)) == []


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


@pytest.mark.parametrize("seed", [88, 103])
def test_means_of_int8_round_with_the_zero_points_of_uint8(seed: int, tmp_path: Path) -> None:
    """onnxruntime turns int8 into uint8; binary32 holds fewer bits of a mean less 128."""
    assert list(wrong(range(seed, seed + 1), tmp_path, MULTI, ())) == []


@pytest.mark.parametrize("zero", [0, 3, -37])
@pytest.mark.parametrize("size", [(2, 1), (1, 2), (2, 2), (4, 1)])
def test_average_pools_of_whole_images_round_as_global_ones(
    size: tuple[int, int], zero: int, tmp_path: Path
) -> None:
    """Their sums are of integers in onnxruntime, and so a mean of a half is a tie."""
    builder = Builder(np.random.default_rng(1), signed=zero < 0)
    x = builder.input((1, 200, *size))
    out = builder.node("AveragePool", [x.name], kernel_shape=[*size])
    last = builder.quantised(out, (1, 200, 1, 1), x.scale, zero)
    assert difference(builder.model([(last.stored, last.shape)]), tmp_path) == ""


@pytest.mark.parametrize("value", [np.inf, -np.inf, 3e38])
def test_padding_beyond_all_values_is_the_last_one(value: float, tmp_path: Path) -> None:
    builder = Builder(np.random.default_rng(1))
    x = builder.input((1, 3, 4, 4))
    pads = builder.constant(np.array([0, 0, 1, 0, 0, 0, 0, 2], np.int64))
    out = builder.node("Pad", [x.name, pads, builder.constant(np.float32(value))])
    last = builder.quantised(out, (1, 3, 5, 6), x.scale, x.zero)
    assert difference(builder.model([(last.stored, last.shape)]), tmp_path) == ""


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_sums_of_int8_round_with_the_zero_points_of_uint8(
    constant: bool, seed: int, tmp_path: Path
) -> None:
    builder = Builder(np.random.default_rng(seed), signed=True)
    shape = (1, 4, 16, 16)
    first = builder.input(shape)
    other = builder.input(shape).name
    if constant:
        values = np.random.default_rng(seed).integers(-128, 128, 1).astype(np.int8)
        other = builder.weights(values, np.float32(0.0123), 0, np.array(-7, np.int8))
    out = builder.node("Add", [first.name, other])
    last = builder.quantised(out, shape, builder.scale(2))
    assert difference(builder.model([(last.stored, shape)]), tmp_path, seed) == ""


def with_constant(op: str, largest: int, kept: bool) -> bytes:
    """Return an operator of int8 with a constant up to a value, that of weights of a Gemm.

    kept: an output of the network keeps onnxruntime from turning the input into uint8.
    """
    builder = Builder(np.random.default_rng(1), signed=True)
    x = builder.input((1, 8))
    values = np.random.default_rng(1).integers(-60, 60, (5, 8)).astype(np.int8)
    values[-1, -1] = largest
    shape = x.shape
    if op == "Gemm":
        shape = (1, 5)
        out = builder.node("Gemm", [x.name, builder.weights(values, np.float32(0.01), 0)], transB=1)
    else:
        constant = builder.weights(values[-1, -1:], np.float32(0.01), 0)
        out = builder.node(op, [x.name, constant])
    last = builder.quantised(out, shape, builder.scale(2))
    if not kept:
        last = OPERATORS["relu"](builder, last)
        return builder.model([(last.stored, shape)])
    same = builder.node("Identity", [x.stored])
    return builder.model([(last.stored, shape), (same, x.shape)])


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("largest", [64, 65, 127, -64, -65])
@pytest.mark.parametrize("op", ["Gemm", "Add", "Mul"])
def test_constants_of_int8_that_some_processors_turn_into_uint8(
    op: str, largest: int, kept: bool, tmp_path: Path
) -> None:
    """What depends on the processor is never taken for computed in integers."""
    model = with_constant(op, largest, kept)
    assert difference(model, tmp_path) == ""
    graph = parse(tmp_path / "net.onnx", FrontendOptions())
    wide = abs(largest) > 64
    apart = {o.name.partition("_")[0]: graph.form(o.output).apart for o in graph.ops}
    assert apart[op] == int(wide and kept if op == "Gemm" else wide or not kept)


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


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_softmax_saturates_as_onnxruntime_does(channels: int, tmp_path: Path) -> None:
    builder = Builder(np.random.default_rng(channels))
    last = OPERATORS["softmax"](builder, builder.input((1, channels)))
    model = builder.model([(last.stored, last.shape)])
    assert difference(model, tmp_path, 3) == ""


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("above", [0, 10, 128, 255])
@pytest.mark.parametrize("scale", [1 / 255, 1 / 256, 1 / 200, 1 / 128, 0.003, 0.1, 1.0, 1.5])
def test_softmax_over_one_element_is_the_whole_rounded_down(
    scale: float, above: int, signed: bool, tmp_path: Path
) -> None:
    builder = Builder(np.random.default_rng(1), signed=signed)
    x = builder.input((1, 1, 1, 3))
    out = builder.node("Softmax", [x.name], axis=1)
    last = builder.quantised(out, x.shape, scale, above - 128 * signed)
    assert difference(builder.model([(last.stored, last.shape)]), tmp_path) == ""


@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
@pytest.mark.parametrize("signed", [False, True])
def test_softmax_before_opset_13_takes_all_dimensions_behind_its_axis(
    signed: bool, axis: int | None, opset: int, tmp_path: Path
) -> None:
    builder = Builder(np.random.default_rng(1), signed=signed)
    x = builder.input((1, 3, 1 if axis == 0 else 2, 4))
    out = builder.node("Softmax", [x.name], **({} if axis is None else {"axis": axis}))
    last = builder.quantised(out, x.shape, 1 / 200)
    assert difference(builder.model([(last.stored, last.shape)], opset), tmp_path) == ""


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


@pytest.mark.parametrize("signed", [False, True])
def test_large_products_do_not_saturate(signed: bool, tmp_path: Path) -> None:
    """Two of them leave 16 bits: onnxruntime adds pairs there on processors without VNNI."""
    builder = Builder(np.random.default_rng(6), signed=signed)
    x = builder.input((1, 16, 3, 3))
    values = builder.rng.choice([-127, 126, 127], (4, 16, 1, 1)).astype(np.int8)
    weights = builder.weights(values, np.full(4, 0.01, np.float32), 0)
    last = builder.quantised(builder.node("Conv", [x.name, weights]), (1, 4, 3, 3), 0.1)
    assert difference(builder.model([(last.stored, last.shape)]), tmp_path) == ""


def test_large_products_beside_shared_constants_do_not_saturate(tmp_path: Path) -> None:
    """Two norms share their weights: there onnxruntime has no wide sums of its own."""
    builder = Builder(np.random.default_rng(6))
    x = builder.input((1, 4, 16))
    factors = builder.constant(np.full(16, 127, np.int8))
    scale, zero = builder.constant(np.float32(1 / 127)), builder.constant(np.array(0, np.int8))
    addends = builder.weights(np.zeros(16, np.int32), np.float32(0.01), 0)
    for _ in range(2):
        weights = builder.node("DequantizeLinear", [factors, scale, zero])
        norm = builder.node("LayerNormalization", [x.name, weights, addends])
        x = builder.quantised(norm, x.shape, 0.03, 128)
    values = builder.rng.choice([-127, 126, 127], (16, 8)).astype(np.int8)
    columns = builder.weights(values, np.full(8, 0.01, np.float32), 1)
    last = builder.quantised(builder.node("MatMul", [x.name, columns]), (1, 4, 8), 0.1)
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


@pytest.mark.parametrize("size", [3, 10, 13, 44, 64])
def test_shares_of_a_softmax_that_are_ties(size: int, tmp_path: Path) -> None:
    """n largest elements: the share of each is a tie now and then, and is rounded once."""
    import onnxruntime as ort

    rows = np.where(np.arange(size) < np.arange(1, size + 1)[:, None], 255, 0).astype(np.uint8)
    for scale in (1 / 255, 1 / 254.5, 1 / 77.3, 1 / 51.9, 1 / 35.7, 1 / 29.7):
        constants = {"xs": 10.0, "ys": scale}
        stored = [numpy_helper.from_array(np.float32(v), k) for k, v in constants.items()]
        stored.append(numpy_helper.from_array(np.uint8(0), "z"))
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "xs", "z"], ["q"]),
            helper.make_node(
                "QLinearSoftmax",
                ["q", "xs", "z", "ys", "z"],
                ["s"],
                domain="com.microsoft",
                axis=-1,
                opset=13,
            ),
            helper.make_node("DequantizeLinear", ["s", "ys", "z"], ["y"]),
        ]
        ends = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 1, size, size]) for n in "xy"
        ]
        graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], stored)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        data = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
        (tmp_path / "net.onnx").write_bytes(data)
        [op] = parse(tmp_path / "net.onnx", FrontendOptions()).ops
        assert isinstance(op, ops.Softmax)
        proto = onnx.load_from_string(data)
        proto.graph.output.append(helper.make_empty_tensor_value_info("s"))
        session = ort.InferenceSession(proto.SerializeToString())
        x = rows.astype(np.float32).reshape(1, 1, size, size) * 10
        expected = session.run(["s"], {"x": x})[0].reshape(size, size)
        found = op.compute([rows.T.reshape(size, 1, size).astype(np.int64)])
        assert np.array_equal(np.minimum(found.reshape(size, size).T, 255), expected)
