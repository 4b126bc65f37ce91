"""The values of variables with the highest objective, by interval bounds, halves and enumeration.

Interval arithmetic over whole domains at once: for every value of one variable, an enclosure of an
expression over all values that the other variables still have. A value goes when it breaks a
constraint whatever the others do, or when its best objective is worse than a tile already known.
Both remove only values that no optimum uses, ties included. What is left is looked at one by one;
more than can be is halved, and the bounds are tighter in each half.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from dory_core.expr import OPERATORS, Expr, Op, Var, evaluate

ROUNDS = 4
# Values per variable that are combined in the search for a first tile.
CANDIDATES = 10
# Combinations that are looked at in one go.
AT_ONCE = 1 << 16
# So few combinations are looked at in less time than bounds take.
SMALL = 1 << 15
# Up to so many combinations are looked at one by one, millions per second.
ENUMERATED = 1 << 22
# Sums must stay inside int64 with a margin.
SAFE_MAGNITUDE = 1 << 61


class Sum:
    """An expression as sum of one table per variable and of parts with several variables."""

    __slots__ = ("const", "parts", "tables")

    def __init__(self, terms: Sequence[tuple[Any, int]]) -> None:
        """Build the sum of factor * expression over ``terms``."""
        self.const = 0
        self.tables: dict[str, Any] = {}
        self.parts: list[tuple[Expr, int]] = []
        stack = list(terms)
        while stack:
            part, factor = stack.pop()
            if not isinstance(part, Expr):
                self.const += int(part) * factor
            elif not part.variables:
                self.const += part.bounds[0] * factor
            elif len(part.variables) == 1:
                name = part.variables[0].name
                self.tables[name] = self.tables.get(name, 0) + factor * part.table()
            elif isinstance(part, Op) and part.kind in ("+", "-"):
                stack.append((part.args[0], factor))
                stack.append((part.args[1], factor if part.kind == "+" else -factor))
            elif isinstance(part, Op) and part.kind == "*" and not part.args[0].variables:
                stack.append((part.args[1], factor * part.args[0].bounds[0]))
            elif isinstance(part, Op) and part.kind == "*" and not part.args[1].variables:
                stack.append((part.args[0], factor * part.args[1].bounds[0]))
            else:
                self.parts.append((part, factor))

    def values(self, env: dict[str, Any], positions: dict[str, Any]) -> Any:
        """Return the value where the variables have ``env``, ``positions`` in their domains."""
        total: Any = self.const
        for name, table in self.tables.items():
            total = total + table[positions[name]]
        for part, factor in self.parts:
            total = total + factor * evaluate(part, env)
        return total


# A sum with its lowest and highest allowed value (None: open).
Limit = tuple[Sum, int | None, int | None]


class Domains:
    """The values that every variable of a problem still has."""

    def __init__(self, variables: Sequence[Var]) -> None:
        self.variables = {v.name: v for v in variables}
        self.masks = {v.name: np.ones(len(v.domain), dtype=bool) for v in variables}
        self.empty = False  # True when a variable has no value left
        self._extremes: dict[str, dict[int, tuple[Any, int, int]]] = {n: {} for n in self.masks}
        self._changes = dict.fromkeys(self.masks, 0)
        self._applied: dict[tuple[Any, ...], tuple[Sum, int]] = {}

    @property
    def size(self) -> int:
        """Number of combinations left."""
        size = 1
        for mask in self.masks.values():
            size *= int(mask.sum())
        return size

    def halves(self) -> tuple[Domains, Domains]:
        """Return the higher and the lower half of the variable with the most values left."""
        name = max(self.masks, key=lambda name: int(self.masks[name].sum()))
        low, high = np.array_split(np.flatnonzero(self.masks[name]), 2)
        return self._only(name, high), self._only(name, low)

    def _only(self, name: str, positions: Any) -> Domains:
        part = Domains(tuple(self.variables.values()))
        part.masks = {other: mask.copy() for other, mask in self.masks.items()}
        part.masks[name][:] = False
        part.masks[name][positions] = True
        return part

    def keep(self, name: str, inside: Any) -> bool:
        """Keep the remaining values of a variable where ``inside``; return whether any went."""
        if inside.all():
            return False
        mask = self.masks[name]
        mask[np.flatnonzero(mask)[~inside]] = False
        self.empty = self.empty or not mask.any()
        self._extremes[name].clear()
        self._changes[name] += 1
        return True

    def apply(self, limit: Limit, name: str) -> bool:
        """Remove the values of a variable that break ``limit``; return whether any went.

        Without a change of the other variables, doing it again would remove nothing.
        """
        total, lowest, highest = limit
        key = (id(total), lowest, highest, name)
        others = sum(self._changes.values()) - self._changes[name]
        done = self._applied.get(key)
        if done is not None and done[1] == others:
            return False
        # The sum is kept: an id is only unique while its object lives.
        self._applied[key] = (total, others)
        lo, hi = self.enclose(total, name)
        inside = np.ones(np.count_nonzero(self.masks[name]), dtype=bool)
        if highest is not None:
            inside &= lo <= highest
        if lowest is not None:
            inside &= hi >= lowest
        return self.keep(name, inside)

    def _range(self, table: Any, name: str) -> tuple[int, int]:
        """Return the extremes of a table over the remaining values."""
        known = self._extremes[name].get(id(table))
        if known is None:
            left = table[self.masks[name]]
            # The table is kept: an id is only unique while its object lives.
            known = (table, int(left.min()), int(left.max()))
            self._extremes[name][id(table)] = known
        return known[1:]

    def enclose(self, total: Sum, focus: str) -> tuple[Any, Any]:
        """Return (lowest, highest) of ``total`` for every remaining value of ``focus``."""
        lo: Any = total.const
        hi: Any = total.const
        for name, table in total.tables.items():
            if name == focus:
                exact = table[self.masks[name]]
                lo, hi = lo + exact, hi + exact
            else:
                low, high = self._range(table, name)
                lo, hi = lo + low, hi + high
        memo: dict[int, tuple[Any, Any]] = {}
        for part, factor in total.parts:
            low, high = self._enclose(part, focus, memo)
            if factor < 0:
                low, high = high, low
            lo, hi = lo + factor * low, hi + factor * high
        return lo, hi

    def _enclose(self, expr: Expr, focus: str, memo: dict[int, tuple[Any, Any]]) -> tuple[Any, Any]:
        known = memo.get(id(expr))
        if known is None:
            known = memo[id(expr)] = self._enclose_new(expr, focus, memo)
        return known

    def _enclose_new(
        self, expr: Expr, focus: str, memo: dict[int, tuple[Any, Any]]
    ) -> tuple[Any, Any]:
        if not expr.variables:
            return expr.bounds
        if len(expr.variables) == 1:
            name = expr.variables[0].name
            if name == focus:
                exact = expr.table()[self.masks[name]]
                return exact, exact
            return self._range(expr.table(), name)
        assert isinstance(expr, Op)  # the other expressions have one variable at most
        (a_lo, a_hi), (b_lo, b_hi) = (self._enclose(a, focus, memo) for a in expr.args)
        kind = expr.kind
        if kind in ("+", "min", "max"):
            function = OPERATORS[kind]
            return function(a_lo, b_lo), function(a_hi, b_hi)
        if kind == "-":
            return a_lo - b_hi, a_hi - b_lo
        if kind in ("*", "//", "ceil_div"):
            function = OPERATORS[kind]
            if expr.args[0].bounds[0] >= 0 and expr.args[1].bounds[0] >= 0:
                if kind == "*":
                    return a_lo * b_lo, a_hi * b_hi
                return function(a_lo, b_hi), function(a_hi, b_lo)
            corners = [function(a, b) for a in (a_lo, a_hi) for b in (b_lo, b_hi)]
            return OPERATORS["min"](*corners), OPERATORS["max"](*corners)
        return expr.bounds


def reduce_by_constraints(domains: Domains, limits: Sequence[Limit]) -> None:
    """Remove the values for which a sum cannot lie in its limits (lowest, highest)."""
    for _ in range(ROUNDS):
        changed = False
        for limit in limits:
            for name in domains.variables:
                if domains.empty:
                    return
                changed |= domains.apply(limit, name)
        if not changed:
            return


def first_tile(domains: Domains, objective: Sum, limits: Sequence[Limit]) -> int | None:
    """Return the objective of the best allowed tile among promising ones, None without one.

    Promising are the values with the highest possible objective, and the ends of the domains.
    """
    chosen = {}
    for name in domains.variables:
        left = np.flatnonzero(domains.masks[name])
        _, best = domains.enclose(objective, name)
        order = np.argsort(-np.broadcast_to(best, left.shape), kind="stable")[:CANDIDATES]
        spread = (k * (len(left) - 1) // 3 for k in range(4))
        chosen[name] = left[sorted({*order.tolist(), *spread})]
    found = _best_of_grid(domains, chosen, objective, limits)
    return None if found is None else found[0]


def best_values(
    domains: Domains, objective: Sum, limits: Sequence[Limit]
) -> tuple[int, dict[str, int]] | None:
    """Return (objective, values) of the best allowed combination, None without one.

    Of equals any is returned: the objective must tell tiles apart. ``domains`` loses values.
    """
    reduce_domains(domains, objective, limits)
    if domains.empty:
        return None
    if domains.size <= ENUMERATED:
        return _best_remaining(domains, objective, limits)
    best = None
    for half in domains.halves():
        found = best_values(half, objective, limits)
        if found is not None:
            best, limits = found, [*limits, (objective, found[0] + 1, None)]
    return best


def _best_remaining(
    domains: Domains, objective: Sum, limits: Sequence[Limit]
) -> tuple[int, dict[str, int]] | None:
    chosen = {name: np.flatnonzero(mask) for name, mask in domains.masks.items()}
    # Slices of the longest axis bound the memory: arrays of every subexpression are kept.
    axis = max(chosen, key=lambda name: len(chosen[name]))
    parts = min(-(-domains.size // AT_ONCE), len(chosen[axis]))
    slices = (chosen | {axis: part} for part in np.array_split(chosen[axis], parts))
    found = (_best_of_grid(domains, one, objective, limits) for one in slices)
    return max((one for one in found if one is not None), key=itemgetter(0), default=None)


def _best_of_grid(
    domains: Domains, chosen: dict[str, Any], objective: Sum, limits: Sequence[Limit]
) -> tuple[int, dict[str, int]] | None:
    """Return (objective, values) of the best allowed combination of positions in the domains."""
    # Each variable has an axis of its own: what depends on few of them is computed for few values.
    grids = np.meshgrid(*chosen.values(), indexing="ij", sparse=True)
    positions = dict(zip(chosen, grids, strict=True))
    env = {name: domains.variables[name].domain[index] for name, index in positions.items()}
    shape = tuple(len(index) for index in chosen.values())
    allowed = np.ones(shape, dtype=bool)
    for total, lowest, highest in limits:
        value = total.values(env, positions)
        if highest is not None:
            allowed &= value <= highest
        if lowest is not None:
            allowed &= value >= lowest
    if not allowed.any():
        return None
    value = np.broadcast_to(objective.values(env, positions), shape)
    legal = np.flatnonzero(allowed)
    at = int(legal[np.argmax(value[allowed])])
    best = np.unravel_index(at, shape)
    found = (
        (name, int(domains.variables[name].domain[chosen[name][i]]))
        for name, i in zip(chosen, best, strict=True)
    )
    return int(value[best]), dict(found)


def reduce_domains(domains: Domains, objective: Sum, limits: Sequence[Limit]) -> None:
    """Remove values that no best tile has, from ``domains`` in place; stop when few are left."""
    if domains.size <= SMALL:
        return
    reduce_by_constraints(domains, limits)
    for _ in range(ROUNDS):
        if domains.empty or domains.size <= SMALL:
            return
        before = domains.size
        known = first_tile(domains, objective, limits)
        if known is None:
            return
        reduce_by_constraints(domains, [*limits, (objective, known, None)])
        if domains.size * 2 > before:
            return
