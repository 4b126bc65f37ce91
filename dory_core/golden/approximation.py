"""Measured differences of values by a pass that is not exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dory_core.golden.vectors import Vector, starts
from dory_core.ir import Graph
from dory_core.ir.reference import next_state, run


def measure(
    exact: Graph, fitted: Graph, vectors: Sequence[Vector]
) -> tuple[Graph, tuple[Vector, ...]]:
    """Return ``fitted`` with notes about its differences, and its own vectors.

    The notes cover the changed layers and the outputs of the network. Their differences include
    those of earlier layers.

    Args:
        exact: The network without the passes that change values.
        fitted: The network with these passes.
        vectors: Vectors of ``exact``, whose inputs are used.
    """
    own = _own(fitted, vectors)
    notes = []
    originals = {op.index: op for op in exact.ops}
    for after in sorted(fitted.ops, key=lambda op: op.index):
        if originals[after.index] != after:
            difference = _difference(after.output, vectors, own)
            notes.append(f"{after.kind} '{after.name}' is approximated: {difference}")
    for name in fitted.outputs:
        notes.append(f"network output {name}: {_difference(name, vectors, own)}")
    return replace(fitted, notes=(*fitted.notes, *notes)), own


def _own(fitted: Graph, vectors: Sequence[Vector]) -> tuple[Vector, ...]:
    """Return the vectors of a network on the inputs of other vectors, with its own state."""
    found: list[Vector] = []
    for vector, first in zip(vectors, starts(fitted, vectors), strict=True):
        state = None if first else next_state(fitted, found[-1])
        found.append(run(fitted, {name: vector[name] for name in fitted.inputs}, state))
    return tuple(found)


def _difference(tensor: str, vectors: Sequence[Vector], others: Sequence[Vector]) -> str:
    """Return a text with the number and the size of a tensor's differences over all vectors."""
    apart = [np.abs(a[tensor] - b[tensor]) for a, b in zip(vectors, others, strict=True)]
    values = sum(a.size for a in apart)
    differing = sum(int(np.count_nonzero(a)) for a in apart)
    if differing == 0:
        return f"none of {values} values differ on the test vectors"
    largest = max(int(a.max()) for a in apart)
    average = float(sum(a.sum() for a in apart) / values)
    return (
        f"{differing} of {values} values differ on the test vectors, by "
        f"{largest} at most and {average:.3g} on average"
    )
