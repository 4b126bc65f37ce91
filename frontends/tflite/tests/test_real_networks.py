"""Networks that people have: every tensor equals TensorFlow Lite Micro's, every element."""

import hashlib
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pytest
from dory_tflite.importer import Imported, import_model
from dory_tflite.model import FileTensor, Model
from dory_tflite.network import file_values
from dory_tflite.reader import read_model

from dory_core.api import NotSupported
from dory_core.testing import run_reference
from tests.nets import TfliteNet, tflite_names, tflite_net, tflite_params

STREAMING = "esphome_okay_nabu"  # keeps state from one inference to the next

Arrays = Mapping[str, npt.NDArray[np.generic]]


def inputs_of(model: Model, imported: Imported, golden: Arrays, run: int) -> dict[str, object]:
    """Return the inputs of a run by name of the Graph; a float input is quantised here."""
    found: dict[str, object] = {}
    by_name = {imported.tensors[n].name: t for n, t in reversed(inputs(model, imported))}
    for name in imported.graph.inputs:
        tensor, kind = by_name[name], imported.graph.tensors[name]
        key = f"in{run}__t{tensor.index}"
        if key in golden:
            values = golden[key].astype(np.int64)
        else:
            (key,) = (k for k in golden if k.startswith(f"in{run}__"))
            real = golden[key].astype(np.float32) / np.float32(tensor.scales[0])
            rounded = np.copysign(np.floor(np.abs(real) + np.float32(0.5)), real)
            values = np.clip(rounded.astype(np.int64) + tensor.zero_points[0], kind.lo, kind.hi)
        shape = (kind.height, kind.width, kind.channels)
        found[name] = values.reshape(shape).transpose(2, 0, 1)
    return found


def inputs(model: Model, imported: Imported) -> list[tuple[int, FileTensor]]:
    names = set(imported.graph.inputs)
    return [
        (index, model.subgraphs[0].tensors[index])
        for index, bound in sorted(imported.tensors.items())
        if bound.name in names
    ]


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
    if name == STREAMING:
        with pytest.raises(NotSupported, match="operator 0 CALL_ONCE"):
            import_model(read_model(tflite_net(name).path))
        return
    assert list(differing(tflite_net(name))) == []


def test_all_networks_of_the_collection_are_there() -> None:
    if tflite_names():
        assert len(tflite_names()) == 21
