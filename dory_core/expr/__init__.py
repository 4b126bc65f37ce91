"""Small immutable integer expressions over tile sizes.

A kernel or an objective term is written once, with + - * // % comparisons and the functions below;
the same line then computes on plain integers, on numpy arrays (:func:`evaluate`), reads as text
(:func:`to_text`) and has bounds over all sizes. ``//`` and ``%`` round towards minus infinity in
every reading; a comparison is 1 or 0. Conditions are joined with :func:`minimum` (and) and
:func:`maximum` (or).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

#: An int, a numpy integer array or an Expr; a type variable would spread over every signature.
Number = Any

_Binary = Callable[["Expr", Any], "Expr"]


def _operator(kind: str) -> tuple[_Binary, _Binary]:
    """Return the methods that apply an operator to an Expr on its left, and on its right."""
    return (lambda a, b: _make(kind, a, b)), (lambda b, a: _make(kind, a, b))


class Expr:
    """An integer expression. Build it from :class:`Var` with operators; never changed afterwards.

    ``==`` and ``!=`` build expressions too, so an Expr is neither hashable nor a condition of an
    ``if``: its value is not known yet.

    Attributes:
        variables: Those of the expression.
    """

    __slots__ = ("_bounds", "_table", "variables")

    variables: tuple[Var, ...]
    _bounds: tuple[int, int] | None
    _table: Any
    # Makes ``array + expr`` and ``numpy integer + expr`` come here instead of broadcasting.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    @property
    def bounds(self) -> tuple[int, int]:
        """Return (lowest, highest) value: exact with at most one variable, else an enclosure."""
        if self._bounds is None:
            if len(self.variables) == 1:
                table = self.table()
                self._bounds = (int(table.min()), int(table.max()))
            else:
                self._bounds = _interval(self)
        return self._bounds

    def table(self) -> Any:
        """Return the values (int64) over the domain of the only variable.

        Raises:
            ValueError: When the expression has not exactly one variable.
        """
        if self._table is None:
            (variable,) = self.variables
            table = evaluate(self, {variable.name: variable.domain})
            table = np.broadcast_to(np.asarray(table, dtype=np.int64), variable.domain.shape)
            self._table = table
        return self._table

    def __bool__(self) -> bool:
        raise TypeError(
            "the value of an expression is not known yet: write conditions with comparisons, "
            "minimum (and) and maximum (or) instead of if, and, or"
        )

    def __neg__(self) -> Expr:
        return _make("-", 0, self)

    def __pos__(self) -> Expr:
        return self

    __add__, __radd__ = _operator("+")
    __sub__, __rsub__ = _operator("-")
    __mul__, __rmul__ = _operator("*")
    __floordiv__, __rfloordiv__ = _operator("//")
    __mod__, __rmod__ = _operator("%")
    __eq__ = _operator("==")[0]  # type: ignore[assignment]
    __ne__ = _operator("!=")[0]  # type: ignore[assignment]
    __lt__, __gt__ = _operator("<")[0], _operator(">")[0]
    __le__, __ge__ = _operator("<=")[0], _operator(">=")[0]

    def __repr__(self) -> str:
        return f"<{to_text(self)}>"


class Const(Expr):
    """An integer constant."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value
        self.variables = ()
        self._bounds = (value, value)
        self._table = None


class Var(Expr):
    """A variable with the inclusive domain lo..hi, or exactly the sorted ``values`` within it."""

    __slots__ = ("domain", "name")

    def __init__(self, name: str, lo: int, hi: int, values: Sequence[int] | None = None) -> None:
        if lo > hi:
            raise ValueError(f"variable {name} has an empty domain {lo}..{hi}")
        self.name = name
        self.domain = (
            np.arange(lo, hi + 1, dtype=np.int64)
            if values is None
            else np.asarray(values, dtype=np.int64)
        )
        self.domain.setflags(write=False)
        self.variables = (self,)
        self._bounds = (int(self.domain[0]), int(self.domain[-1]))
        self._table = self.domain


class Apply(Expr):
    """An operator of :data:`OPERATORS` applied to two or more arguments."""

    __slots__ = ("args", "kind")

    def __init__(self, kind: str, args: tuple[Expr, ...]) -> None:
        self.kind = kind
        self.args = args
        self.variables = _union(args)
        self._bounds = None
        self._table = None


class Lookup(Expr):
    """``values[index]``: a function of one size that has no short formula, under a name."""

    __slots__ = ("index", "name", "values")

    def __init__(self, name: str, values: Any, index: Expr) -> None:
        self.name = name
        self.values = np.asarray(values, dtype=np.int64)
        self.values.setflags(write=False)
        self.index = index
        self.variables = index.variables
        self._bounds = None
        self._table = None
        lo, hi = index.bounds
        if lo < 0 or hi >= len(self.values):
            raise ValueError(f"index of {name} reaches {lo}..{hi}, table has {len(self.values)}")


def _ceil_div(a: Any, b: Any) -> Any:
    return -(-a // b)


def _pick(ufunc: Any, plain: Callable[..., Any], *values: Any) -> Any:
    """Return the least or greatest value, element by element when there are arrays."""
    arrays = any(isinstance(v, np.ndarray) for v in values)
    return functools.reduce(ufunc, values) if arrays else plain(values)


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

OPERATORS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "ceil_div": _ceil_div,
    "min": functools.partial(_pick, np.minimum, min),
    "max": functools.partial(_pick, np.maximum, max),
    **_COMPARISONS,
}


def _interval(node: Expr) -> tuple[int, int]:
    """Return an enclosure of the values of a node, from the bounds of its arguments."""
    if isinstance(node, Lookup):
        lo, hi = node.index.bounds
        part = node.values[lo : hi + 1]
        return int(part.min()), int(part.max())
    if not isinstance(node, Apply):
        raise TypeError(f"{type(node).__name__} has no bounds")
    intervals = [a.bounds for a in node.args]
    if node.kind in ("min", "max"):
        pick = min if node.kind == "min" else max
        return pick(lo for lo, _ in intervals), pick(hi for _, hi in intervals)
    (a_lo, a_hi), (b_lo, b_hi) = intervals
    if node.kind == "%":
        reach = (0, b_hi - 1) if b_lo > 0 else (b_lo + 1, 0)
        return (a_lo, a_hi) if a_lo >= 0 and b_lo > 0 and a_hi < b_lo else reach
    if node.kind in _COMPARISONS:
        return (0, 1)
    # + - * // and ceil_div are monotone in each argument while the divisor keeps its sign.
    function = OPERATORS[node.kind]
    corners = [function(a, b) for a in (a_lo, a_hi) for b in (b_lo, b_hi)]
    return min(corners), max(corners)


def _union(args: Sequence[Expr]) -> tuple[Var, ...]:
    """Return the variables of ``args`` sorted by name. Raises ValueError on a name clash."""
    found = args[0].variables
    for arg in args[1:]:
        if arg.variables is found or not arg.variables:
            continue
        merged = {v.name: v for v in found}
        for variable in arg.variables:
            if merged.setdefault(variable.name, variable) is not variable:
                raise ValueError(f"two variables are called {variable.name}")
        found = tuple(merged[name] for name in sorted(merged))
    return found


def _expr(value: Any) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, float):
        raise TypeError(f"expressions are integer: {value!r} is not; scale it and divide with //")
    return Const(operator.index(value))


def _make(kind: str, *values: Any) -> Expr:
    """Return the operation, folded where its value is already known."""
    args = tuple(_expr(v) for v in values)
    if kind in ("//", "%", "ceil_div"):
        lo, hi = args[1].bounds
        if lo <= 0 <= hi:
            raise ZeroDivisionError(f"the divisor {to_text(args[1])} can be zero")
    if all(isinstance(a, Const) for a in args):
        return Const(int(OPERATORS[kind](*(a.bounds[0] for a in args))))
    if len(args) == 2:
        folded = _fold(kind, *args)
        if folded is not None:
            return folded
    return Apply(kind, args)


def _fold(kind: str, a: Expr, b: Expr) -> Expr | None:
    """Return a simpler expression equal to ``a kind b`` for every value, or None."""
    left = a.value if isinstance(a, Const) else None
    right = b.value if isinstance(b, Const) else None
    if kind in ("+", "-") and right == 0:
        return a
    if kind == "+" and left == 0:
        return b
    if kind in ("*", "//", "ceil_div") and right == 1:
        return a
    if kind == "*":
        if left == 1:
            return b
        if 0 in (left, right):
            return Const(0)
    if kind == "%" and right == 1:
        return Const(0)
    if kind in ("min", "max"):
        (a_lo, a_hi), (b_lo, b_hi) = a.bounds, b.bounds
        if a_hi <= b_lo:
            return a if kind == "min" else b
        if b_hi <= a_lo:
            return b if kind == "min" else a
    if kind in _COMPARISONS:
        return _fold_comparison(kind, a.bounds, b.bounds)
    return None


def _fold_comparison(kind: str, a: tuple[int, int], b: tuple[int, int]) -> Const | None:
    below, above = a[1] < b[0], a[0] > b[1]  # every a is less, greater than every b
    at_most, at_least = a[1] <= b[0], a[0] >= b[1]
    true, false = {
        "==": (False, below or above),
        "!=": (below or above, False),
        "<": (below, at_least),
        "<=": (at_most, above),
        ">": (above, at_most),
        ">=": (at_least, below),
    }[kind]
    return Const(int(true)) if true or false else None


def ceil_div(a: Any, b: Any) -> Any:
    """Return a / b rounded towards plus infinity, on integers, arrays or expressions."""
    if isinstance(a, Expr) or isinstance(b, Expr):
        return _make("ceil_div", a, b)
    return _ceil_div(a, b)


def minimum(*args: Any) -> Any:
    """Return the least argument (a logical and of conditions), element by element for arrays."""
    return _extreme("min", args)


def maximum(*args: Any) -> Any:
    """Return the greatest argument (a logical or of conditions), element by element for arrays."""
    return _extreme("max", args)


def _extreme(kind: str, args: tuple[Any, ...]) -> Any:
    if not any(isinstance(a, Expr) for a in args):
        return OPERATORS[kind](*args)
    return functools.reduce(functools.partial(_make, kind), args)


def lookup(name: str, values: Sequence[int], index: Any) -> Any:
    """Return values[index], on integers, arrays or expressions; ``name`` is for the text form."""
    if isinstance(index, Expr):
        return Lookup(name, values, index)
    return np.asarray(values)[index] if isinstance(index, np.ndarray) else values[index]


def evaluate(expr: Any, values: Mapping[str, Any]) -> Any:
    """Return the value of ``expr`` for the given variables, integers or int64 arrays.

    Anything that is not an Expr is returned as it is.

    Raises:
        KeyError: For a missing variable.
    """
    return _value(expr, values, {}) if isinstance(expr, Expr) else expr


def _value(node: Expr, values: Mapping[str, Any], memo: dict[int, Any]) -> Any:
    """Return the value of a node.

    No closure: one that calls itself would keep the arrays in memo alive until the next collection.

    Args:
        node: The expression.
        values: Of the variables, by name.
        memo: Values of nodes by id.
    """
    known = memo.get(id(node))
    if known is not None:
        return known
    result: Any
    if isinstance(node, Apply):
        result = OPERATORS[node.kind](*(_value(a, values, memo) for a in node.args))
        if node.kind in _COMPARISONS:
            result = result.astype(np.int64) if isinstance(result, np.ndarray) else int(result)
    elif isinstance(node, Const):
        return node.value
    elif isinstance(node, Var):
        return values[node.name]
    elif isinstance(node, Lookup):
        index = _value(node.index, values, memo)
        result = node.values[index] if isinstance(index, np.ndarray) else int(node.values[index])
    else:
        raise TypeError(f"{type(node).__name__} has no value")
    memo[id(node)] = result
    return result


# Binding strength of the operators in text, as in Python.
_PRECEDENCE = {"*": 3, "//": 3, "%": 3, "+": 2, "-": 2, **dict.fromkeys(_COMPARISONS, 1)}


def to_text(expr: Any) -> str:
    """Return ``expr`` as text: Python syntax with min, max, ceil_div and named tables."""
    return _text(expr)[0]


def _text(expr: Any) -> tuple[str, int]:
    if isinstance(expr, Const):
        return str(expr.value), 4 if expr.value >= 0 else 2
    if isinstance(expr, Var):
        return expr.name, 4
    if isinstance(expr, Lookup):
        return f"{expr.name}({to_text(expr.index)})", 4
    if not isinstance(expr, Apply):
        return str(expr), 4
    if expr.kind not in _PRECEDENCE:
        return f"{expr.kind}({', '.join(to_text(a) for a in expr.args)})", 4
    strength = _PRECEDENCE[expr.kind]
    (left, left_strength), (right, right_strength) = (_text(a) for a in expr.args)
    if expr.kind == "-" and isinstance(expr.args[0], Const) and expr.args[0].value == 0:
        return (f"-{right}" if right_strength > 3 else f"-({right})"), 2
    # Comparisons do not chain here: both sides of one are put into brackets when they compare.
    if left_strength < strength + (strength == 1):
        left = f"({left})"
    if right_strength <= strength:
        right = f"({right})"
    return f"{left} {expr.kind} {right}", strength
