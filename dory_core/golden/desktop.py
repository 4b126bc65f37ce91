"""Differences between interpreters of desktop computers and the network's reference.

Each layer is compared twice: its own difference (the reference on the interpreter's operands
against the interpreter's result), and the difference after all previous layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.documents import row
from dory_core.ir import Graph
from dory_core.ir.reference import random_inputs, run, run_layer
from dory_core.plugins.frontend import Desktop, DesktopRun

__all__ = ["Desktop", "DesktopRun", "run_layer"]

Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """Number of different elements, number of all elements, and largest difference in steps."""

    elements: int = 0
    differ: int = 0
    largest: int = 0

    def __add__(self, other: Difference) -> Difference:
        return Difference(
            self.elements + other.elements,
            self.differ + other.differ,
            max(self.largest, other.largest),
        )


@dataclass(frozen=True, slots=True)
class OperatorDifference:
    """A layer whose values differ.

    Attributes:
        own: Difference with the interpreter's own operands.
        whole: Difference after all previous layers.
        reason: Why the layer itself differs, empty when it does not.
    """

    index: int
    name: str
    tensor: str
    own: Difference
    whole: Difference
    reason: str = ""


@dataclass(frozen=True, slots=True)
class InterpreterDifference:
    """An interpreter against the reference: layers that differ, and the outputs of the network."""

    name: str
    layers: tuple[OperatorDifference, ...]
    outputs: Difference
    refused: str = ""

    @property
    def first(self) -> OperatorDifference | None:
        """The first layer with a difference of its own."""
        return next((layer for layer in self.layers if layer.own.differ), None)


@dataclass(frozen=True, slots=True)
class DesktopReport:
    """Interpreters of a package against the reference, over inferences on random inputs."""

    package: str
    reference: str
    inferences: int
    interpreters: tuple[InterpreterDifference, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the entry ``desktop`` of ``dory check --json``."""
        return {
            **row(self, "package", "reference", "inferences"),
            "interpreters": [_document(found) for found in self.interpreters],
        }


def _document(found: InterpreterDifference) -> dict[str, Any]:
    first = None if found.first is None else found.first.index
    return {**asdict(found), "layers": [asdict(n) for n in found.layers], "first": first}


def compare_desktop(desktop: Desktop, inferences: int = 2) -> DesktopReport:
    """Run every interpreter on random inputs and compare each layer with the reference."""
    found: dict[str, list[InterpreterDifference]] = {}
    for seed in range(inferences):
        for one in desktop.run(random_inputs(desktop.graph, seed)):
            found.setdefault(one.interpreter, []).append(_compared(desktop, one, seed))
    return DesktopReport(
        desktop.name,
        desktop.graph.reference,
        inferences,
        tuple(_together(several) for several in found.values()),
    )


def _compared(desktop: Desktop, one: DesktopRun, seed: int) -> InterpreterDifference:
    graph = desktop.graph
    if one.refused:
        return InterpreterDifference(one.interpreter, (), Difference(), one.refused)
    inputs = random_inputs(graph, seed)
    inputs |= {name: one.tensors[name] for name in graph.inputs if name in one.tensors}
    expected = run(graph, inputs)
    outputs = [
        _difference(expected[name], one.tensors[name])
        for name in graph.outputs
        if name in one.tensors
    ]

    def explain(position: int, operands: Sequence[Values], got: Values) -> str:
        return desktop.explain(one.interpreter, graph.layer(position), operands, got)

    layers = tuple(_layers(graph, one, expected, explain))
    return InterpreterDifference(one.interpreter, layers, sum(outputs, Difference()))


def _layers(
    graph: Graph,
    one: DesktopRun,
    expected: dict[str, Values],
    explain: Callable[[int, Sequence[Values], Values], str],
) -> Iterator[OperatorDifference]:
    """Yield every layer; a result that the interpreter does not show is taken of the reference."""
    values = {name: expected[name] for name in graph.sources}
    for position, layer in enumerate(graph.layers):
        op = layer.op
        operands = tuple(values[name] for name in op.inputs)
        computed = run_layer(layer, operands)
        got = one.tensors.get(op.output)
        values[op.output] = computed if got is None else got
        if got is not None:
            own, whole = _difference(computed, got), _difference(expected[op.output], got)
            reason = explain(position, operands, got) if own.differ else ""
            yield OperatorDifference(op.index, op.name, op.tensor, own, whole, reason)


def _difference(expected: Values, got: Values) -> Difference:
    apart = np.abs(expected.astype(np.int64) - got.astype(np.int64))
    return Difference(apart.size, int(np.count_nonzero(apart)), int(apart.max(initial=0)))


def _together(several: Sequence[InterpreterDifference]) -> InterpreterDifference:
    """Return the sum over inferences of the layers that differ in any of them."""
    outputs = sum((one.outputs for one in several), Difference())
    layers = []
    for same in zip(*(inference.layers for inference in several), strict=True):
        own = sum((layer.own for layer in same), Difference())
        whole = sum((layer.whole for layer in same), Difference())
        reason = next((layer.reason for layer in same if layer.reason), "")
        if own.differ or whole.differ:
            layers.append(replace(same[0], own=own, whole=whole, reason=reason))
    return InterpreterDifference(several[0].name, tuple(layers), outputs, several[0].refused)
