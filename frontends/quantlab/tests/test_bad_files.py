"""Files that cannot be imported exactly: each error names the node and the reason."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dory_quantlab.dialect import parse
from dory_quantlab.testing import QuantlabBuilder

from dory_core.api import NotSupported
from dory_core.importing import FrontendOptions


def rejected(builder: QuantlabBuilder, folder: Path, reason: str) -> NotSupported:
    with pytest.raises(NotSupported, match=reason) as caught:
        parse(builder.save(folder / "net.onnx"), FrontendOptions())
    assert caught.value.exit_code == 3
    return caught.value


def residual(*, first: int = 0, second: int = 0, **options: Any) -> QuantlabBuilder:
    """A residual whose operands are signed where ``first`` or ``second`` is 1."""
    bounds = ({"lo": 0, "hi": 255}, {"lo": -128, "hi": 127})
    builder = QuantlabBuilder((3, 6, 6)).conv(8, 1, **bounds[second])
    branch = builder.value
    return builder.conv(8, 1, **bounds[first]).add(branch, **options)


SCALED = {"in1": (700, 512, 10), "in2": (700, 512, 10), "out": (900, 512, 10)}


def test_add_without_any_attribute(tmp_path: Path) -> None:
    builder = residual()
    del builder.nodes[-1].attribute[:]
    error = rejected(builder, tmp_path, "Add '/Add_.*': attribute in1_rq is missing; a residual")
    assert "DORY exporter" in error.hint


@pytest.mark.parametrize("part", ["in1", "in2", "out"])
@pytest.mark.parametrize("field", ["rq", "mul", "add", "shift", "n_levels"])
def test_add_without_one_attribute(part: str, field: str, tmp_path: Path) -> None:
    builder = residual(without=(f"{part}_{field}",), **SCALED)
    rejected(builder, tmp_path, f"Add '/Add_.*': attribute {part}_{field} is missing")


@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), "many", [1, 2]])
@pytest.mark.parametrize("name", ["in1_mul", "out_shift", "in2_n_levels", "out_signed"])
def test_attribute_that_is_no_integer(name: str, value: Any, tmp_path: Path) -> None:
    builder = residual(**SCALED, **{name: value})
    rejected(builder, tmp_path, f"Add '/Add_.*': attribute {name} = .* is not an integer")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("in1_shift", -1, r"in1_shift = -1 is not in \[0, 62\]"),
        ("out_shift", 63, r"out_shift = 63 is not in \[0, 62\]"),
        ("in2_rq", 2, "in2_rq = 2 is neither 0 nor 1"),
        ("out_signed", 5, "out_signed = 5 is neither 0 nor 1"),
        ("out_n_levels", 0, "out_n_levels = 0 must be positive"),
        ("in1_n_levels", -256, "in1_n_levels = -256 must be positive"),
        ("out_div", 4, "attribute 'out_div' is unknown"),
    ],
)
def test_attribute_without_meaning(name: str, value: int, reason: str, tmp_path: Path) -> None:
    rejected(residual(**SCALED, **{name: value}), tmp_path, f"Add '/Add_.*': .*{reason}")


def test_attributes_may_be_integral_floats_or_one_element_lists(tmp_path: Path) -> None:
    def imported(**attributes: Any) -> Any:
        path = residual(**SCALED, **attributes).save(tmp_path / "net.onnx")
        return parse(path, FrontendOptions())

    assert imported(in1_mul=700.0, out_shift=[10]) == imported()


@pytest.mark.parametrize(("first", "second"), [(1, 0), (0, 1)])
def test_sign_that_operands_of_different_sign_leave_open(
    first: int, second: int, tmp_path: Path
) -> None:
    builder = residual(first=first, second=second, signed=None, **SCALED)
    kinds = "signed and unsigned" if first else "unsigned and signed"
    error = rejected(
        builder,
        tmp_path,
        "Add '/Add_.*': attribute out_signed is missing, and the sign of its result cannot be"
        f" decided: its operands 'layer_01' and 'layer_00' are {kinds}",
    )
    assert "out_signed" in error.hint


def test_sign_of_unsigned_operands_whose_sum_is_negative(tmp_path: Path) -> None:
    builder = residual(signed=None, out=(-900, 512, 10))
    rejected(builder, tmp_path, "sign of its result cannot be decided.* values reach from -")


def test_sign_of_an_operand_that_its_factor_turns(tmp_path: Path) -> None:
    builder = residual(in1=(-900, 0, 10))
    rejected(builder, tmp_path, "Add '/Add_.*': in1_mul = -900 makes its unsigned operand.*decided")


def test_result_that_cannot_be_stored(tmp_path: Path) -> None:
    builder = residual(in1=(1 << 40, 0, 4), levels=(1 << 50, 256, 1 << 50))
    rejected(builder, tmp_path, "Add '/Add_.*': .*beyond (32|64) bits")


def test_operand_that_is_rescaled_in_front_of_its_add(tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 6, 6)).conv(8, 1)
    branch = builder.value
    builder.conv(8, 1)
    builder.node("Mul", builder.value, builder.constant(3))
    builder.add(branch)
    rejected(builder, tmp_path, "Add '/Add_.*': Mul '/Mul_.*' rescales an operand")


@pytest.mark.parametrize("bits", [0, 1, 3, 16, -8])
def test_unknown_width_of_weights(bits: int, tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 6, 6)).conv(8, 1)
    conv = next(node for node in builder.nodes if node.op_type == "Conv")
    next(a for a in conv.attribute if a.name == "weight_bits").i = bits
    rejected(builder, tmp_path, f"Conv '/Conv_.*': attribute weight_bits = {bits}, only .* 2, 4 ")


@pytest.mark.parametrize("operator", ["Conv", "Gemm", "MatMul"])
def test_missing_width_of_weights(operator: str, tmp_path: Path) -> None:
    builder = QuantlabBuilder((8, 1, 1))
    if operator == "Conv":
        builder.conv(4, 1)
    else:
        builder.linear(4, gemm=operator == "Gemm")
    node = next(node for node in builder.nodes if node.op_type == operator)
    kept = [a for a in node.attribute if a.name != "weight_bits"]
    del node.attribute[:]
    node.attribute.extend(kept)
    error = rejected(builder, tmp_path, f"{operator} '.*': attribute weight_bits is missing")
    assert "frontend" in error.hint


@pytest.mark.parametrize(("bits", "value"), [(2, 2), (2, -3), (4, 8), (4, -9), (8, 128)])
def test_weight_that_its_bits_cannot_store_is_no_wrap(
    bits: int, value: int, tmp_path: Path
) -> None:
    weights = np.ones((4, 3, 1, 1), int)
    weights[2, 1] = value
    builder = QuantlabBuilder((3, 4, 4)).conv(4, 1, weights=weights, weight_bits=bits)
    width = "int8" if bits == 8 else f"signed {bits} bits"
    rejected(
        builder, tmp_path, f"Conv '.*': weight tensor 'constant_.*' reaches .* outside {width}"
    )


def test_bias_that_32_bits_cannot_store(tmp_path: Path) -> None:
    builder = QuantlabBuilder((8, 1, 1)).linear(4, bias=True, activation=False)
    gemm = next(node for node in builder.nodes if node.op_type == "Gemm")
    index = next(i for i, t in enumerate(builder.initializers) if t.name == gemm.input[2])
    large = np.array([0, 2.0**31, 0, 0], np.float32)
    builder.initializers[index] = onnx.numpy_helper.from_array(large, gemm.input[2])
    rejected(builder, tmp_path, "Gemm '.*': bias 'constant_.*' reaches .* beyond 32 bits")


@pytest.mark.parametrize("value", [0.5, 700.25, np.nan, np.inf])
@pytest.mark.parametrize("which", ["mul", "add"])
def test_requantisation_that_is_no_integer(which: str, value: float, tmp_path: Path) -> None:
    mul, add = np.full(4, 700.0), np.full(4, 512.0)
    (mul if which == "mul" else add)[2] = value
    builder = QuantlabBuilder((3, 4, 4)).conv(4, 1, scale=(mul, add, 10))
    rejected(
        builder, tmp_path, rf"{which.capitalize()} '.*': constant 'constant_.*' holds {value} at"
    )


def test_rounding_node_of_another_fraction(tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 4, 4)).conv(4, 1, activation=False)
    builder.node("Div", builder.value, builder.constant(1.0))
    builder.node("Add", builder.value, builder.constant(0.3))
    builder.node("Floor", builder.value)
    builder.clip(0, 255)
    rejected(builder, tmp_path, "Add '.*': constant 'constant_.*' holds 0.3")


def test_average_that_nothing_rounds(tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 4, 4))
    builder.node("AveragePool", builder.value, kernel_shape=[2, 2], strides=[2, 2])
    rejected(builder, tmp_path, "AveragePool '.*': its result is a fraction")


def test_file_of_another_quantiser_is_named_as_such(tmp_path: Path) -> None:
    testing = pytest.importorskip("dory_nemo.testing")
    builder = testing.NemoBuilder((3, 8, 8)).conv(4, 3).linear(4)
    rejected(builder, tmp_path, "Conv '.*': attribute weight_bits is missing")
