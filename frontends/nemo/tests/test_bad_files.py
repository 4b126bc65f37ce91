"""Files that cannot be imported exactly: each error names the node and the reason."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from dory_nemo.dialect import parse
from dory_nemo.testing import NemoBuilder

from dory_core.api import NotSupported, UsageError
from dory_core.importing import FrontendOptions


def rejected(builder: NemoBuilder, folder: Path, reason: str) -> NotSupported:
    with pytest.raises(NotSupported, match=reason) as caught:
        parse(builder.save(folder / "net.onnx"), FrontendOptions())
    assert caught.value.exit_code == 3
    return caught.value


def start() -> NemoBuilder:
    return NemoBuilder((3, 8, 8)).conv(4, 3)


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-3],
        lambda whole: b"\x89PNG" + whole,
    ],
    ids=["end-missing", "garbage-before"],
)
def test_file_that_is_no_onnx_model(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = start().linear(4).save(tmp_path / "net.onnx")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(NotSupported, match=r"net\.onnx"):
        parse(path, FrontendOptions())


def test_unsupported_operator_in_the_middle_is_named(tmp_path: Path) -> None:
    builder = start()
    builder.node("Sigmoid", builder.value)
    error = rejected(builder.conv(4, 1), tmp_path, "Sigmoid '/Sigmoid_.*': operator Sigmoid in the")
    assert "Conv" in error.hint


@pytest.mark.parametrize("op", ["Softmax", "SpaceToDepth", "LeakyRelu"])
def test_other_operators_in_front_of_a_linear(op: str, tmp_path: Path) -> None:
    builder = start()
    builder.node(op, builder.value)
    rejected(builder.linear(4), tmp_path, f"{op} '.*': operator {op} in the middle")


@pytest.mark.parametrize("dims", [("batch", 3, 8, 8), (1, 3, "height", 8)])
def test_dynamic_shape(dims: tuple[int | str, ...], tmp_path: Path) -> None:
    onnx.save(start().model(dims), str(tmp_path / "net.onnx"))
    with pytest.raises(NotSupported, match=r"input 'image' .* dynamic shape") as caught:
        parse(tmp_path / "net.onnx", FrontendOptions())
    assert "fixed input size" in caught.value.hint


def test_batch_of_several_images(tmp_path: Path) -> None:
    onnx.save(start().model((2, 3, 8, 8)), str(tmp_path / "net.onnx"))
    with pytest.raises(NotSupported, match=r"input 'image' has shape \[2, 3, 8, 8\]"):
        parse(tmp_path / "net.onnx", FrontendOptions())


@pytest.mark.parametrize("value", [128, 157, -129])
def test_weight_outside_int8_is_no_wrap(value: int, tmp_path: Path) -> None:
    weights = np.ones((4, 3, 1, 1), int)
    weights[2, 1] = value
    low, high = min(value, 1), max(value, 1)
    rejected(
        NemoBuilder((3, 4, 4)).conv(4, 1, weights=weights),
        tmp_path,
        f"Conv '.*': weight tensor 'constant_.*' reaches from {low} to {high}, outside int8",
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.5])
def test_weight_that_is_no_integer(value: float, tmp_path: Path) -> None:
    weights = np.ones((4, 3, 1, 1))
    weights[2, 1] = value
    builder = NemoBuilder((3, 4, 4)).conv(4, 1, weights=weights)
    rejected(builder, tmp_path, r"Conv '.*': constant 'constant_.*' holds .* at \[2, 1, 0, 0\]")


@pytest.mark.parametrize("value", [np.nan, 0.25, np.inf])
@pytest.mark.parametrize("op", ["Mul", "Add", "Div"])
def test_constant_that_is_no_integer(op: str, value: float, tmp_path: Path) -> None:
    builder = NemoBuilder((3, 4, 4)).conv(4, 1, activation=False)
    builder.node(op, builder.value, builder.constant(value))
    builder.clip(0, 255)
    rejected(builder, tmp_path, f"{op} '.*': constant 'constant_.*' holds {value}")


def test_divisor_must_be_positive(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 4, 4)).conv(4, 1, activation=False)
    builder.node("Div", builder.value, builder.constant(0))
    rejected(builder, tmp_path, "Div '.*': divisor 'constant_.*' is 0")


def test_clip_without_a_bound(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 4, 4)).conv(4, 1, activation=False)
    builder.node("Clip", builder.value, min=0.0)
    rejected(builder, tmp_path, "Clip '.*': it has no max")


def test_fraction_that_nothing_rounds(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 4, 4)).conv(4, 1, activation=False)
    builder.node("Div", builder.value, builder.constant(16))
    rejected(builder.conv(4, 1), tmp_path, "Conv '.*': its result is a fraction")
    plain = NemoBuilder((3, 4, 4))
    plain.node("AveragePool", plain.value, kernel_shape=[2, 2], strides=[2, 2])
    rejected(plain, tmp_path, "AveragePool '.*': its result is a fraction")


def test_constant_along_the_width_is_not_per_channel(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 4, 4)).conv(4, 1, activation=False)
    builder.node("Mul", builder.value, builder.constant([1, 2, 3, 4]))
    builder.clip(0, 255)
    rejected(builder, tmp_path, r"Mul '.*': constant 'constant_.*' of shape \[4\] is neither")


def test_pad_with_another_value_or_mode(tmp_path: Path) -> None:
    pads = [0, 0, 1, 1, 0, 0, 1, 1]
    filled = start()
    filled.node("Pad", filled.value, pads=pads, mode="constant", value=1.0)
    filled.shapes[filled.value] = (4, 8, 8)
    rejected(filled.conv(4, 3), tmp_path, "Pad '.*': pads with 1, only zeros")
    mirrored = start()
    mirrored.node("Pad", mirrored.value, pads=pads, mode="reflect")
    mirrored.shapes[mirrored.value] = (4, 8, 8)
    rejected(mirrored.conv(4, 3), tmp_path, "Pad '.*': mode 'reflect'")


def test_attributes_of_another_dialect_are_not_ignored(tmp_path: Path) -> None:
    builder = start()
    branch = builder.value
    builder.conv(4, 1)
    builder.node("Add", builder.value, branch, in1_mul=3, in1_rq=1)
    error = rejected(builder, tmp_path, "Add '.*': attribute 'in1_mul' is unknown")
    assert "frontend" in error.hint


def test_requantisation_beyond_64_bits(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 4, 4)).conv(4, 1, activation=False)
    for _ in range(3):
        builder.node("Mul", builder.value, builder.constant(1 << 20, np.int64))
    builder.clip(0, 255)
    rejected(builder, tmp_path, "Conv '.*': mul .* beyond 64 bits")


def test_network_without_a_layer(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 4, 4))
    builder.node("Sigmoid", builder.value)
    rejected(builder, tmp_path, r"net\.onnx: it holds no integer layer")


def test_wrong_input_bits_are_wrong_usage(tmp_path: Path) -> None:
    path = start().save(tmp_path / "net.onnx")
    with pytest.raises(UsageError, match="0 bits"):
        parse(path, FrontendOptions(input_bits=0))


def test_value_that_two_nodes_produce(tmp_path: Path) -> None:
    path = start().conv(4, 1).save(tmp_path / "net.onnx")
    model = onnx.load(str(path))
    conv = next(n for n, node in enumerate(model.graph.node) if node.op_type == "Conv")
    model.graph.node.insert(conv + 1, model.graph.node[conv])
    onnx.save(model, str(path))
    with pytest.raises(NotSupported, match="which exists already"):
        parse(path, FrontendOptions())


@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        ("Mul", r"may reach .* 2\^145\d\d\], beyond 64 bits"),
        ("Div", r"divides by 2\^14560, beyond 64 bits"),
    ],
)
def test_factors_of_thousands_of_digits_are_refused_by_name(
    operator: str, reason: str, tmp_path: Path
) -> None:
    builder = NemoBuilder((3, 4, 4)).conv(4, 1, activation=False)
    for _ in range(280):
        builder.node(operator, builder.value, builder.constant(2.0**52))
    builder.node("Floor", builder.value)
    builder.node("Clip", builder.value, min=0.0, max=255.0)
    rejected(builder, tmp_path, f"Conv '.*': .*{reason}")
