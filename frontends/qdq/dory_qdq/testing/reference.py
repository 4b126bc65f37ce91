"""onnxruntime as the reference: what it computes of a file, and how the import compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Graph
from dory_qdq.importer import import_file
from dory_qdq.values import Place

#: Operators of a fused network that compute no reals.
_EXACT = ("QLinear", "QGemm", "QuantizeLinear", "DequantizeLinear")
_MOVES = frozenset(
    ["MaxPool", "Reshape", "Transpose", "Slice", "Resize", "Pad", "Flatten", "Squeeze"]
)


#: Returns the tensors of a network by name for its inputs by name.
Run = Callable[[Graph, Mapping[str, npt.NDArray[Any]]], Mapping[str, npt.NDArray[Any]]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an import compares with onnxruntime.

    elements: of the outputs. differing, largest: how many differ, and by how much. apart: layers
    that may be a step from onnxruntime, as the import says. unexpected: layers that onnxruntime
    computed in reals although the import does not say so, and the other way round.
    """

    elements: int
    differing: int
    largest: int
    apart: tuple[str, ...]
    unexpected: tuple[str, ...]


def compare(model: bytes, folder: Path, run: Run, seed: int = 0) -> Outcome:
    """Run a file with onnxruntime at ORT_ENABLE_EXTENDED and its import with ``run``.

    run: the reference executor, ``dory_core.testing.run_reference``.
    """
    import onnx
    import onnxruntime as ort

    path, fused = folder / "net.onnx", folder / "fused.onnx"
    path.write_bytes(model)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(fused)
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    inputs = {
        i.name: rng.uniform(-1.5, 1.5, i.shape).astype(np.float32) for i in session.get_inputs()
    }
    wanted = session.run(None, inputs)
    imported = import_file(path)
    values = run(imported.graph, _stored(imported.graph, imported.places, inputs))
    elements = differing = largest = 0
    for output, expected in zip(session.get_outputs(), wanted, strict=True):
        place = imported.places[output.name]
        found = _file_values(place, values[place.tensor])
        difference = np.abs(found - np.asarray(expected).astype(np.int64))
        elements += difference.size
        differing += int((difference > 0).sum())
        largest = max(largest, int(difference.max()))
    graph = imported.graph
    apart = {op.name for op in graph.ops if graph.form(op.output).apart}
    reals = {
        node.name.removeprefix("fused ")
        for node in onnx.load(str(fused)).graph.node
        if not node.op_type.startswith(_EXACT) and node.op_type not in _MOVES
    }
    unexpected = apart ^ (reals & {op.name for op in graph.ops})
    unexpected -= {name for name in unexpected if _is_no_answer(name, graph)}
    return Outcome(elements, differing, largest, tuple(sorted(apart)), tuple(sorted(unexpected)))


def _is_no_answer(name: str, graph: Graph) -> bool:
    """Return whether the names of fused operators do not tell who computed a layer in reals.

    HardSwish is split into others there, and layers that no integers reproduce have a note.
    """
    return name.startswith("HardSwish") or any(f"'{name}'" in note for note in graph.notes)


def _axes(place: Place) -> list[int]:
    return [axis for axis in range(3) if axis not in place.order] + list(place.order)


def _file_values(place: Place, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.transpose(_axes(place)).reshape(place.shape)


def _stored(
    graph: Graph, places: Mapping[str, Place], inputs: Mapping[str, npt.NDArray[np.float32]]
) -> dict[str, npt.NDArray[Any]]:
    found = {}
    for name, reals in inputs.items():
        place = places[name]
        tensor = graph.tensors[place.tensor]
        rounded = np.rint(reals / np.float32(tensor.scale)) + tensor.zero_point
        stored = np.clip(rounded, tensor.lo, tensor.hi).astype(np.int64)
        axes = _axes(place)
        shaped = stored.reshape([tensor.shape[axis] for axis in axes])
        found[place.tensor] = shaped.transpose(np.argsort(axes))
    return found
