"""Where the real networks with goldens lie; they are test data beside the project."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dory_core.api import Graph
from dory_core.importing import FrontendOptions
from dory_core.testing import compare_golden, golden_input, read_golden, reference

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "nets"


_TFLITE = "nets_tflite"


@dataclass(frozen=True)
class Net:
    """A folder of the collection: net.onnx, golden.npz, meta.json, sometimes txt/."""

    folder: Path
    frontend: str
    layers: int
    input_bits: int
    input_signed: bool

    @property
    def onnx(self) -> Path:
        """The network."""
        return self.folder / "net.onnx"

    @property
    def golden(self) -> Path:
        """The quantiser's values of every layer."""
        return self.folder / "golden.npz"


def _folder() -> Path | None:
    folder = Path(os.environ.get("DORY_NETS", _BESIDE))
    return folder if folder.is_dir() else None


def nets_dir() -> Path:
    """Return the folder of the networks, or skip the test when there is none."""
    folder = _folder()
    if folder is None:
        pytest.skip(f"no networks at $DORY_NETS or {_BESIDE}")
    return folder


def net_names(prefix: str = "") -> list[str]:
    """Return the names of the networks that start with ``prefix``; empty when there are none."""
    folder = _folder()
    if folder is None:
        return []
    return sorted(p.parent.name for p in folder.glob(f"{prefix}*/meta.json"))


def net_params(prefix: str = "") -> list[object]:
    """Return the names as test parameters; one skipped parameter when there are none."""
    names: list[object] = list(net_names(prefix))
    skip = pytest.mark.skip(reason="no networks beside the project")
    return names or [pytest.param("", marks=skip)]


def import_net(name: str, parse: Callable[[Path, FrontendOptions], Graph]) -> Graph:
    """Return a network as a frontend reads it."""
    found = net(name)
    return parse(found.onnx, FrontendOptions(found.input_bits, found.input_signed))


def assert_equals_golden(name: str, graph: Graph) -> None:
    """Compare every layer of an imported network with its golden, every element."""
    assert len(graph.ops) == net(name).layers
    golden = read_golden(net(name).golden)
    values = reference.run(graph, {graph.inputs[0]: golden_input(graph, golden)})
    assert [layer for layer in compare_golden(graph, golden, values) if not layer.exact] == []


def net(name: str) -> Net:
    """Return one network, or skip the test when it is not there."""
    folder = nets_dir() / name
    if not folder.is_dir():
        pytest.skip(f"no network {folder}")
    meta = json.loads((folder / "meta.json").read_text())
    return Net(folder, meta["frontend"], meta["layers"], meta["input_bits"], meta["input_signed"])


@dataclass(frozen=True)
class TfliteNet:
    """A folder of the collection of TensorFlow Lite networks: net.tflite, golden.npz, meta.json.

    left_out: SHA-256 of arrays that are too large for golden.npz, by their name there.
    """

    folder: Path
    left_out: dict[str, str]

    @property
    def path(self) -> Path:
        """The network."""
        return self.folder / "net.tflite"

    @property
    def golden(self) -> Path:
        """Every tensor of every run, as TensorFlow Lite Micro computed it."""
        return self.folder / "golden.npz"


def _tflite_folder() -> Path | None:
    folder = Path(os.environ.get("DORY_NETS", _BESIDE)).with_name(_TFLITE)
    return folder if folder.is_dir() else None


def tflite_names() -> list[str]:
    """Return the names of the TensorFlow Lite networks; empty when there are none."""
    folder = _tflite_folder()
    return sorted(p.parent.name for p in folder.glob("*/meta.json")) if folder else []


def tflite_params() -> list[object]:
    """Return the names as test parameters; one skipped parameter when there are none."""
    skip = pytest.mark.skip(reason="no TensorFlow Lite networks beside the project")
    return list(tflite_names()) or [pytest.param("", marks=skip)]


def tflite_net(name: str) -> TfliteNet:
    """Return one TensorFlow Lite network, or skip the test when it is not there."""
    folder = _tflite_folder()
    if folder is None or not (folder / name).is_dir():
        pytest.skip(f"no TensorFlow Lite network {name} beside $DORY_NETS or {_BESIDE}")
    meta = json.loads((folder / name / "meta.json").read_text())
    return TfliteNet(folder / name, meta["sha256_of_tensors_left_out"])


@dataclass(frozen=True)
class OnnxNet:
    """A folder of the collection of other quantised ONNX: net.onnx, golden.npz, meta.json."""

    folder: Path

    @property
    def path(self) -> Path:
        """The network."""
        return self.folder / "net.onnx"

    def golden_of_layers(self, graph: Graph, path: Path) -> Path:
        """Write the golden of the first inference, by layer and in HWC order, to ``path``.

        The collection names values after the file's tensors, in CHW order.
        """
        with np.load(self.folder / "golden.npz") as golden:
            arrays = {"input": _hwc(golden[f"in0__{self._input_name()}"], graph, graph.inputs[0])}
            for op in graph.ops:
                arrays[f"layer_{op.index:02d}"] = _hwc(
                    golden[f"run0__{op.tensor}"], graph, op.output
                )
        np.savez(path, **arrays)
        return path

    def _input_name(self) -> str:
        with np.load(self.folder / "golden.npz") as golden:
            (name,) = (key for key in golden.files if key.startswith("in0__"))
        return name.removeprefix("in0__")


def _hwc(values: npt.NDArray[Any], graph: Graph, name: str) -> npt.NDArray[np.int64]:
    return values.astype(np.int64).reshape(graph.tensors[name].shape).transpose(1, 2, 0)


def _onnx_folder() -> Path | None:
    folder = Path(os.environ.get("DORY_NETS", _BESIDE)).with_name("nets_onnx")
    return folder if folder.is_dir() else None


def onnx_names(prefix: str) -> list[str]:
    """Return the networks of other quantised ONNX that start with ``prefix``."""
    folder = _onnx_folder()
    return sorted(p.parent.name for p in folder.glob(f"{prefix}*/meta.json")) if folder else []


def onnx_params(prefix: str) -> list[object]:
    """Return the names as test parameters; one skipped parameter when there are none."""
    skip = pytest.mark.skip(reason="no quantised ONNX networks beside the project")
    return list(onnx_names(prefix)) or [pytest.param("", marks=skip)]


def onnx_net(name: str) -> OnnxNet:
    """Return one network of other quantised ONNX, or skip the test when it is not there."""
    folder = _onnx_folder()
    if folder is None or not (folder / name).is_dir():
        pytest.skip(f"no quantised ONNX network {name} beside $DORY_NETS or {_BESIDE}")
    return OnnxNet(folder / name)


def _transformers_folder() -> Path | None:
    folder = Path(os.environ.get("DORY_NETS", _BESIDE)).with_name("nets_transformers")
    return folder if folder.is_dir() else None


def transformer_names() -> list[str]:
    """Return the names of Deeploy's transformers; one that is skipped when there are none."""
    folder = _transformers_folder()
    return sorted(p.parent.name for p in folder.glob("*/meta.json")) if folder else ["of any name"]


def transformer_net(name: str) -> Path:
    """Return the folder of one transformer: net.onnx, golden.npz, meta.json."""
    folder = _transformers_folder()
    if folder is None or not (folder / name).is_dir():
        pytest.skip(f"no transformer {name} beside $DORY_NETS or {_BESIDE}")
    return folder / name


def converted_net(name: str) -> Path:
    """Return a file of the networks that today's converter makes, or skip the test."""
    folder = Path(os.environ.get("DORY_NETS", _BESIDE)).with_name("nets_converted")
    path = folder / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"no network {path}")
    return path
