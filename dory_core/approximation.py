"""What a pass that is not exact does to the values of a network: measured, never estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dory_core.ir import Graph
from dory_core.reference import run
from dory_core.vectors import Vector


@dataclass(frozen=True, slots=True)
class Difference:
    """A tensor over all test vectors: how many of its values differ, by how much at most and on
    average over all of them."""

    tensor: str
    differing: int
    values: int
    largest: int
    average: float

    def __str__(self) -> str:
        if self.differing == 0:
            return f"none of {self.values} values differ on the test vectors"
        return (
            f"{self.differing} of {self.values} values differ on the test vectors, by "
            f"{self.largest} at most and {self.average:.3g} on average"
        )


def measure(
    exact: Graph, fitted: Graph, vectors: Sequence[Vector]
) -> tuple[Graph, tuple[Vector, ...]]:
    """Return ``fitted`` with notes about its differences, and its own vectors.

    exact, fitted: the network without and with the passes that change values. vectors: of
    ``exact``; the inputs are taken from them. Noted are the layers that were changed and the
    outputs of the network, with the differences that earlier layers hand on to them.
    """
    own = tuple(run(fitted, {name: v[name] for name in fitted.inputs}) for v in vectors)
    notes = []
    originals = {op.index: op for op in exact.ops}
    for after in sorted(fitted.ops, key=lambda op: op.index):
        if originals[after.index] != after:
            difference = compare(after.output, vectors, own)
            notes.append(f"{after.kind} '{after.name}' is approximated: {difference}")
    for name in fitted.outputs:
        notes.append(f"network output {name}: {compare(name, vectors, own)}")
    return replace(fitted, notes=(*fitted.notes, *notes)), own


def compare(tensor: str, vectors: Sequence[Vector], others: Sequence[Vector]) -> Difference:
    """Return how one tensor differs between two sets of vectors."""
    apart = [np.abs(a[tensor] - b[tensor]) for a, b in zip(vectors, others, strict=True)]
    values = sum(a.size for a in apart)
    return Difference(
        tensor,
        sum(int(np.count_nonzero(a)) for a in apart),
        values,
        max(int(a.max()) for a in apart),
        float(sum(a.sum() for a in apart) / values),
    )
