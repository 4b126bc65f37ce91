"""Convolutions along a row whose pixels are filled up to words equal the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dory_gap8 import calibration as cal
from dory_gap8.backend import FilledKernel, candidates
from gap8_layers import CLIPS, RANGES, SPACE
from test_block import conv

from dory_core.api import Layer, ops
from dory_core.importing import Array
from dory_core.testing import make_tile
from dory_core.testing.kernels import (
    SANITIZE,
    SANITIZE_THREADS,
    HostLibrary,
    KernelCase,
    alone,
    make_case,
    typed,
    whole_case,
)
from dory_core.testing.random_layers import RandomLayers


def row(
    c_in: int, c_out: int, width: int, kernel: int = 11, dilation: int = 1, stride: int = 1
) -> Layer:
    """Return a causal filter along a row of ``width`` outputs."""
    window = ops.Window(
        kernel=(1, kernel),
        strides=(1, stride),
        dilations=(1, dilation),
        pads=(0, (kernel - 1) * dilation, 0, 0),
        pad_value=3,
    )
    return conv(c_in, c_out, (1, (width - 1) * stride + 1), window)


def cases_of(layer: Layer, cores: int) -> list[KernelCase]:
    """Return the whole layer as one tile, and with tiles of half of its outputs."""
    whole = whole_case(FilledKernel(cores), layer)
    c_out, h, w, c_in = whole.tile
    return [whole, replace(whole, tile=(c_out, h, -(-w // 2), c_in))]


def random_cases(seed: int, count: int, cores: int = 8) -> list[KernelCase]:
    """Random windows, channels, types and requantisations, tiles included."""
    random = RandomLayers(SPACE, seed)
    kernel = FilledKernel(cores)
    cases: list[KernelCase] = []
    while len(cases) < count:
        x, y = random.pick("u8", "i8", "u16", "i16"), random.pick("u8", "i8", "i32", "i16")
        window = random.window(random.pick((1, 1), (1, 3), (1, 4), (1, 11)))
        window = replace(window, pads=(0, window.pads[1], 0, window.pads[3]))
        c_in, c_out = random.integer(5, 40), random.integer(1, 40)
        layer = alone(
            ops.Conv,
            weights=random.weights(c_out, c_in, *window.kernel),
            window=window,
            requants=()
            if y == "i32"
            else random.requants(c_out, 255 * 32 * c_in * window.taps, CLIPS[y]),
        )
        image = (1, random.image(window)[1] + random.integer(0, 30))
        made = typed(layer, (c_in, *image, *RANGES[x]))
        if kernel.accepts(made) is None and made.output.type_name in CLIPS:
            cases.append(make_case(kernel, made, random.numbers))
    return cases


SLOW = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 30)]


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", [0, 1, *SLOW])
def test_any_window_along_a_row_equals_the_reference(seed: int) -> None:
    HostLibrary(random_cases(seed, 12)).check()


@pytest.mark.sample(3)
@pytest.mark.parametrize("cores", [3, 1, 8])
def test_pixels_of_all_remainders_follow_one_another(cores: int) -> None:
    """Dilations with which the block goes on by itself, and others; strides beside them."""
    cases = []
    for dilation, stride in ((1, 1), (2, 1), (4, 1), (3, 1), (1, 3), (4, 2), (8, 1)):
        for width in (37, 140):
            cases += cases_of(row(11, 11, width, dilation=dilation, stride=stride), cores)
    HostLibrary(cases).check()


@pytest.mark.parametrize("flags", [SANITIZE, SANITIZE_THREADS], ids=["addresses", "threads"])
def test_channels_that_make_no_four_write_nothing_of_other_cores(flags) -> None:
    """Words of a last group reach into the next pixel, which must be the same core's."""
    layers = [row(11, c_out, 61, 7, dilation) for c_out in (1, 3, 6, 11) for dilation in (1, 2)]
    cases = [case for layer in layers for case in cases_of(layer, 8)]
    HostLibrary(cases, flags, at_once=True).check()


def test_all_pixels_of_a_one_by_one_filter_are_a_row() -> None:
    window = ops.Window(kernel=(1, 1))
    layers = [conv(c_in, c_in, (5, 7), window, x=x) for c_in, x in ((42, "u8"), (21, "i16"))]
    assert all(FilledKernel().accepts(layer) is None for layer in layers)
    HostLibrary([whole_case(FilledKernel(), layer) for layer in layers]).check()


@pytest.mark.sample(3)
@pytest.mark.parametrize("c_in", [4, 12, 11])
def test_rows_of_words_and_rows_of_three_pixels(c_in: int) -> None:
    layers = [row(c_in, c_out, width, 3) for c_out in (4, 7) for width in (3, 50)]
    layers = [layer for layer in layers if FilledKernel().accepts(layer) is None]
    assert {layer.output.width for layer in layers} == {3, 50}
    HostLibrary([case for layer in layers for case in cases_of(layer, 8)]).check()


def test_weights_of_a_tap_are_whole_words() -> None:
    layer = row(11, 1, 20, 3)
    block = FilledKernel().weight_block(layer, (0, 1), (0, 11))
    image = np.frombuffer(block.data, np.int8, 16 * 9, block.parts["weights"])
    taps = image.reshape(9, 4, 4)[:, 0].reshape(3, 12)
    assert taps[:, :11].tolist() == layer.op.weights.values[0, :, 0].T.tolist()
    assert not taps[:, 11].any()


def test_refusals_are_sentences() -> None:
    def why(layer: Layer) -> str:
        rejection = FilledKernel().accepts(layer)
        assert rejection is not None
        return rejection.reason

    odd = row(11, 11, 20)
    wide = replace(odd.op, weights=Array(np.full((11, 11, 1, 11), 255)))
    same = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    inside = conv(12, 11, (1, 20), ops.Window(kernel=(1, 3)))
    assert why(inside) == "its pixels of 12 bytes are words without padding"
    assert why(row(3, 11, 20)) == "its pixels of 3 bytes are too short"
    assert why(row(4, 11, 20, 1)) == "its pixels of 4 bytes are words without padding"
    assert why(conv(11, 11, (9, 9), same)) == "it computes windows along one row of pixels only"
    assert why(replace(odd, op=wide)) == "it takes weights of 8 bits, these have 9"


@pytest.mark.parametrize(
    ("layer", "slower"),
    [
        (row(9, 64, 140), "dory_gap8_gather"),
        (row(9, 8, 140), None),
        (row(16, 4, 8000, 3), "dory_gap8_window"),
        (row(16, 4, 140, 3), None),
        (row(64, 32, 60, 3), None),
    ],
)
def test_copies_must_pay(layer: Layer, slower: str | None) -> None:
    """Steps of what is filled up, and the copy of a long row, may take more than is saved."""
    rejection = FilledKernel().accepts(layer)
    reason = None if rejection is None else rejection.reason
    assert reason == (slower and f"{slower} takes fewer cycles, without a copy")
    names = [k.name for k in candidates(layer, 8) if k.accepts(layer) is None]
    assert names[0] == (slower or "dory_gap8_filled")


def test_the_estimate_counts_the_copy_and_the_last_channels() -> None:
    kernel = FilledKernel()

    def cycles(layer: Layer) -> int:
        return int(kernel.cycles(layer, make_tile(layer, layer.output.channels, 1, 140)))

    assert cycles(row(11, 11, 140)) - cycles(row(11, 12, 140)) == cal.FILLED_ENDS
    # 159 pixels are 160 of two remainders.
    apart = cycles(row(11, 11, 140, dilation=2)) - cycles(row(11, 11, 140))
    assert apart == cal.FILLED_REMAINDER + (160 - 152) // 8 * (
        cal.FILLED_PIXEL + 3 * cal.FILLED_WORD
    )
