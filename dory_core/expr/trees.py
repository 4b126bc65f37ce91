"""Comparison of expressions by structure, and replacement of their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dory_core.expr import Apply, Const, Expr, Lookup, Var


def structure(expr: Any) -> Any:
    """Return a key that is equal for expressions of equal structure.

    Args:
        expr: An Expr, or an integer, which is its own key.
    """
    if isinstance(expr, Var):
        return expr.name, expr.bounds
    if isinstance(expr, Const):
        return expr.value
    if isinstance(expr, Lookup):
        return expr.name, expr.values.tobytes(), structure(expr.index)
    if isinstance(expr, Apply):
        return expr.kind, *map(structure, expr.args)
    return expr


def substituted(expr: Any, change: Callable[[Expr], Expr | None]) -> Any:
    """Return an expression with replaced parts and otherwise equal structure.

    Args:
        expr: An Expr, or an integer, which is returned as it is.
        change: Gives the replacement of a part, or None to look at its own parts.
    """
    if not isinstance(expr, Expr):
        return expr
    changed = change(expr)
    if changed is not None:
        return changed
    if isinstance(expr, Lookup):
        index = substituted(expr.index, change)
        return expr if index is expr.index else Lookup(expr.name, expr.values, index)
    if not isinstance(expr, Apply):
        return expr
    args = tuple(substituted(arg, change) for arg in expr.args)
    same = all(new is old for new, old in zip(args, expr.args, strict=True))
    return expr if same else Apply(expr.kind, args)
