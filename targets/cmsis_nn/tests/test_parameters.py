"""Mantissas and shifts of CMSIS-NN that have the values of a network's requantisation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dory_cmsis_nn.parameters import Parameters, find_native, rounded_twice
from dory_cmsis_nn.testing import tflm_layer, tflm_step

from dory_core.api import Rejection, ops
from dory_core.importing import Array, requant
from dory_core.testing import accumulator_bounds
from dory_core.testing.kernels import typed


def _requantize_as_in_c(value: int, mantissa: int, shift: int) -> int:
    """arm_nn_requantize of arm_nnsupportfunctions.h, word for word in Python integers."""
    product = (value << max(shift, 0)) * mantissa + (1 << 30)
    result, exponent = product >> 31, max(-shift, 0)
    mask = (1 << exponent) - 1
    remainder, result_threshold = mask & result, mask >> 1
    result_threshold += result < 0
    return (result >> exponent) + (remainder > result_threshold)


@pytest.mark.parametrize("kind", ["conv", "pointwise", "depthwise", "linear"])
def test_native_parameters_give_the_network_for_every_accumulator(kind: str) -> None:
    for seed in range(6):
        layer = tflm_layer(kind, seed)
        found = find_native(layer)
        assert isinstance(found, Parameters) and found.mul is not None and found.rest is not None
        step = layer.op.requants[0]
        lowest, highest = accumulator_bounds(layer.op, layer.inputs)
        for c in range(layer.output.channels):
            for acc in range(int(lowest[c]), int(highest[c]) + 1, 997):
                got = _requantize_as_in_c(acc, int(found.mul[c]), int(found.rest[c]))
                assert min(max(got - 7, -128), 127) == step.scalar(acc, c)


@pytest.mark.parametrize("kind", ["conv", "linear"])
def test_a_part_has_the_parameters_of_all_channels(kind: str) -> None:
    whole = tflm_layer(kind, 0)
    part = replace(whole, output=replace(whole.output, channels=whole.output.channels // 2))
    both = find_native(whole), find_native(part)
    found = [one for one in both if isinstance(one, Parameters) and one.mul is not None]
    assert [len(one.bias) for one in found] == [whole.output.channels] * 2


def test_native_multipliers_are_those_of_the_file() -> None:
    layer = tflm_layer("conv", 4)
    reach = int(np.prod(layer.of(ops.Conv).weights.shape[1:])) * 128 * 100
    _, pairs = tflm_step(layer.output.channels, reach, -7, (-128, 127), 4)
    found = find_native(layer)
    assert isinstance(found, Parameters) and found.mul is not None and found.rest is not None
    assert list(zip(found.mul.tolist(), found.rest.tolist(), strict=True)) == pairs


def test_every_accumulator_of_every_channel_of_one_layer_is_equal() -> None:
    layer = tflm_layer("depthwise", 1)
    found, step = find_native(layer), layer.op.requants[0]
    assert isinstance(found, Parameters) and found.mul is not None and found.rest is not None
    acc = np.arange(layer.ranges.acc_lo, layer.ranges.acc_hi + 1)
    both = np.broadcast_to(acc, (layer.output.channels, len(acc)))
    got = rounded_twice(both, found.mul[:, None], found.rest[:, None]) - 7
    assert np.array_equal(np.clip(got, -128, 127), step.apply(both))


def test_other_roundings_are_not_taken_for_the_library_s_own() -> None:
    layer = tflm_layer("conv", 2)
    step = layer.op.requants[0]
    up = requant(step.mul, step.add, step.div, step.lo, step.hi)
    for wrong in (
        up,
        requant(step.mul, [a + step.div // 64 for a in step.add], step.div, -128, 127),
    ):
        other = replace(layer, op=replace(layer.op, requants=(wrong,)))
        assert isinstance(find_native(other), Rejection)
    unscaled = replace(layer, output=replace(layer.output, scale=None))
    assert isinstance(find_native(unscaled), Rejection)


def test_roundings_that_a_relu_hides_are_taken() -> None:
    layer = tflm_layer("conv", 2, zero_point=-128, bounds=(-128, 127))
    step = layer.op.requants[0]
    plain = requant(step.mul, step.add, step.div, -128, 127)
    assert isinstance(
        find_native(replace(layer, op=replace(layer.op, requants=(plain,)))), Parameters
    )


def test_channels_that_are_constant_and_huge_biases_are_taken() -> None:
    layer = tflm_layer("conv", 4)
    step, channels = layer.op.requants[0], layer.output.channels
    assert step.add_negative is not None
    parts = (step.mul, step.add, step.add_negative)
    mul, add, low = (list(part * (channels // len(part))) for part in parts)
    mul[0], add[0], low[0] = 0, -7 * step.div, -7 * step.div
    bias = np.zeros(channels, np.int64)
    bias[1] = -(1 << 30)  # it is clipped, whatever the input
    steps = (requant(mul, add, step.div, -128, 127, add_negative=low),)
    op = replace(layer.of(ops.Conv), bias=Array(bias), requants=steps)
    shape = layer.inputs[0].shape
    other = typed(op, (*shape, -128, 127))
    other = replace(other, output=replace(other.output, scale=0.5, zero_point=-7))
    found = find_native(other)
    assert isinstance(found, Parameters) and found.mul is not None
    assert found.mul[0] == 0 and (found.mul[1:] >= 1 << 30).all()
