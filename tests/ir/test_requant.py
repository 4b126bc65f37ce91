"""Requantisation: the formula and its normal form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dory_core.ir import Requant, mean_requant, requant


def test_common_divisor_is_removed_and_uniform_channels_become_one_value() -> None:
    assert requant([6, 6], [4, 4], 10, 0, 255) == Requant((3,), (2,), 5, 0, 255)


def test_equal_arithmetic_gives_equal_objects() -> None:
    assert requant([64, 32], [0, 96], 64) == requant([2, 1], [0, 3], 2)


def test_rounds_down_below_zero() -> None:
    step = requant(1, 0, 4)
    assert step.apply(np.array([[-1, -4, -5, 3]])).tolist() == [[-1, -1, -2, 0]]


def test_divisor_of_two_to_the_k_minus_one_is_exact() -> None:
    step = requant(55, 0, 2**23 - 1)
    acc = 2**23 - 1
    assert step.shift is None
    assert step.apply(np.array([[acc, acc - 1]])).tolist() == [[55, 54]]


def test_clip_is_applied_after_the_division() -> None:
    step = requant(1, 0, 2, -3, 3)
    assert step.apply(np.array([[-100, -7, 7, 100]])).tolist() == [[-3, -3, 3, 3]]


@pytest.mark.parametrize("div", [0, -8])
def test_divisor_must_be_positive(div: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        requant(1, 0, div)


def test_a_clip_has_two_bounds() -> None:
    with pytest.raises(ValueError, match="two bounds"):
        requant(1, 0, 1, lo=0)


def test_identity_is_recognised_but_a_clip_is_none() -> None:
    assert requant(8, 0, 8).is_identity
    assert not requant(1, 0, 1, 0, 255).is_identity


@given(
    st.lists(st.tuples(st.integers(-4096, 4096), st.integers(-(10**8), 10**8)), min_size=1),
    st.integers(1, 2**26),
    st.integers(-(10**6), 10**6),
    st.booleans(),
)
def test_vector_scalar_and_unreduced_formula_agree(
    channels: list[tuple[int, int]], div: int, acc: int, clipped: bool
) -> None:
    lo, hi = (0, 255) if clipped else (None, None)
    step = requant([m for m, _ in channels], [a for _, a in channels], div, lo, hi)
    vector = step.apply(np.full((len(channels), 1), acc)).ravel().tolist()
    for channel, (mul, add) in enumerate(channels):
        expected = (acc * mul + add) // div
        if clipped:
            expected = min(max(expected, 0), 255)
        assert step.scalar(acc, channel) == expected == vector[channel]


def test_two_addends_are_kept_in_normal_form() -> None:
    step = requant([6, 6], [4, 4], 10, 0, 255, add_negative=[2, 2])
    assert step == Requant((3,), (2,), 5, 0, 255, (1,))
    assert requant(6, 4, 10, add_negative=4) == requant(3, 2, 5)
    assert requant(6, 4, 10, add_negative=3).div == 10
    assert not requant(1, 0, 1, add_negative=1).is_identity
    assert requant(6, 4, 10, add_negative=4, turn=9) == requant(3, 2, 5)


@given(
    st.lists(st.tuples(st.integers(-99, 99), st.integers(-999, 999), st.integers(-999, 999))),
    st.integers(1, 99),
    st.lists(st.integers(-999, 999), min_size=1),
    st.sampled_from([0, 3, -7]),
)
def test_addend_is_chosen_by_the_side_of_the_turning_point(
    channels: list[tuple[int, int, int]], div: int, accs: list[int], turn: int
) -> None:
    channels.append((1, 5, 3))
    muls, adds, negatives = zip(*channels, strict=True)
    step = requant(muls, adds, div, add_negative=negatives, turn=turn)
    found = step.apply(np.array([accs] * len(channels)))
    for channel, (mul, add, negative) in enumerate(channels):
        expected = [(acc * mul + (negative if acc < turn else add)) // div for acc in accs]
        assert found[channel].tolist() == expected
        assert [step.scalar(acc, channel) for acc in accs] == expected


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 12])
def test_mean_rounds_with_ties_away_from_zero(count: int) -> None:
    step = mean_requant(count)
    for acc in range(-40, 41):
        magnitude = (2 * abs(acc) + count) // (2 * count)
        assert step.scalar(acc, 0) == (magnitude if acc >= 0 else -magnitude)
    assert (step.add_negative is None) == (count % 2 == 1)


def test_a_step_may_count_from_its_turn() -> None:
    step = requant([3, 5], 7, 16, -9, 90, add_negative=[1, -4], turn=40)
    moved = step.from_turn()
    assert moved.turn == 0 and moved.from_turn() is moved
    for acc in range(-50, 150):
        assert [moved.scalar(acc - 40, c) for c in (0, 1)] == [step.scalar(acc, c) for c in (0, 1)]


def test_addends_beyond_64_bits_are_exact_where_sums_have_64() -> None:
    negative, positive = -199071113128782244352, -196573116535467409237
    step = requant(384307168202282325, positive, 2**59, 0, 255, add_negative=negative, turn=513)
    accs = np.arange(505, 530)
    assert step.apply(accs[None])[0].tolist() == [step.scalar(acc, 0) for acc in accs.tolist()]
    assert len(set(step.apply(accs[None])[0].tolist())) > 5


@given(
    st.lists(st.tuples(st.integers(-99, 99), st.integers(-999, 999)), min_size=1, max_size=4),
    st.integers(1, 99),
    st.integers(-300, 300),
    st.integers(-300, 300),
    st.sampled_from([None, (-128, 127)]),
    st.booleans(),
)
def test_a_moved_step_counts_from_elsewhere(
    channels: list[tuple[int, int]],
    div: int,
    before: int,
    after: int,
    clip: tuple[int, int] | None,
    two: bool,
) -> None:
    mul, add = zip(*channels, strict=True)
    negative = [a - 5 for a in add] if two else None
    step = requant(mul, add, div, *(clip or (None, None)), negative, turn=7)
    moved = step.moved(before, after)
    for acc in range(-50, 60, 7):
        for channel in range(len(channels)):
            expected = step.scalar(acc, channel) + after
            assert moved.scalar(acc + before, channel) == expected


def test_a_step_is_channelwise_when_a_multiplier_or_an_addend_differs() -> None:
    assert not requant(3, 1, 8, 0, 255).is_channelwise
    assert requant((3, 5), 1, 8, 0, 255).is_channelwise
    assert requant(3, 1, 8, 0, 255, add_negative=(1, 2)).is_channelwise


def test_offset_is_what_a_step_adds_when_it_does_nothing_else() -> None:
    assert requant(1, -128, 1, -128, 127).offset == -128
    assert requant(1, 0, 2).offset is None
    assert requant(3, 4, 1).offset is None
    assert requant(1, (4, 5), 1).offset is None
    assert requant(1, 4, 1, add_negative=5).offset is None
