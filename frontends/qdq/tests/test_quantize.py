"""From float networks and samples to QDQ networks: checks, preparation, choices and report."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dory_onnx.testing import OnnxBuilder
from dory_qdq.importer import parse
from dory_qdq.quantize.choices import Choices, choices_for, known_targets
from dory_qdq.quantize.preparation import FloatModel, prepare
from dory_qdq.quantize.quality import accuracy_of, left_in_float, noise_of_layers
from dory_qdq.quantize.quantiser import quantise
from dory_qdq.quantize.samples import Samples, read_samples
from onnx import TensorProto, helper, numpy_helper

from dory_core.api import NotSupported, UsageError
from dory_core.importing import FrontendOptions

pytest.importorskip("onnxruntime", reason="the extra quantize is not installed")

SHAPE = (3, 8, 8)
INPUT = {"image": (1, *SHAPE)}


def network(seed: int = 0, opset: int = 17) -> OnnxBuilder:
    """Conv, batch normalisation, ReLU, mean, Gemm as torch exports them; the input is 'image'."""
    random = np.random.default_rng(seed)
    builder = OnnxBuilder(SHAPE, opset=opset)

    def constant(*shape: int) -> str:
        return builder.constant(random.standard_normal(shape) * 0.3)

    builder.node("Conv", builder.value, constant(8, 3, 3, 3), pads=[1, 1, 1, 1])
    ones, zeros = np.ones(8), np.zeros(8)
    norm = [builder.constant(values) for values in (ones, zeros, zeros, ones)]
    builder.node("BatchNormalization", builder.value, *norm)
    builder.node("Relu", builder.value)
    builder.node("GlobalAveragePool", builder.value)
    builder.node("Flatten", builder.value, axis=1)
    builder.node("Gemm", builder.value, constant(4, 8), constant(4), transB=1)
    return builder


def saved(builder: OnnxBuilder, folder: Path, dims: Any = None) -> Path:
    path = folder / "float.onnx"
    onnx.save(builder.model(dims), str(path))
    return path


def samples_file(folder: Path, count: int = 16, **arrays: Any) -> Path:
    image = np.random.default_rng(1).standard_normal((count, *SHAPE)).astype(np.float32)
    path = folder / "data.npz"
    np.savez(path, **({"image": image} | arrays))
    return path


def quantised(
    builder: OnnxBuilder, folder: Path, choices: Choices | None = None
) -> tuple[FloatModel, Any, Samples]:
    model = prepare(saved(builder, folder))
    samples = read_samples(samples_file(folder), model.inputs)
    return model, quantise(model, samples, choices or Choices(), "minmax"), samples


# --- samples ------------------------------------------------------------------------------------


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


# --- preparation --------------------------------------------------------------------------------


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


# --- choices and their effect -------------------------------------------------------------------


def types_and_axes(proto: Any) -> tuple[set[int], set[int]]:
    """Return (element types of activations' zero points, sizes of the scales of Conv weights)."""
    stored = {t.name: t for t in proto.graph.initializer}
    quantisers = [n for n in proto.graph.node if n.op_type == "QuantizeLinear"]
    types = {stored[node.input[2]].data_type for node in quantisers}
    weights = [
        n for n in proto.graph.node if n.op_type == "DequantizeLinear" and n.input[0] in stored
    ]
    sizes = {
        numpy_helper.to_array(stored[node.input[1]]).size
        for node in weights
        if stored[node.input[0]].data_type == TensorProto.INT8
    }
    return types, sizes


@pytest.mark.parametrize("target", ["", *known_targets()])
def test_the_choices_of_a_target_are_in_the_file(target: str, tmp_path: Path) -> None:
    chosen = choices_for(target)
    _, proto, _ = quantised(network(), tmp_path, chosen)
    types, sizes = types_and_axes(proto)
    wanted = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}[chosen.activations]
    assert types == {wanted}
    assert sizes == ({8, 4} if chosen.per_channel else {1})


def test_per_tensor_and_signed_activations(tmp_path: Path) -> None:
    chosen = Choices(activations="int8", per_channel=False, symmetric=True)
    _, proto, _ = quantised(network(), tmp_path, chosen)
    assert types_and_axes(proto) == ({TensorProto.INT8}, {1})
    stored = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    zeros = [stored[n.input[2]] for n in proto.graph.node if n.op_type == "QuantizeLinear"]
    assert not np.any(zeros)


def test_the_float_model_is_not_changed(tmp_path: Path) -> None:
    model = prepare(saved(network(), tmp_path))
    before = model.proto.SerializeToString()
    samples = read_samples(samples_file(tmp_path), model.inputs)
    quantise(model, samples, Choices(), "minmax")
    assert model.proto.SerializeToString() == before


# --- report -------------------------------------------------------------------------------------


def test_noise_is_told_for_every_activation(tmp_path: Path) -> None:
    model, proto, samples = quantised(network(), tmp_path)
    noise = noise_of_layers(model, proto, samples)
    assert [one.op for one in noise] == ["Relu", "GlobalAveragePool", "Flatten", "Gemm"]
    assert all(15 < one.snr_db < inf for one in noise)


def test_noise_is_that_of_the_definition(tmp_path: Path) -> None:
    model, proto, samples = quantised(network(), tmp_path)
    stored = {t.name: t for t in proto.graph.initializer}
    scale = next(
        n.input[1]
        for n in proto.graph.node
        if n.op_type == "QuantizeLinear" and "Gemm" in n.input[0]
    )
    before = noise_of_layers(model, proto, samples)[-1].snr_db
    doubled = numpy_helper.to_array(stored[scale]) * np.float32(8)
    stored[scale].CopyFrom(numpy_helper.from_array(np.asarray(doubled), scale))
    assert noise_of_layers(model, proto, samples)[-1].snr_db < before - 6


def test_accuracy_needs_labels_and_counts_the_largest_output(tmp_path: Path) -> None:
    model, proto, samples = quantised(network(), tmp_path)
    assert accuracy_of(model, proto, samples) is None
    import onnxruntime

    session = onnxruntime.InferenceSession(model.proto.SerializeToString())
    labels = np.array([session.run(None, feed)[0].argmax() for feed in samples.feeds()])
    labels[:4] = (labels[:4] + 1) % 4
    shares = accuracy_of(model, proto, Samples(samples.inputs, labels))
    assert shares is not None
    assert (shares.samples, shares.float32) == (16, 0.75)
    assert 0.6 < shares.int8 <= 1


def test_operators_left_in_float_are_named_with_the_reason(tmp_path: Path) -> None:
    builder = network()
    builder.node("Erf", builder.value)
    _, proto, _ = quantised(builder, tmp_path)
    (one,) = left_in_float(proto)
    assert (one.op, one.reason) == ("Erf", "onnxruntime's quantiser does not quantise Erf")
    _, proto, _ = quantised(network(), tmp_path)
    assert left_in_float(proto) == ()


@pytest.mark.parametrize("operator", ["Elu", "HardSigmoid", "HardSwish", "PRelu", "Tanh"])
def test_functions_before_a_mean_get_a_scale(operator: str, tmp_path: Path) -> None:
    """torch's exporter writes an average over the image as ReduceMean."""
    builder = OnnxBuilder(SHAPE, opset=18)
    random = np.random.default_rng(0)
    builder.node("Conv", builder.value, builder.constant(random.standard_normal((4, 3, 3, 3))))
    slopes = [builder.constant(np.full((4, 1, 1), 0.25))] if operator == "PRelu" else []
    builder.node(operator, builder.value, *slopes)
    axes = builder.constant([2, 3], np.int64)
    builder.node("ReduceMean", builder.value, axes, keepdims=1)
    _, proto, _ = quantised(builder, tmp_path)
    assert left_in_float(proto) == ()
    onnx.save(proto, str(tmp_path / "net.onnx"))
    assert parse(tmp_path / "net.onnx", FrontendOptions()).ops


def test_moving_the_input_is_no_arithmetic_in_float(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    builder = OnnxBuilder(SHAPE, opset=17)
    builder.node("Transpose", builder.value, perm=[0, 2, 3, 1])
    builder.node("Flatten", builder.value, axis=1)
    weights = builder.constant(random.standard_normal((4, 192)))
    builder.node("Gemm", builder.value, weights, transB=1)
    _, proto, _ = quantised(builder, tmp_path)
    assert left_in_float(proto) == ()


def test_two_inputs_are_both_calibrated(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"], "sum")],
        "net",
        [value(name, TensorProto.FLOAT, [1, 4]) for name in "ab"],
        [value("y", TensorProto.FLOAT, [1, 4])],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        str(tmp_path / "net.onnx"),
    )
    model = prepare(tmp_path / "net.onnx")
    random = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", a=random.random((9, 4)), b=random.random((9, 4)))
    samples = read_samples(tmp_path / "data.npz", model.inputs)
    proto = quantise(model, samples, Choices(), "minmax")
    assert [node.op_type for node in proto.graph.node].count("QuantizeLinear") == 3


@pytest.mark.parametrize(
    ("operator", "attributes", "more"),
    [
        ("Resize", {"mode": "linear"}, {"scales": np.array([1, 1, 2, 2], np.float32)}),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, {}),
        ("Pad", {}, {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)}),
        ("SpaceToDepth", {"blocksize": 2}, {}),
    ],
)
def test_an_input_that_a_choice_reads_gets_a_scale(
    operator: str, attributes: dict[str, Any], more: dict[str, Any], tmp_path: Path
) -> None:
    """onnxruntime's quantiser leaves it in reals, which no layer computes."""
    builder = OnnxBuilder(SHAPE, opset=17)
    inputs = [builder.constant(v, v.dtype.type) for v in more.values()]
    builder.node(
        operator, builder.value, *([""] if operator == "Resize" else []), *inputs, **attributes
    )
    channels = 12 if operator == "SpaceToDepth" else 3
    weights = np.random.default_rng(0).standard_normal((4, channels, 3, 3))
    builder.node("Conv", builder.value, builder.constant(weights))
    _, proto, _ = quantised(builder, tmp_path)
    assert left_in_float(proto) == ()
    onnx.save(proto, str(tmp_path / "net.onnx"))
    assert parse(tmp_path / "net.onnx", FrontendOptions()).ops


def group_norm(opset: int, groups: int = 2) -> OnnxBuilder:
    builder = OnnxBuilder(SHAPE, opset=opset)
    random = np.random.default_rng(0)
    builder.node("Conv", builder.value, builder.constant(random.standard_normal((8, 3, 3, 3))))
    size = 8 if opset >= 21 else groups
    scale, bias = (builder.constant(random.standard_normal(size)) for _ in range(2))
    builder.node("GroupNormalization", builder.value, scale, bias, num_groups=groups, epsilon=0.01)
    builder.node("Relu", builder.value)
    return builder


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalisations_are_instances_of_groups(opset: int, tmp_path: Path) -> None:
    """Scale and bias have a value per group up to opset 20, and per channel since."""
    import onnxruntime as ort

    builder = group_norm(opset)
    path = saved(builder, tmp_path)
    model, proto, samples = quantised(builder, tmp_path)
    assert "InstanceNormalization" in [node.op_type for node in model.proto.graph.node]
    feed = next(iter(samples.feeds()))
    before, after = (
        ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feed)[0]
        for data in (path.read_bytes(), model.proto.SerializeToString())
    )
    assert np.allclose(before, after, atol=1e-4)
    assert left_in_float(proto) == ()
    onnx.save(proto, str(tmp_path / "net.onnx"))
    assert parse(tmp_path / "net.onnx", FrontendOptions()).ops


def test_a_group_normalisation_of_uneven_groups_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match=r"shape \[1, 8, 6, 6\], in 3 groups"):
        prepare(saved(group_norm(21, 3), tmp_path))


def test_nodes_without_names_are_quantised_beside_a_norm(tmp_path: Path) -> None:
    """Nodes that stay in reals are told by name, so that each needs one of its own."""
    builder = OnnxBuilder(SHAPE, opset=17)
    random = np.random.default_rng(0)
    builder.node("Conv", builder.value, builder.constant(random.standard_normal((8, 3, 3, 3))))
    builder.node("ReduceMean", builder.value, axes=[-1])
    proto = builder.model()
    for node in proto.graph.node:
        node.name = ""
    onnx.save(proto, str(tmp_path / "float.onnx"))
    model = prepare(tmp_path / "float.onnx")
    samples = read_samples(samples_file(tmp_path), model.inputs)
    quantised_model = quantise(model, samples, Choices(), "minmax")
    made = {name for n in quantised_model.graph.node for name in n.output}
    conv = next(n for n in quantised_model.graph.node if n.op_type == "Conv")
    assert conv.input[1] in made, "its weights are integers"
