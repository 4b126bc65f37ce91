"""Goldens named after tensors of the network's file, of one or of several inferences.

``golden.npz`` of formats whose tensors have names: arrays ``in0__NAME`` and ``run0__NAME`` hold the
network inputs and every other tensor of the first inference, ``in1__``, ``run1__`` those of the
second. State passes from one inference to the next, unless the golden holds the state that an
inference read and it has its initial values. A golden without this state may also start an
inference from the initial state. NAME is ``Operator.tensor``, or the name of a network input.
Values are those of the file in its order, which is HWC unless a :class:`dory_core.ir.FileForm`
states another order. Tensors may be omitted. The golden may hold the real numbers of a layer
instead of its integers, under their name in the file.

Some references compute some layers in real numbers. Such a layer may differ from the golden by
``FileForm.apart`` steps; the layers after it are compared on the golden's values.
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
from dory_core.ir import Graph, Layer, Operator, Tensor
from dory_core.ir.channels import computed_channels, file_channels, stored
from dory_core.ir.reals import quantise
from dory_core.ir.reference import run_layer
from dory_core.simulate.result import LayerOutput, LayerResult, compare_layer

Values = npt.NDArray[np.int64]

# Largest distance of a quotient of binary32 from the integer that it represents.
_WHOLE = 1e-2
_KEY = re.compile(r"(in|run)(\d{1,9})__(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of a layer with a golden.

    Attributes:
        elements: Number of elements that were compared.
        apart: Number of elements with another value that is allowed, because the reference computes
            the layer in real numbers.
    """

    result: LayerResult
    elements: int
    apart: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class TensorGolden:
    """The tensors of one inference by their names in the file.

    Attributes:
        source: Path of the golden, for messages.
        run: Number of the inference.
        inputs: Arrays of the network inputs as stored.
        tensors: Arrays of the other tensors as stored.
    """

    source: Path
    run: int
    inputs: Mapping[str, npt.NDArray[Any]]
    tensors: Mapping[str, npt.NDArray[Any]]

    def values_of_inputs(self, graph: Graph) -> dict[str, Values]:
        """Return the network inputs by name, shape (C, H, W).

        Real numbers in the golden are quantised as in the file.
        Raises: UsageError for a missing array or a wrong size.
        """
        return {name: self._input(graph, graph.tensors[name]) for name in graph.inputs}

    def begins(self, graph: Graph) -> bool | None:
        """Return True when the inference starts from the initial state, as the first one does.

        The result is None when the golden does not tell. Raises: UsageError for a tensor of another
        size.
        """
        known = [state for state in graph.states if state.read in self.tensors]
        if self.run == 0 or not known:
            return True if self.run == 0 or not graph.states else None
        found = (
            self._shaped(graph, state.read, self.tensors[state.read], graph.tensors[state.read])
            for state in known
        )
        initial = (state.initial.values.transpose(1, 2, 0) for state in known)
        return all(np.array_equal(one, other) for one, other in zip(found, initial, strict=True))

    def compare(
        self, graph: Graph, outputs: Mapping[str, npt.NDArray[Any]]
    ) -> tuple[Compared, ...]:
        """Compare every layer whose tensor is here, every element.

        outputs: values of the file by tensor name, shape (C, H, W). Channels that are not stored
        are compared with their constant values. Raises: UsageError when the golden has no tensor of
        a layer, or one of another size.
        """
        here = {op.output: name for op in graph.ops if (name := self._array_of(graph, op))}
        if not here:
            raise UsageError(
                f"{self.source}: none of its arrays is named after the tensor of a layer",
                "use the golden that was made of this network",
            )
        found: list[Compared] = []
        taken: dict[str, Values] = {}
        for typed in graph.layers:
            op = typed.op
            own = np.asarray(outputs[op.output])
            if not taken.keys().isdisjoint(op.inputs):
                own = _computed(graph, typed, {**outputs, **taken})
                taken[op.output] = own
            if op.output not in here:
                continue
            values = self._expected(graph, here[op.output], typed.output)
            one = self._compared(graph, op, own, values)
            found.append(one)
            if one.apart:
                taken[op.output] = stored(typed.output, values).transpose(2, 0, 1)
        return tuple(found)

    def _array_of(self, graph: Graph, op: Operator) -> str:
        """Return the name of the array with a layer's result, empty where it is not here.

        The array holds integers, else the real numbers that they represent.
        """
        reals, tensor = graph.form(op.output).source, graph.tensors[op.output]
        own = self.tensors.get(op.tensor) if op.tensor else None
        if own is not None and not (reals == op.tensor and own.dtype.kind == "f"):
            return op.tensor
        other = self.tensors.get(reals) if reals not in ("", op.tensor) else None
        known = other is not None and other.dtype.kind == "f" and tensor.scale is not None
        return reals if known else ""

    def _expected(self, graph: Graph, name: str, tensor: Tensor) -> Values:
        """Return the expected result of a layer from an array: values of the file, (H, W, C)."""
        array = self.tensors[name]
        if name != graph.form(tensor.name).source:
            return self._shaped(graph, name, array, tensor)
        assert tensor.scale is not None
        steps = array.astype(np.float32) / np.float32(tensor.scale)
        if not np.all(np.abs(steps - np.rint(steps)) < _WHOLE):
            raise UsageError(
                f"{self.source}: tensor '{name}' holds real numbers that are no multiples of its"
                f" scale {tensor.scale:.9g}",
                "save what the quantised network computes, not the float one",
            )
        return self._shaped(
            graph, name, np.rint(steps).astype(np.int64) + tensor.zero_point, tensor
        )

    def _compared(
        self, graph: Graph, op: Operator, own: npt.NDArray[Any], expected: Values
    ) -> Compared:
        tensor, steps = graph.tensors[op.output], graph.form(op.output).apart
        layer = LayerOutput(op.index, op.name, tensor, result=op.tensor)
        computed = layer.full(own.transpose(1, 2, 0))
        known = computed_channels(tensor)
        difference = np.abs(expected[..., known] - computed[..., known])
        apart = int(np.count_nonzero(difference)) if int(difference.max()) <= steps else 0
        result = compare_layer(layer, computed, {op.index: computed if apart else expected})
        return Compared(result, difference.size, apart)

    def _input(self, graph: Graph, tensor: Tensor) -> Values:
        form = graph.form(tensor.name)
        for arrays, name in (
            (self.inputs, tensor.name),
            (self.tensors, tensor.name),
            (self.inputs, form.source),
        ):
            if name in arrays and arrays[name].dtype.kind != "f":
                values = self._shaped(graph, name, arrays[name], tensor)
                return stored(tensor, values).transpose(2, 0, 1)
        name = self._reals_of(graph, tensor, form.source)
        quantised = quantise(tensor, self.inputs[name], form.ties_even)
        return stored(tensor, self._shaped(graph, name, quantised, tensor)).transpose(2, 0, 1)

    def _reals_of(self, graph: Graph, tensor: Tensor, source: str) -> str:
        """Return the name of the real numbers from which a network input is quantised."""
        real = [name for name, array in self.inputs.items() if array.dtype.kind == "f"]
        if tensor.scale is not None:
            if source in real:
                return source
            if len(real) == len(graph.inputs) == 1:
                return real[0]
        raise UsageError(
            f"{self.source}: no array 'in{self.run}__{source or tensor.name}' for the network"
            f" input '{tensor.name}'",
            "use the golden that was made of this network",
        )

    def _shaped(self, graph: Graph, name: str, array: npt.NDArray[Any], tensor: Tensor) -> Values:
        """Return an array as values of a tensor of the file, shape (H, W, C)."""
        channels = file_channels(tensor)
        if array.dtype.kind not in "iub":
            raise UsageError(
                f"{self.source}: tensor '{name}' holds {array.dtype}, not integers",
                "save the integers that stand in the quantised tensors, not what they mean",
            )
        elements = channels * tensor.height * tensor.width
        if array.size != elements:
            raise UsageError(
                f"{self.source}: tensor '{name}' holds {array.size} values, that of the network has"
                f" {elements} ({channels} x {tensor.height} x {tensor.width})",
                "use the golden that was made of this network",
            )
        order, sizes = graph.form(tensor.name).order, (channels, tensor.height, tensor.width)
        shaped = array.astype(np.int64).reshape([sizes[axis] for axis in order])
        return shaped.transpose([order.index(axis) for axis in (1, 2, 0)])


def _computed(graph: Graph, typed: Layer, values: Mapping[str, npt.NDArray[Any]]) -> Values:
    """Return a layer's result from its operands, all as values of the file."""
    operands = tuple(values[tensor.name] + tensor.offset for tensor in typed.inputs)
    return run_layer(typed, operands) - typed.output.offset


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
