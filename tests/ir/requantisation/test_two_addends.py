"""Steps with another addend below zero: staircases, and cheaper parameters with the same stairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dory_core.ir import Requant, mean_requant, requant
from dory_core.ir.requantisation import (
    Narrow,
    Stairs,
    narrow,
    narrow_32,
    narrow_clamped,
    narrow_limbs,
    narrow_product,
    search_steps,
    signed_staircase,
    staircase,
)
from tests.ir.requantisation.test_requantisation import (
    check_narrow,
    check_stairs,
    ends,
    exact,
)

FORMS: tuple[Callable[[Stairs], Narrow | None], ...] = (
    narrow,
    narrow_32,
    narrow_clamped,
    narrow_limbs,
    lambda stairs: narrow_limbs(stairs, clamped=True),
)


def twice_rounded(
    multiplier: Sequence[int], right: Sequence[int], zero: int, lo: int = -128, hi: int = 127
) -> Requant:
    """The requantisation of TensorFlow Lite Micro as one floor, with a common divisor."""
    most = max(right)
    mul, add, negative = [], [], []
    for m, r in zip(multiplier, right, strict=True):
        scale = 1 << most - r
        half = 1 << 30 + r
        small = (1 << 30) if r else 0
        mul.append(m * scale)
        add.append((half + small if r else 1 << 30) * scale + (zero << 31 + most))
        negative.append((half - small if r else 1 << 30) * scale + (zero << 31 + most))
    return requant(mul, add, 1 << 31 + most, lo, hi, add_negative=negative)


def as_the_source_computes(acc: int, m: int, r: int, zero: int, lo: int, hi: int) -> int:
    """Two roundings one after the other, ties of the second one away from zero."""
    high = (acc * m + (1 << 30)) >> 31
    value = high if r == 0 else (high + (1 << r - 1) - (high < 0)) >> r
    return min(max(value + zero, lo), hi)


@given(
    st.integers(2**30, 2**31 - 1),
    st.integers(0, 9),
    st.integers(-128, 127),
    st.integers(-(2**20), 2**20),
)
def test_the_floor_form_equals_two_roundings(m: int, r: int, zero: int, acc: int) -> None:
    step = twice_rounded([m], [r], zero)
    assert step.scalar(acc, 0) == as_the_source_computes(acc, m, r, zero, -128, 127)


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[Requant], int, int]:
    """Steps that rise and have two addends; lowest and highest accumulator."""
    channels = draw(st.integers(1, 3))
    div = draw(st.sampled_from([1, 6, 2**7, 2**12, 1000]))
    mul = [draw(st.integers(0, 3 * div)) for _ in range(channels)]
    add = [draw(st.integers(-40 * div, 40 * div)) for _ in range(channels)]
    less = draw(st.integers(0, div))
    clip = draw(st.sampled_from([(-128, 127), (0, 255), (-8, 7), (None, None)]))
    turn = draw(st.sampled_from([0, 0, -30, 64]))
    below = [a - less for a in add]
    step = requant(mul, add, div, *clip, add_negative=below, turn=turn)
    bias = [draw(st.integers(-90, 90)) for _ in range(channels)]
    front = [requant(1, bias)] if draw(st.booleans()) else []
    behind = [requant(draw(st.integers(1, 9)), 1, 7)] if draw(st.booleans()) else []
    lo = draw(st.integers(-200, 100))
    return [*front, step, *behind], lo, lo + draw(st.sampled_from([0, 1, 17, 200]))


@given(steps())
@settings(max_examples=60, deadline=None)
def test_thresholds_are_where_the_output_changes(case: tuple[list[Requant], int, int]) -> None:
    found, lo, hi = case
    check_stairs(found, lo, hi)


@given(steps(), st.sampled_from(FORMS))
@settings(max_examples=150, deadline=None)
def test_what_is_found_is_exact_and_never_overflows(
    case: tuple[list[Requant], int, int], form: Callable[[Stairs], Narrow | None]
) -> None:
    found, lo, hi = case
    sides = signed_staircase(found, *ends((lo, hi)))
    for stairs in (staircase(found, *ends((lo, hi))), sides):
        result = None if stairs is None else form(stairs)
        if result is not None:
            last = found[-1]
            if last.lo is None or max(abs(int(s)) for s in result.mul) < 2**40:
                check_narrow(result, found, lo, hi)


@given(steps())
@settings(max_examples=60, deadline=None)
def test_each_side_has_its_own_stairs(case: tuple[list[Requant], int, int]) -> None:
    found, lo, hi = case
    sides = signed_staircase(found, *ends((lo, hi)))
    if sides is None:
        assert all(s.add_negative is None for s in found)
        return
    front = [s for s in found if s.add_negative is None and s.mul == (1,)][:1]
    turn = next(s.turn for s in found if s.add_negative is not None)
    front = [] if found[0].add_negative is not None else front
    for channel in range(len(sides.offset)):
        signed = [exact(front, acc, channel) - turn for acc in range(lo, hi + 1)]
        assert signed[0] == lo + int(sides.offset[channel])
        below = [a for a, x in zip(range(lo, hi + 1), signed, strict=True) if x < 0]
        above = [a for a, x in zip(range(lo, hi + 1), signed, strict=True) if x >= 0]
        for side, accs in ((sides.below, below), (sides.above, above)):
            if accs:
                assert int(side.first[channel]) == exact(found, accs[0], channel)
                assert int(side.last[channel]) == exact(found, accs[-1], channel)


REACH = 60000


@pytest.mark.sample(4)
@pytest.mark.parametrize("zero", [-128, -5, 0, 77])
@pytest.mark.parametrize("right", [7, 8, 9])
def test_double_rounding_needs_two_addends_and_gets_two_limbs(right: int, zero: int) -> None:
    random = np.random.default_rng(right)
    mul = random.integers(2**30, 2**31, 16).tolist()
    bias = random.integers(-9000, 9000, 16).tolist()
    found_steps = (requant(1, bias), twice_rounded(mul, [right] * 16, zero))
    lo, hi = ends(*[(-REACH, REACH)] * 16)
    stairs = staircase(found_steps, lo, hi)
    assert stairs is not None
    if zero > -128:
        assert narrow(stairs) is None
    found = search_steps(narrow, found_steps, lo, hi)
    assert found is not None
    if zero > -128:
        assert found.add_negative is not None and found.offset is not None
    acc = np.arange(-REACH, REACH + 1)
    assert_equal_everywhere(found, found_steps, acc)


def assert_equal_everywhere(found: Narrow, found_steps: Sequence[Requant], acc: np.ndarray) -> None:
    """As :func:`check_narrow`, in numpy for many accumulators."""
    grid = np.broadcast_to(acc, (len(found.mul), len(acc)))
    expected: np.ndarray = grid
    for step in found_steps:
        expected = step.apply(expected)
    x = grid if found.offset is None else grid + found.offset[:, None]
    if found.reach is not None:
        x = np.clip(x, -found.reach[:, None] - 1, found.reach[:, None])
    low = x * found.mul_low[:, None]
    total = x * found.mul_high[:, None] + found.add_high[:, None] + (low >> found.low_bits)
    if found.below_high is not None:
        total += np.where(x < 0, found.below_high[:, None], 0)
    for values in (low, total):
        assert values.min() >= -(2**31) and values.max() < 2**31
    y = total >> found.high_shift
    last = found_steps[-1]
    if last.lo is not None:
        y = np.clip(y, last.lo, last.hi)
    assert np.array_equal(y, expected)


def test_fused_activations_need_one_addend() -> None:
    """With everything below the zero point clipped away only positive accumulators matter."""
    random = np.random.default_rng(3)
    mul = random.integers(2**30, 2**31, 16).tolist()
    step = twice_rounded(mul, [8] * 16, -128)
    found = search_steps(narrow, (step,), *ends(*[(-REACH, REACH)] * 16))
    assert found is not None and found.add_negative is None
    assert_equal_everywhere(found, (step,), np.arange(-REACH, REACH + 1))


@pytest.mark.parametrize("right", [2, 3, 7, 9])
def test_products_of_64_bits(right: int) -> None:
    random = np.random.default_rng(right)
    mul = random.integers(2**30, 2**31, 8).tolist()
    step = twice_rounded(mul, [right] * 8, -7)
    reach = min(REACH, 300 << right)
    lo, hi = ends(*[(-reach, reach)] * 8)
    found = search_steps(lambda stairs: narrow_product(stairs, 32), (step,), lo, hi)
    assert found is not None and found.add_negative is not None
    acc = np.broadcast_to(np.arange(-reach, reach + 1), (8, 2 * reach + 1))
    add = np.where(acc < 0, found.add_negative[:, None], found.add[:, None])
    assert np.abs(found.mul).max() < 2**31
    y = np.clip((acc * found.mul[:, None] + add) >> 32, -128, 127)
    assert np.array_equal(y, step.apply(acc))


def test_a_mean_over_an_even_window_behind_an_offset() -> None:
    """Bytes stored with offset 128: the sign that counts is that of the sum without it."""
    mean = mean_requant(64, -128, 127)
    assert mean.add_negative is not None
    turned = requant(1, mean.add[0], 64, 0, 255, mean.add_negative[0], turn=128 * 64)
    for found_steps in ((requant(1, -128 * 64), mean), (turned,)):
        found = search_steps(narrow, found_steps, *ends((0, 255 * 64)))
        assert found is not None
        assert_equal_everywhere(found, found_steps, np.arange(255 * 64 + 1))


@pytest.mark.parametrize("turn", [0, -30, 25])
def test_steps_without_slope_change_at_their_turn(turn: int) -> None:
    step = requant([0, 0], [25189, 25643], 4095, -20, 31, [22595, -9000], turn=turn)
    check_stairs((step,), -60, 60)
    found = search_steps(narrow, (step,), *ends((-60, 60), (-60, 60)))
    assert found is not None
    assert_equal_everywhere(found, (step,), np.arange(-60, 61))


def test_falling_steps_have_no_staircase() -> None:
    falls = requant(-1, 0, 4, add_negative=1)
    jumps_down = requant(1, 0, 4, add_negative=100)
    for step in (falls, jumps_down):
        assert staircase((step,), *ends((-9, 9))) is None
        assert search_steps(narrow, (step,), *ends((-9, 9))) is None


def test_only_the_first_step_may_have_two_addends() -> None:
    two = requant(1, 2, 4, add_negative=1)
    assert signed_staircase((requant(3, 0, 2), two), *ends((-9, 9))) is None
    assert signed_staircase((two, two), *ends((-9, 9))) is None
    assert signed_staircase((requant(1, 5), two, requant(1, 0, 2)), *ends((-9, 9))) is not None
    values = [exact((two, two), acc) for acc in range(-40, 41)]
    assert all(a <= b for a, b in pairwise(values))
