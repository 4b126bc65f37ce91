"""Depthwise convolutions: columns, tiles, padding."""

from __future__ import annotations

from dataclasses import replace

import cortex_m7
import numpy as np
import pytest
from cortex_m7 import CortexM7
from dory_stm32h7.backend.depthwise import DepthwiseKernel
from stm32h7_layers import channel_step, conv_layer, even_step

from dory_core.api import ops
from dory_core.testing.kernels import HostLibrary, make_case, whole_case


@pytest.mark.sample(4)
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (1, 2), (2, 1)])
def test_depthwise_from_pairs_of_columns(strides: tuple[int, int]) -> None:
    """All remainders of blocks, strips and channels; padding on every side; both types."""
    random = np.random.default_rng(12)
    cases = []
    for number in range(16):
        pads = tuple(random.integers(0, 3, 4).tolist())
        window = ops.Window(kernel=(3, 3), strides=strides, pads=pads)
        image = tuple(random.integers(13, 24, 2).tolist())
        channels = 4 + number % 5
        layer = conv_layer(
            channels, channels, image, window, groups=channels, lo=0 if number % 2 else -128
        )
        cases.append(whole_case(DepthwiseKernel(), layer, random))
    assert all("_planar" in case.kernel.symbol(case.layer) for case in cases)
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.sample(7)
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("kernel", [(5, 5), (7, 7), (1, 5), (1, 7), (9, 1), (10, 1), (4, 1)])
def test_depthwise_of_wide_filters_from_pairs_of_columns(
    kernel: tuple[int, int], step: int
) -> None:
    """All remainders of blocks, strips and channels, padding on every side, other epilogues."""
    random = np.random.default_rng(14)
    cases = []
    for number in range(12):
        top, left, bottom, right = random.integers(0, 4, 4).tolist()
        is_row = 1 in kernel
        pads = (top * (not is_row), left, bottom * (not is_row), right)
        height, width = 1 if is_row else 19 + number, 24 + number
        if kernel[1] == 1:
            height, width, pads = width, 1, (left, 0, right, 0)
        strides = (step, step) if not is_row else ((step, 1) if kernel[1] == 1 else (1, step))
        window = ops.Window(kernel=kernel, strides=strides, pads=pads)
        channels, taps = 4 + number % 5, kernel[0] * kernel[1]
        steps = (
            (channel_step(channels, taps * 255 << 6, 255),),
            (even_step(channels, taps << 12),),
        )
        layer = conv_layer(
            channels,
            channels,
            (height, width),
            window,
            groups=channels,
            lo=0 if number % 2 else -128,
            **({"steps": steps[number % 4 // 3]} if number % 4 > 1 else {}),
        )
        cases.append(whole_case(DepthwiseKernel(), layer, random))
    assert any("_planar" in case.kernel.symbol(case.layer) for case in cases)
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.sample(2)
@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
def test_depthwise_tiles_of_fewer_than_four_channels(strides: tuple[int, int]) -> None:
    """A layer of more channels ends with such a tile: in fours, in twos, in threes, one by one."""
    random = np.random.default_rng(13)
    window = ops.Window(kernel=(3, 3), strides=strides, pads=(1, 1, 1, 1))
    cases = []
    for together, bits, hi, lo in (
        *((4, 8, 255, 0), (4, 16, 3, -128), (4, 8, 15, 0)),
        *((2, 16, 255, 0), (3, 8, 1, -128), (1, 8, 255, -128)),
    ):
        weights = random.integers(-(1 << bits - 1), 1 << bits - 1, (7, 1, 3, 3))
        steps = (channel_step(7, 9 * 255 << bits - 2, hi),)
        layer = conv_layer(7, 7, (12, 13), window, groups=7, steps=steps, weights=weights, lo=lo)
        layer = replace(layer, output=replace(layer.output, bits=8))
        whole = whole_case(DepthwiseKernel(), layer, random)
        _, h, w, c_in = whole.tile
        cases += [replace(whole, tile=(together, *size, c_in)) for size in ((h, w), (3, w - 1))]
    assert all("_planar" in case.kernel.symbol(case.layer) for case in cases)
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


PADDED = {
    "pairs of columns": ((3, 3), (1, 1), (1, 1), 9),
    "every other pair": ((3, 3), (2, 2), (1, 1), 6),
    "pixels": ((5, 3), (1, 2), (1, 1), 7),
    "far taps": ((3, 3), (1, 1), (2, 2), 6),
    "a row": ((1, 3), (1, 1), (1, 1), 5),
    "three channels": ((3, 4), (1, 1), (1, 1), 3),
}


@pytest.mark.sample(15)
@pytest.mark.parametrize("lo", [0, -128])
@pytest.mark.parametrize("name", PADDED)
def test_depthwise_padding_with_a_value(name: str, lo: int) -> None:
    """On every side, also of images that no window lies in as a whole; whole and in tiles."""
    random = np.random.default_rng(17 - lo)
    kernel, strides, dilations, channels = PADDED[name]
    cases = []
    for image in ((12, 13), (3, 2)):
        most = [(size - 1) * far + 1 for size, far in zip(kernel, dilations, strict=True)]
        pads = tuple(min(size - 1, 2) for size in (*most, *most))
        value = int(random.choice([lo, lo + 255, lo + 9]))
        window = ops.Window(
            kernel=kernel, strides=strides, dilations=dilations, pads=pads, pad_value=value
        )
        size = [n + a + b for n, a, b in zip(image, pads[:2], pads[2:], strict=True)]
        if any(n < reach for n, reach in zip(size, most, strict=True)):
            continue
        layer = conv_layer(channels, channels, image, window, groups=channels, lo=lo)
        cases.append(whole_case(DepthwiseKernel(), layer, random))
        cases += [make_case(DepthwiseKernel(), layer, random) for _ in range(3)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_last_depthwise_block_ends_with_the_last_channel() -> None:
    layer = conv_layer(6, 6, (4, 4), ops.Window(kernel=(1, 2)), groups=6)
    block = DepthwiseKernel().weight_block(layer, (0, 6), (0, 6))
    image = np.frombuffer(block.data, np.int8)[block.parts["weights"] :].reshape(2, 2, 4)
    weights = layer.op.weights.values[:, 0, 0]
    assert image[0].tolist() == weights[:4].T.tolist()
    assert image[1].tolist() == weights[2:].T.tolist()
