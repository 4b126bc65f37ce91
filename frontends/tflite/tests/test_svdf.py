"""SVDF: sequences of inferences equal TensorFlow Lite Micro's, in applications too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dory_tflite.golden import golden_arrays, random_inputs
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder

from dory_core.api import Graph, NotSupported
from dory_core.testing import CompileOptions, compile_network, make_vectors, run_application
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

pytest.importorskip("tflite_micro", reason="the extra golden is not installed")

INFERENCES = 8
#: Name: attributes of the file.
FILES: dict[str, dict[str, Any]] = {
    "bytes": {"zero": 0},
    "rank 2": {"rank": 2, "zero": 0},
    "one inference of memory": {"memory": 1},
    "zero point that wraps": {"zero": -9},
    "zero point without saturation": {"zero": 7, "weight": 9},
    "words": {"state": "INT16", "zero": 0},
    "words, rank 2": {"state": "INT16", "rank": 2, "memory": 8, "zero": 0},
}


def svdf(
    state: str = "INT8",
    rank: int = 1,
    memory: int = 5,
    zero: int = -4,
    weight: int = 127,
    units: int = 6,
) -> bytes:
    random = np.random.default_rng(rank + memory)
    b = TfliteBuilder()
    filters, inputs, words = units * rank, 10, state == "INT16"
    x = b.input((1, inputs), 0.05, 11)
    features = random.integers(-weight, weight + 1, (filters, inputs)).astype(np.int8)
    most, kept = (4000, 0.0004) if words else (127, 0.04)
    times = random.integers(-most, most + 1, (filters, memory))
    biases = random.integers(-2000, 2000, units).astype(np.int32)
    time = b.constant(times.astype(np.int16 if words else np.int8), (0.008,))
    bias = b.constant(biases, (kept * 0.008,))
    past = b.variable((1, filters * memory), kept, zero, state)
    y = b.tensor((1, units), 12.0 if words else 0.1, -7)
    b.operator(
        "SVDF",
        (x, b.constant(features, (0.01,)), time, bias, past),
        (y,),
        Rank=rank,
        FusedActivationFunction="RELU",
    )
    return b.build((y,))


def imported(data: bytes) -> Graph:
    return import_model(model_of(data, Path("net.tflite"))).graph


def compiled(data: bytes, target: str, folder: Path) -> Path:
    """Compile a file with a sequence as its golden; return the golden."""
    model, random = model_of(data, Path("net.tflite")), np.random.default_rng(1)
    (folder / "net.tflite").write_bytes(data)
    inferences = [random_inputs(model, random) for _ in range(INFERENCES)]
    golden = folder / "golden.npz"
    np.savez(golden, **golden_arrays(data, model, inferences))
    options = CompileOptions(folder / "net.tflite", target, "tflite", folder / "app", (golden,))
    assert compile_network(options, load_plugins()).golden_exact
    return golden


FAST = {("rank 2", "gap8"), ("words", "stm32h7")}


def test_factors_are_quotients_of_doubles(tmp_path: Path) -> None:
    """A state near a tie: the quotient in binary32 is on its other side."""
    b, kept = TfliteBuilder(), 0.0005043424898758531
    x, y = b.input((1, 1), 0.0778161808848381, 0), b.tensor((1, 1), kept, 0)
    feature = b.constant(np.ones((1, 1), np.int8), (0.005843289662152529,))
    time = b.constant(np.ones((1, 1), np.int8), (1.0,))
    bias = b.constant(np.zeros(1, np.int32), (kept,))
    inputs = (x, feature, time, bias, b.variable((1, 1), kept, 0))
    b.operator("SVDF", inputs, (y,), Rank=1, FusedActivationFunction="RELU")
    data = b.build((y,))
    model = model_of(data, Path("net.tflite"))
    golden = golden_arrays(data, model, [{x: np.full((1, 1), 127, np.int8)}])
    assert golden[f"run0__t{y}"].tolist() == [[115]]
    np.savez(tmp_path / "golden.npz", **golden)
    assert make_vectors(import_model(model).graph, [tmp_path / "golden.npz"])[1]


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param(name, target, marks=() if (name, target) in FAST else pytest.mark.slow)
        for name in FILES
        for target in ("gap8", "stm32h7")
    ],
)
def test_applications_are_exact_with_a_reset_between(
    name: str, target: str, tmp_path: Path
) -> None:
    golden, plugins = compiled(svdf(**FILES[name]), target, tmp_path), load_plugins()
    assert_exact(tmp_path / "app", plugins=plugins)
    result = run_application(
        tmp_path / "app", plugins=plugins, golden=(golden, golden), runner="host", dma="random"
    )
    assert result.exact and len(result.runs) == 2 * INFERENCES


@pytest.mark.parametrize("name", FILES)
def test_every_form_is_exact(name: str, tmp_path: Path) -> None:
    """The reference executor on the imported network, against the golden."""
    data = svdf(**FILES[name])
    model, random = model_of(data, Path("net.tflite")), np.random.default_rng(2)
    inferences = [random_inputs(model, random) for _ in range(INFERENCES)]
    arrays = golden_arrays(data, model, inferences)
    assert len({int(v) for k, a in arrays.items() if k.startswith("run") for v in a.flat}) > 10
    np.savez(tmp_path / "golden.npz", **arrays)
    assert make_vectors(imported(data), [tmp_path / "golden.npz"])[1]


def test_state_has_one_row_less_than_the_memory() -> None:
    (state,) = imported(svdf(memory=5)).states
    assert state.initial.shape == (6, 4, 1)
    assert set(state.initial.values.flat) == {-4}
    assert imported(svdf(memory=1)).states == ()


def test_note_names_the_versions_that_wrap() -> None:
    assert any("SVDF_00: tensor" in note for note in imported(svdf(zero=-9)).notes)
    assert not imported(svdf(zero=7, weight=9)).notes


def test_sums_beyond_32_bits_are_refused() -> None:
    """Nothing proves that the interpreter's sum of 32 bits does not wrap."""
    data = svdf(state="INT16", memory=40, zero=0)
    with pytest.raises(NotSupported, match="beyond 32 bits"):
        imported(data)


def test_weights_without_a_variable_are_refused() -> None:
    b = TfliteBuilder()
    x = b.input((1, 4), 0.05, 0)
    weights = [b.constant(np.ones((2, n), np.int8), (0.01,)) for n in (4, 3)]
    bias, past = b.constant(np.zeros(2, np.int32), (1e-4,)), b.tensor((1, 6), 0.01, 0)
    y = b.tensor((1, 2), 0.1, 0)
    b.operator("SVDF", (x, *weights, bias, past), (y,), Rank=1)
    with pytest.raises(NotSupported, match="the state is a variable tensor"):
        imported(b.build((y,)))


def test_inferences_of_a_golden_may_all_begin_anew_and_hold_the_state(tmp_path: Path) -> None:
    data = svdf()
    model, random = model_of(data, Path("net.tflite")), np.random.default_rng(5)
    (op,) = model.subgraphs[0].operators
    shape = model.subgraphs[0].tensors[op.inputs[4]].shape
    arrays: dict[str, Any] = {}
    for number in range(3):  # each on an interpreter of its own
        one = golden_arrays(data, model, [random_inputs(model, random)])
        one[f"run0__t{op.inputs[4]}"] = np.full(shape, number, np.int8)  # what it leaves
        arrays |= {key.replace("0__", f"{number}__"): values for key, values in one.items()}
    np.savez(tmp_path / "golden.npz", **arrays)
    graph = imported(data)
    vectors, _ = make_vectors(graph, [tmp_path / "golden.npz"])
    (state,) = graph.states
    assert all(np.array_equal(one[state.read], state.initial.values) for one in vectors)
