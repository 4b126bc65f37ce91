"""The best tile of a tiling problem, proven optimal by enumeration, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dory_core.errors import DoesNotFit
from dory_core.expr import evaluate
from dory_core.kernels.kernel import OPERANDS
from dory_core.tiling.enumeration import Limit, Sum, best_values, is_small
from dory_core.tiling.problem import (
    AXES,
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
    """Return what is proven about the tiles that :func:`solve` returns."""
    return OPTIMAL if is_small(formulation.variables) else OPTIMAL_TRIED


def solve(problem: TilingProblem) -> dict[str, int] | None:
    """Return the values of the tile with the highest objective, None when no tile fits.

    Among equals the lexicographically largest (c_out, h, w, c_in) is taken.
    """
    formulation = problem.formulation
    objective = [(t.value, doubled_weight(t)) for t in formulation.terms]
    memory = [(b.bytes, b.copies) for b in problem.buffers]
    return _best(formulation, objective, memory, problem.budget_bytes)


def _best(
    formulation: Formulation,
    objective: list[tuple[Any, int]],
    memory: list[tuple[Any, int]],
    budget: int | None,
) -> dict[str, int] | None:
    """Maximise ``objective``, then the tile; in one solve when both fit one integer."""
    limits = list(formulation.limits)
    if budget is not None:
        limits.append((Sum(memory), None, budget))
    rank = _rank(formulation)
    scale = 1 + sum(factor * (v.bounds[1] - v.bounds[0]) for v, factor in rank)
    combined = [(value, factor * scale) for value, factor in objective] + rank
    if _magnitude(combined) < SAFE_MAGNITUDE:
        return _maximise(formulation, Sum(combined), limits)
    if _magnitude(objective) >= SAFE_MAGNITUDE:
        raise OverflowError("the objective of a tiling problem exceeds integers of 64 bits")
    found = _maximise(formulation, Sum(objective), limits)
    if found is None:
        return None
    best = sum(factor * int(evaluate(value, found)) for value, factor in objective)
    return _maximise(formulation, Sum(rank), [*limits, (Sum(objective), best, None)])


def _rank(formulation: Formulation) -> list[tuple[Any, int]]:
    """Return the mixed-radix weights that order tiles lexicographically by AXES."""
    factor = 1
    rank: list[tuple[Any, int]] = []
    variables = {v.name: v for v in formulation.variables}
    for name in reversed(AXES):
        if name in variables:
            rank.append((variables[name], factor))
            lo, hi = variables[name].bounds
            factor *= hi - lo + 1
    return rank


def _magnitude(terms: list[tuple[Any, int]]) -> int:
    total = 0
    for value, factor in terms:
        lo, hi = value.bounds if hasattr(value, "bounds") else (int(value), int(value))
        total += abs(factor) * max(abs(lo), abs(hi))
    return total


def _maximise(
    formulation: Formulation, objective: Sum, limits: list[Limit]
) -> dict[str, int] | None:
    if not formulation.variables:
        legal = all(
            (lo is None or total.const >= lo) and (hi is None or total.const <= hi)
            for total, lo, hi in limits
        )
        return {} if legal else None
    found = best_values(formulation.variables, objective, limits)
    return None if found is None else found[1]


@dataclass(frozen=True, slots=True)
class Smallest:
    """The legal tile that needs the least memory. dominant: name of its largest buffer."""

    bytes: int
    dominant: str
    dominant_bytes: int


def smallest_tile(problem: TilingProblem) -> Smallest | None:
    """Return the least memory of any legal tile, None when the constraints exclude every tile."""
    memory = [(b.bytes, b.copies) for b in problem.buffers]
    values = _best(problem.formulation, [(b, -copies) for b, copies in memory], memory, None)
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
