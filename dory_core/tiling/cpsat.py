"""Expressions as constraints of CP-SAT: the solver's reading of ``dory_core.expr``.

A sub-expression of one variable becomes a column of that variable's table, whatever operators it
uses; sums stay linear; products, quotients and comparisons of several variables get an auxiliary
variable each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from dory_core.expr import Expr, Op, Var
from dory_core.tiling.reduce import SAFE_MAGNITUDE, Sum

#: Comparisons with zero as a closed range of the difference.
_AS_RANGE: dict[str, tuple[int | None, int | None]] = {
    "<": (None, -1),
    "<=": (None, 0),
    ">": (1, None),
    ">=": (0, None),
}


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A linear expression of CP-SAT and an enclosure of its values.

    magnitude: bound of every partial sum. is_affine: it names one variable at most.
    """

    expr: Any
    lo: int
    hi: int
    magnitude: int
    is_affine: bool = True

    @classmethod
    def of(cls, value: int) -> Form:
        """Return a number."""
        return cls(value, value, value, abs(value))

    @property
    def is_constant(self) -> bool:
        """Whether it is a number."""
        return isinstance(self.expr, int)

    def plus(self, other: Form) -> Form:
        """Return the sum."""
        affine = other.is_affine if self.is_constant else other.is_constant and self.is_affine
        magnitude = self.magnitude + other.magnitude
        lo, hi = self.lo + other.lo, self.hi + other.hi
        return Form(self.expr + other.expr, lo, hi, magnitude, affine)

    def times(self, factor: int) -> Form:
        """Return the product with a number. Raises OverflowError beyond the solver's integers."""
        magnitude = self.magnitude * abs(factor)
        if magnitude >= SAFE_MAGNITUDE:
            raise OverflowError("the objective of a tiling problem exceeds the integers of CP-SAT")
        lo, hi = sorted((self.lo * factor, self.hi * factor))
        return Form(self.expr * factor, lo, hi, magnitude, self.is_affine)

    def minus(self, other: Form) -> Form:
        """Return the difference."""
        return self.plus(other.times(-1))


class Model:
    """A CP-SAT model under construction."""

    def __init__(self) -> None:
        self._model = cp_model.CpModel()
        self._known: dict[int, tuple[Expr, Form]] = {}
        self._columns: dict[str, list[tuple[Any, Form]]] = {}
        self._variables: dict[str, Var] = {}
        self._allowed: dict[str, Any] = {}

    def restrict(self, variable: Var, allowed: Any) -> None:
        """Keep only the domain values where the boolean array ``allowed`` is true."""
        self.variable(variable)
        self._allowed[variable.name] &= allowed

    def variable(self, variable: Var) -> Form:
        """Return ``variable`` as a form."""
        if variable.name not in self._variables:
            self._variables[variable.name] = variable
            self._allowed[variable.name] = np.ones(len(variable.domain), dtype=bool)
            self._columns[variable.name] = []
        return self._column(variable, variable.domain)

    def bound(self, form: Form, lo: int | None, hi: int | None) -> None:
        """Add lo <= form <= hi; None leaves a side open."""
        self._between(form, lo, hi)

    def _between(self, form: Form, lo: int | None, hi: int | None) -> Any:
        low = -SAFE_MAGNITUDE if lo is None else lo
        high = SAFE_MAGNITUDE if hi is None else hi
        return self._model.add_linear_constraint(form.expr + self._zero, low, high)

    @property
    def _zero(self) -> Any:
        """A constant as a variable: a constraint on a number is legal then."""
        return self._model.new_constant(0)

    def _new(self, lo: int, hi: int) -> Form:
        return Form(self._model.new_int_var(lo, hi, ""), lo, hi, max(abs(lo), abs(hi)))

    def _column(self, variable: Var, table: Any) -> Form:
        """Return a form that is ``table[k]`` where ``variable`` has its k-th value."""
        lo, hi = int(table.min()), int(table.max())
        if lo == hi:
            return Form.of(lo)
        columns = self._columns[variable.name]
        for known, form in columns:
            if np.array_equal(known, table):
                return form
        form = self._new(lo, hi)
        columns.append((table, form))
        return form

    def lower(self, expr: Any) -> Form:
        """Return ``expr`` as a form over (possibly new) variables of the model."""
        if not isinstance(expr, Expr):
            return Form.of(int(expr))
        known = self._known.get(id(expr))
        if known is None:
            # The expression is kept with the form: an id is only unique while its object lives.
            known = self._known[id(expr)] = (expr, self._lower(expr))
        return known[1]

    def _lower(self, expr: Expr) -> Form:
        for variable in expr.variables:
            self.variable(variable)
        if not expr.variables:
            return Form.of(expr.bounds[0])
        if len(expr.variables) == 1:
            return self._column(expr.variables[0], expr.table())
        assert isinstance(expr, Op)  # the other expressions have one variable at most
        kind = expr.kind
        if kind in ("+", "-"):
            return self.lower_sum(Sum([(expr, 1)]))
        a, b = (self.lower(argument) for argument in expr.args)
        if kind == "*":
            return self._product(a, b)
        if kind == "ceil_div":
            return self._quotient(a.times(-1), b)[0].times(-1)
        if kind in ("//", "%"):
            return self._quotient(a, b)[kind == "%"]
        if kind in ("min", "max"):
            choose = min if kind == "min" else max
            result = self._new(choose(a.lo, b.lo), choose(a.hi, b.hi))
            add = getattr(self._model, f"add_{kind}_equality")
            add(result.expr, [a.expr, b.expr])
            return result
        return self._comparison(kind, a.minus(b))

    def lower_sum(self, total: Sum) -> Form:
        """Return a sum as a form; its tables become columns."""
        form = Form.of(total.const)
        for name, table in total.tables.items():
            form = form.plus(self._column(self._variables[name], table))
        for part, factor in total.parts:
            form = form.plus(self.lower(part).times(factor))
        return form

    def _affine(self, form: Form) -> Form:
        """Return ``form``, replaced by an equal variable when it has several."""
        if form.is_affine:
            return form
        result = self._new(form.lo, form.hi)
        self._model.add(result.expr == form.expr)
        return result

    def _product(self, a: Form, b: Form) -> Form:
        if a.is_constant or b.is_constant:
            return b.times(a.expr) if a.is_constant else a.times(b.expr)
        corners = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        result = self._new(min(corners), max(corners))
        factors = [self._affine(a).expr, self._affine(b).expr]
        self._model.add_multiplication_equality(result.expr, factors)
        return result

    def _quotient(self, a: Form, b: Form) -> tuple[Form, Form]:
        """Return floor(a / b) and a modulo b."""
        corners = [x // y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
        quotient = self._new(min(corners), max(corners))
        rest = a.minus(self._product(quotient, b))
        # The remainder has the sign of the divisor: 0 <= rest < b, or b < rest <= 0.
        sign = 1 if b.lo > 0 else -1
        self.bound(rest.times(sign), 0, None)
        self.bound(rest.minus(b).times(sign), None, -1)
        return quotient, rest

    def _comparison(self, kind: str, difference: Form) -> Form:
        """Return a 0/1 form that is 1 exactly where ``difference kind 0`` holds."""
        if kind == "!=":
            return Form.of(1).minus(self._comparison("==", difference))
        if kind == "==":
            both = (self._comparison(one, difference) for one in ("<=", ">="))
            return next(both).plus(next(both)).plus(Form.of(-1))
        holds = self._model.new_bool_var("")
        lo, hi = _AS_RANGE[kind]
        other = (None, lo - 1) if lo is not None else ((hi or 0) + 1, None)
        self._between(difference, lo, hi).only_enforce_if(holds)
        self._between(difference, *other).only_enforce_if(~holds)
        return Form(holds, 0, 1, 1)

    def maximise(self, objective: Form) -> dict[str, int] | None:
        """Return the values of the variables at the proven maximum, None when infeasible.

        Raises OverflowError when the terms of the objective could leave int64, though their sum may
        not; RuntimeError when CP-SAT ends without a proof.
        """
        if not all(allowed.any() for allowed in self._allowed.values()):
            return None
        if objective.magnitude >= SAFE_MAGNITUDE:
            raise OverflowError("the objective of a tiling problem exceeds the integers of CP-SAT")
        values = {name: self.variable(variable) for name, variable in self._variables.items()}
        for name, columns in self._columns.items():
            if columns:
                rows = np.stack([table[self._allowed[name]] for table, _ in columns], axis=1)
                forms = [form.expr for _, form in columns]
                self._model.add_allowed_assignments(forms, rows.tolist())
        self._model.maximize(objective.expr)
        solver = cp_model.CpSolver()
        # Small models: presolve and relaxations cost more than they save. One worker is
        # deterministic.
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.cp_model_presolve = False
        solver.parameters.linearization_level = 0
        solver.parameters.symmetry_level = 0
        solver.parameters.cp_model_probing_level = 0
        status = solver.solve(self._model)
        if status == cp_model.INFEASIBLE:
            return None
        if status != cp_model.OPTIMAL:
            raise RuntimeError(
                f"CP-SAT ended with {solver.status_name(status)} on a tiling problem"
            )
        return {name: int(solver.value(form.expr)) for name, form in values.items()}
