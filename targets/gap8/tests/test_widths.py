"""Every combination of widths and signs of inputs, weights and outputs, for every kernel.

Channels fill no last byte, tiles split every axis, and cores are a number that divides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from dory_gap8.backend import (
    AddKernel,
    AvgPoolKernel,
    ConvKernel,
    DepthwiseHwcKernel,
    DepthwiseKernel,
    GatherKernel,
    LinearKernel,
    MaxPoolKernel,
    PointwiseKernel,
    UnpackingKernel,
    WindowKernel,
)
from dory_gap8.backend.dense import weighted_epilogue
from dory_gap8.backend.packing import slots, weight_words
from dory_gap8.backend.unpacked import wide
from gap8_layers import CLIPS, RANGES, make_case

from dory_core.api import Kernel, Layer, Requant, ops
from dory_core.importing import Array, requant
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, typed

INPUTS = tuple(RANGES)
WEIGHTS = (2, 4, 8)
OUTPUTS = tuple(CLIPS)
CORES = 7

# Kernel, channels in and out, groups, filter.
FILTERED: dict[str, tuple[Kernel, int, int, int, tuple[int, int]]] = {
    "conv": (ConvKernel(CORES), 5, 7, 1, (2, 3)),
    "conv_partial": (ConvKernel(CORES, True), 21, 7, 1, (2, 3)),
    "pointwise": (PointwiseKernel(CORES), 9, 7, 1, (1, 1)),
    "pointwise_partial": (PointwiseKernel(CORES, True), 37, 7, 1, (1, 1)),
    "row": (ConvKernel(CORES), 6, 5, 1, (1, 3)),
    "grouped": (ConvKernel(CORES), 9, 15, 3, (2, 3)),
    "depthwise": (DepthwiseKernel(CORES), 7, 7, 7, (2, 3)),
    "window_unpacked": (UnpackingKernel(WindowKernel(CORES)), 37, 7, 1, (2, 3)),
    "gather_unpacked": (UnpackingKernel(GatherKernel(CORES)), 3, 7, 1, (2, 3)),
    "depthwise_unpacked": (UnpackingKernel(DepthwiseHwcKernel(CORES)), 7, 7, 7, (2, 3)),
    "linear": (LinearKernel(CORES), 5, 7, 1, (0, 0)),
    "linear_partial": (LinearKernel(CORES, True), 5, 7, 1, (0, 0)),
}


def step(output: str, reach: int, channels: int = 1) -> tuple[Requant, ...]:
    """Return a step per channel that spreads sums up to ``reach`` over the type of the output."""
    clip = CLIPS[output]
    if clip is None:
        return ()
    mul = [max(1, (clip[1] - clip[0]) * (1 << 20) // reach) + n for n in range(channels)]
    return (requant(mul, 1 << 18, 1 << 20, *clip),)


def filtered(kind: str, x: str, bits: int, output: str) -> Layer:
    """Return a layer with weights, whose extremes occur."""
    random = np.random.default_rng(bits)
    _, c_in, c_out, groups, kernel = FILTERED[kind]
    lo, hi = RANGES[x]
    height, width = 5, 6
    shape = (c_out, c_in * height * width)
    if any(kernel):
        shape = (c_out, c_in // groups, *kernel)
    weights = random.integers(-(1 << bits - 1), 1 << bits - 1, shape)
    weights.reshape(-1)[:2] = -(1 << bits - 1), (1 << bits - 1) - 1
    reach = int(np.abs(weights).sum(axis=tuple(range(1, weights.ndim))).max()) * max(-lo, hi)
    common: dict[str, Any] = {
        "name": kind,
        "weights": Array(weights),
        "weight_bits": bits,
        "requants": step(output, reach, c_out),
    }
    if not any(kernel):
        return typed(alone(ops.Linear, **common), (c_in, height, width, lo, hi), packed=True)
    pads = (1, 2, 0, 1) if kernel[1] > 1 else (0, 0, 0, 0)
    window = ops.Window(kernel=kernel, pads=pads)
    layer = alone(ops.Conv, window=window, groups=groups, **common)
    return typed(layer, (c_in, height, width, lo, hi), packed=True)


def check(kernel: Kernel, layers: list[Layer], least: int) -> None:
    """Compute the layers that the kernel accepts, at least so many, in random tiles."""
    random = np.random.default_rng(len(layers))
    cases: list[KernelCase] = [
        make_case(kernel, layer, random) for layer in layers if kernel.accepts(layer) is None
    ]
    assert len(cases) >= least
    HostLibrary(cases).check()


def _kinds() -> list[object]:
    """Return every kernel; forms of others are for long sweeps."""
    return [
        pytest.param(kind, marks=pytest.mark.slow) if kind.endswith(("partial", "row")) else kind
        for kind in FILTERED
    ]


@pytest.mark.slow
@pytest.mark.sample(18)
@pytest.mark.parametrize("kind", _kinds())
def test_every_pair_of_inputs_and_weights(kind: str) -> None:
    """Outputs take turns. Unpacking kernels leave out what is not packed, or has 16 bits."""
    pairs = list(product(INPUTS, WEIGHTS))
    layers = [filtered(kind, x, w, OUTPUTS[n * 5 % len(OUTPUTS)]) for n, (x, w) in enumerate(pairs)]
    kernel = FILTERED[kind][0]
    check(kernel, layers, 16 if kind.endswith("unpacked") else len(pairs))


@pytest.mark.slow
@pytest.mark.parametrize("x", INPUTS)
@pytest.mark.parametrize("kind", FILTERED)
def test_every_combination_of_inputs_weights_and_outputs(kind: str, x: str) -> None:
    combinations = list(product(WEIGHTS, OUTPUTS))
    layers = [filtered(kind, x, w, y) for w, y in combinations]
    kernel = FILTERED[kind][0]
    if kind == "depthwise_unpacked" and x.endswith("16"):
        assert all(kernel.accepts(layer) is not None for layer in layers)
        return
    check(kernel, layers, 4 if kind.endswith("unpacked") else len(combinations))


@pytest.mark.sample(9)
@pytest.mark.parametrize("x", INPUTS)
def test_pools_of_every_input_and_output(x: str) -> None:
    window = ops.Window(kernel=(2, 3), strides=(1, 2), pads=(1, 1, 0, 2))
    source = (7, 5, 6, *RANGES[x])
    reach = 6 * max(-RANGES[x][0], RANGES[x][1])
    averages = [
        typed(
            alone(ops.AvgPool, window=window, requants=step(y, reach)),
            source,
            packed=True,
        )
        for y in OUTPUTS
    ]
    check(AvgPoolKernel(CORES), averages, len(OUTPUTS))
    maximum = typed(alone(ops.MaxPool, window=window), source, packed=True)
    assert maximum.output.type_name == maximum.inputs[0].type_name == x
    check(MaxPoolKernel(CORES), [maximum], 1)


def sums(pairs: list[tuple[str, str]], channels: int) -> Iterator[Layer]:
    for n, (first, second) in enumerate(pairs):
        layer = alone(
            ops.Add,
            operand_requants=(requant(3, 1, 2), None),
            requants=step(OUTPUTS[n * 5 % len(OUTPUTS)], 4000),
        )
        shape = (channels, 4, 5)
        yield typed(layer, (*shape, *RANGES[first]), (*shape, *RANGES[second]), packed=True)


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize("channels", [7, 8])
def test_sums_of_every_pair_of_operands(channels: int) -> None:
    """Seven channels leave gaps between packed pixels, eight do not."""
    pairs = list(product(INPUTS, INPUTS))
    check(AddKernel(CORES), list(sums(pairs, channels)), len(pairs))


def test_accumulators_without_room_take_sign_extended_weights() -> None:
    """-2 * 65535 in a column of 300 leaves no room for six bits more."""
    weights = np.full((3, 300, 1, 1), -2)
    layer = alone(ops.Conv, weights=Array(weights), weight_bits=2, window=ops.Window(kernel=(1, 1)))
    x = typed(layer, (300, 2, 2, 0, 65535))
    assert PointwiseKernel(CORES).label(x) == "dory_gap8_pointwise_extended_u16_i2_i32"
    inputs = (np.full((300, 2, 2), 65535, dtype=np.int64),)
    library = HostLibrary([KernelCase(PointwiseKernel(CORES), x, inputs, (3, 2, 2, 300))])
    library.check()
    assert library.run(0).min() == -2 * 65535 * 300


@pytest.mark.parametrize("bits", [4, 8])
def test_the_epilogue_of_an_unpacked_layer_is_searched_once(bits: int) -> None:
    """The search may take seconds, and tiling asks for it hundreds of times."""
    layer = filtered("window_unpacked", "u4", bits, "u8")
    assert weighted_epilogue(wide(layer)) is weighted_epilogue(wide(layer))
    equal = filtered("window_unpacked", "u4", bits, "u8")
    assert weighted_epilogue(wide(equal)) is weighted_epilogue(wide(layer))
    other = filtered("window_unpacked", "u4", 12 - bits, "u8")
    assert weighted_epilogue(wide(other)) is not weighted_epilogue(wide(layer))


def test_slots_follow_the_fields_of_words_and_pixels_end_on_bytes() -> None:
    """Two pixels of five 4-bit channels: six bytes, two words."""
    assert slots(2, 5, 8).tolist() == list(range(10))
    assert slots(2, 5, 4).tolist() == [
        *(0, 2, 4, 5, 1, 3, -1, 6),
        *(7, 9, -1, -1, 8, -1, -1, -1),
    ]


def test_fields_of_weight_words_are_vectors_of_neighbouring_slots() -> None:
    assert weight_words(np.array([[1, 2, 3, 4, -1, -2, -3, -4]]), 4).tolist() == [
        [0xF1, 0xE2, 0xD3, 0xC4]
    ]
    assert weight_words(np.array([[1, 0, 0, -2, -1, 0, 0, 1, *[0] * 8]]), 2).tolist() == [
        [0b1101, 0, 0, 0b0110]
    ]
