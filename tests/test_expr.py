"""Expressions: the three readings agree, and what is known is folded."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dory_core.expr import (
    Const,
    Expr,
    Var,
    ceil_div,
    evaluate,
    lookup,
    maximum,
    minimum,
    to_text,
)
from dory_core.tiling.enumeration import Sum, best_values

A = Var("a", -3, 4)
B = Var("b", 1, 6)
C = Var("c", 2, 9, (2, 3, 7, 9))
VARIABLES = (A, B, C)
GRID = np.meshgrid(*(v.domain for v in VARIABLES), indexing="ij")
ENV = {v.name: g.ravel() for v, g in zip(VARIABLES, GRID, strict=True)}

BINARY = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "ceil_div": ceil_div,
    "min": minimum,
    "max": maximum,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


def _combine(parts):
    kind, left, right = parts
    try:
        return BINARY[kind](left, right)
    except ZeroDivisionError:
        return left + right


leaves = st.one_of(
    st.sampled_from(VARIABLES),
    st.integers(-9, 9),
    st.sampled_from([lookup("table", list(range(20, 0, -3)), B), -A, -(A // 2)]),
)
expressions = st.recursive(
    leaves,
    lambda inner: st.tuples(st.sampled_from(sorted(BINARY)), inner, inner).map(_combine),
    max_leaves=6,
)


def as_int(value):
    return int(value) if isinstance(value, (bool, np.bool_)) else value


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(expressions)
def test_text_read_by_python_gives_the_value_on_arrays_and_integers(expr):
    values = np.broadcast_to(evaluate(expr, ENV), ENV["a"].shape)
    table = list(range(20, 0, -3))
    names = {"ceil_div": ceil_div, "table": lambda index: table[index]}
    for k in (0, 7, len(values) // 2, len(values) - 1):
        point = {name: int(array[k]) for name, array in ENV.items()}
        assert as_int(eval(to_text(expr), {**names, **point})) == values[k]
        assert as_int(evaluate(expr, point)) == values[k]


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(expressions)
def test_bounds_contain_every_value(expr):
    if not isinstance(expr, Expr):
        return
    values = np.broadcast_to(evaluate(expr, ENV), ENV["a"].shape)
    assert expr.bounds[0] <= values.min() and values.max() <= expr.bounds[1]


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(expressions, expressions, st.integers(-20, 20))
def test_solver_finds_the_maximum_that_arrays_show(expr, other, limit):
    values = np.broadcast_to(evaluate(expr, ENV), ENV["a"].shape).astype(np.int64)
    allowed = np.broadcast_to(evaluate(other, ENV), ENV["a"].shape) <= limit
    limits = [(Sum([(other, 1)]), None, limit)]
    [found] = best_values(VARIABLES, Sum([(expr, 1)]), limits)
    if not allowed.any():
        assert found is None
        return
    assert found is not None
    best, at = found
    assert evaluate(other, at) <= limit
    assert evaluate(expr, at) == best == values[allowed].max()


def test_division_and_remainder_round_towards_minus_infinity():
    assert evaluate(A // 2, {"a": -3}) == -2
    assert evaluate(A % 4, {"a": -3}) == 1
    assert evaluate(A // 2, {"a": np.array([-3, 3])}).tolist() == [-2, 1]
    assert ceil_div(7, 2) == 4 and ceil_div(-7, 2) == -3
    assert ceil_div(np.array([7, 8, 9]), 4).tolist() == [2, 2, 3]


def test_constants_are_folded():
    assert isinstance(Const(3) + 4, Const)
    assert to_text(B * 1 + 0) == "b"
    assert to_text(B * 0) == "0"
    assert to_text(B >= 1) == "1"  # the domain decides it
    assert to_text(B == 7) == "0"
    assert to_text(minimum(B, 100)) == "b"
    assert to_text(B // 1 % 1) == "0"


def test_text_has_only_the_brackets_it_needs():
    assert to_text((B - 1) % 8) == "(b - 1) % 8"
    assert to_text(A - (B - C)) == "a - (b - c)"
    assert to_text(A * B + C) == "a * b + c"
    assert to_text(maximum(B % 2 == 0, B == 5)) == "max(b % 2 == 0, b == 5)"


def test_plain_numbers_and_arrays_stay_what_they_are():
    assert minimum(3, 5) == 3 and type(maximum(3, 5)) is int
    assert minimum(np.array([1, 9]), 4).tolist() == [1, 4]
    assert evaluate(7, {}) == 7
    assert lookup("t", (5, 6), 1) == 6


def test_a_condition_in_an_if_is_an_error_that_says_what_to_write():
    with pytest.raises(TypeError, match="minimum"):
        bool(A < B)


def test_fractions_are_refused():
    with pytest.raises(TypeError, match="integer"):
        A * 0.5


def test_a_divisor_that_can_be_zero_is_refused():
    with pytest.raises(ZeroDivisionError, match="a"):
        B // A


def test_two_variables_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two variables"):
        A + Var("a", 0, 1)


def test_numpy_integers_mix_with_expressions():
    assert evaluate(np.int64(3) + B, {"b": 2}) == 5
    with pytest.raises(TypeError):
        np.array([1, 2]) + B


def test_arrays_between_do_not_outlive_the_value() -> None:
    """The command line collects garbage rarely: nothing that holds arrays may wait for it."""
    values = {"a": np.zeros(1 << 17, np.int64), "b": np.ones(1 << 17, np.int64)}
    expr = (A + B) * (A - B) + (A * B)
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(20):
            evaluate(expr, values)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < 1 << 20
