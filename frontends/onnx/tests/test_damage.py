"""Files that are no valid ONNX, or another network than they look like: each is refused by name."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from dory_onnx import Dialect, import_onnx
from dory_onnx.quantised import is_float
from dory_onnx.testing import IntegerOnnxBuilder
from onnx import numpy_helper

from dory_core.api import NotSupported
from dory_core.importing import FrontendOptions


def network(**options: object) -> onnx.ModelProto:
    builder = IntegerOnnxBuilder((3, 6, 6), seed=1, **options).conv(4, 3, pads=1)  # type: ignore[arg-type]
    first = builder.value
    builder.conv(4, 1).add(first).linear(5, gemm=True, bias=True, activation=False)
    return builder.model()


def refused(model: onnx.ModelProto, folder: Path, reason: str) -> NotSupported:
    path = folder / "net.onnx"
    onnx.save(model, str(path))
    with pytest.raises(NotSupported, match=reason) as caught:
        import_onnx(path, FrontendOptions(), Dialect())
    assert caught.value.hint
    return caught.value


def node(model: onnx.ModelProto, op: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if node.op_type == op)


def test_a_name_with_the_end_of_a_line_stays_in_one_line(tmp_path: Path) -> None:
    model = network()
    node(model, "Conv").input[0] = "other\nname"
    error = refused(model, tmp_path, "reads value 'other<U\\+000A>name', which no node")
    assert "\n" not in error.message


def test_an_operator_with_the_end_of_a_line_stays_in_one_line(tmp_path: Path) -> None:
    model = network()
    damaged = node(model, "Conv")
    damaged.op_type, damaged.name = "Cast*\t\n\x02", "first\nlayer"
    error = refused(model, tmp_path, r"Cast\*<U\+0009><U\+000A><U\+0002> 'first<U\+000A>layer'")
    assert "\n" not in error.message


def test_an_attribute_with_the_end_of_a_line_stays_in_one_line(tmp_path: Path) -> None:
    model = network()
    node(model, "Conv").attribute.append(onnx.helper.make_attribute("d\nlations", 1))
    assert "\n" not in refused(model, tmp_path, "attribute 'd<U\\+000A>lations'").message


def test_weights_that_signal_are_looked_at_without_a_warning(tmp_path: Path) -> None:
    """A signalling NaN makes arithmetic warn, and warnings of numpy reach the user."""
    model = network()
    weights = next(w for w in model.graph.initializer if w.name == node(model, "Conv").input[1])
    values = numpy_helper.to_array(weights).astype(np.float32)
    values.view(np.uint32).flat[0] = 0x7FA00000
    weights.CopyFrom(numpy_helper.from_array(values, weights.name))
    onnx.save(model, str(tmp_path / "net.onnx"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_float(tmp_path / "net.onnx")


def test_the_network_itself_is_imported(tmp_path: Path) -> None:
    onnx.save(network(), str(tmp_path / "net.onnx"))
    graph = import_onnx(tmp_path / "net.onnx", FrontendOptions(), Dialect())
    assert [layer.kind for layer in graph.ops] == ["Conv", "Conv", "Add", "Linear"]


@pytest.mark.parametrize("op", ["Conv", "Mul", "Clip", "Add"])
def test_operator_of_another_domain_is_another_operator(op: str, tmp_path: Path) -> None:
    model = network()
    node(model, op).domain = "com.example"
    refused(model, tmp_path, f"com.example.{op}")


def test_domain_of_the_standard_may_be_written_out(tmp_path: Path) -> None:
    model = network()
    node(model, "Conv").domain = "ai.onnx"
    onnx.save(model, str(tmp_path / "net.onnx"))
    graph = import_onnx(tmp_path / "net.onnx", FrontendOptions(), Dialect())
    assert len(graph.ops) == 4


def test_last_operator_of_another_domain_is_left_to_the_host_by_its_full_name(
    tmp_path: Path,
) -> None:
    model = network()
    node(model, "Gemm").domain = "com.example"
    onnx.save(model, str(tmp_path / "net.onnx"))
    graph = import_onnx(tmp_path / "net.onnx", FrontendOptions(), Dialect())
    assert len(graph.ops) == 3
    assert "left out: com.example.Gemm" in graph.notes[-1]


@pytest.mark.parametrize("name", ["weights", "kappa"])
def test_unsigned_constant_beyond_63_bits_does_not_wrap(name: str, tmp_path: Path) -> None:
    model = network()
    source = node(model, "Conv").input[1] if name == "weights" else node(model, "Mul").input[0]
    tensor = next(t for t in model.graph.initializer if t.name == source)
    content = np.abs(numpy_helper.to_array(tensor)).astype(np.uint64)
    content.reshape(-1)[0] = 2**64 - 5
    tensor.CopyFrom(numpy_helper.from_array(content, source))
    refused(model, tmp_path, f"'{source}' holds 18446744073709551611, beyond 64 signed bits")


@pytest.mark.parametrize("constant_nodes", [False, True])
def test_two_constants_of_one_name(constant_nodes: bool, tmp_path: Path) -> None:
    model = network(constant_nodes=constant_nodes)
    if constant_nodes:
        model.graph.node.insert(0, node(model, "Constant"))
        name = model.graph.node[0].output[0]
    else:
        model.graph.initializer.append(model.graph.initializer[0])
        name = model.graph.initializer[0].name
    refused(model, tmp_path, f"two constants of the name '{name}'")


@pytest.mark.parametrize("op", ["Conv", "Mul", "Add", "Div", "Cast", "Clip", "Gemm", "Flatten"])
def test_node_without_inputs(op: str, tmp_path: Path) -> None:
    model = network()
    del node(model, op).input[:]
    refused(model, tmp_path, op)


@pytest.mark.parametrize("op", ["Mul", "Add", "Div", "Gemm"])
def test_node_that_lacks_an_input(op: str, tmp_path: Path) -> None:
    model = network()
    del node(model, op).input[1:]
    refused(model, tmp_path, f"{op} '.*': it has 1 inputs, but {op} takes 2")


@pytest.mark.parametrize(("op", "extra"), [("Cast", 1), ("Conv", 2), ("Div", 1), ("Gemm", 1)])
def test_input_that_the_operator_does_not_know_is_not_ignored(
    op: str, extra: int, tmp_path: Path
) -> None:
    model = network()
    for _ in range(extra):
        node(model, op).input.append(node(model, op).input[0])
    refused(model, tmp_path, f"{op} '.*' ?: it has . inputs, but {op} takes")


def test_residual_add_of_one_operand(tmp_path: Path) -> None:
    model = network()
    adds = [n for n in model.graph.node if n.op_type == "Add"]
    constants = {t.name for t in model.graph.initializer}
    residual = next(n for n in adds if not constants.intersection(n.input))
    del residual.input[1:]
    refused(model, tmp_path, "Add '.*': it has 1 inputs, but Add takes 2")


def test_output_that_no_layer_computes(tmp_path: Path) -> None:
    model = network()
    shape = onnx.helper.make_node("Shape", [model.graph.output[0].name], ["size"], "shape")
    model.graph.node.append(shape)
    model.graph.output[0].name = "size"
    refused(model, tmp_path, "no output of it is computed by an integer layer")


def test_constant_per_element_behind_a_flatten(tmp_path: Path) -> None:
    builder = IntegerOnnxBuilder((3, 2, 2), seed=1)
    builder.node("Conv", builder.value, builder.constant(np.ones((4, 3, 1, 1))))
    builder.shapes[builder.value] = (4, 2, 2)
    builder.flatten()
    builder.node("Add", builder.value, builder.constant(np.arange(16)))
    refused(builder.linear(3).model(), tmp_path, "Add '.*' has 16 values for 4 channels")
