"""Activations of 16 bits with weights of 8: every tensor equals TensorFlow Lite Micro's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_tflite.golden import golden_arrays, random_inputs
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import WORDS, TfliteBuilder, random_network

from dory_core.api import Graph, NotSupported, ops
from dory_core.testing import CompileOptions, compile_network
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins, read_plan
from frontends.tflite.tests.test_against_tflite_micro import differing

pytest.importorskip("tflite_micro", reason="the extra golden is not installed")

TARGETS = ("gap8", "stm32h7", "diana")


def imported(data: bytes) -> Graph:
    return import_model(model_of(data, Path("net.tflite"))).graph


def assert_application_is_exact(data: bytes, folder: Path, target: str, l1: int = 0) -> None:
    """Compile a file for a target, and run it on every tensor that the interpreter computed."""
    model, random = model_of(data, Path("net.tflite")), np.random.default_rng(1)
    folder.mkdir(exist_ok=True)
    (folder / "net.tflite").write_bytes(data)
    golden = folder / "golden.npz"
    np.savez(golden, **golden_arrays(data, model, [random_inputs(model, random) for _ in range(2)]))
    options = CompileOptions(
        folder / "net.tflite",
        target,
        "tflite",
        folder / "app",
        (golden,),
        budgets={1: l1} if l1 else {},
    )
    assert compile_network(options, load_plugins()).golden_exact
    assert_exact(folder / "app", plugins=load_plugins())


@pytest.mark.parametrize("operation", sorted(WORDS))
def test_single_operators(operation: str) -> None:
    for seed in range(4):
        assert differing(random_network(seed, only=operation, type="INT16"), seed) == [], seed


@pytest.mark.slow
@pytest.mark.parametrize("operation", sorted(WORDS))
def test_many_single_operators(operation: str) -> None:
    """Scales that bring values beyond 32 bits, where the interpreter's wrap, are refused."""
    refused = 0
    for seed in range(100, 140):
        try:
            found = differing(random_network(seed, only=operation, type="INT16"), seed)
        except NotSupported as error:
            assert "beyond 32 bits" in error.message
            refused += 1
            continue
        assert found == [], seed
    assert refused <= 4


@pytest.mark.parametrize("seed", range(6))
def test_networks_of_several_operators(seed: int) -> None:
    data = random_network(2000 + seed, operations=5, type="INT16")
    assert differing(data, seed) == []


def dense(columns: int, bias: str | None, weight: int = 127, value: int = 900) -> bytes:
    """Return a fully connected layer of ``columns`` inputs with weights as large as they get."""
    b, random = TfliteBuilder(), np.random.default_rng(columns)
    x, y = b.input((1, columns), 3e-4, 0, "INT16"), b.tensor((1, 5), 2e-3, 0, "INT16")
    signs = random.choice([-1, 1], (5, columns)) * weight
    inputs = [x, b.constant(signs.astype(np.int8), (0.004,))]
    if bias is not None:
        values = (value * np.arange(-2, 3)).astype(bias.lower())
        inputs.append(b.constant(values, (3e-4 * 0.004,)))
    b.operator("FULLY_CONNECTED", inputs, [y])
    return b.build([y])


@pytest.mark.sample(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bias", ["INT64", None])
def test_sums_beyond_32_bits(bias: str | None, target: str, tmp_path: Path) -> None:
    """600 products of 16 and 8 bits, in tiles of a small memory."""
    data = dense(600, bias)
    graph = imported(data)
    assert graph.ranges[0].acc_hi > 1 << 31
    assert_application_is_exact(data, tmp_path, target, l1=4096)


def test_a_bias_beyond_32_bits_is_exact(tmp_path: Path) -> None:
    data = dense(40, "INT64", value=1 << 34)
    assert differing(data) == []
    assert_application_is_exact(data, tmp_path, "stm32h7")


def test_a_bias_of_32_bits_rounds_twice(tmp_path: Path) -> None:
    """The accumulator has 32 bits then, and the mantissa 31: values differ."""
    wide, narrow = (imported(dense(300, bias)).ops[0] for bias in ("INT64", "INT32"))
    assert wide.requants[0].mul < narrow.requants[0].mul
    assert differing(dense(300, "INT32")) == []
    assert_application_is_exact(dense(300, "INT32"), tmp_path, "gap8")


def keywords() -> bytes:
    """Return a network of the operators of keyword spotting, with a residual sum."""
    b, random = TfliteBuilder(), np.random.default_rng(7)
    x, scale = b.input((1, 13, 7, 1), 1e-3, 0, "INT16"), 1e-3

    def conv(code: str, x: int, scale: float, inputs: int, kernel: int) -> tuple[int, float]:
        is_depthwise = code == "DEPTHWISE_CONV_2D"
        shape = (1, kernel, kernel, 8) if is_depthwise else (8, kernel, kernel, inputs)
        weights = random.integers(-127, 128, shape).astype(np.int8)
        scales = random.uniform(0.003, 0.005, 8)
        bias = random.integers(-(1 << 20), 1 << 20, 8)
        y_scale = scale * 0.3 * (kernel * kernel * (1 if is_depthwise else inputs)) ** 0.5
        y = b.tensor((1, 13, 7, 8), y_scale, 0, "INT16")
        axis, zeros = (3 if is_depthwise else 0), (0,) * 8
        constants = [b.constant(weights, scales.tolist(), zeros, axis)]
        constants.append(b.constant(bias, (scale * scales).tolist(), zeros))
        more = {"DepthMultiplier": 1} if is_depthwise else {}
        options = {"Padding": "SAME", "StrideH": 1, "StrideW": 1, **more}
        b.operator(code, [x, *constants], [y], FusedActivationFunction="RELU", **options)
        return y, y_scale

    x, scale = conv("CONV_2D", x, scale, 1, 3)
    y, y_scale = conv("DEPTHWISE_CONV_2D", x, scale, 8, 3)
    y, y_scale = conv("CONV_2D", y, y_scale, 8, 1)
    z = b.tensor((1, 13, 7, 8), y_scale * 1.3, 0, "INT16")
    b.operator("ADD", [x, y], [z])
    window = {"FilterHeight": 3, "FilterWidth": 3, "StrideH": 2, "StrideW": 2}
    small = b.tensor((1, 6, 3, 8), y_scale * 1.3, 0, "INT16")
    b.operator("MAX_POOL_2D", [z], [small], Padding="VALID", **window)
    mean = b.tensor((1, 1, 1, 8), y_scale * 1.3, 0, "INT16")
    window = {"FilterHeight": 6, "FilterWidth": 3, "StrideH": 6, "StrideW": 3}
    b.operator("AVERAGE_POOL_2D", [small], [mean], Padding="VALID", **window)
    answer = b.tensor((1, 5), y_scale, 0, "INT16")
    weights = random.integers(-127, 128, (5, 8)).astype(np.int8)
    bias = random.integers(-(1 << 18), 1 << 18, 5)
    constants = [b.constant(weights, (0.004,)), b.constant(bias, (y_scale * 1.3 * 0.004,))]
    b.operator("FULLY_CONNECTED", [mean, *constants], [answer])
    return b.build([answer])


def test_all_layers_of_a_network_have_kernels_of_the_stm32h7(tmp_path: Path) -> None:
    assert_application_is_exact(keywords(), tmp_path, "stm32h7")
    kernels = [layer["kernel"] for layer in read_plan(tmp_path / "app")["layers"]]
    assert len(kernels) == 7
    assert [kernel for kernel in kernels if not kernel.startswith("dory_stm32h7_")] == []


def test_what_wraps_in_the_interpreter_is_refused() -> None:
    with pytest.raises(NotSupported, match="beyond 32 bits"):
        imported(dense(600, "INT32"))


def test_a_zero_point_is_refused() -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 4, 4, 2), 0.01, 3, "INT16"), b.tensor((1, 4, 4, 2), 0.01, 0, "INT16")
    b.operator("ADD", (x, x), (y,))
    message = "input 0 is INT16 with zero point 3.*supported only if .*INT16 with the zero point 0"
    with pytest.raises(NotSupported, match=message):
        imported(b.build((y,)))


def test_an_operator_that_has_only_bytes_says_so() -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 4, 4, 2), 0.01, 0, "INT16"), b.tensor((1, 4, 4, 2), 0.01, 0, "INT16")
    b.operator("ELU", (x,), (y,))
    with pytest.raises(NotSupported, match=r"ELU.*input 0 is INT16.*INT8 or UINT8"):
        imported(b.build((y,)))


ALL = np.arange(-(1 << 15), 1 << 15, dtype=np.int16).reshape(1, 256, 256, 1)


def of_all_values(code: str, x_scale: float, y_scale: float, **options: float) -> bytes:
    """Return an operator of one element, whose input has room for every value."""
    b = TfliteBuilder()
    x, y = b.input(ALL.shape, x_scale, 0, "INT16"), b.tensor(ALL.shape, y_scale, 0, "INT16")
    b.operator(code, (x,), (y,), **options)
    return b.build((y,))


@pytest.mark.parametrize("code", ["RELU", "ABS", "LEAKY_RELU", "RELU6", "QUANTIZE"])
@pytest.mark.parametrize("scale", [4.2656465666368604e-05, 1.4610310245188884e-05, 1e-3])
def test_functions_of_all_values(code: str, scale: float) -> None:
    """Factors are quotients of doubles: those of floats give other values."""
    for alpha in (0.3, -0.7) if code == "LEAKY_RELU" else (0.0,):
        options = {"Alpha": alpha} if alpha else {}
        data = of_all_values(code, 2.276148006785661e-05, scale, **options)
        assert differing(data, inputs={0: ALL}) == []


UNIT = 2.0**-15
#: Those with a bound of the tables within the values, powers of two, and far ones.
CURVES = (2.0**-12, 2.0**-11, 2.0**-13, 3.1e-4, 1e-3, 1e-6, 1.7, 5.0)


@pytest.mark.parametrize("scale", CURVES)
@pytest.mark.parametrize("code", ["LOGISTIC", "TANH"])
def test_curves_of_all_values(code: str, scale: float) -> None:
    assert differing(of_all_values(code, scale, UNIT), inputs={0: ALL}) == []


@pytest.mark.parametrize("scale", [2.0**-12, 1.5e-4, 1e-3, 1e-6, 0.05])
def test_shares_of_all_differences(scale: float) -> None:
    """Two channels, whose difference takes each value, and a third one."""
    b, shape = TfliteBuilder(), (1, 256, 256, 3)
    x, y = b.input(shape, scale, 0, "INT16"), b.tensor(shape, UNIT, 0, "INT16")
    b.operator("SOFTMAX", (x,), (y,), Beta=1.0)
    values = np.full(shape, 32767, np.int16)
    values[..., 1] = ALL[..., 0]
    values[..., 2] = np.random.default_rng(4).integers(-32768, 32768, (256, 256))
    assert differing(b.build((y,)), inputs={x: values}) == []


@pytest.mark.parametrize(("kind", "scale"), [("INT8", 2e-9), ("INT16", 2e-9), ("INT16", 4e-9)])
def test_a_bound_that_the_interpreter_cannot_convert(kind: str, scale: float) -> None:
    """Six in steps of 2e-9 is beyond 32 bits, and the processor says what it becomes."""
    b = TfliteBuilder()
    x, y = (add((1, 4, 4, 2), scale, 0, kind) for add in (b.input, b.tensor))
    b.operator("RELU6", (x,), (y,))
    if scale > 3e-9:
        assert differing(b.build((y,))) == []
        return
    with pytest.raises(NotSupported, match="six has 32 bits"):
        imported(b.build((y,)))


def test_a_curve_whose_argument_wraps_is_refused() -> None:
    with pytest.raises(NotSupported, match=r"LOGISTIC.*the scale 6 of its input is beyond 32 bits"):
        imported(of_all_values("LOGISTIC", 6.0, UNIT))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("operation", "target"),
    [
        *(("LOGISTIC", "gap8"), ("TANH", "stm32h7"), ("SOFTMAX", "gap8"), ("SOFTMAX", "diana")),
        *(("BATCH_MATMUL", "stm32h7"), ("LEAKY_RELU", "gap8"), ("TRANSPOSE_CONV", "gap8")),
        *(("DEPTHWISE_CONV_2D", "diana"), ("MEAN", "stm32h7"), ("SQUARED_DIFFERENCE", "gap8")),
    ],
)
def test_operator_is_exact_in_an_application(operation: str, target: str, tmp_path: Path) -> None:
    for seed in (3, 4):
        data = random_network(seed, only=operation, type="INT16")
        assert_application_is_exact(data, tmp_path / str(seed), target)


def test_products_of_two_tensors_have_wide_sums(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x, z = (b.input((1, 3, 40, 40), 1e-4, 0, "INT16") for _ in range(2))
    y = b.tensor((1, 3, 40, 40), 2e-3, 0, "INT16")
    b.operator("BATCH_MATMUL", (x, z), (y,), AdjY=True)
    data = b.build((y,))
    assert imported(data).ranges[-1].acc_hi > 1 << 35
    assert_application_is_exact(data, tmp_path, "gap8", l1=16384)


def test_reals_at_both_ends(tmp_path: Path) -> None:
    """A QUANTIZE of a float input, and a DEQUANTIZE of the output."""
    b = TfliteBuilder()
    real, x = b.plain((1, 4, 4, 3), "FLOAT32"), b.tensor((1, 4, 4, 3), 1e-3, 0, "INT16")
    b.inputs.append(real)
    y, out = b.tensor((1, 4, 4, 3), 2e-3, 0, "INT16"), b.plain((1, 4, 4, 3), "FLOAT32")
    b.operator("QUANTIZE", (real,), (x,))
    b.operator("LEAKY_RELU", (x,), (y,), Alpha=0.2)
    b.operator("DEQUANTIZE", (y,), (out,))
    assert_application_is_exact(b.build((out,)), tmp_path, "stm32h7")


def test_state_of_16_bits(tmp_path: Path) -> None:
    """A sum of all inferences, from initial values on."""
    b, shape = TfliteBuilder(), (1, 3, 2, 4)
    first = np.random.default_rng(2).integers(-900, 900, shape).astype(np.int16)
    b.initial("sum", b.constant(first, (1e-3,)))
    handle = b.handle("sum")
    x, before, after = (
        b.input(shape, 1e-3, 0, "INT16"),
        *(b.tensor(shape, 1e-3, 0, "INT16") for _ in range(2)),
    )
    b.operator("READ_VARIABLE", (handle,), (before,))
    b.operator("ADD", (x, before), (after,))
    b.operator("ASSIGN_VARIABLE", (handle, after), ())
    assert_application_is_exact(b.build((after,)), tmp_path, "gap8")


@pytest.mark.parametrize("factor", [1, 5])
def test_channels_whose_factors_are_far_apart(factor: int, tmp_path: Path) -> None:
    """A channel that hardly changes next to others: two steps, as no common one has room."""
    b = TfliteBuilder()
    x, y = b.input((1, 1, 2, 3000), 1e-4, 0, "INT16"), b.tensor((1, 1, 2, 4), 1e-4, 0, "INT16")
    weights = np.random.default_rng(3).choice([-127, 127], (4, 1, 1, 3000)).astype(np.int8)
    scales = np.float32([1e-6, 0.02, 0.1, 1e-3])
    bias = b.constant(np.int64([9e8, -4000, 77, 1]) * factor, (1e-4 * scales).tolist())
    inputs = (x, b.constant(weights, scales.tolist()), bias)
    b.operator("CONV_2D", inputs, (y,), Padding="SAME", StrideH=1, StrideW=1)
    data = b.build((y,))
    [layer] = imported(data).ops
    assert len(layer.requants) == 2
    assert isinstance(layer, ops.Conv)
    assert (layer.bias is None) == (factor > 1)
    assert differing(data) == []
    assert_application_is_exact(data, tmp_path, "stm32h7")
