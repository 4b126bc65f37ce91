"""Samples and models that `dory quantize` takes, prepares or refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dory_onnx.testing import OnnxBuilder
from dory_qdq.quantize.preparation import prepare
from dory_qdq.quantize.samples import read_samples
from onnx import TensorProto, helper

from dory_core.api import NotSupported, UsageError
from frontends.qdq.tests.test_quantize import INPUT, SHAPE, network, quantised, samples_file, saved


def test_samples_are_batches_of_one(tmp_path: Path) -> None:
    samples = read_samples(samples_file(tmp_path, labels=np.arange(16)), INPUT)
    assert len(samples) == 16 and samples.labels is not None
    feeds = list(samples.feeds(5))
    assert len(feeds) == 5 and feeds[0]["image"].shape == (1, *SHAPE)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"image": np.zeros((4, *SHAPE), np.float32)}, "4 samples are too few, 8 are needed"),
        ({"image": np.zeros((16, *SHAPE), np.uint8)}, "array 'image' holds uint8, but the input"),
        (
            {"image": np.zeros((16, 8, 8, 3), np.float32)},
            r"shape \[16, 8, 8, 3\], but the input takes \[N, 3, 8, 8\]",
        ),
        ({"image": np.zeros(SHAPE, np.float32)}, r"shape \[3, 8, 8\], but the input takes"),
        ({"image": np.full((16, *SHAPE), np.nan, np.float32)}, "values that are not finite"),
        ({"labels": np.zeros(3, int)}, r"array 'labels' of int64 \[3\] is not the class"),
        ({"labels": np.zeros(16)}, r"array 'labels' of float64 \[16\] is not the class"),
    ],
)
def test_samples_that_do_not_fit(arrays: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        read_samples(samples_file(tmp_path, **arrays), INPUT)
    assert caught.value.hint and "\n" not in str(caught.value)


def test_samples_without_the_inputs_name(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="no array 'x' for the input of that name; arrays: 'image'"
    ):
        read_samples(samples_file(tmp_path), {"x": (1, *SHAPE)})


def test_inputs_of_different_counts(tmp_path: Path) -> None:
    path = samples_file(tmp_path, other=np.zeros((9, 4), np.float32))
    with pytest.raises(UsageError, match="different numbers of samples"):
        read_samples(path, INPUT | {"other": (1, 4)})


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04broken"])
def test_a_file_that_is_no_archive(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"data\.npz: not a readable array file"):
        read_samples(path, INPUT)


def test_an_array_without_a_name(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", np.zeros((16, *SHAPE)))
    with pytest.raises(UsageError, match="holds one array without a name"):
        read_samples(tmp_path / "data.npy", INPUT)


@pytest.mark.parametrize("opset", [9, 13, 17])
@pytest.mark.parametrize("dims", [None, ("batch", *SHAPE)])
def test_a_prepared_model_has_a_batch_of_one_and_no_batch_normalisation(
    opset: int, dims: Any, tmp_path: Path
) -> None:
    model = prepare(saved(network(opset=opset), tmp_path, dims))
    assert dict(model.inputs) == INPUT
    assert "BatchNormalization" not in [node.op_type for node in model.proto.graph.node]
    assert max(o.version for o in model.proto.opset_import if o.domain == "") >= 13


def test_constants_that_are_listed_as_inputs_are_no_inputs(tmp_path: Path) -> None:
    model = network().model()
    for tensor in model.graph.initializer:
        value = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        model.graph.input.append(value)
    onnx.save(model, str(tmp_path / "net.onnx"))
    ready = prepare(tmp_path / "net.onnx")
    assert dict(ready.inputs) == INPUT
    assert "BatchNormalization" not in [node.op_type for node in ready.proto.graph.node]


def dense(two_readers: bool = False, scalar: bool = False, gemm: bool = True) -> OnnxBuilder:
    """A Gemm or MatMul with a batch normalisation written as Mul and Add, and a ReLU."""
    random = np.random.default_rng(3)
    builder = OnnxBuilder((6,), opset=17)
    weights = random.standard_normal((4, 6))
    if gemm:
        operands = builder.constant(weights), builder.constant(random.standard_normal(4))
        builder.node("Gemm", builder.value, *operands, transB=1)
    else:
        builder.node("MatMul", builder.value, builder.constant(weights.T))
        builder.node("Add", builder.value, builder.constant(random.standard_normal(4)))
    sums = builder.value
    factors = 1.5 if scalar else random.standard_normal((1, 4))
    builder.node("Mul", builder.constant(factors), builder.value)
    builder.node("Add", builder.value, builder.constant(random.standard_normal(4)))
    builder.node("Relu", builder.value)
    if two_readers:
        builder.node("Add", builder.value, sums)
    return builder


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("gemm", [False, True])
def test_a_batch_normalisation_behind_a_gemm_is_folded(
    scalar: bool, gemm: bool, tmp_path: Path
) -> None:
    from onnx.reference import ReferenceEvaluator

    path = saved(dense(scalar=scalar, gemm=gemm), tmp_path)
    model = prepare(path)
    assert [node.op_type for node in model.proto.graph.node] == ["Gemm", "Relu"]
    onnx.checker.check_model(model.proto)
    image = np.random.default_rng(4).standard_normal((1, 6)).astype(np.float32)
    (expected,) = ReferenceEvaluator(str(path)).run(None, {"image": image})
    (found,) = ReferenceEvaluator(model.proto).run(None, {"image": image})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_sums_that_others_read_are_not_folded(tmp_path: Path) -> None:
    model = prepare(saved(dense(two_readers=True), tmp_path))
    assert "Mul" in [node.op_type for node in model.proto.graph.node]


def test_dynamic_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match=r"'image' has the dynamic shape \[1, 3, height, 8\]"):
        prepare(saved(network(), tmp_path, ("batch", 3, "height", 8)))


def test_a_batch_of_several_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="a batch of 4"):
        prepare(saved(network(), tmp_path, (4, *SHAPE)))


def test_an_input_of_integers_is_refused(tmp_path: Path) -> None:
    model = network().model()
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    onnx.save(model, str(tmp_path / "net.onnx"))
    with pytest.raises(NotSupported, match="input 'image' is UINT8, not FLOAT"):
        prepare(tmp_path / "net.onnx")


def test_a_quantised_model_is_refused(tmp_path: Path) -> None:
    _, proto, _ = quantised(network(), tmp_path)
    onnx.save(proto, str(tmp_path / "int8.onnx"))
    with pytest.raises(NotSupported, match=r"int8\.onnx: it is quantised already: it holds"):
        prepare(tmp_path / "int8.onnx")


@pytest.mark.parametrize("content", [b"", b"no network", b"\x08\x07"])
def test_a_file_that_is_no_model(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(NotSupported, match=r"net\.onnx: not a valid ONNX model") as caught:
        prepare(tmp_path / "net.onnx")
    assert "\n" not in str(caught.value)


def test_an_operator_that_onnxruntime_does_not_know(tmp_path: Path) -> None:
    builder = network()
    builder.node("Magic", builder.value)
    with pytest.raises(NotSupported, match="onnxruntime does not run it") as caught:
        prepare(saved(builder, tmp_path))
    assert "\n" not in str(caught.value)
