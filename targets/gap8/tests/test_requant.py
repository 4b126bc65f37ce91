"""Forms of requantisation: which a layer gets, how its parameters lie in memory, exactness."""

from __future__ import annotations

import numpy as np
import pytest
from dory_gap8.backend import AvgPoolKernel, LinearKernel
from dory_gap8.backend.even import upper_word
from dory_gap8.backend.requant import BINARY32, EVEN, HIGH, LIMBS, NARROW, STEPS, epilogue

from dory_core.api import Layer, Requant, ops, requantisation
from dory_core.importing import Array, requant
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, typed, values_of


def linear(
    *steps: Requant,
    weights: np.ndarray | None = None,
    bias: list[int] | None = None,
    lo: int = 0,
    hi: int = 255,
    inputs: int = 64,
) -> Layer:
    """Return a layer of four outputs whose accumulators grow from output to output."""
    if weights is None:
        random = np.random.default_rng(inputs)
        weights = random.integers(-127, 128, (4, inputs)) // np.array([[16], [8], [2], [1]])
    layer = alone(
        ops.Linear,
        weights=Array(weights),
        bias=None if bias is None else Array(bias),
        requants=steps,
    )
    return typed(layer, (weights.shape[1], 1, 1, lo, hi))


def words(layer: Layer) -> np.ndarray:
    """Return the records as the weight block has them."""
    block = LinearKernel().weight_block(layer, (0, 4), (0, layer.inputs[0].channels))
    assert list(block.parts) == ["mul", "weights"]
    return np.frombuffer(block.data, "<i4", block.parts["weights"] // 4).reshape(4, -1)


def check(layer: Layer) -> None:
    """Compare the kernel with the reference on inputs whose sums meet many thresholds."""
    x = layer.inputs[0]
    random = np.random.default_rng(9)
    weights = layer.op.weights.values
    cases = []
    for share in np.linspace(0, 1, 40):
        # From inputs that make a sum of the last output small to those that make it large.
        towards = np.where(weights[int(share * 37) % 4] > 0, x.hi, x.lo)
        values = np.where(random.random(len(towards)) < share, towards, x.hi + x.lo - towards)
        noise = values_of(x, random).reshape(-1)
        values = np.where(random.random(len(towards)) < 0.3, noise, values)
        cases.append(
            KernelCase(LinearKernel(), layer, (values.reshape(x.shape),), (4, 1, 1, x.channels))
        )
    HostLibrary(cases).check()


SMALL = {"hi": 15, "inputs": 8}
# Of the TensorFlow Lite format: 31 bits, and of one channel less because its scale is smaller.
MULTIPLIERS = [1518500249, 1753413057 >> 1, 1900671691 >> 2, 1357913941 >> 3]
FORMS = {
    "32 bits as they are": (
        linear(requant([900, 70, 80, 3], [5, -9, 7, 1], 1 << 12, 0, 255)),
        "_q32",
    ),
    "32 bits of 50": (
        linear(requant([(1 << 48) + 17, 3**30, 5**20, 7**16], 0, 1 << 50, 0, 255), **SMALL),
        "_q32",
    ),
    "signed": (
        linear(requant([-(1 << 47), 3**30, 5**20, 7**16], 0, 1 << 50, -128, 127), **SMALL),
        "_q32_signed",
    ),
    "bounds": (
        linear(requant([1 << 47, 3**30, 5**20, 7**16], 0, 1 << 50, -3, 99), **SMALL),
        "_q32_bounds",
    ),
    "no clip": (linear(requant([1 << 31, 77, 5, 1], 0, 1 << 40)), "_q32_noclip"),
    "divisor of ones": (
        linear(requant([900, 700, 80, 30], [5, -9, 7, 1], (1 << 12) - 1, 0, 255), **SMALL),
        "_q32",
    ),
    "clamp": (
        linear(requant([99371, 77777, 70001, 60013], [1 << 20, 5, 7, 9], 1 << 20, 0, 255)),
        "_clamp",
    ),
    "clamp, signed": (
        linear(requant([99371, -77777, 70001, 0], [1 << 20, 5, 7, 9], 1 << 20, -128, 127)),
        "_clamp_signed",
    ),
    "limbs": (
        linear(requant([10003, 1009, 1013, 1019], [9, 8, 7, -(1 << 25)], (1 << 21) - 1, 0, 255)),
        "_limbs",
    ),
    "clamp and limbs": (
        linear(
            requant([100003, 10009, 10013, -10019], [9, 8, 7, -(1 << 25)], (1 << 23) - 1, 0, 255),
            inputs=256,
        ),
        "_clamp_limbs",
    ),
    "two steps in one": (
        linear(requant([90, 70, 80, 3], 5, 1 << 5), requant(3, 1, 1 << 7, 0, 255)),
        None,
    ),
    "one for all": (linear(requant(3**20, 12345, 1 << 42, 0, 255)), None),
    "symmetric around zero": (
        linear(
            requant(
                [10003, 1009, 1013, 1019],
                [(1 << 19) + (1 << 9)] * 4,
                1 << 20,
                -128,
                127,
                add_negative=(1 << 19) - (1 << 9),
            ),
            bias=[-700, 9, 0, 70000],
        ),
        "_turned_q32_signed",
    ),
    "64 bits with two addends at last": (
        linear(
            requant([1 + (1 << 31), 3**19, 5**13, 1], 1 << 32, 1 << 33, add_negative=99 << 24),
            bias=[-700, 9, 0, 70000],
        ),
        "_turned_q64steps_noclip",
    ),
    "any divisor, met exactly by every third sum": (
        linear(requant([10**9, 10**9, 5 * 10**8, 7**11], [0, 0, 0, 0], 3 * 10**9)),
        "_q64steps_div_noclip",
    ),
    "divisor of ones, met exactly by every seventh sum": (
        linear(requant(1, 0, 7)),
        "_q32steps_ones_noclip_scalar",
    ),
    "upper word": (
        linear(requant(MULTIPLIERS, [1 << 42] * 4, 1 << 43, -128, 127), inputs=256),
        "_high_signed",
    ),
    "upper word, turned": (
        linear(
            requant(
                MULTIPLIERS,
                [(1 << 42) + (1 << 30)] * 4,
                1 << 43,
                -128,
                127,
                add_negative=(1 << 42) - (1 << 30),
            ),
            bias=[-700, 9, 0, 70000],
            inputs=256,
        ),
        "_turned_high_signed",
    ),
    "64 bits at last": (
        linear(requant([(1 << 31) + 1, 3**19, 5**13, 1], [1 << 40, -(1 << 41), 3, 4], 1 << 33)),
        "_q64steps_noclip",
    ),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_exact(name: str) -> None:
    layer, form = FORMS[name]
    if form is not None:
        assert epilogue(layer).suffix == form
    check(layer)


def test_a_record_is_reach_low_limb_multiplier_addend() -> None:
    layer = FORMS["clamp and limbs"][0]
    found = epilogue(layer)
    assert found.form == LIMBS and found.reach
    rows = words(layer)
    assert rows.shape == (4, 4)
    assert rows[:, 0].tolist() == found.narrow.reach.tolist()
    assert rows[:, 1].tolist() == found.narrow.mul_low.tolist()
    assert rows[:, 2].tolist() == found.narrow.mul_high.tolist()
    assert rows[:, 3].tolist() == found.narrow.add_high.tolist()
    assert found.channel_bytes == 16


def test_parameters_that_fit_stay_as_they_are() -> None:
    layer = FORMS["32 bits as they are"][0]
    assert words(layer).tolist() == [[900, 5], [70, -9], [80, 7], [3, 1]]
    assert epilogue(layer).struct().members["shift"] == 12


def test_64_bit_parameters_are_two_words_each_the_lower_first() -> None:
    rows = words(FORMS["64 bits at last"][0])
    assert (
        rows.astype("<i4").tobytes()
        == np.array(
            [[(1 << 31) + 1, 1 << 40], [3**19, -(1 << 41)], [5**13, 3], [1, 4]], "<i8"
        ).tobytes()
    )


def test_a_record_of_the_upper_word_ends_with_the_shift_of_its_channel() -> None:
    layer = FORMS["upper word, turned"][0]
    found = epilogue(layer)
    assert found.form == HIGH
    offset, mul, add, below, shift = words(layer).T.tolist()
    high = found.high
    assert offset == high.offset.tolist() and mul == high.mul.tolist()
    assert add == high.add.tolist() and below == high.below.tolist()
    assert shift == high.shift.tolist() and len(set(shift)) > 1
    assert min(mul) >= 1 << 29, "small scales have as many digits"
    assert epilogue(layer).struct().members["low_bits"] == high.up


def test_a_bias_joins_the_parameters() -> None:
    random = np.random.default_rng(3)
    weights = random.integers(-128, 128, (4, 9))
    step = requant(-3, 11, 1 << 9, -128, 127)
    layer = linear(step, weights=weights, bias=[-100000, 5, 7, 300000], lo=-128, hi=127)
    assert words(layer)[:, 1].tolist() == [300011, -4, -10, -899989]
    check(layer)


def test_a_bias_beyond_the_arithmetic_is_exact_modulo_it() -> None:
    """mul * bias exceeds 32 bits, mul * (acc + bias) + add does not."""
    step = requant([70000] * 4, [-(1 << 31)] * 4, 1 << 20, 0, 255)
    check(linear(step, bias=[32000, 31000, 33000, 30000], weights=np.ones((4, 3), int), hi=3))


def test_one_record_serves_all_channels_alike() -> None:
    pool = alone(
        ops.AvgPool,
        window=ops.Window(kernel=(5, 5)),
        requants=(requant(3**25, 7**13, (1 << 45) - 1, 0, 255),),
    )
    layer = typed(pool, (6, 9, 9, 0, 255))
    assert epilogue(layer).form == NARROW and not epilogue(layer).per_channel
    assert AvgPoolKernel().label(layer).endswith("_q32_scalar")
    values = (values_of(layer.inputs[0], np.random.default_rng(1)),)
    HostLibrary([KernelCase(AvgPoolKernel(), layer, values, (6, 5, 5, 6))]).check()


def test_cheaper_forms_come_first() -> None:
    order = ["32 bits of 50", "clamp", "limbs", "clamp and limbs", "upper word", "64 bits at last"]
    costs = [epilogue(FORMS[name][0]).step_cycles for name in order]
    assert costs.pop(4) == costs[3], "an upper word costs as much as a clamp and two limbs"
    assert costs == sorted(set(costs))
    assert epilogue(FORMS["64 bits at last"][0]).form == STEPS


def even(
    scales: list[float], zero: int, bounds: tuple[int, int], weights: np.ndarray | None = None
) -> Layer:
    """Return a layer with a step in binary32, with biases of its outputs."""
    single = [float(np.float32(scale)) for scale in scales]
    step = requantisation.float_requant(single, zero, *bounds)
    return linear(step, weights=weights, bias=[17, -900, 0, 40], lo=-128, hi=127)


EVENS = {
    "ties of powers of two": (even([1 / 64, 1 / 32, 1 / 256, 0.5], 3, (-128, 127)), BINARY32),
    "small scales": (even([1 / 512, 3 / 1024, 1 / 256, 0.01], 3, (-128, 127)), EVEN),
    "a scale that makes all outputs one": (even([2.0**-45, 0.01, 0.02, 0.003], 9, (0, 255)), EVEN),
    "scales far apart": (even([0.9, 2.0**-30, 2.0**-45, 0.0123], 0, (0, 255)), BINARY32),
    "one scale": (even([0.003], 128, (0, 255)), EVEN),
    "other bounds": (even([0.01, 0.02, 0.03, 0.04], 10, (10, 200)), EVEN),
    "near ties": (even([0.6 / 256, 0.3, 0.7 / 255, 1 / 3], -7, (-128, 127)), BINARY32),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", EVENS)
def test_steps_in_binary32_are_exact(name: str) -> None:
    layer, form = EVENS[name]
    assert LinearKernel().accepts(layer) is None
    assert epilogue(layer).form == form
    check(layer)


@pytest.mark.parametrize("zero", [-128, 0, 7])
@pytest.mark.parametrize("bias", [0, 12345, -70000])
def test_the_upper_word_meets_every_tie_of_binary32(zero: int, bias: int) -> None:
    """All accumulators of one product and a remainder, as the parameters in memory have them."""
    scales = [3 / 2**12, 5 / 2**11, 0.6 / 256, 1.0000001 / 512, 2.0**-8, 7 / 2**13]
    single = [float(np.float32(scale)) for scale in scales]
    step = requantisation.float_requant(single, zero, -128, 127)
    sums = np.arange(-(1 << 16), 1 << 16) - bias
    offset = np.full(len(single), bias)
    found = upper_word(step, offset, sums[:1], sums[-1:])
    assert found is not None and found.up is not None
    mul, add, shift, _ = (column[:, None] for column in found.records.T)
    value = ((sums[None, :] << found.up) * mul >> 32) + add
    assert np.abs(value).max() < 1 << 31
    away = value & (1 << shift) - 1 >= 1 << shift - 11
    outputs = np.clip(value >> shift, -128, 127)
    expected = step.apply(np.broadcast_to(sums + bias, outputs.shape))
    assert np.array_equal(outputs[away], expected[away])
    # What is looked at again is the upper one of the two neighbours.
    real = (sums + bias) * np.array(single)[:, None]
    below = np.floor(real[~away] + 0.01).astype(np.int64)
    inside = np.abs(below + zero) < 100
    upper = (value >> shift)[~away]
    assert np.array_equal(upper[inside], below[inside] + 1 + zero)
    assert 0 < inside.sum() < 0.1 * away.size


def test_ties_of_binary32_are_exact_at_every_accumulator() -> None:
    """Four outputs see one element each: all accumulators of a range, step by step."""
    weights = np.array([[1, 16], [3, 48], [5, 80], [7, 112]]) * np.array([[1, 1]])
    layer = even([0.5, 0.25, 0.1, 0.375], 0, (-128, 127), weights=weights)
    pairs = [(a, b) for a in range(-128, 128, 3) for b in (-9, -1, 0, 1, 8)]
    cases = [
        KernelCase(LinearKernel(), layer, (np.array(pair).reshape(2, 1, 1),), (4, 1, 1, 2))
        for pair in pairs
    ]
    HostLibrary(cases).check()


def test_accumulators_with_more_digits_than_binary32_are_rounded_first() -> None:
    """With 5 / 2^25, 2^24 + 1 is 2.5 and an even 2; without the first rounding it would be 3."""
    single = float(np.float32(5 / 2**25))
    step = requantisation.float_requant([single], 0, -128, 127)
    bias = [2**24, -(2**24), 2**28, 2**26 + 3]
    layer = linear(step, weights=np.ones((4, 2), int), bias=bias, lo=-128, hi=127)
    found = epilogue(layer).even
    assert found is not None and found.wide
    pairs = [(a, b) for a in range(-128, 128, 5) for b in (-7, 0, 1, 2)]
    cases = [
        KernelCase(LinearKernel(), layer, (np.array(pair).reshape(2, 1, 1),), (4, 1, 1, 2))
        for pair in [(1, 0), *pairs]
    ]
    HostLibrary(cases).check()


def test_products_in_binary32_beyond_31_bits_are_refused() -> None:
    weights, bias = np.full((4, 2), 127), [2**31 - 2**16] * 4
    layer = linear(
        requantisation.float_requant([0.75], 0, -128, 127), weights=weights, bias=bias, lo=0, hi=255
    )
    rejection = LinearKernel().accepts(layer)
    assert rejection is not None and "31 bits" in rejection.reason
