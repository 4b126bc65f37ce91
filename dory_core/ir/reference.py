"""Bit-exact execution of a Graph in numpy: the golden for everything after the Graph.

Sums are computed as matrix products of doubles. That is exact: range analysis proves that every
partial sum of integers stays within 32 bits or, where sums are wide, within the 2^53 that a double
counts to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.errors import UsageError
from dory_core.ir.graph import Graph, Layer
from dory_core.ir.kinds.operator import Values
from dory_core.ir.tensor import Tensor


def run(
    graph: Graph,
    inputs: Mapping[str, npt.NDArray[Any]],
    state: Mapping[str, npt.NDArray[Any]] | None = None,
) -> dict[str, Values]:
    """Return every tensor of the network by name, shape (C, H, W), int64.

    Args:
        graph: The network.
        inputs: By tensor name, shape (C, H, W), integers within the range of the tensor. They and
            the result are values as in the file: the elements of a tensor have ``Tensor.offset``
            more.
        state: Of an inference that is not the first one, what :func:`next_state` gives of the one
            before.

    Raises:
        UsageError: For a missing input, a wrong shape or values out of range.
    """
    tensors: dict[str, Values] = {}
    for name in graph.inputs:
        if name not in inputs:
            raise UsageError(f"no values for the network input '{name}'")
        tensors[name] = _checked(graph.tensors[name], inputs[name])
    for one in graph.states:
        values = one.initial.values if state is None else state[one.read]
        tensors[one.read] = _checked(graph.tensors[one.read], values)
    for typed in graph.layers:
        operands = tuple(tensors[name] for name in typed.op.inputs)
        tensors[typed.op.output] = run_layer(typed, operands)
    for name, tensor in graph.tensors.items():
        if tensor.offset:
            tensors[name] = tensors[name] - tensor.offset
    return tensors


def next_state(graph: Graph, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Return the state that the next inference finds, of the tensors of one inference."""
    return {state.read: tensors[state.written] for state in graph.states}


def run_sequence(
    graph: Graph, sequence: Iterable[Mapping[str, npt.NDArray[Any]]]
) -> Iterator[dict[str, Values]]:
    """Yield the tensors of inferences one after the other; each finds the state of the last one."""
    state = None
    for inputs in sequence:
        tensors = run(graph, inputs, state)
        state = next_state(graph, tensors)
        yield tensors


def run_layer(typed: Layer, inputs: tuple[Values, ...]) -> Values:
    """Return the output of one layer, shape (C, H, W), for inputs of the same form: elements."""
    value = typed.op.compute(inputs)
    for step in typed.op.requants:
        value = step.apply(value)
    return value


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Values]:
    """Return reproducible inputs, (C, H, W) by name, over the whole range of each network input."""
    generator = np.random.default_rng(seed)
    return {
        name: generator.integers(
            graph.tensors[name].lo - graph.tensors[name].offset,
            graph.tensors[name].hi - graph.tensors[name].offset,
            graph.tensors[name].shape,
            endpoint=True,
            dtype=np.int64,
        )
        for name in graph.inputs
    }


def _checked(tensor: Tensor, values: npt.NDArray[Any]) -> Values:
    values = np.asarray(values)
    if values.shape != tensor.shape:
        raise UsageError(
            f"input '{tensor.name}' has shape {values.shape}, the network expects (C, H, W) ="
            f" {tensor.shape}"
        )
    if values.dtype.kind not in "iub":
        raise UsageError(f"input '{tensor.name}' holds {values.dtype}, not integers")
    lo, hi = int(values.min()), int(values.max())
    least, most = tensor.lo - tensor.offset, tensor.hi - tensor.offset
    if lo < least or hi > most:
        raise UsageError(
            f"input '{tensor.name}' holds values in [{lo}, {hi}], the network expects"
            f" [{least}, {most}]",
            "give values of that range, or compile with --input-bits and --input-signed or"
            " --input-unsigned as the network was trained",
        )
    return values.astype(np.int64) + tensor.offset
