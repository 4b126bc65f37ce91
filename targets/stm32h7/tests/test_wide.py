"""Weights beyond a byte, and data of 16 and 32 bits."""

from __future__ import annotations

from dataclasses import replace

import cortex_m7
import numpy as np
import pytest
from cortex_m7 import CortexM7
from dory_stm32h7.backend import builtin_kernels
from dory_stm32h7.backend.conv import ConvKernel
from dory_stm32h7.backend.depthwise import DepthwiseKernel
from dory_stm32h7.backend.linear import LinearKernel
from dory_stm32h7.backend.movers import MoveKernel
from dory_stm32h7.backend.pairs import AddKernel
from dory_stm32h7.backend.pool import AvgPoolKernel, MaxPoolKernel
from dory_stm32h7.backend.weighted import lift_of, weight_bits
from stm32h7_layers import POINT, SAME, conv_layer, wide_sum

from dory_core.api import ops
from dory_core.importing import Array, requant
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.kernel_cases import KernelCase, takes
from dory_core.testing.kernels import HostLibrary, alone, make_case, typed, whole_case


def _uint8_weights(low: int, high: int) -> list[KernelCase]:
    """Return cases whose weights are bytes without a sign less a zero point."""
    random = np.random.default_rng(5)
    layers = []
    around = ops.Window(kernel=(3, 3), strides=(1, 2), pads=(1, 1, 1, 1))
    for groups, window in ((12, around), (12, replace(around, dilations=(2, 1))), (3, around)):
        builder = GraphBuilder((12, 9, 7))
        builder.conv(12, window, groups=groups, weights=(low, high))
        layers += builder.graph().layers
    builder = GraphBuilder((3, 14, 12))
    builder.conv(12, around, weights=(low, high), output=(-128, 127))
    builder.conv(12, SAME, groups=12, weights=(low, high))
    builder.conv(11, around, weights=(low, high))
    builder.conv(9, ops.Window(kernel=(5, 4), pads=(2, 2, 2, 2)), weights=(low, high))
    builder.conv(700, POINT, weights=(low, high))
    builder.conv(9, POINT, weights=(low, high), output=(-128, 127))
    builder.linear(7, weights=(low, high), output=(0, 255))
    layers += builder.graph().layers
    kernels = [next(one for one in builtin_kernels() if takes(one, layer)) for layer in layers]
    assert all("_u8" in one.symbol(layer) for one, layer in zip(kernels, layers, strict=True))
    return [make_case(kernel, own, random) for kernel, own in zip(kernels, layers, strict=True)]


@pytest.mark.parametrize("bounds", [(-129, 127), (200, 300), (-300, -200)])
def test_weights_beyond_uint8_files_are_stored_in_16_bits(bounds: tuple[int, int]) -> None:
    builder = GraphBuilder((12, 9, 7))
    builder.conv(12, SAME, weights=bounds)
    builder.linear(7, weights=bounds)
    cases = []
    for kernel, layer in zip((ConvKernel(), LinearKernel()), builder.graph().layers, strict=True):
        assert (weight_bits(layer), lift_of(layer)) == (16, 0)
        cases.append(make_case(kernel, layer, np.random.default_rng(1)))
    HostLibrary(cases).check()


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [(-200, 55), (-255, 0), (0, 255), (-140, 100)])
def test_weights_of_uint8_files_are_stored_in_8_bits(bounds: tuple[int, int]) -> None:
    cases = _uint8_weights(*bounds)
    assert all(weight_bits(case.layer) == 8 and lift_of(case.layer) for case in cases)
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_weights_beyond_a_byte_take_two() -> None:
    """A uint8 network's weights have 9 bits; all kernels, all remainders of their blocks."""
    random = np.random.default_rng(6)
    cases = []
    for channels, outputs in ((8, 6), (5, 7), (3, 3)):
        for window in (POINT, SAME):
            shape = (outputs, channels, *window.kernel)
            weights = random.integers(-256, 256, shape)
            weights.reshape(-1)[:2] = (-32768, 32767)
            layer = conv_layer(channels, outputs, (5, 6), window, weights=weights)
            cases.append(whole_case(ConvKernel(), layer, random))
        weights = random.integers(-256, 256, (channels, 1, 3, 3))
        layer = conv_layer(channels, channels, (5, 6), SAME, groups=channels, weights=weights)
        cases.append(whole_case(DepthwiseKernel(), layer, random))
        op = alone(ops.Linear, weights=Array(random.integers(-300, 300, (outputs, channels * 3))))
        cases.append(whole_case(LinearKernel(), typed(op, (channels * 3, 1, 1, 0, 255)), random))
    assert all("_i16_" in case.kernel.symbol(case.layer) for case in cases)
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_weights_lie_in_pairs_of_rows_behind_the_parameters() -> None:
    layer = conv_layer(3, 3, (4, 4), ops.Window(kernel=(1, 2)))
    block = ConvKernel().weight_block(layer, (0, 3), (0, 3))
    assert dict(block.parts) == {"mul": 0, "weights": 36}
    rows = layer.op.weights.values.transpose(0, 2, 3, 1).reshape(3, 6).astype(np.int8)
    rows = np.pad(rows, ((0, 0), (0, 2)))
    image = np.frombuffer(block.data, np.int8)[36:60].reshape(6, 4)
    pairs = rows[:2].reshape(2, 2, 2, 2).transpose(1, 3, 2, 0)  # vector, parity, element, row
    assert image[:4].tolist() == pairs.reshape(4, 4).tolist()
    assert image[4:].reshape(-1).tolist() == rows[2].tolist()


def test_sums_of_16_bits_keep_the_numbers_of_their_steps() -> None:
    """A staircase of their values has too many steps for a search."""
    random = np.random.default_rng(3)
    cases = []
    for shift in range(16, 22):
        mul, last = (int(n) for n in random.integers(1 << 30, 1 << 31, 2))
        layer = wide_sum(mul, shift, last)
        assert "_scaled_upper_" in AddKernel().symbol(layer)
        cases += [make_case(AddKernel(), layer, random) for _ in range(3)]
    ends = np.array([-32768, -32767, -1, 0, 1, 32766, 32767, 5])
    values = np.broadcast_to(ends, (16, 8, 8))
    cases.append(replace(whole_case(AddKernel(), cases[0].layer), inputs=(values, values)))
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_sums_of_large_windows_of_bytes_have_32_bits() -> None:
    pool = alone(ops.AvgPool, window=ops.Window(kernel=(20, 20)))
    # A few elements inside, but their sum alone needs 17 bits before padding makes it smaller.
    beside = ops.Window(kernel=(2, 257), pads=(0, 80, 0, 80), pad_value=-1)
    padded = alone(ops.AvgPool, window=beside, counts_padding=True)
    layers = (typed(pool, (5, 20, 20, 0, 255)), typed(padded, (5, 2, 97, -127, 127)))
    assert all("_wide_" in AvgPoolKernel().symbol(layer) for layer in layers)
    random = np.random.default_rng(2)
    cases = [make_case(AvgPoolKernel(), layer, random) for layer in layers]
    ends = np.full((5, 20, 20), 255)
    cases.append(replace(whole_case(AvgPoolKernel(), layers[0]), inputs=(ends,)))
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.slow
@pytest.mark.parametrize("hi", [32767, (1 << 31) - 1])
def test_moves_of_wide_elements(hi: int) -> None:
    """Padding with any value, slices with steps, in tiles of any size."""
    random = np.random.default_rng(6)
    cases: list[KernelCase] = []
    for n in range(6):
        before, after = (tuple(random.integers(0, 3, 3).tolist()) for _ in range(2))
        value = int(random.integers(-hi - 1, hi, endpoint=True))
        begin, step = tuple(random.integers(0, 3, 3).tolist()), (1, 1 + n % 2, 1 + n // 3)
        for one in (
            alone(ops.Pad, before=before, after=after, value=value),
            alone(ops.Slice, begin=begin, size=(3, 2, 2), step=step),
        ):
            layer = typed(one, (5, 6, 7, -hi - 1, hi))
            assert MoveKernel().accepts(layer) is None
            cases += [make_case(MoveKernel(), layer, random) for _ in range(2)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("kernel", "strides"),
    [((3, 3), (1, 1)), ((3, 3), (2, 2)), ((5, 5), (1, 2)), ((1, 5), (1, 1)), ((2, 3), (1, 1))],
)
def test_windows_of_16_bits(kernel: tuple[int, int], strides: tuple[int, int]) -> None:
    """Depthwise by pairs of columns and pixel by pixel, pools; padding; few channels; tiles."""
    random = np.random.default_rng(4)
    cases: list[KernelCase] = []
    pads = (kernel[0] // 2, kernel[1] // 2) * 2
    for channels, lo in ((3, -32768), (7, -32768), (9, 0)):
        hi = -1 - lo if lo else 32767
        window = ops.Window(kernel=kernel, strides=strides, pads=pads, pad_value=hi // 3)
        weights = random.integers(-128, 128, (channels, 1, *kernel))
        steps = (requant(30014, 1 << 22, 1 << 23, -32768, 32767),)
        filters = alone(
            ops.Conv, weights=Array(weights), window=window, groups=channels, requants=steps
        )
        plain = replace(window, pad_value=0)
        most = alone(ops.MaxPool, window=plain)
        step = requant(1, 2, kernel[0] * kernel[1], -32768, 32767)
        mean = alone(ops.AvgPool, window=plain, counts_padding=True, requants=(step,))
        kernels = (DepthwiseKernel(), MaxPoolKernel(), AvgPoolKernel())
        for one, layer in zip(kernels, (filters, most, mean), strict=True):
            case = typed(layer, (channels, 14, 13, lo, hi))
            assert one.accepts(case) is None
            cases += [make_case(one, case, random) for _ in range(2)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()
