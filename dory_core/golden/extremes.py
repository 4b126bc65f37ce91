"""Inputs that drive layers to the ends of their ranges, searched with the reference executor.

A random input rarely reaches the clips of deep layers, so it does not reveal a kernel that clips at
254. The search tries patterns (flat, stripes, bright borders, extreme pixels), then changes parts
of the inputs that came closest to an end that no input has reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.ir import Graph, Layer, Tensor
from dory_core.ir.kinds.operator import Values
from dory_core.ir.reference import run

__all__ = ["End", "Extremes", "find_extremes"]

_PATTERNS = 8
_PATIENCE = 20  # tries without success


@dataclass(frozen=True, slots=True, order=True)
class End:
    """One end of a layer's range: its lowest or its highest value."""

    layer: int
    highest: bool


@dataclass(frozen=True, slots=True)
class Extremes:
    """The result of a search.

    Attributes:
        inputs: A small set of inputs that reach all of ``reached``, (C, H, W) by name each.
        reached: Ends that an input reaches.
        missed: Ends that no input reaches.
    """

    inputs: tuple[dict[str, Values], ...]
    reached: frozenset[End]
    missed: frozenset[End]


@dataclass(frozen=True, slots=True)
class _Trial:
    """An input and its distance from each end; 0 for an end that it reaches."""

    inputs: dict[str, Values]
    distance: dict[End, int]

    @property
    def reached(self) -> frozenset[End]:
        return frozenset(end for end, far in self.distance.items() if far == 0)


def find_extremes(
    graph: Graph, tries: int, seed: int = 0, known: Sequence[Mapping[str, Any]] = ()
) -> Extremes:
    """Search inputs that drive layers to the ends of their ranges.

    An end is a clip that is possible by range analysis.

    Args:
        graph: The network.
        tries: Most executions of the network.
        seed: Of the random inputs.
        known: Tensors (C, H, W) by name of inputs that will be run anyway; ends that they reach are
            not searched.
    """
    numbers = np.random.default_rng(seed)
    ends = _ends(graph)
    done = frozenset[End]().union(*(_trial(graph, {}, one, ends).reached for one in known))
    ends = {end: value for end, value in ends.items() if end not in done}
    trials: list[_Trial] = []
    missed, last = frozenset(ends), 0
    for number in range(tries):
        if not missed or number - last > _PATIENCE:
            break
        if number < _PATTERNS or not trials:
            inputs = {n: _pattern(graph.tensors[n], number, numbers) for n in graph.inputs}
        else:
            end = sorted(missed)[int(numbers.integers(len(missed)))]
            parent = min(trials, key=lambda trial: trial.distance[end])
            inputs = {
                n: _changed(graph.tensors[n], parent.inputs[n], numbers) for n in graph.inputs
            }
        trial = _trial(graph, inputs, run(graph, inputs), ends)
        trials.append(trial)
        if missed & trial.reached:
            missed, last = missed - trial.reached, number
    chosen = tuple(_cover(trials))
    return Extremes(tuple(t.inputs for t in chosen), frozenset(ends) - missed, missed)


def _ends(graph: Graph) -> dict[End, int]:
    """Return the ends that layers may reach, with their values in the file's form."""
    found = {}
    for layer in graph.layers:
        for highest, value in ((False, _clip(layer, False)), (True, _clip(layer, True))):
            if value is not None:
                found[End(layer.op.index, highest)] = value - layer.output.offset
    return found


def _clip(layer: Layer, highest: bool) -> int | None:
    """Return the value at which the last step clips, None when it never clips."""
    steps = getattr(layer.op, "requants", ())
    if not steps:
        return None
    value = steps[-1].hi if highest else steps[-1].lo
    most = layer.output.hi if highest else layer.output.lo
    return int(value) if value is not None and value == most else None


def _trial(
    graph: Graph,
    inputs: dict[str, Values],
    tensors: Mapping[str, npt.NDArray[Any]],
    ends: Mapping[End, int],
) -> _Trial:
    layers = {layer.op.index: layer for layer in graph.layers}
    distance = {}
    for end, value in ends.items():
        output = layers[end.layer].output
        values = tensors[output.name]
        nearest = int(values.max() if end.highest else values.min())
        distance[end] = abs(value - nearest)
    return _Trial(inputs, distance)


def _cover(trials: Sequence[_Trial]) -> Iterator[_Trial]:
    """Yield a small set of trials that together reach the ends that all trials reach."""
    left = frozenset[End]().union(*(trial.reached for trial in trials))
    while left:
        best = max(trials, key=lambda trial: len(trial.reached & left))
        yield best
        left -= best.reached


def _pattern(tensor: Tensor, number: int, numbers: np.random.Generator) -> Values:
    """Return one of the patterns of an input, (C, H, W)."""
    lo, hi = tensor.lo - tensor.offset, tensor.hi - tensor.offset
    channels, height, width = tensor.shape
    high = np.zeros(tensor.shape, dtype=bool)
    border = np.ones(tensor.shape, dtype=bool)
    border[:, 1:-1, 1:-1] = False
    if number == 0:
        high = numbers.integers(0, 2, tensor.shape).astype(bool)
    elif number == 1:
        high = border
    elif number == 2:
        high = ~border
    elif number == 3:
        high[:] = True
    elif number == 4:
        high[:] = numbers.integers(0, 2, (channels, 1, 1)).astype(bool)
    elif number == 5:
        high[:] = numbers.integers(0, 2, (1, height, 1)).astype(bool)
    elif number == 6:
        high[:] = numbers.integers(0, 2, (1, 1, width)).astype(bool)
    return np.where(high, np.int64(hi), np.int64(lo))


def _changed(tensor: Tensor, values: Values, numbers: np.random.Generator) -> Values:
    """Return an input with new content in a random box."""
    box = tuple(
        slice(start, start + int(numbers.integers(1, extent - start + 1)))
        for extent in tensor.shape
        for start in (int(numbers.integers(extent)),)
    )
    lo, hi = tensor.lo - tensor.offset, tensor.hi - tensor.offset
    result = values.copy()
    shape = result[box].shape
    kind = int(numbers.integers(4))
    if kind == 0:
        result[box] = lo
    elif kind == 1:
        result[box] = hi
    elif kind == 2:
        result[box] = np.where(numbers.integers(0, 2, shape), hi, lo)
    else:
        result[box] = lo + hi - result[box]
    return result
