"""Functions of rows and of single elements: every element equals the formula, and goldens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dory_deeploy.dialect import parse
from dory_deeploy.testing import DeeployBuilder
from onnx import TensorProto, helper

from dory_core.api import ops
from dory_core.importing import FrontendOptions
from dory_core.testing import reference, run_reference
from tests.deeploy_checks import as_given, check, in_file_order, refused
from tests.nets import transformer_names, transformer_net

Layer = Callable[[DeeployBuilder, np.random.Generator], DeeployBuilder]


def layer_norm(b: DeeployBuilder, random: np.random.Generator) -> DeeployBuilder:
    length = b.shape[-1]
    weight = random.integers(-20_000, 20_000, length)
    bias = random.integers(-9_000, 9_000, length)
    return b.rows("iLayerNorm", weight, bias, D=[256.0], n_levels=256)


def rms_norm(b: DeeployBuilder, random: np.random.Generator) -> DeeployBuilder:
    weight = random.integers(-20_000, 20_000, b.shape[-1])
    return b.rows("iRMSNorm", weight, D=[256.0], n_levels=[256.0])


def shift_softmax(b: DeeployBuilder, random: np.random.Generator) -> DeeployBuilder:
    return b.rows("ITAMax", n_levels=[256.0])


def softmax(b: DeeployBuilder, random: np.random.Generator) -> DeeployBuilder:
    log2, first, last = (int(random.integers(*ends)) for ends in ((4, 70), (60, 99), (1, 4000)))
    return b.rows("iSoftmax", coeffA=1, coeffB=first, coeffC=last, log2=log2, n_levels=256)


def gelu(b: DeeployBuilder, random: np.random.Generator) -> DeeployBuilder:
    edge = int(random.integers(5, 200))
    b.rows("iGELU", b=-edge, one=edge * edge + int(random.integers(0, 99)))
    return shifted(b, random, 1 << 20, edge * edge * 2)


def hardswish(b: DeeployBuilder, random: np.random.Generator) -> DeeployBuilder:
    three = int(random.integers(5, 250))
    b.rows("iHardswish", three=three, six=2 * three, one_over_six=42)
    return shifted(b, random, 1 << 20, 84 * three)


def shifted(b: DeeployBuilder, random: np.random.Generator, div: int, reach: int) -> DeeployBuilder:
    """Requantise values up to 128 * reach to a byte."""
    mul, add = random.integers(div // reach // 2, div // reach + 1), random.integers(-div, div)
    b.requant_shift(int(mul), int(add), div, 256, signed=True)
    b.layer_values[-1] = b.value
    return b


LAYERS: dict[str, Layer] = {
    "iLayerNorm": layer_norm,
    "iRMSNorm": rms_norm,
    "ITAMax": shift_softmax,
    "iSoftmax": softmax,
    "iGELU": gelu,
    "iHardswish": hardswish,
}


@pytest.mark.parametrize("shape", [(24,), (6, 12), (3, 5, 16), (1, 9)], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_each_function_of_each_rank(name: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    random = np.random.default_rng(len(name))
    for signed in (False, True):
        lo, hi = (-128, 127) if signed else (0, 255)
        b = DeeployBuilder(shape, seed=3, input_lo=lo, input_hi=hi)
        graph = check(LAYERS[name](b, random), tmp_path, signed)
        kinds = [op.kind for op in graph.ops if not isinstance(op, ops.Transpose | ops.Reshape)]
        assert len(kinds) == 1


@pytest.mark.parametrize("axis", [1, 2])
def test_means(axis: int, tmp_path: Path) -> None:
    b = DeeployBuilder((6, 12), input_lo=-128, input_hi=127)
    check(rms_norm(b, np.random.default_rng(1)).integer_mean(1), tmp_path)
    b = DeeployBuilder((3, 5, 16), input_lo=-128, input_hi=127)
    check(rms_norm(b, np.random.default_rng(1)).integer_mean(axis), tmp_path)
    b = DeeployBuilder((3, 5, 16), input_lo=-128, input_hi=127)
    check(b.conv(4, 1, signed=True).integer_mean(axis + 1), tmp_path)


def test_halves_of_a_mean_are_rounded_up(tmp_path: Path) -> None:
    b = DeeployBuilder((2, 3), input_lo=-128, input_hi=127)
    graph = check(b.integer_mean(1), tmp_path)
    values = as_given(graph, "input", np.array([[3, -3, -2], [4, -4, -5]]))
    found = run_reference(graph, {"input": values})[graph.outputs[0]]
    assert found.reshape(-1).tolist() == [4, -3, -3]


@pytest.mark.parametrize("domain", ["", "PACTOps"])
def test_a_row_of_each_function_between_convolutions(domain: str, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    b = DeeployBuilder((3, 7, 8), domain=domain, input_lo=-128, input_hi=127)
    layer_norm(b.conv(5, 3, pads=1, signed=True), random)
    gelu(rms_norm(b, random), random)
    graph = check(b.conv(4, 1, signed=True).linear(6), tmp_path)
    kinds = [op.kind for op in graph.ops]
    assert [k for k in kinds if k not in ("Transpose", "Reshape")] == [
        *("Conv", "Norm", "Norm", "Lut", "Conv", "Linear")
    ]
    assert kinds.count("Transpose") == 2, "rows stay rows until a convolution reads them"


def test_factors_of_each_element_of_a_row(tmp_path: Path) -> None:
    """A tensor of rank 3 has them for its last axis, where a function of rows computes it."""
    random = np.random.default_rng(5)
    b = DeeployBuilder((6, 12), input_lo=-128, input_hi=127)
    rms_norm(b, random).rows("iGELU", b=-40, one=1743)
    mul, add = random.integers(200, 400, 12), random.integers(-999, 999, 12)
    b.requant_shift(mul, add, 1 << 18, 256, signed=True)
    b.layer_values[-1] = b.value
    [*_, table] = check(b, tmp_path).ops
    assert isinstance(table, ops.Lut) and table.table.shape == (12, 256)


def test_a_division_is_a_factor(tmp_path: Path) -> None:
    b = DeeployBuilder((3, 4, 4), input_lo=-128, input_hi=127).conv(5, 1, signed=True)
    b.node("TrueIntegerDiv", b.value, Delta=16384, eta=200000, eps=1, y=2)
    b.requant_shift(4, 0, 1 << 12, 256, signed=True)
    [conv] = check(b, tmp_path).ops
    assert [step.mul for step in conv.requants[1:]] == [(8191,)]


def test_a_division_by_zero_is_refused(tmp_path: Path) -> None:
    b = DeeployBuilder((3, 4, 4)).conv(5, 1, signed=True)
    b.node("TrueIntegerDiv", b.value, Delta=16384, eta=200000, eps=0, y=0)
    refused(b.conv(4, 1), tmp_path, "it divides by y")


def test_residual_of_rows(tmp_path: Path) -> None:
    b = DeeployBuilder((6, 12), input_lo=-128, input_hi=127)
    branch = rms_norm(b, np.random.default_rng(1)).value
    layer_norm(b, np.random.default_rng(2)).add(branch, signed=True)
    graph = check(shift_softmax(b, np.random.default_rng(3)), tmp_path)
    assert "Transpose" not in [op.kind for op in graph.ops]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_networks(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    shape = [(20,), (7, 9), (4, 5, 6)][seed % 3]
    b = DeeployBuilder(shape, seed=seed, input_lo=-128, input_hi=127)
    for _ in range(int(random.integers(1, 6))):
        branch = b.value
        LAYERS[str(random.choice(list(LAYERS)))](b, random)
        if branch != b.input and random.random() < 0.3:
            b.add(branch, signed=True)
    check(b, tmp_path)


OPERATORS = (*LAYERS, "IntegerMean")


@pytest.mark.parametrize("name", transformer_names())
def test_every_function_of_deeploys_transformers_equals_its_golden(
    name: str, tmp_path: Path
) -> None:
    net = transformer_net(name)
    file, golden = onnx.load(net / "net.onnx"), np.load(net / "golden.npz")
    constants = {tensor.name: tensor for tensor in file.graph.initializer}
    for node in file.graph.node:
        if node.op_type not in OPERATORS:
            continue
        source = node.input[0]
        key = f"run0__{source}" if f"run0__{source}" in golden else f"in0__{source}"
        values = golden[key].astype(np.int64)
        used = [constants[n] for n in node.input[1:]]
        graph = helper.make_graph(
            [node],
            "one",
            [helper.make_tensor_value_info(source, TensorProto.FLOAT, values.shape)],
            [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)],
            used,
        )
        onnx.save(helper.make_model(graph), tmp_path / "one.onnx")
        found = parse(tmp_path / "one.onnx", FrontendOptions(8, bool(values.min() < 0)))
        given = {"input": as_given(found, "input", values)}
        got = reference.run(found, given)[found.outputs[0]]
        wanted = golden[f"run0__{node.output[0]}"].reshape(-1)
        np.testing.assert_array_equal(in_file_order(found, found.outputs[0], got), wanted)


ROW = np.ones(12)
NORM: dict[str, Any] = {"D": 256, "n_levels": 256}
SOFTMAX: dict[str, Any] = {"coeffA": 1, "coeffB": 9, "coeffC": 9, "log2": 9, "n_levels": 256}


@pytest.mark.parametrize(
    ("operator", "constants", "attributes", "reason"),
    [
        ("iLayerNorm", (ROW,), NORM, "it has 2 inputs, but iLayerNorm takes 3: the value, weight"),
        (
            "iRMSNorm",
            (ROW[:3],),
            NORM,
            r"of shape \[3\] is neither one value nor one for each",
        ),
        ("iRMSNorm", (ROW / 3,), NORM, "which is not an integer"),
        ("iRMSNorm", (ROW,), {"D": 100}, "attribute D = 100 is not a power of two"),
        ("iRMSNorm", (ROW,), {"D": 16, "n_levels": 16}, r"n_levels = 16 is not in \[256, 256\]"),
        ("iRMSNorm", (ROW,), {**NORM, "eps": 1}, "attribute 'eps' of iRMSNorm is unknown"),
        ("iRMSNorm", (ROW * (1 << 30),), NORM, "exceed 32 bits"),
        ("iSoftmax", (), {**SOFTMAX, "log2": 0}, r"attribute log2 = 0 is not in \[1, "),
        ("iSoftmax", (), {**SOFTMAX, "coeffB": 1 << 16}, "exceed 32 bits"),
        ("ITAMax", (), {}, "attribute n_levels is missing"),
        ("iGELU", (), {"b": 4, "one": 9}, "attribute b = 4 is not in"),
        ("iGELU", (), {"b": -(1 << 15), "one": 1 << 30}, "its results exceed 32 bits"),
        ("iHardswish", (), {"three": 3, "six": 6}, "attribute one_over_six is missing"),
    ],
)
def test_what_has_no_exact_meaning_is_refused(
    operator: str,
    constants: tuple[Any, ...],
    attributes: dict[str, Any],
    reason: str,
    tmp_path: Path,
) -> None:
    b = DeeployBuilder((6, 12), input_lo=-128, input_hi=127)
    refused(b.rows(operator, *constants, **attributes), tmp_path, f"'/?{operator}.*{reason}")


def test_a_function_of_more_than_a_byte_is_refused(tmp_path: Path) -> None:
    b = DeeployBuilder((3, 4, 4)).conv(5, 1, requant=False)
    refused(b.rows("iGELU", b=-9, one=99), tmp_path, "takes? those of a byte")


def test_rows_of_a_computed_weight_are_refused(tmp_path: Path) -> None:
    b = DeeployBuilder((6, 12))
    b.node("iRMSNorm", b.value, b.value, **NORM)
    refused(b, tmp_path, "is not a constant")


def test_a_mean_that_keeps_the_first_of_two_axes_is_refused(tmp_path: Path) -> None:
    b = rms_norm(DeeployBuilder((3, 5, 16)), np.random.default_rng(1))
    b.node("IntegerMean", b.value, axes=[2], keepdims=0)
    refused(b, tmp_path, "drops axis 2 of four")
