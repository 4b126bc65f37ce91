"""Single operators in applications: exact to TensorFlow Lite Micro on the targets' simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_tflite.golden import golden_arrays, random_inputs
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder, random_network

from dory_core.api import NotSupported
from dory_core.testing import CompileOptions, compile_network, make_vectors
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

pytest.importorskip("tflite_micro", reason="the extra golden is not installed")

OPERATORS = ("LOG_SOFTMAX", "MEAN of channels", "SUM of channels", "REDUCE_MAX")
FAST = {("LOG_SOFTMAX", "gap8"), ("REDUCE_MAX", "stm32h7")}


def compiled(data: bytes, target: str, folder: Path) -> None:
    model, random = model_of(data, Path("net.tflite")), np.random.default_rng(1)
    (folder / "net.tflite").write_bytes(data)
    golden = folder / "golden.npz"
    np.savez(golden, **golden_arrays(data, model, [random_inputs(model, random) for _ in range(3)]))
    options = CompileOptions(folder / "net.tflite", target, "tflite", folder / "app", (golden,))
    assert compile_network(options, load_plugins()).golden_exact


@pytest.mark.parametrize(
    ("operator", "target"),
    [
        pytest.param(name, target, marks=() if (name, target) in FAST else pytest.mark.slow)
        for name in OPERATORS
        for target in ("gap8", "stm32h7")
    ],
)
def test_operator_is_exact(operator: str, target: str, tmp_path: Path) -> None:
    for seed in (1, 2) if (operator, target) in FAST else range(1, 6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        compiled(random_network(seed, only=operator), target, folder)
        assert_exact(folder / "app", plugins=load_plugins())


@pytest.mark.parametrize("scale", [0.003, 0.02, 0.1, 0.7])
def test_log_softmax_of_many_classes(scale: float, tmp_path: Path) -> None:
    """Sums of up to 300 exponentials, flat and steep ones."""
    b = TfliteBuilder()
    x, y = b.input((1, 300), scale, 5), b.tensor((1, 300), 1 / 16, 127)
    b.operator("LOG_SOFTMAX", (x,), (y,))
    data = b.build((y,))
    model, random = model_of(data, Path("net.tflite")), np.random.default_rng(3)
    inputs = [random_inputs(model, random) for _ in range(12)]
    np.savez(tmp_path / "golden.npz", **golden_arrays(data, model, inputs))
    assert make_vectors(import_model(model).graph, [tmp_path / "golden.npz"])[1]


def test_lstm_is_refused_with_a_way_out() -> None:
    b = TfliteBuilder()
    x = b.input((1, 4), 0.05, 0)
    y = b.tensor((1, 4), 0.1, 0)
    b.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", (x,), (y,))
    with pytest.raises(NotSupported, match=r"SEQUENCE_LSTM.*not supported") as caught:
        import_model(model_of(b.build((y,)), Path("net.tflite")))
    assert "unroll" in caught.value.hint


@pytest.mark.parametrize("target", ["gap8", "stm32h7", "diana"])
def test_an_output_that_is_the_input_is_a_copy(target: str, tmp_path: Path) -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 4, 4, 2), 0.05, 3), b.tensor((1, 4, 4, 2), 1 / 256, -128)
    flat = b.tensor((1, 32), 0.05, 3)
    b.operator("LOGISTIC", (x,), (y,))
    b.operator("RESHAPE", (x, b.constant(np.int32([1, 32]))), (flat,))
    compiled(b.build((flat, y)), target, tmp_path)
    assert_exact(tmp_path / "app", plugins=load_plugins())


def test_a_network_whose_only_output_is_its_input_is_a_copy(tmp_path: Path) -> None:
    b = TfliteBuilder()
    path = tmp_path / "net.tflite"
    path.write_bytes(b.build((b.input((1, 4, 4, 2), 0.05, 3),)))
    compile_network(CompileOptions(path, "gap8", "tflite", tmp_path / "app"), load_plugins())
    assert_exact(tmp_path / "app", plugins=load_plugins())
