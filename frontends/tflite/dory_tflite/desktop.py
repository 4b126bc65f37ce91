"""The interpreters of LiteRT, which people run on desktop computers, with all tensors of a network.

PyPI's ``ai-edge-litert`` (the extra ``desktop``) has them. The default one hands what it can to
XNNPACK and keeps no tensor between: here every computed tensor is an output of the network, so that
each has its values.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Graph, Layer, NotSupported, ToolMissing
from dory_core.importing import desktop
from dory_tflite.desktop_reasons import reason
from dory_tflite.golden import computed_tensors
from dory_tflite.importer import Imported, import_model
from dory_tflite.model import ELEMENT_TYPES, Model
from dory_tflite.places import graph_values
from dory_tflite.reader import read_model

Array = npt.NDArray[Any]

#: How users call an interpreter, and the resolver of operators that makes it.
INTERPRETERS = {
    "default (XNNPACK)": "AUTO",
    "built-in kernels": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "reference kernels": "BUILTIN_REF",
}
_OUTPUTS = 8  # slot of the field in the table of a subgraph
_PACKAGE = "ai-edge-litert"


def load_desktop(path: Path) -> desktop.Desktop:
    """Return the interpreters of LiteRT with the network of a file.

    Raises: ToolMissing without ai-edge-litert, and what the import raises.
    """
    model = read_model(path)
    imported = import_model(model)
    data = path.read_bytes()
    version = _version()

    def run(inputs: Mapping[str, Array]) -> list[desktop.DesktopRun]:
        return [_run(name, data, model, imported, inputs) for name in INTERPRETERS]

    def explain(name: str, layer: Layer, operands: Sequence[Array], got: Array) -> str:
        return reason(INTERPRETERS[name], model.subgraphs[0], layer, operands, got)

    return desktop.Desktop(f"{_PACKAGE} {version}", imported.graph, run, explain)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        import ai_edge_litert.interpreter  # noqa: F401

        return version(_PACKAGE)
    except (ImportError, PackageNotFoundError) as error:
        raise ToolMissing(
            f"the desktop interpreters of TensorFlow Lite cannot be imported: {error}",
            f"pip install {_PACKAGE}, or dory-tflite[desktop]",
        ) from error


def _run(
    name: str, data: bytes, model: Model, imported: Imported, inputs: Mapping[str, Array]
) -> desktop.DesktopRun:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    given = file_inputs(model, imported.graph, inputs)
    indices = computed_tensors(model.subgraphs[0])
    try:
        interpreter = Interpreter(
            model_content=with_outputs(data, indices),
            experimental_op_resolver_type=OpResolverType[INTERPRETERS[name]],
            num_threads=1,
        )
        interpreter.allocate_tensors()
        for index, values in given.items():
            interpreter.set_tensor(index, values)
        interpreter.invoke()
        found = given | {index: interpreter.get_tensor(index) for index in indices}
    except (RuntimeError, ValueError) as error:
        return desktop.DesktopRun(name, {}, " ".join(str(error).split()))
    return desktop.DesktopRun(name, _graph_tensors(model, imported, found))


def file_inputs(model: Model, graph: Graph, inputs: Mapping[str, Array]) -> dict[int, Array]:
    """Return the inputs of the file by index, in its types, for network inputs (C, H, W) by name.

    An input of reals that a QUANTIZE reads has the reals that the integers stand for.
    """
    subgraph = model.subgraphs[0]
    found: dict[int, Array] = {}
    for index in subgraph.inputs:
        tensor, integers = subgraph.tensors[index], index
        if tensor.type == "FLOAT32":
            integers = next(
                op.outputs[0]
                for op in subgraph.operators
                if op.code == "QUANTIZE" and op.inputs == (index,)
            )
        values = inputs[f"t{integers}"].transpose(1, 2, 0).reshape(tensor.shape)
        if integers != index:
            kind = graph.tensors[f"t{integers}"]
            assert kind.scale is not None
            values = (values - kind.zero_point) * np.float32(kind.scale)
        found[index] = values.astype(ELEMENT_TYPES[tensor.type])
    return found


def _graph_tensors(
    model: Model, imported: Imported, found: Mapping[int, Array]
) -> dict[str, Array]:
    """Return the tensors of the Graph whose elements a tensor of the file has."""
    values: dict[str, Array] = {}
    for index, bound in imported.tensors.items():
        array = found.get(index)
        if array is not None and array.dtype.kind in "iu" and bound.name not in values:
            shape = imported.graph.tensors[bound.name].shape
            elements = graph_values(bound, shape, array)
            if elements is not None:
                values[bound.name] = elements
    return values


def with_outputs(data: bytes, indices: Sequence[int]) -> bytes:
    """Return a file whose first subgraph has the tensors ``indices`` as its outputs.

    The new vector is appended to the file; the field holds its offset from the field.
    Raises: NotSupported for a file without outputs.
    """
    import tflite

    table = tflite.Model.GetRootAs(data, 0).Subgraphs(0)._tab
    slot = table.Offset(_OUTPUTS)
    if slot == 0:
        raise NotSupported("the network has no outputs")
    field, file = table.Pos + slot, bytearray(data)
    file += bytes(-len(file) % 4)
    struct.pack_into("<I", file, field, len(file) - field)
    file += struct.pack(f"<{len(indices) + 1}i", len(indices), *indices)
    return bytes(file)
