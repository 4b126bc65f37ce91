"""What ``dory golden`` asks of TensorFlow Lite Micro."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, UsageError
from dory_core.importing import GoldenRequest, load_arrays
from dory_tflite.golden import golden_arrays, random_inputs
from dory_tflite.model import ELEMENT_TYPES, Subgraph
from dory_tflite.reader import read_model

Array = npt.NDArray[Any]


def golden_of(path: Path, request: GoldenRequest) -> dict[str, Array]:
    """Return the arrays of a golden; raises ToolMissing, NotSupported and UsageError.

    The interpreter runs in a process of its own, because it ends the process that it runs in where
    a check of its kernels fails.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(_computed, path, request).result()
        except BrokenProcessPool:
            raise NotSupported(
                f"{path}: TensorFlow Lite Micro ended without a message; one of its kernels cannot"
                " run an operator of the file",
                "`dory check --compare-desktop` runs LiteRT, and `dory run` needs no golden",
            ) from None


def _computed(path: Path, request: GoldenRequest) -> dict[str, Array]:
    model = read_model(path)
    if request.inputs:
        given = [inputs_of(model.subgraphs[0], file) for file in request.inputs]
    else:
        generator = np.random.default_rng(request.seed)
        given = [random_inputs(model, generator) for _ in range(request.runs)]
    return golden_arrays(path.read_bytes(), model, given)


def inputs_of(subgraph: Subgraph, path: Path) -> dict[int, Array]:
    """Return the network inputs by index, of an archive with arrays ``t0`` or their names."""
    arrays = load_arrays(path, "")
    found = {}
    for index in subgraph.inputs:
        tensor = subgraph.tensors[index]
        names = [f"in0__t{index}", f"t{index}", tensor.name]
        names += ["", "input"] if len(subgraph.inputs) == 1 else []
        array = next((arrays[name] for name in names if name in arrays), None)
        if array is None or array.size != tensor.elements:
            raise UsageError(
                f"{path}: no array 't{index}' of {tensor.elements} values for the network input"
                f" '{tensor.name}'",
                f"write it with numpy.savez(FILE, t{index}=values), stored numbers",
            )
        found[index] = array.astype(ELEMENT_TYPES[tensor.type]).reshape(tensor.shape)
    return found
