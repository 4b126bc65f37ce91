"""Goldens of a user's own file: TensorFlow Lite Micro runs it and every tensor is kept.

PyPI's ``tflite-micro`` (the extra ``golden``) has the reference kernels. Arrays are named as in
``dory_core``'s goldens of tensors: ``in0__t5`` is network input 5 of the first inference,
``run0__t7`` tensor 7 of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, ToolMissing
from dory_tflite.model import ELEMENT_TYPES, FileTensor, Model, Subgraph

Array = npt.NDArray[Any]

_RANGES = {"INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-(2**15), 2**15 - 1)}

# Beside the tensors, the interpreter keeps its own records in the arena.
_RECORDS_BYTES = 1 << 20
_RECORD_BYTES = 1024


class Interpreter:
    """TensorFlow Lite Micro with one network; state of the network lives as long as this.

    Raises: ToolMissing without tflite-micro, NotSupported when it refuses the file.
    """

    def __init__(self, data: bytes, model: Model) -> None:
        try:
            from tflite_micro.python.tflite_micro import runtime
        except ImportError as error:
            raise ToolMissing(
                f"tflite-micro cannot be imported: {error}",
                "pip install tflite-micro",
            ) from error
        self.subgraph = model.subgraphs[0]
        try:
            self._runtime = runtime.Interpreter.from_bytes(
                data,
                arena_size=_arena_bytes(model),
                intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors,
            )
        except (RuntimeError, ValueError) as error:
            raise _refused(model.name, error) from None
        self._name = model.name

    def run(self, inputs: Mapping[int, Array]) -> dict[int, Array]:
        """Return every computed tensor by index for inputs by index, in the file's shapes."""
        try:
            for position, index in enumerate(self.subgraph.inputs):
                self._runtime.set_input(np.ascontiguousarray(inputs[index]), position)
            self._runtime.invoke()
        except (RuntimeError, ValueError) as error:
            raise _refused(self._name, error) from None
        return {
            index: np.array(self._runtime.GetTensor(index, 0)["tensor_data"]).reshape(
                self.subgraph.tensors[index].shape
            )
            for index in computed_tensors(self.subgraph)
        }


def computed_tensors(subgraph: Subgraph) -> tuple[int, ...]:
    """Return the tensors that operators compute and whose values can be read."""
    written = (index for op in subgraph.operators for index in op.outputs)
    return tuple(i for i in dict.fromkeys(written) if subgraph.tensors[i].type in ELEMENT_TYPES)


def golden_arrays(
    data: bytes, model: Model, inferences: Sequence[Mapping[int, Array]]
) -> dict[str, Array]:
    """Return the arrays of a golden: one inference after the other, on one interpreter."""
    interpreter = Interpreter(data, model)
    arrays: dict[str, Array] = {}
    for run, inputs in enumerate(inferences):
        arrays |= {f"in{run}__t{index}": values for index, values in inputs.items()}
        found = interpreter.run(inputs)
        arrays |= {f"run{run}__t{index}": values for index, values in found.items()}
    return arrays


def random_inputs(model: Model, generator: np.random.Generator) -> dict[int, Array]:
    """Return network inputs by index, over the whole range of their types.

    An input of reals that a QUANTIZE reads has the reals of that range.
    """
    subgraph = model.subgraphs[0]
    return {index: _random(subgraph, index, generator) for index in subgraph.inputs}


def _random(subgraph: Subgraph, index: int, generator: np.random.Generator) -> Array:
    tensor = subgraph.tensors[index]
    if tensor.type in _RANGES:
        lo, hi = _RANGES[tensor.type]
        values = generator.integers(lo, hi, tensor.shape, endpoint=True)
        return values.astype(ELEMENT_TYPES[tensor.type])
    if tensor.type != "FLOAT32":
        raise NotSupported(f"network input {tensor.label} is {tensor.type}")
    stored = _stored_as(subgraph, index)
    if stored is None or not stored.scales:
        return generator.standard_normal(tensor.shape).astype(np.float32)
    lo, hi = _RANGES.get(stored.type, (-128, 127))
    values = generator.integers(lo, hi, tensor.shape, endpoint=True) - stored.zero_points[0]
    return (values * stored.scales[0]).astype(np.float32)


def _stored_as(subgraph: Subgraph, index: int) -> FileTensor | None:
    for op in subgraph.operators:
        if op.code == "QUANTIZE" and op.inputs[:1] == (index,) and op.outputs:
            return subgraph.tensors[op.outputs[0]]
    return None


def _arena_bytes(model: Model) -> int:
    tensors = [tensor for subgraph in model.subgraphs for tensor in subgraph.tensors]
    activations = sum(8 * tensor.elements for tensor in tensors if tensor.data is None)
    return 2 * activations + _RECORD_BYTES * len(tensors) + _RECORDS_BYTES


def _refused(name: str, error: Exception) -> NotSupported:
    return NotSupported(
        f"{name}: TensorFlow Lite Micro does not run it: {' '.join(str(error).split())}",
        "its own messages stand above",
    )
