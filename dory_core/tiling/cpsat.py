"""Expressions as constraints of CP-SAT: the solver's reading of ``dory_core.expr``.

A sub-expression of one variable becomes a column of that variable's table, whatever operators it
uses; sums stay linear; products, quotients and comparisons of several variables get an auxiliary
variable each. The model is written as protocol-buffer text, so that only the small part of OR-Tools
that solves is imported: a quarter of the start-up time of its full Python module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from dory_core.expr import Expr, Op, Var
from dory_core.tiling.reduce import Sum

Range = tuple[int, int]

# Sums in CP-SAT must stay inside int64 with a margin.
SAFE_MAGNITUDE = 1 << 61

# Small models: presolve and relaxations cost more than they save. One worker is deterministic.
PARAMETERS = (
    "num_workers: 1 random_seed: 0 cp_model_presolve: false linearization_level: 0 "
    "symmetry_level: 0 cp_model_probing_level: 0 log_search_progress: false"
)


@dataclass(frozen=True, slots=True)
class Linear:
    """const + sum of coefficient * variable; keys are indices of CP-SAT variables."""

    terms: Mapping[int, int] = field(default_factory=dict)
    const: int = 0

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """Return self + factor * other."""
        terms = dict(self.terms)
        for index, coefficient in other.terms.items():
            value = terms.pop(index, 0) + factor * coefficient
            if value:
                terms[index] = value
        return Linear(terms, self.const + factor * other.const)

    def times(self, factor: int) -> Linear:
        """Return factor * self."""
        return Linear().plus(self, factor)

    def divided(self, divisor: int) -> Linear | None:
        """Return floor(self / divisor) when it is linear, else None."""
        if any(c % divisor for c in self.terms.values()):
            return None
        return Linear({i: c // divisor for i, c in self.terms.items()}, self.const // divisor)


class Model:
    """A CP-SAT model under construction."""

    def __init__(self) -> None:
        self._domains: list[Range | np.ndarray[Any, Any]] = []
        self._constraints: list[str] = []
        self._memo: dict[int, tuple[Expr, Linear]] = {}
        self._shared: dict[tuple[Any, ...], Linear] = {}
        self._columns: dict[str, list[tuple[int, Any]]] = {}
        self._variables: dict[str, tuple[Var, int]] = {}
        self._allowed: dict[str, Any] = {}

    def restrict(self, variable: Var, allowed: Any) -> None:
        """Keep only the domain values where the boolean array ``allowed`` is true."""
        before = self._allowed.get(variable.name)
        self._allowed[variable.name] = allowed if before is None else before & allowed

    def bound(self, form: Linear, lo: int | None, hi: int | None) -> None:
        """Add lo <= form <= hi; None leaves a side open."""
        self._constraints.append(self._bound_text(form, lo, hi))

    def _bound_text(self, form: Linear, lo: int | None, hi: int | None) -> str:
        low = -SAFE_MAGNITUDE if lo is None else lo - form.const
        high = SAFE_MAGNITUDE if hi is None else hi - form.const
        if not form.terms:
            return "linear { domain: [0, 0] }" if low <= 0 <= high else "bool_or {}"
        return (
            f"linear {{ vars: {list(form.terms)} coeffs: {list(form.terms.values())} "
            f"domain: [{low}, {high}] }}"
        )

    def lower(self, expr: Any) -> Linear:
        """Return ``expr`` as a linear form over (possibly new) variables of the model."""
        if not isinstance(expr, Expr):
            return Linear({}, int(expr))
        known = self._memo.get(id(expr))
        if known is None:
            # The expression is kept with the form: an id is only unique while its object lives.
            known = (expr, self._lower(expr))
            self._memo[id(expr)] = known
        return known[1]

    def _lower(self, expr: Expr) -> Linear:
        if not expr.variables:
            return Linear({}, expr.bounds[0])
        if len(expr.variables) == 1:
            return self._column(expr.variables[0], expr.table())
        assert isinstance(expr, Op)  # the other expressions have one variable at most
        if expr.kind in ("+", "-"):
            for variable in expr.variables:
                self.variable(variable)
            return self.lower_sum(Sum([(expr, 1)]))
        left, right = expr.args
        a, b, bounds = self.lower(left), self.lower(right), (left.bounds, right.bounds)
        if expr.kind == "*":
            return self._product(a, b, *bounds)
        if expr.kind == "ceil_div":
            upwards = (-bounds[0][1], -bounds[0][0])
            return self._quotient(a.times(-1), b, upwards, bounds[1])[0].times(-1)
        if expr.kind == "//":
            return self._quotient(a, b, *bounds)[0]
        if expr.kind == "%":
            return self._quotient(a, b, *bounds)[1]
        if expr.kind in ("min", "max"):
            sign = 1 if expr.kind == "max" else -1
            return self._maximum([a.times(sign), b.times(sign)]).times(sign)
        return self._comparison(expr.kind, a.plus(b, -1))

    def variable(self, variable: Var) -> int:
        """Return the index of ``variable`` in the model."""
        known = self._variables.get(variable.name)
        if known is None:
            known = (variable, self._new(variable.domain))
            self._variables[variable.name] = known
        return known[1]

    def _new(self, domain: Range | np.ndarray[Any, Any]) -> int:
        self._domains.append(domain)
        return len(self._domains) - 1

    def _column(self, variable: Var, table: Any) -> Linear:
        """Return a form that is ``table[k]`` where ``variable`` has its k-th value."""
        index = self.variable(variable)
        domain = variable.domain
        if len(domain) == 1 or (table == table[0]).all():
            return Linear({}, int(table[0]))
        slope, rest = divmod(int(table[1]) - int(table[0]), int(domain[1]) - int(domain[0]))
        offset = int(table[0]) - slope * int(domain[0])
        if not rest and (table == slope * domain + offset).all():
            return Linear({index: slope}, offset)
        key = ("column", variable.name, table.tobytes())
        if key not in self._shared:
            column = self._new(table)
            self._columns.setdefault(variable.name, []).append((column, table))
            self._shared[key] = Linear({column: 1})
        return self._shared[key]

    def lower_sum(self, total: Sum) -> Linear:
        """Return a sum as a linear form; its tables become columns."""
        form = Linear({}, total.const)
        for name, table in total.tables.items():
            form = form.plus(self._column(self._variables[name][0], table))
        for part, factor in total.parts:
            form = form.plus(self.lower(part), factor)
        return form

    def interval(self, form: Linear) -> Range:
        """Return an enclosure of the values of ``form``."""
        lo = hi = form.const
        for index, coefficient in form.terms.items():
            domain = self._domains[index]
            low, high = (
                domain if isinstance(domain, tuple) else (int(domain.min()), int(domain.max()))
            )
            ends = (coefficient * low, coefficient * high)
            lo, hi = lo + min(ends), hi + max(ends)
        return lo, hi

    def _auxiliary(self, lo: int, hi: int) -> Linear:
        return Linear({self._new((lo, hi)): 1})

    def _affine(self, form: Linear, bounds: Range) -> Linear:
        """Return ``form``, replaced by an equal variable when it has several."""
        if len(form.terms) <= 1:
            return form
        key = ("affine", tuple(sorted(form.terms.items())), form.const)
        if key not in self._shared:
            result = self._auxiliary(*bounds)
            self.bound(form.plus(result, -1), 0, 0)
            self._shared[key] = result
        return self._shared[key]

    def _product(self, a: Linear, b: Linear, a_bounds: Range, b_bounds: Range) -> Linear:
        if not a.terms:
            return b.times(a.const)
        if not b.terms:
            return a.times(b.const)
        factors = (self._affine(a, a_bounds), self._affine(b, b_bounds))
        key = ("product", *sorted(_expression_text(f) for f in factors))
        if key not in self._shared:
            corners = [x * y for x in a_bounds for y in b_bounds]
            result = self._auxiliary(min(corners), max(corners))
            self._function("int_prod", result, factors)
            self._shared[key] = result
        return self._shared[key]

    def _function(self, name: str, target: Linear, arguments: Sequence[Linear]) -> None:
        exprs = " ".join(f"exprs {{ {_expression_text(f)} }}" for f in arguments)
        self._constraints.append(f"{name} {{ target {{ {_expression_text(target)} }} {exprs} }}")

    def _quotient(
        self, a: Linear, b: Linear, a_bounds: Range, b_bounds: Range
    ) -> tuple[Linear, Linear]:
        """Return floor(a / b) and a modulo b."""
        if not b.terms:
            exact = a.divided(b.const)
            if exact is not None:
                return exact, a.plus(exact, -b.const)
        key = ("quotient", _expression_text(a), _expression_text(b))
        if key not in self._shared:
            corners = [x // y for x in a_bounds for y in b_bounds]
            bounds = (min(corners), max(corners))
            quotient = self._auxiliary(*bounds)
            rest = a.plus(self._product(quotient, b, bounds, b_bounds), -1)
            # The remainder has the sign of the divisor: 0 <= rest < b, or b < rest <= 0.
            if b_bounds[0] > 0:
                self.bound(rest, 0, None)
                self.bound(rest.plus(b, -1), None, -1)
            else:
                self.bound(rest, None, 0)
                self.bound(rest.plus(b, -1), 1, None)
            self._shared[key], self._shared[(*key, "rest")] = quotient, rest
        return self._shared[key], self._shared[(*key, "rest")]

    def _maximum(self, forms: list[Linear]) -> Linear:
        intervals = [self.interval(f) for f in forms]
        result = self._auxiliary(max(lo for lo, _ in intervals), max(hi for _, hi in intervals))
        # The arguments of lin_max may be any linear expressions.
        self._function("lin_max", result, forms)
        return result

    def _comparison(self, kind: str, difference: Linear) -> Linear:
        """Return a 0/1 variable that is 1 exactly where ``difference kind 0`` holds."""
        if kind == "!=":
            return Linear({}, 1).plus(self._comparison("==", difference), -1)
        if kind == "==":
            at_most = self._comparison("<=", difference)
            at_least = self._comparison(">=", difference)
            return at_most.plus(at_least).plus(Linear({}, -1))
        result = self._new((0, 1))
        lo, hi = _AS_RANGE[kind]
        other = (None, lo - 1) if lo is not None else ((hi or 0) + 1, None)
        for literal, (low, high) in ((result, (lo, hi)), (-result - 1, other)):
            text = self._bound_text(difference, low, high)
            self._constraints.append(f"enforcement_literal: {literal} {text}")
        return Linear({result: 1})

    def text(self, maximise: Linear) -> str:
        """Return the model with its objective as protocol-buffer text."""
        rows = {name: self._rows(name) for name in self._variables}
        allowed = dict(rows)
        domains = list(self._domains)
        for name, (variable, index) in self._variables.items():
            keep = allowed[name]
            domains[index] = variable.domain[keep]
            for column, table in self._columns.get(name, ()):
                domains[column] = table[keep]
        lines = [f"variables {{ domain: {_domain_text(domain)} }}" for domain in domains]
        lines += [f"constraints {{ {text} }}" for text in self._constraints]
        for name, columns in self._columns.items():
            variable, index = self._variables[name]
            keep = allowed[name]
            table = np.stack([variable.domain[keep], *(t[keep] for _, t in columns)], axis=1)
            members = [index, *(i for i, _ in columns)]
            values = table.ravel().tolist()
            lines.append(f"constraints {{ table {{ vars: {members} values: {values} }} }}")
        if maximise.terms:
            lines.append(
                f"objective {{ vars: {list(maximise.terms)} scaling_factor: -1 "
                f"coeffs: {[-c for c in maximise.terms.values()]} offset: {-maximise.const} }}"
            )
        return "\n".join(lines)

    def _rows(self, name: str) -> Any:
        variable, _ = self._variables[name]
        keep = self._allowed.get(name)
        return np.ones(len(variable.domain), dtype=bool) if keep is None else keep

    def is_empty(self) -> bool:
        """Return True when a variable has no value left."""
        return any(not self._rows(name).any() for name in self._variables)

    def _magnitude(self, form: Linear) -> int:
        """Return a bound of every partial sum of ``form``."""
        total = abs(form.const)
        for index, coefficient in form.terms.items():
            domain = self._domains[index]
            total += abs(coefficient) * max(abs(int(np.min(domain))), abs(int(np.max(domain))))
        return total

    def maximise(self, objective: Linear) -> dict[str, int] | None:
        """Return the values of the variables at the proven maximum, None when infeasible.

        Raises OverflowError when the terms of the objective could leave int64, though their sum may
        not; RuntimeError when CP-SAT ends without a proof.
        """
        if self.is_empty():
            return None
        if self._magnitude(objective) >= SAFE_MAGNITUDE:
            raise OverflowError("the objective of a tiling problem exceeds the integers of CP-SAT")
        solution = run(self.text(objective))
        if solution is None:
            return None
        return {name: solution[index] for name, (_, index) in self._variables.items()}


# Comparisons with zero as a closed range of the difference.
_AS_RANGE: dict[str, tuple[int | None, int | None]] = {
    "<": (None, -1),
    "<=": (None, 0),
    ">": (1, None),
    ">=": (0, None),
    "==": (0, 0),
}


def _expression_text(form: Linear) -> str:
    return (
        f"vars: {list(form.terms)} coeffs: {list(form.terms.values())} offset: {form.const}"
        if form.terms
        else f"offset: {form.const}"
    )


def _domain_text(domain: Any) -> str:
    if isinstance(domain, tuple):
        return str(list(domain))
    values = np.unique(domain)
    cuts = np.flatnonzero(np.diff(values) != 1)
    starts = values[np.concatenate(([0], cuts + 1))]
    ends = values[np.concatenate((cuts, [len(values) - 1]))]
    return str(np.stack((starts, ends), axis=1).ravel().tolist())


def run(text: str) -> list[int] | None:
    """Solve a model given as text; return its solution, None when infeasible.

    Raises RuntimeError when the solver ends without a proof or rejects the model.
    """
    helper: Any = import_module("ortools.sat.python.cp_model_helper")
    if not hasattr(helper, "CpModelProto"):
        return _run_full(text)
    model = helper.CpModelProto()
    if not model.parse_text_format(text):
        raise RuntimeError("CP-SAT does not read the model of the tiling problem")
    parameters = helper.SatParameters()
    parameters.parse_text_format(PARAMETERS)
    wrapper = helper.SolveWrapper()
    wrapper.set_parameters(parameters)
    response = wrapper.solve(model)
    return _solution(response.status.name, response.solution)


def _run_full(text: str) -> list[int] | None:
    """Solve through the public Python module, for releases whose small module has no models."""
    cp_model: Any = import_module("ortools.sat.python.cp_model")
    text_format: Any = import_module("google.protobuf.text_format")
    model = cp_model.CpModel()
    text_format.Parse(text, model.Proto())
    solver = cp_model.CpSolver()
    text_format.Parse(PARAMETERS, solver.parameters)
    status = solver.Solve(model)
    return _solution(solver.StatusName(status), solver.ResponseProto().solution)


def _solution(status: str, values: Any) -> list[int] | None:
    if status == "INFEASIBLE":
        return None
    if status != "OPTIMAL":
        raise RuntimeError(f"CP-SAT ended with {status} on a tiling problem")
    return list(values)
