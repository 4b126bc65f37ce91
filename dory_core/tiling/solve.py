"""The best tile of a tiling problem, proven optimal.

Interval bounds first remove the sizes that no optimum has (``reduce``). A small rest is enumerated,
a larger one is solved by CP-SAT (``cpsat``).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dory_core.errors import DoesNotFit
from dory_core.expr import evaluate
from dory_core.tiles.tiling import Tiling
from dory_core.tiling.problem import (
    AXES,
    Formulation,
    TilingProblem,
    doubled_weight,
    make_tiling,
)
from dory_core.tiling.reduce import (
    SAFE_MAGNITUDE,
    Domains,
    Limit,
    Sum,
    best_remaining,
    reduce_domains,
)

OPTIMAL = "proven optimal for the objective and constraints, largest tile among equals"

# Up to so many combinations, what the bounds leave is looked at one by one, millions per second;
# CP-SAT solves the larger rest, and takes seconds for a hundred thousand. Both are proofs; 0 leaves
# everything to CP-SAT.
ENUMERATED = 1 << 22
# So few combinations are looked at in less time than bounds take.
SMALL = 1 << 15


def solve(problem: TilingProblem) -> Tiling:
    """Return the tile with the highest objective, proven optimal.

    Among equals the lexicographically largest (c_out, h, w, c_in) is taken.

    Raises: DoesNotFit, naming the smallest legal tile and the buffer that dominates.
    """
    values = solve_values(problem)
    if values is None:
        raise does_not_fit(problem)
    return make_tiling(problem, values, OPTIMAL)


def solve_values(problem: TilingProblem) -> dict[str, int] | None:
    """Return the best value of every variable, None when no tile fits."""
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
    scale = max(scale, 1)
    combined = [(value, factor * scale) for value, factor in objective] + rank
    if _magnitude(combined) < SAFE_MAGNITUDE:
        with suppress(OverflowError):  # of parts whose sum is small, as in x % 8 = x - 8 * (x // 8)
            return _maximise(formulation, Sum(combined), limits)
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
    domains = Domains(formulation.variables)
    reduce_domains(domains, objective, limits, SMALL)
    if domains.empty:
        return None
    if domains.size <= ENUMERATED:
        return best_remaining(domains, objective, limits)
    from dory_core.tiling.cpsat import Model  # OR-Tools takes long to import

    model = Model()
    for name, variable in domains.variables.items():
        model.variable(variable)
        model.restrict(variable, domains.masks[name])
    for total, lo, hi in limits:
        model.bound(model.lower_sum(total), lo, hi)
    return model.maximise(model.lower_sum(objective))


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
    "w": "weights of the tile",
    "y": "output tile",
    "psum": "partial sums",
    "scratch": "kernel's scratch memory",
}


def does_not_fit(problem: TilingProblem) -> DoesNotFit:
    """Return the error that explains why no tile fits."""
    layer, kernel = problem.formulation.layer.op, problem.formulation.kernel
    level = f"L{problem.level}"
    smallest = smallest_tile(problem)
    if smallest is None:
        reasons = "; ".join(dict.fromkeys(c.reason for c in problem.formulation.constraints))
        return DoesNotFit(
            f"{layer.kind} '{layer.name}': no tile obeys the constraints of {kernel.name}: "
            f"{reasons}",
            "another kernel or another layer shape is needed; more memory does not help",
        )
    return DoesNotFit(
        f"{layer.kind} '{layer.name}' does not fit {level}: the smallest legal tile of "
        f"{kernel.name} needs {smallest.bytes} bytes, {problem.budget_bytes} are available; "
        f"the largest buffer is the {_BUFFER_NAMES.get(smallest.dominant, smallest.dominant)} "
        f"({smallest.dominant}, {smallest.dominant_bytes} bytes)",
        f"raise the {level} budget to {smallest.bytes} bytes or more, or make the layer smaller",
        smallest.bytes,
    )
