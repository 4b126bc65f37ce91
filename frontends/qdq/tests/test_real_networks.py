"""Networks that people have: every tensor equals onnxruntime's, every element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dory_qdq.importer import Imported, import_file
from dory_qdq.values import Place

from dory_core.api import Graph
from dory_core.testing import run_reference
from tests.cli.command_line import EXAMPLE, dory
from tests.nets import onnx_names, onnx_net

NAMES = [name for prefix in ("made", "ortq", "qdq") for name in onnx_names(prefix)]
#: Small ones; the others are slow tests.
QUICK = ("made_torch_pt2e", "ortq_espdl_streaming_u8s8_pc", "qdq_micro_kws_m")

Arrays = Mapping[str, npt.NDArray[Any]]


def cases() -> list[object]:
    if not NAMES:
        skip = pytest.mark.skip(reason="no quantised ONNX networks beside the project")
        return [pytest.param("", marks=skip)]
    return [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NAMES]


def axes_of(place: Place) -> list[int]:
    """Return the axes of a tensor, the slowest one of the file first."""
    return [axis for axis in range(3) if axis not in place.order] + list(place.order)


def file_values(place: Place, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.transpose(axes_of(place)).reshape(place.shape)


def inputs_of(imported: Imported, golden: Arrays, run: int) -> dict[str, npt.NDArray[Any]]:
    """Return the quantised inputs of a run."""
    found = {}
    for key, array in golden.items():
        if not key.startswith(f"in{run}__"):
            continue
        place = imported.places[key.partition("__")[2]]
        tensor = imported.graph.tensors[place.tensor]
        assert tensor.scale is not None
        rounded = np.rint(array.astype(np.float32) / np.float32(tensor.scale))
        stored = np.clip(rounded + tensor.zero_point, tensor.lo, tensor.hi).astype(np.int64)
        axes = axes_of(place)
        shaped = stored.reshape([tensor.shape[axis] for axis in axes])
        found[place.tensor] = shaped.transpose(np.argsort(axes))
    return found


def computed(path: Path, golden: Arrays, run: int) -> tuple[Imported, Mapping[str, Any]]:
    imported = import_file(path)
    return imported, run_reference(imported.graph, inputs_of(imported, golden, run))


def differing(
    imported: Imported, values: Mapping[str, Any], golden: Arrays, run: int
) -> Iterator[tuple[str, int]]:
    """Yield the tensors that differ from the golden, and by how much at most."""
    known = [name for name in imported.places if f"run{run}__{name}" in golden]
    assert known
    for name in known:
        place = imported.places[name]
        wanted = golden[f"run{run}__{name}"].astype(np.int64)
        found = file_values(place, values[place.tensor])
        if not np.array_equal(found, wanted):
            yield name, int(np.abs(found - wanted).max())


def golden_of(name: str) -> Arrays:
    with np.load(onnx_net(name).folder / "golden.npz") as archive:
        return {key: archive[key] for key in archive.files}


@pytest.mark.parametrize("name", cases())
def test_every_tensor_equals_that_of_the_fused_network(name: str) -> None:
    """The file that onnxruntime made of the network holds integer operators and float ones."""
    golden, folder = golden_of(name), onnx_net(name).folder
    for run in range(2):
        if f"run{run}" in {key.partition("__")[0] for key in golden}:
            imported, values = computed(folder / "fused.onnx", golden, run)
            assert dict(differing(imported, values, golden, run)) == {}


@pytest.mark.parametrize("name", cases())
def test_the_network_computes_what_the_fused_one_does(name: str) -> None:
    golden, net = golden_of(name), onnx_net(name)
    before, values = computed(net.path, golden, 0)
    fused, wanted = computed(net.folder / "fused.onnx", golden, 0)
    for one, other in zip(before.graph.outputs, fused.graph.outputs, strict=True):
        difference = values[one] - offset(before.graph, one)
        expected = wanted[other] - offset(fused.graph, other)
        assert np.array_equal(difference, expected)


def offset(graph: Graph, name: str) -> int:
    """The zero point: onnxruntime turns some int8 tensors into uint8."""
    return graph.tensors[name].zero_point


def test_a_golden_that_differs_is_found() -> None:
    golden = dict(golden_of(NAMES[0] if NAMES else ""))
    key = next(key for key in golden if key == "run0__quantize_per_tensor_3")
    golden[key] = golden[key] ^ 1
    imported, values = computed(onnx_net(NAMES[0]).path, golden, 0)
    assert dict(differing(imported, values, golden, 0)) == {"quantize_per_tensor_3": 1}


@pytest.mark.parametrize("name", cases())
def test_the_command_line_takes_the_golden_as_onnxruntime_wrote_it(name: str) -> None:
    golden, folder = golden_of(name), onnx_net(name).folder
    outcome = dory("check", folder / "fused.onnx", "--golden", folder / "golden.npz", "--json")
    assert outcome.status == 0, outcome.stderr
    layers = outcome.json["golden"]["layers"]
    assert len(layers) > len(outcome.json["layers"]) / 2
    assert outcome.json["golden"]["inferences"] == len({k for k in golden if k.startswith("in")})
    assert sum(layer["apart"] for layer in layers) == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["qdq_micro_kws_m", "qdq_mlperf_kws_k1"])
def test_goldens_of_a_users_file_have_every_layer(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra quantize is not installed")
    net = onnx_net(name)
    kept, path = golden_of(name), tmp_path / "golden.npz"
    (given,) = (key for key in kept if key.startswith("in0__"))
    np.save(tmp_path / "input.npy", kept[given])
    made = dory("golden", net.path, "--input", tmp_path / "input.npy", "-o", path)
    assert made.status == 0, made.stderr
    with np.load(path) as archive:
        assert np.array_equal(archive[given], kept[given])
    outcome = dory("check", net.path, "--golden", path, "--json")
    assert outcome.status == 0, outcome.stderr
    layers = outcome.json["golden"]["layers"]
    assert {layer["index"] for layer in layers} == {row["index"] for row in outcome.json["layers"]}
    assert sum(layer["apart"] for layer in layers) == 0
    np.save(tmp_path / "input.npy", kept[given][..., 1:])
    wrong = dory("golden", net.path, "--input", tmp_path / "input.npy", "-o", path)
    assert wrong.status == 2 and f"no array '{given.removeprefix('in0__')}'" in wrong.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["qdq_micro_kws_m", "qdq_mlperf_kws_k1"])
def test_a_golden_with_names_of_the_fused_network_is_compared_at_the_outputs(
    name: str, tmp_path: Path
) -> None:
    """onnxruntime gives tensors of int8 other names; reals behind the last layer keep theirs."""
    golden, net = dict(golden_of(name)), onnx_net(name)
    outcome = dory("check", net.path, "--golden", net.folder / "golden.npz", "--json")
    assert outcome.status == 0, outcome.stderr
    found = {layer["index"] for layer in outcome.json["golden"]["layers"]}
    rows = outcome.json["layers"]
    assert rows[-1]["index"] in found and len(found) < len(rows)
    shown = dory("check", net.path, "--golden", net.folder / "golden.npz").stdout
    absent = next(row for row in rows if row["index"] not in found)
    assert f"the golden has no values of {len(rows) - len(found)}: {absent['index']:02d}" in shown
    reals = [key for key in golden if golden[key].dtype == np.float32 and key.startswith("run0")]
    np.savez(tmp_path / "golden.npz", **{**golden, **{key: golden[key] + 40 for key in reals}})
    assert dory("check", net.path, "--golden", tmp_path / "golden.npz").status in (2, 5)


def test_formats_without_a_reference_have_no_golden(tmp_path: Path) -> None:
    outcome = dory("golden", EXAMPLE / "net.onnx", "--frontend", "nemo", cwd=tmp_path)
    assert outcome.status == 2 and "'nemo' runs no reference" in outcome.stderr
    assert not any(tmp_path.iterdir())


def test_a_step_is_counted_where_onnxruntime_computes_reals_and_an_error_elsewhere(
    tmp_path: Path,
) -> None:
    if not NAMES:
        pytest.skip("no quantised ONNX networks beside the project")
    name, path = "made_torch_pt2e", onnx_net("made_torch_pt2e").path
    golden = {key: array for key, array in golden_of(name).items() if "0__" in key}
    of_sum = "run0__quantize_per_tensor_3"
    golden[of_sum] = golden[of_sum].copy()
    golden[of_sum].reshape(-1)[5] ^= 1
    kept = ("in0__x", "run0__quantize_per_tensor", of_sum)
    np.savez(tmp_path / "golden.npz", **{key: golden[key] for key in kept})
    outcome = dory("check", path, "--golden", tmp_path / "golden.npz")
    assert outcome.status == 0, outcome.stderr
    assert ": 1 of 4096 elements are one step from onnxruntime, which computes" in outcome.stdout
    of_conv = "run0__quantize_per_tensor_2"
    golden[of_conv] = golden[of_conv] ^ 1
    np.savez(tmp_path / "golden.npz", **{key: golden[key] for key in (*kept, of_conv)})
    outcome = dory("check", path, "--golden", tmp_path / "golden.npz")
    assert outcome.status == 5
    assert "does not reproduce" in outcome.stderr
