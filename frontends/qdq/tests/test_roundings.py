"""Sums, products and means round as onnxruntime does, also where int8 becomes uint8 there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dory_qdq.importer import parse
from dory_qdq.numerics import Quantisation, products, sums
from dory_qdq.testing import MORE_OPERATORS, OPERATORS, Builder, as_qoperator
from onnx import TensorProto, helper

from dory_core.importing import FrontendOptions
from frontends.qdq.tests.test_against_onnxruntime import MULTI, Form, difference, wrong


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


@pytest.fixture
def ties(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales of random networks are powers of two, and zero points odd."""

    def odd(builder: Builder) -> int:
        return 2 * int(builder.rng.integers(*((-64, 64) if builder.signed else (0, 128)))) + 1

    monkeypatch.setattr(Builder, "zero", odd)
    powers = (2.0**-8, 2.0**-7, 2.0**-6)
    monkeypatch.setattr(
        Builder, "scale", lambda self, size=1.0: float(size * self.rng.choice(powers))
    )


NAMES = (*OPERATORS, *MORE_OPERATORS)


@pytest.mark.usefixtures("ties")
@pytest.mark.parametrize("seeds", [1, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "form",
    [
        pytest.param(bytes, id="qdq"),
        pytest.param(as_qoperator, id="qoperator", marks=pytest.mark.slow),
    ],
)
def test_ties_are_exact_with_odd_zero_points(form: Form, seeds: int, tmp_path: Path) -> None:
    """A value in the middle of two integers is even with or without the zero point."""
    assert list(wrong(range(seeds * len(NAMES)), tmp_path, 1, NAMES, form)) == []


@pytest.mark.usefixtures("ties")
@pytest.mark.parametrize("round", [3, 4])
def test_golden_of_a_reduction_is_not_that_of_the_reshape_before_it(
    round: int, tmp_path: Path
) -> None:
    """onnxruntime turns the reshaped tensor into uint8; what follows in reals it leaves alone."""
    seed = round * len(NAMES) + NAMES.index("reduction")
    assert list(wrong(range(seed, seed + 1), tmp_path, 1, NAMES, as_qoperator)) == []


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


@pytest.mark.parametrize("unread", ["Exp", "DequantizeLinear"])
def test_readers_that_no_output_depends_on_count(unread: str, tmp_path: Path) -> None:
    """With one more reader, int8 does not become uint8: the pool is one of reals then."""
    builder = Builder(np.random.default_rng(2), signed=True)
    x = builder.input((1, 3, 4, 5))
    window = {"kernel_shape": [3, 3], "strides": [3, 3], "ceil_mode": 1, "count_include_pad": 1}
    pool = builder.node("AveragePool", [x.name], **window)
    last = builder.quantised(pool, (1, 3, 2, 2), 0.01)
    model = onnx.load_from_string(builder.model([(builder.node("Exp", [last.name]), last.shape)]))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    assert difference(model.SerializeToString(), tmp_path) == ""
    again = next(n for n in model.graph.node if last.name in n.output)
    inputs = list(again.input) if unread == "DequantizeLinear" else [last.name]
    model.graph.node.append(helper.make_node(unread, inputs, ["unread"]))
    assert difference(model.SerializeToString(), tmp_path) == ""
