"""The upper word of a product of words in place of a step in 64 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dory_core.ir import Requant, float_requant, requant
from dory_core.ir.requantisation import (
    HighProduct,
    high_product,
    integer_form,
    narrow,
    search_steps,
    signed_staircase,
    staircase,
)
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


def check(step: Requant, lo: int, hi: int) -> HighProduct:
    """Compare what is found with the step around all of its thresholds and at the ends."""
    found = search_steps(high_product, [step], *ends((lo, hi)))
    stairs = staircase([step], *ends((lo, hi)))
    assert found is not None and stairs is not None
    for channel in range(len(found.mul)):
        sign = -1 if stairs.falling[channel] else 1
        near = [sign * int(t) + d for t in stairs.thresholds[channel] for d in (-1, 0, 1)]
        for acc in (lo, hi, -1, 0, *near):
            if lo <= acc <= hi:
                got = as_the_chip_computes(found, channel, acc, step)
                assert got == exact([step], acc, channel), (channel, acc)
    return found


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
    st.lists(st.integers(4, 18), min_size=3, max_size=3),
    st.integers(-128, 127),
    st.integers(12, 22),
)
def test_steps_of_tensorflow_lite_have_one(
    multiplier: list[int], right: list[int], zero: int, bits: int
) -> None:
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
