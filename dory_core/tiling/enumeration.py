"""The values of variables with the highest objective: every combination is looked at.

Each variable has an axis of its own (an open grid), so that a part of a sum is computed only for
the values of the variables that it depends on. Slices of the longest axis bound the memory. A
million combinations take some milliseconds. Of more than ``LARGEST_SPACE``, which no layer that
fits a microcontroller has, only the even sizes are looked at, and the proof says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from dory_core.expr import Apply, Expr, Var, evaluate

#: Combinations that are looked at, at most.
LARGEST_SPACE = 1 << 27
#: Combinations that are looked at together: bounds the memory.
_SLICE = 1 << 16


class Sum:
    """A sum of factor * expression, with the parts that have the same variables added first."""

    __slots__ = ("const", "parts")

    def __init__(self, terms: Sequence[tuple[Any, int]]) -> None:
        """Build the sum of factor * expression over ``terms``."""
        self.const = 0
        self.parts: list[tuple[Expr, int]] = []
        stack = list(terms)
        while stack:
            part, factor = stack.pop()
            if not isinstance(part, Expr):
                self.const += int(part) * factor
            elif not part.variables:
                self.const += part.bounds[0] * factor
            elif isinstance(part, Apply) and part.kind in ("+", "-"):
                stack.append((part.args[0], factor))
                stack.append((part.args[1], factor if part.kind == "+" else -factor))
            elif isinstance(part, Apply) and part.kind == "*" and not part.args[0].variables:
                stack.append((part.args[1], factor * part.args[0].bounds[0]))
            elif isinstance(part, Apply) and part.kind == "*" and not part.args[1].variables:
                stack.append((part.args[0], factor * part.args[1].bounds[0]))
            else:
                self.parts.append((part, factor))
        self.parts.sort(key=lambda one: _names(one[0]))

    def values(self, env: dict[str, Any]) -> Any:
        """Return the value where the variables have ``env``, integers or arrays."""
        totals: dict[tuple[int, tuple[str, ...]], Any] = {}
        for part, factor in self.parts:
            names = _names(part)
            totals[names] = totals.get(names, 0) + factor * evaluate(part, env)
        return sum(totals.values(), self.const)


def _names(expr: Expr) -> tuple[int, tuple[str, ...]]:
    return len(expr.variables), tuple(v.name for v in expr.variables)


# A sum with its lowest and highest allowed value (None: open).
Limit = tuple[Sum, int | None, int | None]


def is_small(variables: Sequence[Var]) -> bool:
    """Return True when every combination of the values of the variables is looked at."""
    return prod(len(v.domain) for v in variables) <= LARGEST_SPACE


def even_sizes(variable: Var) -> Var:
    """Return the variable with the sizes that split its axis evenly.

    They are there as they are and rounded up to even numbers and multiples of 4 and 8; the least
    and the full size are among them.
    """
    domain = variable.domain
    total = int(domain[-1])
    even = {-(-total // n) for n in range(1, total + 1)}
    kept = {-(-size // step) * step for size in even for step in (1, 2, 4, 8)}
    kept |= {int(domain[0]), total}
    return Var(variable.name, int(domain[0]), total, [v for v in domain.tolist() if v in kept])


def whole_size(variable: Var) -> Var:
    """Return the variable with the full size only."""
    full = variable.bounds[1]
    return Var(variable.name, full, full)


def best_values(
    variables: Sequence[Var],
    objective: Sum,
    limits: Sequence[Limit],
    sizes: Sequence[Sum] = (),
    copies: Sequence[Sequence[int]] = ((),),
    budget: int = 0,
) -> list[tuple[int, dict[str, int]] | None]:
    """Return (objective, values) of the best allowed combination for each number of copies.

    Of equals it is the one with the largest first variable, then the largest second one, and so on.
    None stands where no combination is allowed.

    Args:
        variables: The variables.
        objective: What is to be as large as possible.
        limits: Those of every combination.
        sizes: Bytes of one copy of each buffer.
        copies: Numbers of copies of each buffer; each gets a result.
        budget: Bytes that all copies may take together.
    """
    if not is_small(variables):
        variables = [even_sizes(variable) for variable in variables]
    domains = {v.name: v.domain[::-1] for v in variables}
    longest = max(domains, key=lambda name: len(domains[name]))
    size = prod(len(domain) for domain in domains.values())
    slices = np.array_split(domains[longest], min(-(-size // _SLICE), len(domains[longest])))
    grids = (_Grid({**domains, longest: part}, objective, limits, sizes) for part in slices)
    found = [[grid.best(numbers, budget) for numbers in copies] for grid in grids]
    return [
        max(
            (one for one in of_slices if one is not None),
            key=lambda one: (one[0], *one[1].values()),
            default=None,
        )
        for of_slices in zip(*found, strict=True)
    ]


class _Grid:
    """All combinations of some values: which of them the limits allow, and what they are worth."""

    def __init__(
        self,
        domains: dict[str, Any],
        objective: Sum,
        limits: Sequence[Limit],
        sizes: Sequence[Sum],
    ) -> None:
        grids = np.meshgrid(*domains.values(), indexing="ij", sparse=True)
        env = dict(zip(domains, grids, strict=True))
        self._domains = domains
        self._shape = tuple(len(domain) for domain in domains.values())
        self._allowed = np.ones(self._shape, dtype=bool)
        for total, lowest, highest in limits:
            value = total.values(env)
            if highest is not None:
                self._allowed &= value <= highest
            if lowest is not None:
                self._allowed &= value >= lowest
        self._sizes = [size.values(env) for size in sizes]
        self._objective = np.broadcast_to(objective.values(env), self._shape)

    def best(self, copies: Sequence[int], budget: int) -> tuple[int, dict[str, int]] | None:
        """Return (objective, values) of the first best allowed combination that fits."""
        used = sum(n * size for n, size in zip(copies, self._sizes, strict=True))
        allowed = self._allowed & (used <= budget)
        legal = np.flatnonzero(allowed)
        if not legal.size:
            return None
        at = int(legal[np.argmax(self._objective[allowed])])
        position = np.unravel_index(at, self._shape)
        values = zip(self._domains.items(), position, strict=True)
        return int(self._objective[position]), {name: int(d[i]) for (name, d), i in values}
