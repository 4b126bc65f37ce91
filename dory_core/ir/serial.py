"""Graphs as files: one uncompressed .npz of plain arrays and a JSON document, no pickle."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.errors import UsageError
from dory_core.ir.array import Array
from dory_core.ir.graph import Graph, LayerRanges, Tensor
from dory_core.ir.ops import Add, AvgPool, Conv, Linear, MaxPool, Window
from dory_core.ir.requant import Requant

FORMAT_VERSION = 1
_DOCUMENT = "graph.json"
_HINT = "compile the network again"
_RECORDS = {
    kind.__name__: kind
    for kind in (Add, AvgPool, Conv, Linear, MaxPool, Window, Requant, LayerRanges, Tensor)
}

Arrays = dict[str, npt.NDArray[Any]]


def graph_to_dict(graph: Graph) -> tuple[dict[str, Any], Arrays]:
    """Return (document that JSON can hold, arrays that it refers to by name)."""
    arrays: Arrays = {}
    document = {
        "version": FORMAT_VERSION,
        "name": graph.name,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "notes": list(graph.notes),
        "tensors": [_encode(tensor, arrays) for tensor in graph.tensors.values()],
        "layers": [_encode(layer, arrays) for layer in graph.ops],
        "ranges": [_encode(ranges, arrays) for ranges in graph.ranges],
    }
    return document, arrays


def graph_from_dict(document: dict[str, Any], arrays: Arrays) -> Graph:
    """Return the Graph of :func:`graph_to_dict`.

    Raises: UsageError when the document has another version or is damaged.
    """
    version = document.get("version")
    if version != FORMAT_VERSION:
        raise UsageError(f"saved graph of version {version}, expected {FORMAT_VERSION}", _HINT)
    try:
        tensors = [_decode(item, arrays) for item in document["tensors"]]
        return Graph(
            name=document["name"],
            inputs=tuple(document["inputs"]),
            outputs=tuple(document["outputs"]),
            ops=tuple(_decode(item, arrays) for item in document["layers"]),
            tensors={tensor.name: tensor for tensor in tensors},
            ranges=tuple(_decode(item, arrays) for item in document["ranges"]),
            notes=tuple(document["notes"]),
        )
    except (KeyError, TypeError) as error:
        raise UsageError(f"saved graph is damaged: {error!r}", _HINT) from error


def graph_bytes(graph: Graph) -> bytes:
    """Return a Graph as the content of an .npz file; equal Graphs give equal bytes."""
    document, arrays = graph_to_dict(graph)
    text = json.dumps(document, separators=(",", ":")).encode()
    content = io.BytesIO()
    np.savez(content, **{_DOCUMENT: np.frombuffer(text, dtype=np.uint8)}, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def load_graph(path: Path) -> Graph:
    """Read a Graph from a file of :func:`graph_bytes`. Raises: UsageError when it is none."""
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"{path}: saved graph does not exist", _HINT)
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        document = json.loads(arrays.pop(_DOCUMENT).tobytes())
    except (OSError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path}: not a saved graph, or damaged", _HINT) from error
    return graph_from_dict(document, arrays)


def _encode(value: Any, arrays: Arrays) -> Any:
    if isinstance(value, Array):
        name = f"array_{len(arrays):03d}"
        arrays[name] = value.values
        return {"$array": name}
    if isinstance(value, tuple):
        return [_encode(item, arrays) for item in value]
    if dataclasses.is_dataclass(value):
        fields = {
            f.name: _encode(getattr(value, f.name), arrays) for f in dataclasses.fields(value)
        }
        return {"$type": type(value).__name__, **fields}
    return value


def _decode(value: Any, arrays: Arrays) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item, arrays) for item in value)
    if isinstance(value, dict):
        if "$array" in value:
            return Array(arrays[value["$array"]])
        fields = {k: _decode(v, arrays) for k, v in value.items() if k != "$type"}
        return _RECORDS[value["$type"]](**fields)
    return value
