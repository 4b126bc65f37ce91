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

from dory_core.api import NotSupported
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
