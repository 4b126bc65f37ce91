"""What stands at the borders of a network, and files as older converters wrote them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_tflite.golden import Interpreter, golden_arrays, random_inputs
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder

from dory_core.api import NotSupported
from dory_core.testing import CompileOptions, compile_network, make_vectors
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

pytest.importorskip("tflite_micro", reason="the extra golden is not installed")

NET = Path("net.tflite")


def assert_imported(data: bytes, folder: Path, inputs: list[np.ndarray] | None = None) -> None:
    """Compare every layer with TensorFlow Lite Micro; inputs: of the one network input."""
    model, random = model_of(data, NET), np.random.default_rng(1)
    (index, *_) = model.subgraphs[0].inputs
    given = [{index: values} for values in inputs or ()]
    given += [random_inputs(model, random) for _ in range(3)]
    golden = folder / "golden.npz"
    np.savez(golden, **golden_arrays(data, model, given))
    _, report = make_vectors(import_model(model).graph, [golden])
    assert report is not None and report.layers


def narrowed(x_scale: float, x_zero: int, y_scale: float, y_zero: int, size: int) -> bytes:
    b = TfliteBuilder()
    x, y = b.input((1, size), x_scale, x_zero, "INT16"), b.tensor((1, size), y_scale, y_zero)
    b.operator("QUANTIZE", (x,), (y,))
    return b.build((y,))


@pytest.mark.sample(2)
@pytest.mark.parametrize("y_zero", [-128, 0, 17])
@pytest.mark.parametrize("x_zero", [0, -300])
@pytest.mark.parametrize("ratio", [1 / 256, 0.0105559, 0.7, 1.0, 3.3, 1e-6])
def test_every_value_of_16_bits_becomes_a_byte_as_in_micro(
    ratio: float, x_zero: int, y_zero: int, tmp_path: Path
) -> None:
    values = np.arange(-(1 << 15), 1 << 15, dtype=np.int16)[None]
    data = narrowed(0.01, x_zero, 0.01 / ratio, y_zero, values.size)
    model = model_of(data, NET)
    expected = Interpreter(data, model).run({0: values})
    np.savez(tmp_path / "g.npz", in0__t0=values, run0__t1=expected[1])
    graph = import_model(model).graph
    assert make_vectors(graph, [tmp_path / "g.npz"])[1]


@pytest.mark.parametrize("target", ["gap8", "stm32h7", "diana"])
def test_inputs_of_16_bits_are_exact_in_applications(target: str, tmp_path: Path) -> None:
    assert_application(narrowed(0.0006, 0, 0.06, -128, 96), target, tmp_path)


def assert_application(data: bytes, target: str, tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(data)
    model, random = model_of(data, NET), np.random.default_rng(1)
    golden = tmp_path / "golden.npz"
    np.savez(golden, **golden_arrays(data, model, [random_inputs(model, random)]))
    options = CompileOptions(tmp_path / "net.tflite", target, "tflite", tmp_path / "a", (golden,))
    assert compile_network(options, load_plugins()).golden_exact
    assert_exact(tmp_path / "a", plugins=load_plugins())


@pytest.mark.parametrize("ratio", [1 / 65536, 0.0105559, 0.5000076, 1.0, 3.3, 20000.0])
@pytest.mark.parametrize("kinds", ["INT8 INT16", "INT8 INT32", "INT16 INT16", "INT16 INT32"])
def test_every_value_becomes_one_of_more_bits_as_in_micro(
    kinds: str, ratio: float, tmp_path: Path
) -> None:
    narrow, wide = kinds.split()
    values = np.arange(*(-128, 128) if narrow == "INT8" else (-(1 << 15), 1 << 15))[None]
    b = TfliteBuilder()
    x = b.input(values.shape, 0.01, -5, narrow)
    y = b.tensor(values.shape, 0.01 / ratio, 9, wide)
    b.operator("QUANTIZE", (x,), (y,))
    data = b.build((y,))
    model = model_of(data, NET)
    stored = values.astype(narrow.lower())
    expected = Interpreter(data, model).run({0: stored})
    np.savez(tmp_path / "g.npz", in0__t0=stored, run0__t1=expected[1])
    assert make_vectors(import_model(model).graph, [tmp_path / "g.npz"])[1]


def test_factors_that_micro_shifts_beyond_32_bits_are_refused() -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 8), 1.0, -3, "INT16"), b.tensor((1, 8), 1e-5, 0, "INT32")
    b.operator("QUANTIZE", (x,), (y,))
    with pytest.raises(NotSupported, match="beyond 32 bits"):
        import_model(model_of(b.build((y,)), NET))


def _wide_shares(scale: float, shape: tuple[int, ...]) -> bytes:
    """Return SOFTMAX of bytes to 16 bits, and its QUANTIZE to 32 bits."""
    b = TfliteBuilder()
    x, y = b.input(shape, scale, 2), b.tensor(shape, 1 / 65535, -32768, "INT16")
    z = b.tensor(shape, 1 / 32767, 0, "INT32")
    b.operator("SOFTMAX", (x,), (y,), Beta=1.0)
    b.operator("QUANTIZE", (y,), (z,))
    return b.build((z,))


@pytest.mark.parametrize("scale", [0.0007, 0.07, 0.9])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (1, 300), (1, 40, 30, 3)])
def test_shares_of_16_bits_are_those_of_micro(
    shape: tuple[int, ...], scale: float, tmp_path: Path
) -> None:
    values = np.full(shape, -128, np.int8)
    assert_imported(_wide_shares(scale, shape), tmp_path, [values])


@pytest.mark.parametrize("target", ["gap8", "stm32h7", "diana"])
def test_shares_of_16_bits_are_exact_in_applications(target: str, tmp_path: Path) -> None:
    assert_application(_wide_shares(0.07, (1, 9, 7, 11)), target, tmp_path)


def test_shares_of_inputs_of_16_bits(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 8), 0.1, 0), b.tensor((1, 8), 0.001, 0, "INT16")
    z = b.tensor((1, 8), 1 / 32768, 0, "INT16")
    b.operator("QUANTIZE", (x,), (y,))
    b.operator("SOFTMAX", (y,), (z,), Beta=1.0)
    values = np.int8([[-128, 127, 126, 3, 0, -1, 90, 120]])
    assert_imported(b.build((z,)), tmp_path, [values])


def test_inputs_of_16_bits_that_other_operators_read(tmp_path: Path) -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 8), 0.01, 0, "INT16"), b.tensor((1, 8), 0.1, 0)
    z = b.tensor((1, 8), 0.01, 0, "INT16")
    b.operator("QUANTIZE", (x,), (y,))
    b.operator("RELU", (x,), (z,))
    values = np.int16([[-32768, -32767, -1, 0, 1, 77, 32766, 32767]])
    assert_imported(b.build((y, z)), tmp_path, [values])


def test_biases_may_name_the_dimension_of_their_weights(tmp_path: Path) -> None:
    b, random = TfliteBuilder(), np.random.default_rng(1)
    x, y = b.input((1, 4, 4, 3), 0.05, 3), b.tensor((1, 4, 4, 5), 0.2, -7)
    scales = [0.01, 0.02, 0.005, 0.03, 0.01]
    weights = b.constant(random.integers(-127, 128, (5, 1, 1, 3)).astype(np.int8), scales)
    values = random.integers(-900, 900, 5).astype(np.int32)
    bias = b.constant(values, [0.05 * scale for scale in scales], axis=3)
    b.operator("CONV_2D", (x, weights, bias), (y,), StrideH=1, StrideW=1)
    assert_imported(b.build((y,)), tmp_path)


def _fully_connected(
    shape: tuple[int, ...], before: tuple[int, ...] | None, out: tuple[int, ...], keep: bool
) -> bytes:
    """Return FULLY_CONNECTED of 8 to 5; before: shape of the network input, which is reshaped."""
    b, random = TfliteBuilder(), np.random.default_rng(1)
    x = b.input(before or shape, 0.05, 3)
    if before is not None:
        reshaped = b.tensor(shape, 0.05, 3)
        b.operator("RESHAPE", (x, b.constant(np.int32(shape))), (reshaped,))
        x = reshaped
    weights = b.constant(random.integers(-127, 128, (5, 8)).astype(np.int8), [0.01])
    y = b.tensor(out, 0.2, -7)
    b.operator("FULLY_CONNECTED", (x, weights), (y,), KeepNumDims=keep)
    return b.build((y,))


@pytest.mark.parametrize(
    ("shape", "before", "out", "keep"),
    [
        ((1, 4, 3, 8), None, (12, 5), False),
        ((1, 4, 3, 8), None, (1, 4, 3, 5), True),
        ((1, 4, 3, 8), (1, 12, 8), (1, 4, 3, 5), True),
        ((1, 12, 8), (1, 4, 3, 8), (1, 12, 5), True),
        ((4, 3, 8), None, (12, 5), False),
        ((1, 4, 6, 4), None, (12, 5), False),
        ((1, 1, 1, 8), None, (1, 5), False),
    ],
)
def test_fully_connected_layers_of_several_rows(
    shape: tuple[int, ...],
    before: tuple[int, ...] | None,
    out: tuple[int, ...],
    keep: bool,
    tmp_path: Path,
) -> None:
    assert_imported(_fully_connected(shape, before, out, keep), tmp_path)


def test_fully_connected_rows_of_another_number_are_damage() -> None:
    with pytest.raises(NotSupported, match=r"12 rows of 5 elements give .* shape \[11, 5\]"):
        import_model(model_of(_fully_connected((1, 4, 3, 8), None, (11, 5), False), NET))
