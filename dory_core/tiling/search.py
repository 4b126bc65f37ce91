"""Exhaustive search over all tiles: slow, obvious, and the judge of the solver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dory_core.expr import Var, evaluate
from dory_core.tiles.tiling import Tiling
from dory_core.tiling.problem import AXES, TilingProblem, doubled_weight, make_tiling

EXHAUSTIVE = "optimal: every tile was looked at"

# Tiles that are looked at together: bounds the memory of the search.
CHUNK = 1 << 18


def tile_space(variables: Sequence[Var]) -> Iterator[dict[str, Any]]:
    """Return all values of the variables as arrays, in descending lexicographic order."""
    by_name = {v.name: v for v in variables}
    ordered: list[Var] = [by_name[name] for name in AXES if name in by_name]
    total = int(np.prod([len(v.domain) for v in ordered], dtype=np.int64))
    shape = tuple(len(v.domain) for v in ordered)
    for start in range(0, total, CHUNK):
        indices = np.unravel_index(np.arange(start, min(start + CHUNK, total)), shape)
        yield {v.name: v.domain[::-1][index] for v, index in zip(ordered, indices, strict=True)}


def search_values(problem: TilingProblem) -> dict[str, int] | None:
    """Return the best values by looking at every tile, None when no tile fits.

    The first of equals in descending lexicographic order wins, as in ``solve``.
    """
    formulation = problem.formulation
    best: tuple[int, dict[str, int]] | None = None
    for env in tile_space(formulation.variables) if formulation.variables else [{}]:
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
    return None if values is None else make_tiling(problem, values, EXHAUSTIVE)
