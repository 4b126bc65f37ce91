"""Files that cannot be computed: one line with node, tensor, reason and way out."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from dory_qdq.constraints import CONSTRAINTS
from dory_qdq.importer import import_file
from dory_qdq.qlinear import FORMS
from dory_qdq.testing import OPERATORS, Builder, random_network
from onnx import helper, numpy_helper

from dory_core.api import DoryError, NotSupported
from tests.cli.command_line import dory


def network() -> onnx.ModelProto:
    builder = Builder(np.random.default_rng(2))
    last = OPERATORS["conv"](builder, builder.input((1, 3, 6, 6)))
    last = OPERATORS["relu"](builder, last)
    return onnx.load_from_string(builder.model([(last.stored, last.shape)]))


def refused(model: onnx.ModelProto, folder: Path, *reasons: str) -> None:
    path = folder / "net.onnx"
    onnx.save(model, str(path))
    with pytest.raises(NotSupported) as caught:
        import_file(path)
    for reason in reasons:
        assert reason in caught.value.message
    assert caught.value.hint and "\n" not in caught.value.message


def node(model: onnx.ModelProto, op: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if node.op_type == op)


def replaced(model: onnx.ModelProto, name: str, values: np.ndarray) -> None:
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    tensor.CopyFrom(numpy_helper.from_array(values, name))


@pytest.mark.parametrize("value", [np.float32("nan"), np.zeros(0, np.float32)])
def test_padding_that_is_no_number(value: np.ndarray, tmp_path: Path) -> None:
    builder = Builder(np.random.default_rng(2))
    last = OPERATORS["pad"](builder, builder.input((1, 3, 6, 6)))
    model = onnx.load_from_string(builder.model([(last.stored, last.shape)]))
    replaced(model, node(model, "Pad").input[2], np.asarray(value))
    refused(model, tmp_path, "Pad", "which is no number")


def test_means_of_scales_that_are_far_apart(tmp_path: Path) -> None:
    builder = Builder(np.random.default_rng(2))
    x = builder.input((1, 3, 6, 6))
    out = builder.node("AveragePool", [x.name], kernel_shape=[2, 2], pads=[1, 1, 1, 1])
    last = builder.quantised(out, (1, 3, 7, 7), 0.01)
    model = onnx.load_from_string(builder.model([(last.stored, last.shape)]))
    for op in ("QuantizeLinear", "DequantizeLinear"):
        replaced(model, node(model, op).input[1], np.asarray(1e30, np.float32))
    refused(model, tmp_path, "AveragePool", "beyond 32 bits")


def test_list_of_operators_is_that_of_the_import_and_of_its_refusals(tmp_path: Path) -> None:
    rows = dory("--list-operators", "--frontend", "qdq", "--json").json
    taken = {row["operator"]: row["constraints"] for row in rows}
    assert set(FORMS) < taken.keys() and "QuantizeLinear" in taken
    assert taken["Gemm"] == [one.sentence for one in CONSTRAINTS["Gemm"]]
    assert all(set(taken[form.op]) < set(taken[name]) for name, form in FORMS.items())
    builder = Builder(np.random.default_rng(2))
    x = builder.input((1, 5))
    values = np.ones((3, 5), np.int8)
    out = builder.node("Gemm", [x.name, builder.weights(values, np.float32(1), 0)], transA=1)
    last = builder.quantised(out, (1, 3), 0.1)
    model = onnx.load_from_string(builder.model([(last.stored, last.shape)]))
    refused(model, tmp_path, "Gemm", f"supported only if {taken['Gemm'][1]}")


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ((1, 5), (4, 1), "matrices of shapes [1, 5] and [4, 1] cannot be multiplied"),
        ((1, 2, 3, 4), (1, 3, 4, 5), "shapes [1, 2, 3, 4] and [1, 3, 4, 5] cannot be multiplied"),
        ((1, 4), (4,), "it multiplies shapes [1, 4] and [4], no matrices"),
    ],
)
def test_matrices_that_cannot_be_multiplied(
    first: tuple[int, ...], second: tuple[int, ...], words: str, tmp_path: Path
) -> None:
    builder = Builder(np.random.default_rng(2))
    one, other = builder.input(first), builder.input(second)
    out = builder.node("MatMul", [one.name, other.name])
    last = builder.quantised(out, (1, 1), 0.1)
    model = onnx.load_from_string(builder.model([(last.stored, last.shape)]))
    refused(model, tmp_path, words)


@pytest.mark.parametrize(("op", "sizes"), [("Gemm", (5, 1)), ("MatMul", (1, 1, 5))])
def test_operands_that_have_no_scale(op: str, sizes: tuple[int, ...], tmp_path: Path) -> None:
    builder = Builder(np.random.default_rng(2))
    one = builder.input((1, 5))
    other = builder.constant(np.ones(sizes, np.float32))
    out = builder.node(op, [one.name, other])
    last = builder.quantised(out, (1, 1), 0.1)
    model = onnx.load_from_string(builder.model([(last.stored, last.shape)]))
    refused(model, tmp_path, f"its weights '{other}' are float32, not quantised")


def test_a_gemm_of_two_tensors_names_the_second(tmp_path: Path) -> None:
    builder = Builder(np.random.default_rng(2))
    one, other = builder.input((1, 5)), builder.input((5, 1))
    out = builder.node("Gemm", [one.name, other.name])
    last = builder.quantised(out, (1, 1), 0.1)
    model = onnx.load_from_string(builder.model([(last.stored, last.shape)]))
    refused(model, tmp_path, f"supported only if the weights are constant: '{other.name}'")


@pytest.mark.parametrize("scale", [0.0, float("nan"), float("inf"), -0.5, 1e-42])
def test_impossible_scales(scale: float, tmp_path: Path) -> None:
    model = network()
    name = node(model, "QuantizeLinear").input[1]
    replaced(model, name, np.float32(scale))
    refused(model, tmp_path, "QuantizeLinear", name, "positive number")


def test_zero_points_of_another_type(tmp_path: Path) -> None:
    model = network()
    name = node(model, "QuantizeLinear").input[2]
    replaced(model, name, np.int16(1000))
    refused(model, tmp_path, name, "int16")


def test_scales_that_do_not_fit_the_weights(tmp_path: Path) -> None:
    model = network()
    weights = next(n for n in model.graph.node if n.output[0] == node(model, "Conv").input[1])
    replaced(model, weights.input[1], np.full(77, 0.1, np.float32))
    replaced(model, weights.input[2], np.zeros(77, np.int8))

    refused(model, tmp_path, "77 scales along axis", weights.input[1])


def test_a_scale_that_is_computed(tmp_path: Path) -> None:
    model = network()
    layer = node(model, "QuantizeLinear")
    layer.input[1] = model.graph.input[0].name
    refused(model, tmp_path, "is no constant", model.graph.input[0].name)


def test_an_operator_whose_result_has_no_scale(tmp_path: Path) -> None:
    """Conv, then Sigmoid, and one QuantizeLinear behind both."""
    model = network()
    conv, relu = node(model, "Conv"), node(model, "Relu")
    relu.op_type = "Sigmoid"
    relu.input[0] = conv.output[0]
    refused(model, tmp_path, "Sigmoid", conv.output[0], "no DequantizeLinear gives it a scale")


@pytest.mark.parametrize(("op", "reason"), [("LSTM", "not supported"), ("ConvInteger", "scales")])
def test_operators_that_are_not_known(op: str, reason: str, tmp_path: Path) -> None:
    model = network()
    node(model, "Conv").op_type = op
    refused(model, tmp_path, op, reason)


def _parameters(model: onnx.ModelProto) -> list[str]:
    """Return the names of a scale and a zero point."""
    return list(node(model, "QuantizeLinear").input[1:])


def test_all_operators_that_are_not_known_are_named(tmp_path: Path) -> None:
    model = network()
    node(model, "Conv").op_type = "LSTM"
    node(model, "Relu").op_type = "Einsum"
    refused(model, tmp_path, "2 operators are not supported: LSTM '", ", Einsum '")
    for _ in range(20):
        last = model.graph.output[0].name
        model.graph.node.append(helper.make_node("Einsum", [last], [f"{last}+"]))
        model.graph.output[0].name += "+"
    quantised = helper.make_node("QuantizeLinear", [f"{last}+", *_parameters(model)], ["last"])
    model.graph.node.append(quantised)
    model.graph.output[0].name = "last"
    refused(model, tmp_path, "22 operators are not supported: LSTM '", " and 10 more")


def test_unknown_domains_and_versions(tmp_path: Path) -> None:
    model = network()
    node(model, "Conv").domain = "com.example"
    refused(model, tmp_path, "domain 'com.example' is unknown")
    model = network()
    model.opset_import[0].version = 99
    refused(model, tmp_path, "opset 99 is unknown")


def test_external_data_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(
        network(),
        str(path),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    import_file(path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(DoryError, match=r"weights\.bin") as caught:
        import_file(path)
    assert "beside the network" in caught.value.hint


def half_quantised() -> onnx.ModelProto:
    model = network()
    node(model, "Conv").input[0] = model.graph.input[0].name
    return model


def zero_scale() -> onnx.ModelProto:
    model = network()
    replaced(model, node(model, "QuantizeLinear").input[1], np.array(0, np.float32))
    return model


def wide_zero_point() -> onnx.ModelProto:
    model = network()
    replaced(model, node(model, "QuantizeLinear").input[2], np.array(300, np.int32))
    return model


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (half_quantised, "' is not quantised: no DequantizeLinear gives it a scale"),
        (zero_scale, " holds 0.0; a scale is a positive number"),
        (wide_zero_point, " is int32; supported are int8 and uint8"),
    ],
)
def test_the_command_line_says_one_line_and_the_way_out_and_writes_nothing(
    make: Callable[[], onnx.ModelProto], reason: str, tmp_path: Path
) -> None:
    onnx.save(make(), str(tmp_path / "net.onnx"))
    outcome = dory("--target", "gap8", "net.onnx", "-o", "app", cwd=tmp_path)
    assert outcome.status == 3 and outcome.stdout == ""
    error, hint = (line for line in outcome.stderr.splitlines() if line)
    assert error.startswith("dory: error: ") and reason in error
    assert hint.startswith("dory: hint: quantise ")
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


def test_a_float_network_is_told_how_to_be_quantised(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.full((2, 3, 1, 1), 0.3, np.float32), "weights")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "weights"], ["y"], "conv")],
        "float",
        [value("x", 1, [1, 3, 4, 4])],
        [value("y", 1, [1, 2, 4, 4])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    refused(model, tmp_path, "the network is not quantised", "'weights' of Conv 'conv'")
    path, target = tmp_path / "net.onnx", tmp_path / "app"
    done = dory("--target", "gap8", path, "-o", target, DORY_PLUGINS="nemo,qdq,gap8")
    assert done.status == 3
    assert "not quantised" in done.stderr and "`dory quantize`" in done.stderr
    assert not target.exists()


@pytest.mark.parametrize("scale", [np.inf, np.nan, 1e30, 0, -1])
def test_scales_of_a_resize_that_are_none(scale: float, tmp_path: Path) -> None:
    model = onnx.load_from_string(random_network(0, 1, "resize"))
    replaced(model, node(model, "Resize").input[2], np.array([1, 1, scale, 2], np.float32))
    refused(model, tmp_path, "its scales are")


def test_a_resize_of_a_huge_image(tmp_path: Path) -> None:
    model = onnx.load_from_string(random_network(0, 1, "resize"))
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 1 << 40
    refused(model, tmp_path, "1099511627776")


def damaged(seed: int) -> bytes:
    """Return a file with other bytes, or with operators and constants that do not fit."""
    draw = random.Random(seed)
    data = random_network(seed % 97, 1 + seed % 4)
    if seed % 3 == 0:
        content = bytearray(data)
        for _ in range(draw.randrange(1, 5)):
            content[draw.randrange(len(content))] = draw.randrange(256)
        return bytes(content)
    model = onnx.load_from_string(data)
    for _ in range(draw.randrange(1, 3)):
        _damage(model, draw)
    return model.SerializeToString()


def _damage(model: onnx.ModelProto, draw: random.Random) -> None:
    graph = model.graph
    layer, constant = draw.choice(graph.node), draw.choice(graph.initializer)
    kind = draw.randrange(7)
    if kind == 0 and layer.input:
        names = ["", "nothing", draw.choice(graph.node).output[0], constant.name]
        layer.input[draw.randrange(len(layer.input))] = draw.choice(names)
    elif kind == 1:
        constant.dims[:] = [draw.choice([0, 1, 2, 5, -1]), *list(constant.dims)[1:]]
    elif kind == 2:
        constant.data_type = draw.randrange(1, 17)
    elif kind == 3 and layer.attribute:
        attribute = draw.choice(layer.attribute)
        value = draw.choice([-1, 0, 1, 7, 1 << 40, -(1 << 62)])
        if attribute.ints:
            attribute.ints[draw.randrange(len(attribute.ints))] = value
        else:
            attribute.i = value
    elif kind == 4:
        layer.op_type = draw.choice([other.op_type for other in graph.node])
    elif kind == 5:
        del layer.input[-1:]
    elif kind == 6:
        del layer.attribute[:]


def tracebacks(seeds: range, folder: Path) -> list[int]:
    """Return the seeds whose file raises anything but an error for the user."""
    path, found = folder / "net.onnx", []
    for seed in seeds:
        path.write_bytes(damaged(seed))
        try:
            import_file(path)
        except DoryError:
            continue
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, MemoryError):
            found.append(seed)
    return found


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    assert tracebacks(range(120), tmp_path) == []


@pytest.mark.slow
def test_two_thousand_damaged_files_are_refused(tmp_path: Path) -> None:
    assert tracebacks(range(2000), tmp_path) == []
