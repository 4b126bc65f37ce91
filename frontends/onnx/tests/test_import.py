"""The import that all dialects share, read plainly: arithmetic, windows, inputs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from dory_onnx import Dialect, import_onnx
from dory_onnx.testing import OnnxBuilder
from onnx import TensorProto, helper

from dory_core.api import Graph, NotSupported, Requant, ops
from dory_core.importing import FrontendOptions, requant


def imported(builder: OnnxBuilder, folder: Path, dialect: Dialect | None = None) -> Graph:
    path = builder.save(folder / "net.onnx")
    return import_onnx(path, FrontendOptions(), dialect or Dialect())


def chain(folder: Path, *steps: tuple[str, float], clip: tuple[int, int] | None = None) -> Graph:
    """A 1x1 Conv of one channel followed by the given (operator, constant) steps."""
    builder = OnnxBuilder((1, 2, 2))
    builder.node("Conv", builder.value, builder.constant([[[[1]]]]))
    for op, constant in steps:
        if op == "Floor":
            builder.node("Floor", builder.value)
        else:
            builder.node(op, builder.value, builder.constant(constant))
    if clip:
        builder.clip(*clip)
    return imported(builder, folder)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([("Mul", 3), ("Add", 5), ("Div", 8), ("Floor", 0)], [requant(3, 5, 8)]),
        ([("Mul", 3), ("Div", 8), ("Add", 2), ("Floor", 0)], [requant(3, 16, 8)]),
        ([("Mul", 3), ("Div", 8), ("Add", 0.5), ("Floor", 0)], [requant(3, 4, 8)]),
        ([("Mul", 6), ("Div", 4), ("Div", 2), ("Floor", 0)], [requant(3, 0, 4)]),
        ([("Mul", 2), ("Floor", 0), ("Mul", 3)], [requant(6)]),
        ([("Div", 2), ("Floor", 0), ("Div", 2), ("Floor", 0)], [requant(1, 0, 2)] * 2),
        ([("Mul", 1), ("Floor", 0)], []),
    ],
)
def test_steps_are_exact_rational_arithmetic(
    steps: list[tuple[str, float]], expected: list[Requant], tmp_path: Path
) -> None:
    assert list(chain(tmp_path, *steps).ops[0].requants) == expected


def test_add_directly_behind_a_conv_is_bias(tmp_path: Path) -> None:
    layer = chain(tmp_path, ("Add", 7), ("Mul", 3)).ops[0]
    assert isinstance(layer, ops.Conv) and layer.bias is not None
    assert (layer.bias.values.tolist(), layer.requants) == ([7], (requant(3),))


def test_clip_behind_a_floor_closes_the_same_step(tmp_path: Path) -> None:
    graph = chain(tmp_path, ("Mul", 3), ("Div", 8), ("Floor", 0), clip=(-4, 11))
    assert graph.ops[0].requants == (requant(3, 0, 8, -4, 11),)


@pytest.mark.parametrize(("mul", "expected"), [(8, requant(2, 10, 16)), (6, requant(3, 20, 32))])
def test_average_times_a_constant_is_exact_from_the_sum(
    mul: int, expected: Requant, tmp_path: Path
) -> None:
    builder = OnnxBuilder((1, 4, 4))
    builder.node("AveragePool", builder.value, kernel_shape=[2, 2], strides=[2, 2])
    builder.node("Mul", builder.value, builder.constant(mul))
    builder.node("Add", builder.value, builder.constant(10))
    builder.node("Div", builder.value, builder.constant(16))
    builder.node("Floor", builder.value)
    layer = imported(builder, tmp_path).ops[0]
    assert isinstance(layer, ops.AvgPool)
    assert layer.requants == (expected,)


def windowed(folder: Path, op: str, size: Sequence[int], **attributes: object) -> Graph:
    builder = OnnxBuilder((1, *size))
    inputs = [builder.value]
    if op == "Conv":
        inputs.append(builder.constant(np.ones((1, 1, 3, 3))))
    builder.node(op, *inputs, **attributes)
    return imported(builder, folder)


@pytest.mark.parametrize(
    ("auto_pad", "pads"),
    [("SAME_UPPER", (0, 1, 1, 1)), ("SAME_LOWER", (1, 1, 0, 1)), ("VALID", (0, 0, 0, 0))],
)
def test_automatic_padding(auto_pad: str, pads: tuple[int, ...], tmp_path: Path) -> None:
    graph = windowed(tmp_path, "Conv", (6, 7), strides=[2, 2], auto_pad=auto_pad)
    assert graph.ops[0].window.pads == pads  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [6, 7])
def test_ceil_mode_of_a_mean_is_not_what_is_refused(width: int, tmp_path: Path) -> None:
    form = {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}
    with pytest.raises(NotSupported, match="its result is a fraction"):
        windowed(tmp_path, "AveragePool", (4, width), **form)


@pytest.mark.parametrize("form", [{}, {"count_include_pad": 1}, {"ceil_mode": 1}])
def test_a_mean_over_more_padding_than_any_memory_holds(
    form: dict[str, object], tmp_path: Path
) -> None:
    pads = [0, 0, 1 << 30, 0]
    with pytest.raises(NotSupported, match=r"AveragePool '.*': .* windows of 2 x 2 are more than"):
        windowed(tmp_path, "AveragePool", (4, 6), kernel_shape=[2, 2], pads=pads, **form)


@pytest.mark.parametrize("op", ["Reshape", "Slice", "Transpose", "Identity"])
def test_a_node_that_reads_nothing_is_refused(op: str, tmp_path: Path) -> None:
    builder = OnnxBuilder((1, 4, 6))
    builder.node(op, "", builder.constant([1, 24], np.int64))
    with pytest.raises(NotSupported):
        imported(builder, tmp_path)


def test_a_slice_of_nothing_is_refused(tmp_path: Path) -> None:
    builder = OnnxBuilder((1, 4, 6))
    builder.node("Conv", builder.value, builder.constant([[[[1]]]]))
    builder.node("Slice", starts=[0], ends=[2], axes=[2])
    builder.node("Conv", builder.value, builder.constant([[[[1]]]]))
    with pytest.raises(NotSupported, match=r"Slice '.*': operator Slice in the middle"):
        imported(builder, tmp_path)


@pytest.mark.parametrize("kind", [np.float32, np.complex64])
@pytest.mark.parametrize("op", ["Slice", "ReduceMean", "Split"])
def test_numbers_that_are_no_integers_are_not_rounded(op: str, kind: type, tmp_path: Path) -> None:
    builder = OnnxBuilder((2, 4, 6))
    builder.node("Conv", builder.value, builder.constant(np.ones((2, 2, 1, 1))))
    numbers = builder.constant([2, 2], kind)
    given = [builder.constant([0, 0], np.int64), numbers] if op == "Slice" else [numbers]
    builder.node(op, builder.value, *given, **({"axis": 2} if op == "Split" else {}))
    builder.node("Conv", builder.value, builder.constant(np.ones((2, 2, 1, 1))))
    with pytest.raises(NotSupported, match=f"{op} '.*': .*no constants"):
        imported(builder, tmp_path)


def test_window_larger_than_its_input(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match=r"Conv '.*': its window \[3, 3\] does not fit"):
        windowed(tmp_path, "Conv", (2, 5))


@pytest.mark.parametrize("group", [-1, 0, 2, 3])
def test_groups_that_do_not_fit_the_weights_are_refused(group: int, tmp_path: Path) -> None:
    builder = OnnxBuilder((4, 3, 3))
    weights = builder.constant(np.ones((2, 4, 1, 1), int).tolist())
    builder.node("Conv", builder.value, weights, group=group)
    with pytest.raises(NotSupported, match=rf"Conv '.*': weights .* in {group} groups do not fit"):
        imported(builder, tmp_path)


def test_two_network_inputs(tmp_path: Path) -> None:
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 2, 3, 3)) for name in ("a", "b")
    ]
    output = helper.make_tensor_value_info("sum", TensorProto.FLOAT, None)
    node = helper.make_node("Add", ["b", "a"], ["sum"], "join")
    graph = helper.make_graph([node], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    onnx.save(model, str(tmp_path / "net.onnx"))
    imported = import_onnx(tmp_path / "net.onnx", FrontendOptions(), Dialect())
    assert imported.inputs == ("input", "input_1")
    assert imported.ops[0].inputs == ("input_1", "input")
    assert imported.tensors["layer_00"].hi == 510


def test_unused_nodes_are_no_layers(tmp_path: Path) -> None:
    builder = OnnxBuilder((1, 4, 4))
    weights = builder.constant([[[[2]]]])
    builder.node("Conv", builder.input, builder.constant([[[[9]]]]))
    builder.node("Conv", builder.input, weights)
    graph = imported(builder, tmp_path)
    assert [layer.index for layer in graph.ops] == [0]
    assert graph.tensors["layer_00"].hi == 510


class Declared(Dialect):
    """A dialect whose exporter declares the bits of weights."""

    extra_attributes = frozenset(["bits"])

    def weight_bits(self, node: object) -> int:
        return int(node.attributes["bits"])  # type: ignore[attr-defined]


@pytest.mark.parametrize(("weight", "fits"), [(1, True), (-2, True), (2, False), (-3, False)])
def test_declared_weight_bits_are_checked(weight: int, fits: bool, tmp_path: Path) -> None:
    builder = OnnxBuilder((1, 4, 4))
    builder.node("Conv", builder.value, builder.constant([[[[weight]]]]), bits=2)
    if fits:
        layer = imported(builder, tmp_path, Declared()).ops[0]
        assert isinstance(layer, ops.Conv) and layer.weight_bits == 2
    else:
        with pytest.raises(NotSupported, match="outside signed 2 bits"):
            imported(builder, tmp_path, Declared())
    with pytest.raises(NotSupported, match="attribute 'bits' is unknown"):
        imported(builder, tmp_path)


def test_plain_add_of_two_layers(tmp_path: Path) -> None:
    builder = OnnxBuilder((1, 4, 4))
    left = builder.node("Conv", builder.input, builder.constant([[[[2]]]]))
    right = builder.node("Conv", builder.input, builder.constant([[[[3]]]]))
    builder.node("Add", left, right)
    layer = imported(builder, tmp_path).ops[2]
    assert isinstance(layer, ops.Add)
    assert (layer.inputs, layer.operand_requants) == (("layer_00", "layer_01"), (None, None))


def test_damaged_bytes_are_never_a_traceback(tmp_path: Path) -> None:
    builder = OnnxBuilder((1, 4, 4))
    builder.node("Conv", builder.value, builder.constant([[[[1]]]]), strides=[2, 2])
    builder.node("Mul", builder.value, builder.constant(3))
    builder.clip(0, 255)
    whole = builder.model().SerializeToString()
    path = tmp_path / "net.onnx"
    random = np.random.default_rng(1)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[random.integers(len(damaged))] = random.integers(256)
        path.write_bytes(bytes(damaged))
        try:
            import_onnx(path, FrontendOptions(), Dialect())
        except NotSupported:
            continue
