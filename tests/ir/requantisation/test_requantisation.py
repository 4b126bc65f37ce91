"""Requantisations as step functions, and cheaper parameters with the same steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from gc import collect
from weakref import ref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dory_core.ir import Array, Layer, Linear, Requant, requant
from dory_core.ir.requantisation import (
    Narrow,
    cached_per_layer,
    exact_addend_interval,
    narrow,
    narrow_32,
    narrow_clamped,
    narrow_limbs,
    narrow_product,
    reach,
    staircase,
    steps_of_sums,
)
from dory_core.testing.kernels import alone, typed
from tests.ir.requantisation.equality import equal_on

INT32 = (-(2**31), 2**31 - 1)


def ends(*pairs: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])


def exact(steps: Sequence[Requant], acc: int, channel: int = 0) -> int:
    for step in steps:
        acc = step.scalar(acc, channel)
    return acc


def check_stairs(steps: Sequence[Requant], lo: int, hi: int) -> None:
    """Compare thresholds and end values with the steps themselves, for every accumulator."""
    stairs = staircase(steps, *ends((lo, hi)))
    assert stairs is not None
    for channel in range(len(stairs.first)):
        sign = -1 if stairs.falling[channel] else 1
        values = [exact(steps, sign * x, channel) for x in range(*span(sign, lo, hi))]
        assert values[0] == stairs.first[channel]
        assert values[-1] == stairs.last[channel]
        levels = np.broadcast_to(stairs.levels, stairs.thresholds.shape)[channel]
        if stairs.constant[channel]:
            assert len(set(values)) == 1
            continue
        found = dict(zip(levels.tolist(), stairs.thresholds[channel].tolist(), strict=True))
        start = span(sign, lo, hi)[0]
        expected = {
            level: start + next(i for i, v in enumerate(values) if v >= level)
            for level in range(values[0] + 1, values[-1] + 1)
        }
        assert found == expected
        low, high = (int(w[channel]) for w in stairs.window())
        assert all(exact(steps, a, channel) == exact(steps, low, channel) for a in range(lo, low))
        assert all(
            exact(steps, a, channel) == exact(steps, high, channel) for a in range(high, hi + 1)
        )


def span(sign: int, lo: int, hi: int) -> tuple[int, int]:
    return (lo, hi + 1) if sign > 0 else (-hi, -lo + 1)


def wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def as_the_chip_computes(found: Narrow, channel: int, acc: int, clip: tuple | None) -> int:
    """Evaluate in 32 bits: sums are taken modulo 2^32, what is shifted must not have overflown."""
    x = acc if found.offset is None else acc + int(found.offset[channel])
    if found.reach is not None:
        bound = int(found.reach[channel])
        x = min(max(x, -bound - 1), bound)
    low = x * int(found.mul_low[channel])
    assert INT32[0] <= low <= INT32[1]
    below = 0 if found.below_high is None or x >= 0 else int(found.below_high[channel])
    exactly = x * int(found.mul_high[channel]) + int(found.add_high[channel]) + below
    exactly += low >> found.low_bits
    assert INT32[0] <= exactly <= INT32[1]
    words = [wrap(int(w[channel])) for w in (found.mul_high, found.add_high, found.mul_low)]
    total = wrap(x * words[0] + words[1] + wrap(below) + (low >> found.low_bits))
    assert total == exactly
    value = total >> found.high_shift
    return value if clip is None else min(max(value, clip[0]), clip[1])


def check_narrow(found: Narrow | None, steps: Sequence[Requant], lo: int, hi: int) -> Narrow:
    """Compare a found form with the steps for every accumulator."""
    assert found is not None
    last = steps[-1]
    clip = None if last.lo is None else (last.lo, last.hi)
    for channel in range(len(found.mul)):
        for acc in range(lo, hi + 1):
            assert as_the_chip_computes(found, channel, acc, clip) == exact(steps, acc, channel)
    return found


CLIPS = st.sampled_from([(0, 255), (0, 15), (0, 1), (-8, 7), (-128, 127), (3, 3), (-5, 90), None])
MULS = st.one_of(st.integers(-40, 40), st.integers(-5000, 5000), st.integers(-(2**20), 2**20))
DIVS = st.one_of(st.sampled_from([1, 7, 2**7, 2**12, 2**12 - 1, 2**20]), st.integers(1, 10**6))


@st.composite
def a_step(draw: st.DrawFn, channels: int) -> Requant:
    div = draw(DIVS)
    mul = [draw(MULS) for _ in range(channels)]
    add = [draw(st.integers(-40 * div, 300 * div)) for _ in range(channels)]
    lo, hi = draw(CLIPS) or (None, None)
    return requant(mul, add, div, lo, hi)


@st.composite
def a_sequence(draw: st.DrawFn) -> tuple[list[Requant], int, int]:
    channels = draw(st.integers(1, 3))
    steps = [draw(a_step(channels)) for _ in range(draw(st.integers(1, 2)))]
    lo = draw(st.integers(-300, 200))
    return steps, lo, lo + draw(st.sampled_from([0, 1, 17, 300]))


def listed(steps: Sequence[Requant], lo: int, hi: int) -> bool:
    return staircase(steps, *ends((lo, hi))) is not None


@given(a_sequence())
@settings(max_examples=60, deadline=None)
def test_thresholds_are_where_the_output_changes(case: tuple[list[Requant], int, int]) -> None:
    steps, lo, hi = case
    values = [exact(steps, a, 0) for a in (lo, hi)]
    if listed(steps, lo, hi) and max(map(abs, values)) < 4000:
        check_stairs(steps, lo, hi)


@given(a_sequence())
@settings(max_examples=60, deadline=None)
def test_narrow_parameters_are_exact_and_never_overflow(
    case: tuple[list[Requant], int, int],
) -> None:
    steps, lo, hi = case
    stairs = staircase(steps, *ends((lo, hi)))
    if stairs is None:
        return
    for form in (narrow_32, narrow_clamped, narrow_limbs, narrow):
        found = form(stairs)
        if found is not None:
            check_narrow(found, steps, lo, hi)


@given(a_sequence(), st.integers(-60, 60), st.sampled_from([1, 16, 100, 255, 4096]))
@settings(max_examples=60, deadline=None)
def test_the_interval_of_addends_is_complete(
    case: tuple[list[Requant], int, int], mul: int, div: int
) -> None:
    steps, lo, hi = case[0][:1], case[1], min(case[2], case[1] + 40)
    steps = [Requant(steps[0].mul[:1], steps[0].add[:1], steps[0].div, steps[0].lo, steps[0].hi)]
    stairs = staircase(steps, *ends((lo, hi)))
    if stairs is None:
        return
    first, last = (int(v[0]) for v in exact_addend_interval(stairs, np.array([mul]), div))

    def equal(add: int) -> bool:
        other = Requant((mul,), (add,), div, steps[0].lo, steps[0].hi)
        return all(exact(steps, a) == other.scalar(a, 0) for a in range(lo, hi + 1))

    if first > last:
        centre = exact(steps, lo) * div - mul * lo
        assert not any(equal(a) for a in range(centre - 2 * div, centre + 3 * div, 1 + div // 40))
        return
    unbounded = 2**61
    assert equal(max(first, -unbounded)) and equal(min(last, unbounded))
    assert first < -unbounded or not equal(first - 1)
    assert last > unbounded or not equal(last + 1)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("step", "lo", "hi"),
    [
        (requant(-3, 100, 16, 0, 255), -2000, 2000),
        (requant(0, 700, 16, 0, 255), -2000, 2000),
        (requant(5, 1 << 40, 1 << 20, 0, 255), -500, 500),
        (requant(5, -(1 << 40), 1 << 20, 0, 255), -500, 500),
        (requant(3, 5, 64, -100000, 100000), -3000, 3000),
        (requant(3, 5, 64), -3000, 3000),
        (requant(77, -9, 1 << 9, -128, 127), -3000, 3000),
        (requant(1 << 20, 0, 1 << 20, 0, 3), -40, 40),
        (requant(1 << 30, 12345, (1 << 23) - 1, -8, 7), -3000, 3000),
        (requant([3, -3, 0], [1, 2, 3], 40, 0, 15), -1500, 1500),
        (requant(1, 0, 1, 0, 255), 0, 510),
        (requant(1, 0, 1000, 0, 255), 999, 1000),
    ],
)
def test_extremes_are_exact_in_every_form(step: Requant, lo: int, hi: int) -> None:
    check_stairs([step], lo, hi)
    stairs = staircase([step], *ends((lo, hi)))
    check_narrow(narrow_32(stairs), [step], lo, hi)
    check_narrow(narrow_clamped(stairs), [step], lo, hi)
    check_narrow(narrow_limbs(stairs), [step], lo, hi)
    check_narrow(narrow_limbs(stairs, clamped=True), [step], lo, hi)


def test_a_product_of_40_bits_becomes_32_bits() -> None:
    """The staircase of 65535 / 2^21 at accumulators of 14 bits needs no such numbers."""
    step = requant(65535, 12345678, 1 << 21, 0, 255)
    lo, hi = ends((-8000, 8000))
    stairs = staircase([step], lo, hi)
    found = narrow_32(stairs)
    check_narrow(found, [step], -8000, 8000)
    assert found.reach is None and found.low_bits == 0
    same = Requant((int(found.mul[0]),), (int(found.add[0]),), 1 << found.shift, 0, 255)
    assert equal_on([step], [same], lo, hi).all()
    assert not equal_on([step], [requant(65500, 12345678, 1 << 21, 0, 255)], lo, hi).any()


def test_a_clamp_makes_room_where_most_accumulators_saturate() -> None:
    step = requant(81234, 777, 1 << 20, 0, 255)
    stairs = staircase([step], *ends((-200000, 200000)))
    assert narrow_32(stairs) is None
    found = narrow_clamped(stairs)
    assert found is not None
    assert reach(stairs).tolist() == found.reach.tolist() == [-(-(255 * (1 << 20) - 777) // 81234)]
    edge = int(found.reach[0])
    for acc in [*range(-200000, 200001, 997), *range(edge - 20, edge + 20), *range(-20, 20)]:
        assert as_the_chip_computes(found, 0, acc, (0, 255)) == step.scalar(acc, 0)


def test_two_limbs_take_what_one_multiplication_cannot() -> None:
    step = requant(10003, 99999, (1 << 23) - 1, 0, 255)
    lo, hi = -300000, 400000
    stairs = staircase([step], *ends((lo, hi)))
    assert narrow_32(stairs) is None and narrow_clamped(stairs) is None
    found = narrow_limbs(stairs)
    assert found is not None and found.low_bits > 0
    acc = {lo, hi} | {int(t) + d for t in stairs.thresholds[0] for d in (-1, 0, 1)}
    for value in sorted(acc):
        assert as_the_chip_computes(found, 0, value, (0, 255)) == step.scalar(value, 0)


def test_channels_with_one_multiplier_keep_one_where_all_can() -> None:
    """By themselves they would have 15 different ones."""
    random = np.random.default_rng(0)
    biases, bounds = random.integers(-40000, 40000, 64), random.integers(20000, 120000, 64)
    steps = [
        requant(1, biases.tolist(), 1),
        requant(1442235741, 1 << 37, 1 << 38, -128, 127),
    ]
    found = narrow(staircase(steps, -bounds, bounds))
    assert found is not None and found.low_bits > 0
    assert len(set(found.mul.tolist())) == 1 and len(set(found.add.tolist())) == 64
    folded = requant(found.mul.tolist(), found.add.tolist(), 1 << found.shift, -128, 127)
    assert equal_on(steps, [folded], -bounds, bounds).all()


def test_two_steps_become_one_only_when_no_value_tells_them_apart() -> None:
    steps = [requant(1, 0, 128), requant(5, 0, 16, 0, 255)]
    stairs = staircase(steps, *ends((0, 32385)))
    merged = requant(5, 0, 2048, 0, 255)
    assert not equal_on(steps, [merged], *ends((0, 32385))).any()
    found = narrow(stairs)
    assert found is None or check_narrow(found, steps, 0, 32385)
    coarse = [requant(1, 0, 8), requant(1, 0, 16, 0, 255)]
    check_narrow(narrow_32(staircase(coarse, *ends((0, 32385)))), coarse, 0, 32385)
    assert equal_on(coarse, [requant(1, 0, 128, 0, 255)], *ends((0, 32385))).all()


def test_a_bias_is_a_step_of_its_own() -> None:
    step = requant([300, -300], [7, 9], 1 << 10, 0, 255)
    bias = requant([1, 1], [50, -20], 1)
    folded = requant([300, -300], [300 * 50 + 7, 300 * 20 + 9], 1 << 10, 0, 255)
    assert equal_on([bias, step], [folded], *ends((-4000, 4000))).all()
    assert equal_on([bias, step], [step], *ends((-4000, 4000))).tolist() == [False, False]


def test_channels_are_compared_each_on_its_interval() -> None:
    one, other = requant(1, 0, 4, 0, 255), requant(1, 0, 4, 0, 15)
    assert equal_on([one], [other], *ends((0, 63), (0, 64), (-9, 3))).tolist() == [
        True,
        False,
        True,
    ]


def test_numbers_beyond_64_bits_are_exact() -> None:
    step = Requant((3**45,), (5**30,), 3**45 - 1, 0, 255)
    stairs = staircase([step], *ends((-300, 300)))
    assert stairs.thresholds[0, :3].tolist() == [
        next(a for a in range(-300, 300) if step.scalar(a, 0) >= level) for level in (1, 2, 3)
    ]
    check_narrow(narrow_32(stairs), [step], -300, 300)


def test_an_unclipped_32_bit_output_is_no_staircase() -> None:
    assert staircase([requant(1, 0, 4)], *ends((-(10**6), 10**6))) is None


def test_a_thousand_channels_have_narrow_stairs() -> None:
    random = np.random.default_rng(1)
    muls = random.integers(1 << 12, 1 << 17, 1000).tolist()
    adds = random.integers(-(1 << 26), 1 << 26, 1000).tolist()
    step = requant(muls, adds, 1 << 21, 0, 255)
    lo, hi = np.full(1000, -200000), np.full(1000, 200000)
    stairs = staircase([step], lo, hi)
    found = narrow(stairs)
    assert found is not None
    for channel in range(0, 1000, 50):
        for acc in stairs.thresholds[channel]:
            for near in (int(acc) - 1, int(acc)):
                got = as_the_chip_computes(found, channel, near, (0, 255))
                assert got == step.scalar(near, channel)


@given(a_sequence(), st.sampled_from([32, 24, 10, 0]))
@settings(max_examples=60, deadline=None)
def test_products_are_exact_and_fit_their_words(
    case: tuple[list[Requant], int, int], shift: int
) -> None:
    steps, lo, hi = case
    stairs = staircase(steps, *ends((lo, hi)))
    found = None if stairs is None else narrow_product(stairs, shift)
    if found is None:
        return
    assert found.shift == shift
    last = steps[-1]
    for channel in range(len(found.mul)):
        mul, add = int(found.mul[channel]), int(found.add[channel])
        assert abs(mul) < 1 << 31
        for acc in range(lo, hi + 1):
            value = mul * acc + add
            assert abs(value) < 1 << 62 and abs(value >> shift) <= 1 << 31
            y = value >> shift
            if last.lo is not None and last.hi is not None:
                y = min(max(y, last.lo), last.hi)
            assert y == exact(steps, acc, channel)


def test_products_of_32_bits_need_scales_below_one_half() -> None:
    lo, hi = ends((-3000, 3000))
    assert narrow_product(staircase([requant(49, 7, 100, 0, 255)], lo, hi), 32) is not None
    steep = staircase([requant(51, 7, 100, 0, 255)], lo, hi)
    assert narrow_product(steep, 32) is None
    assert narrow_product(steep, 31) is not None
    no_power_of_two = staircase([requant(123, -5, (1 << 14) - 1, 0, 255)], lo, hi)
    found = narrow_product(no_power_of_two, 32)
    same = Requant((int(found.mul[0]),), (int(found.add[0]),), 1 << 32, 0, 255)
    assert equal_on([requant(123, -5, (1 << 14) - 1, 0, 255)], [same], lo, hi).all()


# --- of layers ----------------------------------------------------------------------------------


def biased(bias: list[int] | None) -> Layer:
    layer = alone(
        Linear,
        weights=Array([[1, 2], [-1, 0]]),
        bias=None if bias is None else Array(bias),
        requants=(requant(1, 0, 2, 0, 255),),
    )
    return typed(layer, (2, 1, 1, 0, 10))


def test_bias_is_the_first_step_over_sums_of_products() -> None:
    steps, lo, hi = steps_of_sums(biased([100, -7]))
    assert steps == (requant([1, 1], [100, -7]), requant(1, 0, 2, 0, 255))
    assert (lo.tolist(), hi.tolist()) == ([0, -10], [30, 0])
    plain = steps_of_sums(biased(None))
    assert plain[0] == steps[1:]
    assert (plain[1].tolist(), plain[2].tolist()) == ([0, -10], [30, 0])


def test_what_is_found_of_a_layer_is_found_once() -> None:
    asked = []

    @cached_per_layer
    def find(layer: Layer, number: int) -> int:
        asked.append((layer.op.name, number))
        return len(asked)

    layer = biased(None)
    assert [find(layer, 1), find(layer, 2), find(layer, 1)] == [1, 2, 1]
    other = replace(layer, inputs=(replace(layer.inputs[0], hi=5),))
    assert [find(other, 1), find(other, 1), find(layer, 1)] == [3, 3, 1]
    assert find(biased(None), 1) == 1  # of an equal operator
    assert find(biased([5, 5]), 1) == 4


def test_what_is_found_of_a_layer_may_depend_on_all_of_it() -> None:
    @cached_per_layer
    def find(layer: Layer) -> str:
        return f"{layer.output.type_name} {layer.inputs[0].shape} {layer.output.shape}"

    layer = biased(None)
    packed = replace(layer, output=replace(layer.output, bits=4))
    part = replace(layer, inputs=(replace(layer.inputs[0], height=3),))
    assert len({find(layer), find(packed), find(part)}) == 3


def test_what_is_found_of_many_layers_is_found_once() -> None:
    """A deep network is asked about layer by layer, several times in the same order."""
    asked = []

    @cached_per_layer
    def find(layer: Layer) -> int:
        asked.append(layer.op)
        return len(asked)

    deep = [biased([n, 1]) for n in range(3000)]
    assert [find(layer) for layer in deep] == [find(layer) for layer in deep]
    assert len(asked) == 3000


def test_what_is_found_of_a_layer_goes_with_its_operator() -> None:
    found = cached_per_layer(lambda layer: layer.op.name)
    layer = biased([8, 9])
    alive = ref(layer.op)
    assert found(layer) == "linear" and alive() is layer.op
    del layer
    collect()
    assert alive() is None
