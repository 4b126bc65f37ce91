"""Exhaustive search over all tiles: slow and obvious, what the solver is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from dory_core.expr import evaluate
from dory_core.schedule.tiling import Tiling
from dory_core.tiling import solve as solver
from dory_core.tiling.latency import tile_space
from dory_core.tiling.problem import TilingProblem, doubled_weight, make_tiling


def search_values(problem: TilingProblem) -> dict[str, int] | None:
    """Return the best values by looking at every tile, None when no tile fits.

    The first of equals in descending lexicographic order wins, as in ``solve``.
    """
    formulation = problem.formulation
    best: tuple[int, dict[str, int]] | None = None
    for env in [tile_space(formulation.variables) if formulation.variables else {}]:
        count = len(next(iter(env.values()))) if env else 1
        allowed = np.broadcast_to(evaluate(problem.bytes_used, env) <= problem.budget_bytes, count)
        for constraint in formulation.constraints:
            allowed = allowed & (np.asarray(evaluate(constraint.condition, env)) != 0)
        value: Any = 0
        for term in formulation.terms:
            value = value + doubled_weight(term) * evaluate(term.value, env)
        value = np.broadcast_to(np.asarray(value, dtype=np.int64), count)
        legal = np.flatnonzero(allowed)
        if not legal.size:
            continue
        at = int(legal[np.argmax(value[legal])])
        if best is None or int(value[at]) > best[0]:
            best = int(value[at]), {name: int(values[at]) for name, values in env.items()}
    return None if best is None else best[1]


def search(problem: TilingProblem) -> Tiling | None:
    """Return the best Tiling by looking at every tile, None when no tile fits."""
    values = search_values(problem)
    return None if values is None else make_tiling(problem, values, "every tile was looked at")


def solve(problem: TilingProblem) -> Tiling:
    """Return the best Tiling as the solver finds it; raises DoesNotFit."""
    found = solver.solve(problem.formulation, problem.budget_bytes, [problem.buffering])
    if not found:
        raise solver.does_not_fit(problem)
    return make_tiling(problem, found[problem.buffering], solver.OPTIMAL)
