"""Real numbers and the integers that stand for them: nearest, ties away from zero, saturated."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dory_core.ir import Tensor
from dory_core.ir.reals import dequantise, nearest, quantise

BYTE = Tensor("x", 1, 1, 4, -128, 127, 8, True, 0.0625, -3)


def exactly(value: np.float32) -> int:
    exact = Fraction(float(value))
    whole = (abs(exact) + Fraction(1, 2)).__floor__()
    return whole if exact >= 0 else -whole


def test_rounding_is_exact_beside_every_tie() -> None:
    ties = np.arange(-300, 301, dtype=np.float32) + np.float32(0.5)
    values = np.concatenate([ties, np.nextafter(ties, np.float32(1e9)), np.nextafter(ties, 0)])
    values = values.astype(np.float32)
    assert nearest(values).tolist() == [exactly(value) for value in values]
    assert nearest(np.float32([0.49999997, -0.49999997])).tolist() == [0, 0]


def test_what_is_no_number_or_too_large_has_a_value() -> None:
    values = np.float32([np.nan, np.inf, -np.inf, 3e38, -3e38, 0])
    assert quantise(BYTE, values).tolist() == [-3, 127, -128, 127, -128, -3]


def test_integers_survive_the_way_through_reals() -> None:
    integers = np.arange(-128, 128)
    for scale in (0.0625, 0.39101523, 1e-6, 7.3e5):
        tensor = Tensor("x", 1, 1, 4, -128, 127, 8, True, float(np.float32(scale)), 17)
        assert np.array_equal(quantise(tensor, dequantise(tensor, integers)), integers)


def test_ties_go_to_even_where_the_format_wants_it() -> None:
    values = np.float32([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 2.4999998])
    assert nearest(values, ties_even=True).tolist() == [0, 2, 2, 0, -2, -2, 0, 2]
    assert nearest(values).tolist() == [1, 2, 3, -1, -2, -3, 0, 2]
