"""Networks that people have: every tensor equals TensorFlow Lite Micro's, every element."""

import hashlib
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pytest
from dory_tflite.golden import Interpreter
from dory_tflite.importer import Imported, import_model
from dory_tflite.model import Model
from dory_tflite.places import file_values
from dory_tflite.reader import read_model

from dory_core.testing import run_reference
from tests.nets import TfliteNet, tflite_names, tflite_net, tflite_params

Arrays = Mapping[str, npt.NDArray[np.generic]]


def inputs_of(model: Model, imported: Imported, golden: Arrays, run: int) -> dict[str, object]:
    """Return the inputs of a run by name of the Graph; a float input is quantised here."""
    found: dict[str, object] = {}
    for name in imported.graph.inputs:
        tensor = model.subgraphs[0].tensors[int(name.removeprefix("t"))]
        kind = imported.graph.tensors[name]
        keys = [f"{kind}{run}__t{tensor.index}" for kind in ("in", "run")]
        given = [golden[key] for key in keys if key in golden]
        if given:
            values = given[0].astype(np.int64)
        else:
            (key,) = (k for k in golden if k.startswith(f"in{run}__"))
            real = golden[key].astype(np.float32) / np.float32(tensor.scales[0])
            rounded = np.copysign(np.floor(np.abs(real) + np.float32(0.5)), real)
            values = np.clip(rounded.astype(np.int64) + tensor.zero_points[0], kind.lo, kind.hi)
        shape = (kind.height, kind.width, kind.channels)
        found[name] = values.reshape(shape).transpose(2, 0, 1)
    return found


def runs_of(golden: Arrays) -> range:
    return range(len({key.split("__")[0] for key in golden if key.startswith("in")}))


def differing(net: TfliteNet) -> Iterator[str]:
    """Yield every array of the golden that the network does not reproduce."""
    model = read_model(net.path)
    imported = import_model(model)
    with np.load(net.golden) as archive:
        golden = {key: archive[key] for key in archive.files}
    for run in runs_of(golden):
        values = run_reference(imported.graph, inputs_of(model, imported, golden, run))
        keys = [k for k in (*golden, *net.left_out) if k.startswith(f"run{run}__")]
        assert keys
        for key in keys:
            index = int(key.split("__t")[1])
            bound = imported.tensors[index]
            tensor = model.subgraphs[0].tensors[index]
            found = file_values(tensor, bound, values[bound.name])
            if key in golden:
                exact = np.array_equal(found, golden[key])
            else:
                data = found.astype(np.dtype(tensor.type.lower())).tobytes()
                exact = hashlib.sha256(data).hexdigest() == net.left_out[key]
            if not exact:
                yield key


@pytest.mark.parametrize("name", tflite_params())
def test_every_tensor_of_every_run_equals_its_golden(name: str) -> None:
    assert list(differing(tflite_net(name))) == []


def test_all_networks_of_the_collection_are_there() -> None:
    if tflite_names():
        assert len(tflite_names()) == 21


def test_state_goes_from_one_inference_to_the_next() -> None:
    pytest.importorskip("tflite_micro", reason="the extra golden is not installed")
    path = tflite_net("esphome_okay_nabu").path
    model = read_model(path)
    imported = import_model(model)
    graph, tensors = imported.graph, model.subgraphs[0].tensors
    assert (len(graph.inputs), len(graph.outputs), len(graph.states)) == (1, 1, 6)
    assert all((state.initial.values == -128).all() for state in graph.states)
    kept = {int(s.read.removeprefix("t")): s.written for s in graph.states}
    assert kept == {before: imported.tensors[behind].name for before, behind in STATES.items()}
    interpreter, random = Interpreter(path.read_bytes(), model), np.random.default_rng(3)
    found = None
    for _ in range(4):
        audio = random.integers(-128, 128, tensors[0].shape).astype(np.int8)
        expected = interpreter.run({0: audio})
        shape = graph.tensors["t0"].shape
        given = audio.astype(np.int64).reshape(*shape[1:], shape[0]).transpose(2, 0, 1)
        state = None if found is None else {s.read: found[s.written] for s in graph.states}
        found = run_reference(graph, {"t0": given}, state)
        for index, wanted in expected.items():
            bound = imported.tensors.get(index)
            if bound is not None:
                got = file_values(tensors[index], bound, found[bound.name])
                assert np.array_equal(got, wanted), index


# Tensors of the state in front of an inference and behind it.
STATES = {56: 58, 51: 61, 52: 65, 53: 75, 54: 85, 55: 89}
