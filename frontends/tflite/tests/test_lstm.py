"""UNIDIRECTIONAL_SEQUENCE_LSTM: sequences of inferences equal TensorFlow Lite Micro's."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dory_tflite.golden import golden_arrays, random_inputs
from dory_tflite.importer import import_model
from dory_tflite.operators.lstm import sigmoid_table
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder, lstm_network

from dory_core.api import Graph, NotSupported, VerificationFailed
from dory_core.testing import CompileOptions, compile_network, make_vectors, run_application
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins

pytest.importorskip("tflite_micro", reason="the extra golden is not installed")

INFERENCES = 5
#: Name: attributes of the file.
FILES: dict[str, dict[str, Any]] = {
    "plain": {},
    "time major": {"time_major": True, "rows": 4},
    "one row": {"rows": 1, "units": 16},
    "clipped cell": {"clip": 0.4},
    "clip beyond 16 bits": {"clip": 1e9, "gain": 6.0},
    "saturated gates": {"gain": 40.0, "power": -14},
    "coarse cell": {"power": 0, "gain": 3.0},
    "fine cell": {"power": -19, "gain": 0.02, "hidden": 0.0005},
    "zero point of the hidden state": {"zero": 21, "hidden": 0.011},
    "two layers": {"layers": 2, "units": 6, "zero": -5},
    "one unit": {"units": 1, "features": 1, "rows": 3},
}


def imported(data: bytes) -> Graph:
    return import_model(model_of(data, Path("net.tflite"))).graph


def golden_of(data: bytes, folder: Path, seed: int = 1) -> Path:
    """Write the tensors of a sequence of inferences."""
    model, random = model_of(data, Path("net.tflite")), np.random.default_rng(seed)
    arrays = golden_arrays(data, model, [random_inputs(model, random) for _ in range(INFERENCES)])
    np.savez(folder / "golden.npz", **arrays)
    return folder / "golden.npz"


@pytest.mark.parametrize("name", FILES)
def test_every_form_is_exact(name: str, tmp_path: Path) -> None:
    """The reference executor on the imported network, against the interpreter."""
    data = lstm_network(**FILES[name])
    golden = golden_of(data, tmp_path)
    seen = {int(v) for k, a in np.load(golden).items() if k.startswith("run") for v in a.flat}
    assert len(seen) > 10
    assert make_vectors(imported(data), [golden])[1]


def of_words(name: str, **more: Any) -> bytes:
    """Return a file whose input and hidden state have 16 bits, and so the zero point 0."""
    fields = {key: value for key, value in FILES[name].items() if key != "zero"}
    return lstm_network(**fields, **more, type="INT16")


@pytest.mark.parametrize("name", FILES)
def test_every_form_of_16_bits_is_exact(name: str, tmp_path: Path) -> None:
    data = of_words(name)
    golden = golden_of(data, tmp_path)
    seen = {int(v) for k, a in np.load(golden).items() if k.startswith("run") for v in a.flat}
    assert len(seen) > 10
    assert make_vectors(imported(data), [golden])[1]


def _large_bias(b: TfliteBuilder) -> int:
    return b.constant(np.arange(-3, 4, dtype=np.int64) << 33, (1e-9,))


def test_a_bias_of_16_bits_beyond_32_bits(tmp_path: Path) -> None:
    data = of_words("plain", changes={13: _large_bias})
    assert make_vectors(imported(data), [golden_of(data, tmp_path)])[1]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("target", "units"), [("gap8", 7), ("stm32h7", 7), ("diana", 7), ("stm32h7", 112)]
)
def test_applications_of_16_bits_are_exact(target: str, units: int, tmp_path: Path) -> None:
    """Sums of more than 500 products may leave 32 bits; 112 units are computed in L2."""
    data, plugins = of_words("clipped cell", features=410, rows=2, units=units), load_plugins()
    (tmp_path / "net.tflite").write_bytes(data)
    golden = golden_of(data, tmp_path)
    options = CompileOptions(tmp_path / "net.tflite", target, "tflite", tmp_path / "app", (golden,))
    assert compile_network(options, plugins).golden_exact
    assert_exact(tmp_path / "app", plugins=plugins)


def _random_file(seed: int) -> bytes:
    random = np.random.default_rng(seed)
    features, rows, units = (int(n) for n in random.integers(1, 20, 3))
    power = int(random.integers(-16, 1))
    return lstm_network(
        features,
        rows,
        units,
        gain=float(np.exp(random.uniform(-3, 4))),
        power=power,
        zero=int(random.integers(-128, 128)),
        hidden=float(np.float32(random.uniform(0.002, 0.02))),
        clip=float(random.choice([0.0, 2.0**power * random.uniform(1, 32767)])),
        time_major=bool(random.integers(2)),
        seed=seed,
    )


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n < 10 else pytest.mark.slow) for n in range(200)]
)
def test_random_files_are_exact(seed: int, tmp_path: Path) -> None:
    data = _random_file(seed)
    assert make_vectors(imported(data), [golden_of(data, tmp_path, seed)])[1]


@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
def test_more_than_l1_holds_is_computed_in_l2(target: str, tmp_path: Path) -> None:
    """112 units need 116 kB; a layer that fits stays in L1, by either objective."""
    large = lstm_network(features=148, rows=2, units=112, gain=4.0)
    (tmp_path / "net.tflite").write_bytes(large)
    golden, plugins = golden_of(large, tmp_path), load_plugins()
    options = CompileOptions(tmp_path / "net.tflite", target, "tflite", tmp_path / "app", (golden,))
    compiled = compile_network(options, plugins)
    assert compiled.golden_exact
    assert compiled.plan.steps[0].kernel.name == "dory_portable_lstm_in_place"
    assert_exact(tmp_path / "app", plugins=plugins)


FAST = {("clipped cell", "gap8"), ("time major", "stm32h7")}


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
    data, plugins = lstm_network(**FILES[name]), load_plugins()
    (tmp_path / "net.tflite").write_bytes(data)
    golden = golden_of(data, tmp_path)
    options = CompileOptions(tmp_path / "net.tflite", target, "tflite", tmp_path / "app", (golden,))
    assert compile_network(options, plugins).golden_exact
    assert_exact(tmp_path / "app", plugins=plugins)
    result = run_application(
        tmp_path / "app", plugins=plugins, golden=(golden, golden), runner="host", dma="random"
    )
    assert result.exact and len(result.runs) == 2 * INFERENCES


@pytest.mark.parametrize("layers", [1, 2])
def test_goldens_may_hold_the_state_as_the_file_has_it(layers: int, tmp_path: Path) -> None:
    """Interpreters give what an inference has left in the tensors of both states."""
    data = lstm_network(layers=layers)
    file = model_of(data, Path("net.tflite")).subgraphs[0]
    with np.load(golden_of(data, tmp_path)) as archive:
        arrays = dict(archive)
    for number, op in itertools.product(range(INFERENCES), file.operators):
        hidden, cell, output = op.inputs[18], op.inputs[19], op.outputs[0]
        last = arrays[f"run{number}__t{output}"][:, -1]
        arrays[f"run{number}__t{hidden}"] = last
        arrays[f"run{number}__t{cell}"] = np.full(last.shape, number, np.int16)
    np.savez(tmp_path / "golden.npz", **arrays)
    assert make_vectors(imported(data), [tmp_path / "golden.npz"])[1]


def test_inferences_of_a_golden_may_all_begin_anew(tmp_path: Path) -> None:
    data, plugins = lstm_network(), load_plugins()
    (tmp_path / "net.tflite").write_bytes(data)
    model, random = model_of(data, Path("net.tflite")), np.random.default_rng(5)
    arrays: dict[str, Any] = {}
    for number in range(3):  # each on an interpreter of its own
        one = golden_arrays(data, model, [random_inputs(model, random)])
        arrays |= {key.replace("0__", f"{number}__"): values for key, values in one.items()}
    golden = tmp_path / "golden.npz"
    np.savez(golden, **arrays)
    options = CompileOptions(
        tmp_path / "net.tflite", "stm32h7", "tflite", tmp_path / "app", (golden,)
    )
    compiled = compile_network(options, plugins)
    assert compiled.golden_exact
    assert (tmp_path / "app" / "vectors" / "resets.bin").read_bytes() == b"\1\1\1"
    assert_exact(tmp_path / "app", plugins=plugins)
    key = next(key for key in arrays if key.startswith("run2__"))
    np.savez(golden, **{**arrays, key: arrays[key] ^ 1})
    with pytest.raises(VerificationFailed, match="in run 2: layer"):
        make_vectors(compiled.graph, [golden])


def test_state_begins_at_the_zero_point() -> None:
    (state,) = imported(lstm_network(zero=-9)).states
    assert state.initial.shape == (7, 3, 1)
    assert state.initial.values[:, :, 0].T.tolist() == [[-9] * 7, [0] * 7, [0] * 7]


def test_table_is_the_sigmoid() -> None:
    """The entries at both ends, and the sum of the interpreter's."""
    table = sigmoid_table()
    ends = [32768, 33451, 34133, 65534, 65534, 65535]
    assert table[[0, 1, 2, 253, 254, 255]].tolist() == ends
    assert table.sum() == 15670629
    assert (np.abs(table - 65536 / (1 + np.exp(-np.arange(256) / 24))) < 1.4).all()


def _vector(b: TfliteBuilder) -> int:
    return b.constant(np.ones(7, np.int16), (0.001,))


def _channels(b: TfliteBuilder) -> int:
    return b.constant(np.ones((7, 5), np.int8), [0.01] * 7)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({9: _vector}, "no peephole"),
        ({16: _channels}, "no projection"),
        ({21: _vector}, "no layer normalisation"),
        ({1: -1}, "all four gates"),
        ({13: _vector}, "biases INT32"),
        ({2: _channels}, "one scale"),
        ({2: lambda b: b.constant(np.ones((7, 4), np.int8), (0.01,))}, "shapes belong to"),
        ({3: lambda b: b.tensor((7, 5), 0.01, 0)}, "weights and biases are constants"),
        ({18: lambda b: b.tensor((1, 7), 0.01, 0)}, "variable tensors"),
        ({19: lambda b: b.variable((1, 7), 0.01, 0, "INT16")}, "power of 2"),
        ({19: lambda b: b.variable((1, 7), 0.5, 3, "INT16")}, "zero point 0"),
    ],
)
def test_what_the_interpreter_does_not_compute_is_refused(changes: Any, reason: str) -> None:
    with pytest.raises(NotSupported, match=f"SEQUENCE_LSTM.*{reason}"):
        imported(lstm_network(changes=changes))


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"activation": "RELU"}, "activation is TANH"),
        ({"clip": 1e-6}, "at least one step"),
        ({"gain": 1e9}, "wraps"),
    ],
)
def test_attributes_that_are_refused(attributes: Any, reason: str) -> None:
    with pytest.raises(NotSupported, match=f"SEQUENCE_LSTM.*{reason}"):
        imported(lstm_network(**attributes))
