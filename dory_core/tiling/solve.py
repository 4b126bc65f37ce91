"""The best tile of a tiling problem, proven optimal by enumeration, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dory_core.errors import DoesNotFit
from dory_core.kernels.call import OPERANDS
from dory_core.tiling.enumeration import Limit, Sum, best_values, is_small
from dory_core.tiling.problem import (
    Formulation,
    TilingProblem,
    doubled_weight,
    make_tiling,
)

OPTIMAL = "proven optimal for the objective and constraints, largest tile among equals"
OPTIMAL_TRIED = "best of the evenly splitting tiles, the largest tile among equals"
#: Sums stay inside int64 with a margin.
SAFE_MAGNITUDE = 1 << 61


def proof(formulation: Formulation) -> str:
    """Return the proof of the tiles that :func:`solve` returns."""
    return OPTIMAL if is_small(formulation.variables) else OPTIMAL_TRIED


def solve(problem: TilingProblem) -> dict[str, int] | None:
    """Return the values of the tile with the highest objective, None when no tile fits.

    Among equals the lexicographically largest (c_out, h, w, c_in) is taken.
    """
    formulation = problem.formulation
    objective = [(t.value, doubled_weight(t)) for t in formulation.terms]
    memory = Sum([(b.bytes, b.copies) for b in problem.buffers])
    return _best(formulation, objective, [(memory, None, problem.budget_bytes)])


def _best(
    formulation: Formulation, objective: list[tuple[Any, int]], limits: list[Limit]
) -> dict[str, int] | None:
    """Return the values with the highest objective within the limits of all and the given ones."""
    if _magnitude(objective) >= SAFE_MAGNITUDE:
        raise OverflowError("the objective of a tiling problem exceeds integers of 64 bits")
    limits = [*formulation.limits, *limits]
    if formulation.variables:
        found = best_values(formulation.variables, Sum(objective), limits)
        return None if found is None else found[1]
    legal = all(
        (lo is None or total.const >= lo) and (hi is None or total.const <= hi)
        for total, lo, hi in limits
    )
    return {} if legal else None


def _magnitude(terms: list[tuple[Any, int]]) -> int:
    total = 0
    for value, factor in terms:
        lo, hi = value.bounds if hasattr(value, "bounds") else (int(value), int(value))
        total += abs(factor) * max(abs(lo), abs(hi))
    return total


@dataclass(frozen=True, slots=True)
class Smallest:
    """The legal tile that needs the least memory.

    Attributes:
        bytes: Of all its buffers.
        dominant: Name of its largest buffer.
        dominant_bytes: Size of that buffer.
    """

    bytes: int
    dominant: str
    dominant_bytes: int


def smallest_tile(problem: TilingProblem) -> Smallest | None:
    """Return the least memory of any legal tile, None when the constraints exclude every tile."""
    values = _best(problem.formulation, [(b.bytes, -b.copies) for b in problem.buffers], [])
    if values is None:
        return None
    tiling = make_tiling(problem, values, "")
    largest = max(tiling.buffers, key=lambda b: int(b.total))
    return Smallest(tiling.used_bytes, largest.name, int(largest.total))


_BUFFER_NAMES = {
    "x": "input tile",
    "x2": "tile of the second input",
    **{name: f"tile of input {n}" for n, name in enumerate(OPERANDS[2:], 3)},
    "w": "weights of the tile",
    "y": "output tile",
    "psum": "partial sums",
    "scratch": "kernel's scratch memory",
}


def does_not_fit(problem: TilingProblem) -> DoesNotFit:
    """Return the error that explains why no tile fits."""
    layer, kernel = problem.formulation.layer.op, problem.formulation.kernel
    smallest = smallest_tile(problem)
    if smallest is None:
        reasons = "; ".join(dict.fromkeys(c.reason for c in problem.formulation.constraints))
        return DoesNotFit(
            f"{layer.kind} '{layer.name}': no tile obeys the constraints of {kernel.name}: "
            f"{reasons}",
            "another kernel or another layer shape is needed; more memory does not help",
        )
    return DoesNotFit(
        f"{layer.kind} '{layer.name}' does not fit L1: the smallest legal tile of "
        f"{kernel.name} needs {smallest.bytes} bytes, {problem.budget_bytes} are available; "
        f"the largest buffer is the {_BUFFER_NAMES.get(smallest.dominant, smallest.dominant)} "
        f"({smallest.dominant}, {smallest.dominant_bytes} bytes)",
        f"raise the L1 budget to {smallest.bytes} bytes or more, or make the layer smaller",
        smallest.bytes,
    )
