"""Parameters with a shift for each channel, the upper word of a product among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dory_core.ir import Requant, float_requant, requant
from dory_core.ir.requantisation import (
    HighProduct,
    Narrow,
    Stairs,
    high_product,
    integer_form,
    narrow,
    narrow_32,
    narrow_for_channels,
    search_steps,
    signed_staircase,
    staircase,
)
from dory_core.ir.requantisation.own_shifts import narrow_with_shifts
from tests.ir.requantisation.test_requantisation import ends, exact
from tests.ir.requantisation.test_two_addends import twice_rounded

WORD = (-(1 << 31), (1 << 31) - 1)


def as_the_chip_computes(found: HighProduct, channel: int, acc: int, step: Requant) -> int:
    """Return the output; all that has to be one fits 32 bits."""
    x = acc if found.offset is None else acc + int(found.offset[channel])
    shifted = x << found.up
    mul, add, shift = (int(v[channel]) for v in (found.mul, found.add, found.shift))
    total = (shifted * mul >> 32) + add
    if found.below is not None and x < 0:
        total += int(found.below[channel])
    for value in (shifted, mul, add, total):
        assert WORD[0] <= value <= WORD[1]
    assert 0 <= shift <= 31
    value = total >> shift
    return value if step.lo is None else min(max(value, step.lo), step.hi)


def narrow_output(found: Narrow, channel: int, acc: int, step: Requant) -> int:
    """Return the output of a narrow form with own shifts; what has to be one fits 32 bits."""
    x = acc if found.offset is None else acc + int(found.offset[channel])
    assert found.shifts is not None and found.reach is None
    low, high, add, shift = (
        int(v[channel]) for v in (found.mul_low, found.mul_high, found.add_high, found.shifts)
    )
    below = 0 if found.below_high is None or x >= 0 else int(found.below_high[channel])
    total = (x * low >> found.low_bits) + x * high + add + below
    for value in (x * low, total):
        assert WORD[0] <= value <= WORD[1]
    assert 0 <= shift <= 31
    value = total >> shift
    return value if step.lo is None else min(max(value, step.lo), step.hi)


def check(step: Requant, lo: int, hi: int) -> HighProduct:
    """Compare what is found with the step around all of its thresholds and at the ends."""
    found = search_steps(high_product, [step], *ends((lo, hi)))
    assert found is not None
    compare(found, as_the_chip_computes, step, lo, hi)
    return found


def compare(
    found: Any, output: Callable[[Any, int, int, Requant], int], step: Requant, lo: int, hi: int
) -> None:
    stairs = staircase([step], *ends((lo, hi)))
    assert stairs is not None
    for channel in range(len(found.mul)):
        sign = -1 if stairs.falling[channel] else 1
        near = [sign * int(t) + d for t in stairs.thresholds[channel] for d in (-1, 0, 1)]
        for acc in (lo, hi, -1, 0, *near):
            if lo <= acc <= hi:
                got = output(found, channel, acc, step)
                assert got == exact([step], acc, channel), (channel, acc)


def test_one_product_does_where_a_common_shift_wants_a_clamp() -> None:
    """Of 256 inputs and more a channel with a large scale reaches far beyond the clip."""
    step = requant([11 << 9, 13, 9, 15], [1 << 11] * 4, 1 << 12, 0, 255)
    lo, hi = -(1 << 19), 1 << 19
    stairs = staircase([step], *ends((lo, hi)))
    assert stairs is not None and narrow_32(stairs) is None
    found = narrow_for_channels(stairs)
    assert found is not None and found.low_bits == 0 and found.shifts is not None
    compare(found, narrow_output, step, lo, hi)
    assert len(set(found.shifts.tolist())) > 1


@pytest.mark.parametrize(
    "step",
    [
        requant([100003 << 7, 10009, 10013, -9973], [1 << 23] * 4, 1 << 24, 0, 255),
        twice_rounded([1518500249, 1357913941, 1073741827], [12, 9, 11], zero=-7),
    ],
)
def test_limbs_and_two_addends_may_have_own_shifts(step: Requant) -> None:
    lo, hi = -(1 << 17), 1 << 17

    def search(stairs: Stairs) -> Narrow | None:
        return narrow_with_shifts(stairs, 13)

    found = search_steps(search, [step], *ends((lo, hi)))
    assert found is not None and found.low_bits == 13
    assert (found.add_negative is None) == (step.add_negative is None)
    compare(found, narrow_output, step, lo, hi)
    assert found.shifts is not None and len(set(found.shifts.tolist())) > 1


# Multipliers of 31 bits whose scales differ: 2^-13 and 2^-17 where accumulators have 21 bits.
FAR_APART = ([1518500249, 1357913941, 1073741827], [12, 10, 16])


def test_scales_far_apart_keep_their_digits() -> None:
    step = twice_rounded(*FAR_APART, zero=-7)
    lo, hi = -(1 << 20), (1 << 20) - 5
    assert search_steps(narrow, [step], *ends((lo, hi))) is None
    found = check(step, lo, hi)
    assert found.up == 10 and found.offset is not None and found.below is not None
    assert min(found.mul) >= 1 << 29
    assert len(set(found.shift.tolist())) == 3


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1 << 30, (1 << 31) - 1), min_size=3, max_size=3),
    st.lists(st.integers(0, 9), min_size=3, max_size=3),
    st.integers(-128, 127),
    st.integers(12, 22),
)
def test_steps_of_tensorflow_lite_have_one(
    multiplier: list[int], less: list[int], zero: int, bits: int
) -> None:
    """Largest values are 2^2 to 2^11 times the step of the output."""
    right = [bits - 2 - n for n in less]
    check(twice_rounded(multiplier, right, zero), -(1 << bits), (1 << bits) - 3)


@pytest.mark.parametrize("bounds", [(-128, 127), (0, 255), (None, None)])
def test_falling_and_constant_channels_have_one(bounds: Sequence[int | None]) -> None:
    mul = [-1518500249, 0, 1357913941 >> 3, 1]
    step = requant(mul, [1 << 42, 77 << 43, 1 << 42, 5 << 43], 1 << 43, *bounds)
    found = check(step, -(1 << 19), 1 << 19)
    assert found.below is None and found.offset is None
    assert found.mul.tolist()[1] == 0 > found.mul.tolist()[0]


def test_accumulators_of_32_bits_have_none() -> None:
    step = requant(1518500249, 1 << 50, 1 << 51, -128, 127)
    assert search_steps(high_product, [step], *ends((-(1 << 30), 1 << 30))) is None


def test_a_channel_without_a_line_ends_the_search() -> None:
    """Ties of a power of two go up and down in turn."""
    tie = float_requant([0.5], 0, -128, 127)
    assert search_steps(high_product, [tie], *ends((-200, 200))) is None


def test_a_channel_that_does_not_reach_its_turn_does_not_fall_there() -> None:
    """Such a step would have no staircase: the search for cheaper parameters ends before it."""
    random = np.random.default_rng(3)
    seen = 0
    for _ in range(40):
        scales = (random.integers(1, 1 << 10, 6) / (1 << 17)).astype(np.float32)
        lo, hi = np.full(6, -(1 << 14)), np.full(6, 1 << 14)
        lo[:2], hi[2:4] = 4000, -4000  # channels of one sign
        stairs = staircase([float_requant(scales.astype(float).tolist(), 0, -128, 127)], lo, hi)
        assert stairs is not None
        found = integer_form(stairs)
        if found is None or found.add_negative is None or found.offset is None:
            continue
        seen += 1
        step = requant(
            found.mul.tolist(),
            found.add.tolist(),
            1 << found.shift,
            -128,
            127,
            add_negative=found.add_negative.tolist(),
        )
        sides = signed_staircase([step], lo + found.offset, hi + found.offset)
        assert sides is not None
    assert seen
