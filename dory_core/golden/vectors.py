"""Test vectors of an application: input and exact output of every layer, in storage form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.errors import UsageError
from dory_core.hardware.target import Option, OutputFile
from dory_core.ir import Graph
from dory_core.ir.packing import pack, unpack
from dory_core.ir.reals import dequantise
from dory_core.simulate.runtime import RESETS_FILE

# Every tensor of a network by name, shape (C, H, W), for one input.
Vector = Mapping[str, npt.NDArray[Any]]

#: For targets whose application carries test vectors to the chip. The runner reads and compares
#: the layers when the application reports them, so that goldens need no memory of the chip.
VECTORS_OPTION = Option(
    "vectors",
    str,
    "io",
    "test vectors in the image for the chip: none; io: input and output; all: every layer",
    ("none", "io", "all"),
)


def hwc(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values of shape (C, H, W) as (H, W, C)."""
    return values.transpose(1, 2, 0)


def input_bytes(graph: Graph, vector: Vector) -> bytes:
    """Return the network inputs in storage form, one after the other."""
    return b"".join(pack(hwc(vector[name]), graph.tensors[name]) for name in graph.inputs)


def starts(graph: Graph, vectors: Sequence[Vector]) -> tuple[bool, ...]:
    """Return True for each vector that starts from the initial state.

    The others start from the state that the previous vector left. Without state all are True.
    """
    return tuple(
        all(np.array_equal(vector[one.read], one.initial.values) for one in graph.states)
        for vector in vectors
    )


def float_bytes(names: Sequence[str], reals: Vector) -> bytes:
    """Return real numbers (C, H, W) by name as float32, H x W x C, one after the other."""
    return b"".join(hwc(reals[name]).astype("<f4").tobytes() for name in names)


def reals_of(graph: Graph, vector: Vector) -> dict[str, npt.NDArray[np.float32]]:
    """Return the real numbers, (C, H, W) by name, of the network's inputs and outputs."""
    names = (*graph.inputs, *graph.outputs)
    return {name: dequantise(graph.tensors[name], vector[name]) for name in names}


def _float_files(graph: Graph, vectors: Sequence[Vector]) -> list[OutputFile]:
    reals = [reals_of(graph, vector) for vector in vectors]
    sides = {"input": graph.inputs, "output": graph.outputs}
    return [
        OutputFile(f"vectors/{side}_float.bin", b"".join(float_bytes(names, one) for one in reals))
        for side, names in sides.items()
    ]


def vector_files(
    graph: Graph, vectors: Sequence[Vector], floats: bool = False
) -> tuple[OutputFile, ...]:
    """Return the files of ``vectors/``; each file holds all vectors, one after the other.

    floats: True to add input and output as real numbers.
    """
    files = [OutputFile("vectors/input.bin", b"".join(input_bytes(graph, v) for v in vectors))]
    for layer in graph.ops:
        tensor = graph.tensors[layer.output]
        data = b"".join(pack(hwc(vector[layer.output]), tensor) for vector in vectors)
        files.append(OutputFile(f"vectors/layer_{layer.index:02d}.bin", data))
    outputs = b"".join(
        pack(hwc(vector[name]), graph.tensors[name]) for vector in vectors for name in graph.outputs
    )
    files.append(OutputFile("vectors/output.bin", outputs))
    files += _float_files(graph, vectors) if floats else []
    if graph.states:
        files.append(OutputFile(f"vectors/{RESETS_FILE}", bytes(starts(graph, vectors))))
    return tuple(files)


def read_vectors(folder: Path, graph: Graph) -> tuple[Vector, ...]:
    """Read the files of :func:`vector_files`. Raises UsageError when their sizes are wrong."""
    try:
        data = (folder / "input.bin").read_bytes()
        names = {layer.output: f"layer_{layer.index:02d}.bin" for layer in graph.ops}
        outputs = {tensor: (folder / name).read_bytes() for tensor, name in names.items()}
        resets = (folder / RESETS_FILE).read_bytes() if graph.states else b""
    except OSError as error:
        raise UsageError(
            f"cannot read {error.filename}: {error.strerror}", "compile the network again"
        ) from error
    size = sum(graph.tensors[name].size_bytes for name in graph.inputs)
    count = len(data) // size
    if (
        count == 0
        or any(
            len(chunk) != count * graph.tensors[name].size_bytes for name, chunk in outputs.items()
        )
        or (graph.states and (len(resets) != count or not resets[0]))
    ):
        raise UsageError(f"{folder}: the vectors have wrong sizes", "compile the network again")
    vectors: list[Vector] = []
    for n in range(count):
        values: dict[str, npt.NDArray[np.int64]] = {}
        at = n * size
        for name in graph.inputs:
            tensor = graph.tensors[name]
            values[name] = unpack(data[at : at + tensor.size_bytes], tensor).transpose(2, 0, 1)
            at += tensor.size_bytes
        for name, chunk in outputs.items():
            tensor = graph.tensors[name]
            part = chunk[n * tensor.size_bytes : (n + 1) * tensor.size_bytes]
            values[name] = unpack(part, tensor).transpose(2, 0, 1)
        for one in graph.states:
            before = one.initial.values if resets[n] else vectors[-1][one.written]
            values[one.read] = before.astype(np.int64)
        vectors.append(values)
    return tuple(vectors)
