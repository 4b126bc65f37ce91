"""Fixed-point arithmetic equals a literal transcription of the C code, and its floor form."""

import numpy as np
import pytest
from dory_tflite.fixed_point import (
    Multiplier,
    divide_by_power,
    floor_form,
    high_product,
    multiply,
    quantize_multiplier,
    rounding_half_away,
    with_shift,
)
from hypothesis import given, settings
from hypothesis import strategies as st

FACTORS = st.builds(lambda bits, power: bits * 2.0**power, st.floats(0.5, 1.0), st.integers(-34, 4))


def c_divide(a: int, b: int) -> int:
    return abs(a) // b * (1 if a >= 0 else -1)


def c_multiply(acc: int, factor: Multiplier) -> int:
    """MultiplyByQuantizedMultiplier, line by line."""
    product = (acc << max(factor.exponent, 0)) * factor.mantissa
    nudge = (1 << 30) if product >= 0 else 1 - (1 << 30)
    high = c_divide(product + nudge, 1 << 31)
    right = max(-factor.exponent, 0)
    mask = (1 << right) - 1
    remainder = high & mask
    threshold = (mask >> 1) + (1 if high < 0 else 0)
    return (high >> right) + (1 if remainder > threshold else 0)


@given(FACTORS, st.lists(st.integers(-(2**24), 2**24), min_size=1))
def test_product_and_its_floor_form_equal_the_c_code(factor: float, accs: list[int]) -> None:
    fixed = quantize_multiplier(factor)
    expected = [c_multiply(acc, fixed) for acc in accs]
    assert multiply(accs, fixed).tolist() == expected
    form = floor_form(fixed)
    assert [form.at(acc) for acc in accs] == expected


@settings(max_examples=50)
@given(FACTORS, st.integers(31, 60), st.integers(-3000, 0), st.integers(0, 3000))
def test_another_shift_keeps_every_value_or_is_refused(
    factor: float, shift: int, lo: int, hi: int
) -> None:
    form = floor_form(quantize_multiplier(factor))
    other = with_shift(form, shift, lo, hi)
    if shift >= form.shift:
        assert other is not None
    if other is not None:
        assert other.shift == shift
        assert all(other.at(acc) == form.at(acc) for acc in range(lo, hi + 1))


def test_a_tiny_factor_needs_few_bits() -> None:
    """Channels that hardly change have shifts beyond 50; 64 bits hold them with those of others."""
    form = floor_form(quantize_multiplier(3e-7))
    other = with_shift(form, 38, -(2**21), 2**21)
    assert other is not None and other.mul < 2**18
    for acc in range(-(2**21), 2**21, 997):
        assert other.at(acc) == form.at(acc)


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        (1.0, Multiplier(2**30, 1)),
        (0.5, Multiplier(2**30, 0)),
        (0.75, Multiplier(3 * 2**29, 0)),
        (1 - 2.0**-40, Multiplier(2**30, 1)),
        (2.0**-33, Multiplier(0, 0)),
        (0.0, Multiplier(0, 0)),
        (6.0, Multiplier(3 * 2**29, 3)),
    ],
)
def test_multipliers(factor: float, expected: Multiplier) -> None:
    assert quantize_multiplier(factor) == expected


def test_halves_go_away_from_zero() -> None:
    assert [rounding_half_away(v) for v in (-2.5, -1.5, -0.5, 0.5, 1.5, 2.4)] == [
        *(-3, -2, -1),
        *(1, 2, 2),
    ]
    assert divide_by_power([-6, -5, -2, -1, 1, 2, 5, 6], 2).tolist() == [-2, -1, -1, 0, 0, 1, 1, 2]
    assert divide_by_power([-7, 7], 0).tolist() == [-7, 7]


def test_the_one_product_that_overflows_saturates() -> None:
    lowest = -(2**31)
    assert high_product(lowest, lowest).item() == 2**31 - 1
    assert high_product(np.array([lowest]), 2**31 - 1).tolist() == [-(2**31) + 1]
