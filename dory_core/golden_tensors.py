"""Goldens named after tensors of the network's file, of one or of several inferences.

``golden.npz`` of formats whose tensors have names: arrays ``in0__NAME`` and ``run0__NAME`` hold the
network inputs and every other tensor of the first inference, ``in1__``, ``run1__`` those of the
second. State goes from one to the next, unless the tensors that an inference read of it are here
and have their initial values. NAME is that of :attr:`dory_core.ir.Op.tensor`, or of a network
input. Values are those of the file, flattened in HWC order; tensors may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.errors import UsageError
from dory_core.ir import Graph, Op, Tensor
from dory_core.ir.channels import file_channels, stored
from dory_core.ir.reals import quantise
from dory_core.simulate.result import LayerOutput, LayerResult, compare_layer

Values = npt.NDArray[np.int64]

_KEY = re.compile(r"(in|run)(\d+)__(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, eq=False)
class TensorGolden:
    """The tensors of one inference by their names in the file.

    source: where they come from. run: number of the inference. inputs, tensors: arrays as stored.
    """

    source: Path
    run: int
    inputs: Mapping[str, npt.NDArray[Any]]
    tensors: Mapping[str, npt.NDArray[Any]]

    def values_of_inputs(self, graph: Graph) -> dict[str, Values]:
        """Return the network inputs by name, shape (C, H, W).

        A single input of reals is quantised, ties away from zero, where the file's input is.
        Raises: UsageError for a missing array or a wrong size.
        """
        return {name: self._input(graph, graph.tensors[name]) for name in graph.inputs}

    def begins(self, graph: Graph) -> bool:
        """Return whether the inference found the initial state, as far as the golden says.

        The first one does. Raises: UsageError for a tensor of another size.
        """
        known = [state for state in graph.states if state.read in self.tensors]
        found = (
            self._shaped(state.read, self.tensors[state.read], graph.tensors[state.read])
            for state in known
        )
        initial = (state.initial.values.transpose(1, 2, 0) for state in known)
        same = all(np.array_equal(one, other) for one, other in zip(found, initial, strict=True))
        return self.run == 0 or (bool(known) and same)

    def compare(
        self, graph: Graph, outputs: Mapping[str, npt.NDArray[Any]]
    ) -> tuple[LayerResult, ...]:
        """Compare every layer whose tensor is here, every element.

        outputs: values of the file by tensor name, shape (C, H, W). Channels that are not stored
        are compared with their values, too. Raises: UsageError when no tensor is that of a layer,
        or one has another size.
        """
        found = [op for op in graph.ops if op.tensor and op.tensor in self.tensors]
        if not found:
            raise UsageError(
                f"{self.source}: none of its arrays is named after the tensor of a layer",
                "use the golden that was made of this network",
            )
        return tuple(self._compared(op, graph.tensors[op.output], outputs) for op in found)

    def _compared(
        self, op: Op, tensor: Tensor, outputs: Mapping[str, npt.NDArray[Any]]
    ) -> LayerResult:
        layer = LayerOutput(op.index, op.name, tensor, result=op.tensor)
        expected = self._shaped(op.tensor, self.tensors[op.tensor], tensor)
        computed = layer.full(outputs[op.output].transpose(1, 2, 0))
        return compare_layer(layer, computed, {op.index: expected})

    def _input(self, graph: Graph, tensor: Tensor) -> Values:
        for arrays in (self.inputs, self.tensors):
            if tensor.name in arrays:
                values = self._shaped(tensor.name, arrays[tensor.name], tensor)
                return stored(tensor, values).transpose(2, 0, 1)
        real = [(name, array) for name, array in self.inputs.items() if array.dtype.kind == "f"]
        if len(real) != 1 or len(graph.inputs) != 1 or tensor.scale is None:
            raise UsageError(
                f"{self.source}: no array 'in{self.run}__{tensor.name}' for the network input"
                f" '{tensor.name}'",
                "use the golden that was made of this network",
            )
        quantised = quantise(tensor, real[0][1])
        values = self._shaped(real[0][0], quantised, tensor)
        return stored(tensor, values).transpose(2, 0, 1)

    def _shaped(self, name: str, array: npt.NDArray[Any], tensor: Tensor) -> Values:
        """Return an array as values of a tensor of the file, shape (H, W, C)."""
        channels = file_channels(tensor)
        if array.dtype.kind not in "iub":
            raise UsageError(f"{self.source}: tensor '{name}' holds {array.dtype}, not integers")
        elements = channels * tensor.height * tensor.width
        if array.size != elements:
            raise UsageError(
                f"{self.source}: tensor '{name}' holds {array.size} values, that of the network has"
                f" {elements} ({channels} x {tensor.height} x {tensor.width})",
                "use the golden that was made of this network",
            )
        return array.astype(np.int64).reshape(tensor.height, tensor.width, channels)


def tensor_goldens(
    source: Path, arrays: Mapping[str, npt.NDArray[Any]]
) -> tuple[TensorGolden, ...]:
    """Return one golden per inference; none when no array is named in this way.

    Raises: UsageError when an inference is missing between others.
    """
    runs: dict[int, tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]] = {}
    for key, array in arrays.items():
        if match := _KEY.fullmatch(key):
            inputs, tensors = runs.setdefault(int(match[2]), ({}, {}))
            (inputs if match[1] == "in" else tensors)[match[3]] = array
    if sorted(runs) != list(range(len(runs))):
        raise UsageError(
            f"{source}: inferences {sorted(runs)}, expected 0, 1, ...", "number them from 0"
        )
    return tuple(TensorGolden(source, run, *runs[run]) for run in sorted(runs))
