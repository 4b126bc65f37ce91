"""Requantisation on the arrays: what is found has the network's value for every accumulator."""

from __future__ import annotations

import numpy as np
import pytest
from dory_diana.requant import Adc, Shift, find_adc, find_shift
from dory_diana.requant.common import Steps
from hypothesis import given, settings
from hypothesis import strategies as st

from dory_core.api import Requant
from dory_core.importing import requant

FACTORS = np.array([-20]), np.array([20])


def steps_on(lo: int, hi: int, *steps: Requant) -> Steps:
    return Steps(steps, np.array([lo]), np.array([hi]))


def exact(steps: Steps, acc: int, channel: int = 0) -> int:
    for step in steps.steps:
        acc = step.scalar(acc, channel)
    return acc


def shifted(found: Shift, acc: int, channel: int = 0) -> int:
    value = (acc * int(found.factor[channel]) + int(found.bias[channel])) >> found.shift
    return min(max(value, 0 if found.relu else -128), 127)


def converted(found: Adc, acc: int, scale: int, channel: int = 0) -> int:
    t = min(max(acc // scale, -32), 31)
    value = (t * int(found.mul[channel]) + int(found.add[channel])) >> found.shift
    return min(max(value, 0 if found.relu else -64), 127 if found.relu else 63)


def check_shift(steps: Steps, factors: tuple[np.ndarray, np.ndarray] = FACTORS) -> Shift | None:
    found = find_shift(steps, factors, np.ones(len(steps.lo), dtype=np.int64))
    if found is not None:
        assert 0 <= found.shift <= 31
        for channel, (lo, hi) in enumerate(zip(steps.lo, steps.hi, strict=True)):
            assert factors[0][channel] <= found.factor[channel] <= factors[1][channel]
            for acc in range(lo, hi + 1):
                assert shifted(found, acc, channel) == exact(steps, acc, channel)
    return found


def test_a_power_of_two_is_a_shift() -> None:
    found = check_shift(steps_on(-3000, 3000, requant(1, 20, 64, -128, 127)))
    assert found is not None
    assert (found.factor[0], found.shift, found.relu) == (1, 6, False)


def test_a_small_multiplier_goes_into_the_weights() -> None:
    found = check_shift(steps_on(-3000, 3000, requant(3, 7, 64, 0, 127)))
    assert found is not None
    assert (found.factor[0], found.shift, found.relu) == (3, 6, True)


def test_a_negative_multiplier_negates_the_weights() -> None:
    found = check_shift(steps_on(-3000, 3000, requant(-5, 7, 128, -128, 127)))
    assert found is not None and found.factor[0] == -5


def test_a_multiplier_that_the_weights_have_no_room_for_is_none() -> None:
    steps = steps_on(-3000, 3000, requant(3, 7, 64, 0, 127))
    assert check_shift(steps, (np.array([-2]), np.array([2]))) is None


def test_a_scale_between_powers_of_two_is_none() -> None:
    assert check_shift(steps_on(-30000, 30000, requant(1237, 7, 1 << 19, -128, 127))) is None


def test_a_scale_between_powers_of_two_is_exact_where_few_sums_are_reachable() -> None:
    assert check_shift(steps_on(-9, 9, requant(1237, 7, 1 << 13, -128, 127))) is not None


def test_channels_share_the_shift_and_have_factors_of_their_own() -> None:
    steps = Steps(
        (requant([2, 12, 3], [5, -9, 100], 64, 0, 127),), *np.array([[-999] * 3, [999] * 3])
    )
    found = check_shift(steps, (np.full(3, -20), np.full(3, 20)))
    assert found is not None
    assert found.factor.tolist() == [2, 12, 3] and found.shift == 6


def test_two_steps_become_one_shift() -> None:
    steps = steps_on(-5000, 5000, requant(1, 0, 16), requant(1, 0, 4, 0, 127))
    found = check_shift(steps)
    assert found is not None and found.shift == 6


def test_a_narrower_clip_is_exact_only_where_it_is_not_reached() -> None:
    narrow = requant(1, 0, 64, 0, 100)
    assert check_shift(steps_on(-6000, 6464, narrow)) is None
    assert check_shift(steps_on(-6000, 6463, narrow)) is not None


def test_outputs_beyond_a_signed_byte_are_none() -> None:
    assert check_shift(steps_on(-6000, 20000, requant(1, 0, 64, 0, 255))) is None


def test_a_bias_beyond_32_bits_is_none() -> None:
    steps = steps_on(1 << 33, (1 << 33) + 100, requant(1, -(1 << 33), 1, -128, 127))
    assert check_shift(steps) is None


@settings(max_examples=300, deadline=None)
@given(
    st.integers(-40, 40),
    st.integers(-5000, 5000),
    st.integers(0, 9),
    st.integers(-400, 400),
    st.integers(0, 600),
    st.sampled_from([(0, 127), (-128, 127), (-64, 63), (0, 60)]),
)
def test_found_shifts_equal_the_steps(
    mul: int, add: int, shift: int, lo: int, size: int, clip: tuple[int, int]
) -> None:
    step = requant(mul, add, 1 << shift, *clip)
    found = check_shift(steps_on(lo, lo + size, step), (np.array([-127]), np.array([127])))
    reached = {step.scalar(acc, 0) for acc in (lo, lo + size)}
    if clip in ((0, 127), (-128, 127)) and min(reached) < 0 <= max(reached):
        assert found is not None


# -- the analog array ---------------------------------------------------------------------------


def check_adc(steps: Steps, scale: int) -> Adc | None:
    found = find_adc(steps, scale)
    if found is not None:
        assert 0 <= found.shift <= 31
        for channel, (lo, hi) in enumerate(zip(steps.lo, steps.hi, strict=True)):
            ends = np.clip(np.array([lo, hi]) // scale, -32, 31) * found.mul[channel]
            assert (ends + found.add[channel] >= -(1 << 31)).all()
            assert (ends + found.add[channel] < 1 << 31).all()
            for acc in range(lo, hi + 1):
                assert converted(found, acc, scale, channel) == exact(steps, acc, channel)
    return found


@pytest.mark.parametrize("scale", [1, 16, 24])
def test_the_converter_and_its_scale_are_taken_as_they_are(scale: int) -> None:
    converter = requant(1, 0, scale, -32, 31)
    found = check_adc(steps_on(-2000, 2000, converter, requant(53, 700, 32, 0, 127)), scale)
    assert found is not None and found.relu
    assert check_adc(steps_on(-2000, 2000, converter, requant(-7, 3, 4, -64, 63)), scale)


def test_another_scale_of_the_converters_is_none() -> None:
    converter = requant(1, 0, 16, -32, 31)
    step = requant(1, 40, 1, 0, 127)
    assert check_adc(steps_on(-250, 250, converter, step), 8) is not None
    assert check_adc(steps_on(-300, 300, converter, step), 8) is None
    assert check_adc(steps_on(-250, 250, converter, step), 32) is None


def test_accumulators_that_the_converters_do_not_tell_apart_are_none() -> None:
    assert check_adc(steps_on(-500, 500, requant(1, 0, 4, 0, 127)), 16) is None
    assert check_adc(steps_on(-500, 500, requant(1, 0, 16, 0, 127)), 16) is not None
    assert check_adc(steps_on(-500, 512, requant(1, 0, 16, 0, 127)), 16) is None


def test_outputs_beyond_seven_bits_are_none() -> None:
    converter = requant(1, 0, 16, -32, 31)
    assert check_adc(steps_on(-900, 900, converter, requant(8, 0, 1, 0, 255)), 16) is None
    assert check_adc(steps_on(-900, 900, converter, requant(4, 0, 1, -128, 127)), 16) is None


def test_sums_beyond_the_converters_on_one_side_keep_their_value() -> None:
    steps = steps_on(-9000, -700, requant(1, 0, 16, -32, 31), requant(1, 40, 1, 0, 127))
    found = check_adc(steps, 16)
    assert found is not None
    assert check_adc(steps_on(-9000, -700, requant(1, 9000, 128, 0, 127)), 16) is None


@settings(max_examples=200, deadline=None)
@given(
    st.integers(-3000, 3000),
    st.integers(-100000, 100000),
    st.integers(0, 10),
    st.sampled_from([1, 3, 16]),
    st.integers(-900, 900),
    st.integers(0, 1200),
    st.sampled_from([(0, 127), (-64, 63)]),
)
def test_every_step_behind_the_converters_is_found(
    mul: int, add: int, shift: int, scale: int, lo: int, size: int, clip: tuple[int, int]
) -> None:
    steps = (requant(1, 0, scale, -32, 31), requant(mul, add, 1 << shift, *clip))
    assert check_adc(steps_on(lo, lo + size, *steps), scale) is not None
