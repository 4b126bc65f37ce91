"""Convolutions whose neighbours share inputs equal the reference, element by element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dory_gap8.backend import SlideKernel, UnpackingKernel, WindowKernel, candidates
from gap8_layers import CLIPS, RANGES, SPACE
from test_block import SAME, conv

from dory_core.api import geometry, ops
from dory_core.importing import Array, requant
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, make_case, typed, whole_case
from dory_core.testing.random_layers import RandomLayers


def random_cases(seed: int, count: int, cores: int = 8) -> list[KernelCase]:
    """Random windows, channels, types and requantisations, tiles included."""
    random = RandomLayers(SPACE, seed)
    kernel = SlideKernel(cores)
    cases: list[KernelCase] = []
    while len(cases) < count:
        x, y = random.pick("u8", "u8", "i8"), random.pick("u8", "u8", "i8", "i32")
        rows, stride = random.integer(1, 4), random.pick(1, 2)
        pads = (random.integer(0, rows - 1), random.integer(0, 1), random.integer(0, rows - 1), 1)
        window = ops.Window(kernel=(rows, 3), strides=(random.integer(1, 3), stride), pads=pads)
        c_in, c_out = 4 * random.integer(2, 9), random.integer(1, 40)
        reach = 255 * 128 * c_in * window.taps // 4
        layer = alone(
            ops.Conv,
            weights=random.weights(c_out, c_in, rows, 3),
            window=window,
            requants=() if y == "i32" else random.requants(c_out, reach, CLIPS[y]),
        )
        width = random.pick(4 * random.integer(1, 4), random.integer(9, 15))
        image = (rows + random.integer(0, 12), stride * width + 1 - pads[1])
        made = typed(layer, (c_in, *image, *RANGES[x]))
        if kernel.accepts(made) is None:
            cases.append(make_case(kernel, made, random.numbers))
    return cases


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(2))
def test_random_tiles_equal_the_reference(seed: int) -> None:
    HostLibrary(random_cases(seed, 10)).check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 30))
def test_many_random_tiles_equal_the_reference(seed: int) -> None:
    HostLibrary(random_cases(seed, 25)).check()


@pytest.mark.sample(3)
@pytest.mark.parametrize("cores", [1, 3, 8])
def test_rows_with_and_without_padding_on_every_number_of_cores(cores: int) -> None:
    kernel, cases = SlideKernel(cores), []
    for stride, width in ((1, 4), (1, 12), (2, 8), (2, 16)):
        for left, right in ((0, 0), (1, 0), (0, 1), (1, 1)):
            fits = width + (3 - stride if stride == 1 else 1) - left - right
            window = ops.Window(kernel=(3, 3), strides=(1, stride), pads=(1, left, 2, right))
            layer = conv(8, 12, (5, fits), window)
            assert layer.output.width * stride == width
            cases.append(whole_case(kernel, layer))
    HostLibrary(cases).check()


@pytest.mark.sample(6)
@pytest.mark.parametrize("cores", [1, 8])
@pytest.mark.parametrize("width", [9, 10, 15])
def test_pixels_that_make_no_fours_are_taken_down_their_columns(width: int, cores: int) -> None:
    """Rows that make no fours either, padding above and below, sums that are left to C."""
    kernel, cases = SlideKernel(cores), []
    for stride, rows in ((1, 3), (1, 8), (2, 5)):
        for pads in ((0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 2, 1)):
            image = (stride * (rows - 1) + 3 - pads[0] - pads[2], stride * (width - 1) + 3)
            image = (max(image[0], 1), image[1] - pads[1] - pads[3])
            window = ops.Window(kernel=(3, 3), strides=(stride, stride), pads=pads)
            layer = conv(8, 12, image, window)
            assert layer.output.width == width
            assert "_apart_" in kernel.symbol(layer)
            cases.append(whole_case(kernel, layer))
    sums = conv(8, 6, (6, width), SAME, ())
    HostLibrary(
        [*cases, whole_case(kernel, conv(8, 7, (6, width), SAME)), whole_case(kernel, sums)]
    ).check()


def test_channels_in_fours_go_on_by_themselves_and_others_through_the_stack() -> None:
    kernel = SlideKernel()
    cases = [whole_case(kernel, conv(8, c_out, (6, 8), SAME)) for c_out in (1, 4, 33, 70)]
    sums = conv(8, 6, (6, 8), SAME, ())
    assert "_raw" in kernel.symbol(sums)
    HostLibrary([*cases, whole_case(kernel, sums)]).check()


def test_extreme_values_do_not_overflow() -> None:
    layer = conv(32, 4, (4, 4), SAME, ())
    weights = Array(np.full((4, 32, 3, 3), -128))
    lowest = typed(replace(layer.op, weights=weights), (32, 4, 4, 0, 255))
    case = replace(whole_case(SlideKernel(), lowest), inputs=(np.full((32, 4, 4), 255),))
    library = HostLibrary([case])
    library.check()
    assert library.run(0).min() == -128 * 255 * 9 * 32


@pytest.mark.parametrize(("stride", "order"), [(1, [0, 1, 2]), (2, [0, 2, 1])])
def test_weights_lie_in_the_order_in_which_columns_are_read(stride, order) -> None:
    window = ops.Window(kernel=(2, 3), strides=(1, stride))
    layer = conv(8, 1, (3, 4 * stride + 3 - stride), window)
    block = SlideKernel().weight_block(layer, (0, 1), (0, 8))
    image = np.frombuffer(block.data, np.int8, 4 * 2 * 2 * 3 * 4, block.parts["weights"])
    rows = image.reshape(2, 2, 3, 4, 4)[:, :, :, 0]
    weights = layer.op.weights.values[0].reshape(2, 4, 2, 3)
    assert np.array_equal(rows, weights[:, :, :, order].transpose(2, 0, 3, 1))


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (conv(8, 4, (4, 4), ops.Window(kernel=(1, 1))), "filters of three neighbouring columns"),
        (conv(8, 4, (4, 8), replace(SAME, dilations=(1, 2), pads=(1, 2, 1, 2))), "neighbouring"),
        (conv(8, 4, (4, 10), replace(SAME, strides=(1, 3))), "3 columns apart"),
        (conv(8, 4, (4, 6), replace(SAME, pads=(1, 2, 1, 2))), "a column of padding"),
        (conv(8, 4, (4, 4), SAME, x="u16"), "inputs of 8 bits"),
        (conv(8, 4, (4, 6), SAME), "4 rows of 6 outputs"),
        (conv(8, 4, (2, 9), SAME), "nor 3 rows of 8"),
        (conv(4, 4, (4, 4), SAME), "this has 4"),
        (conv(10, 4, (4, 4), SAME), "this has 10"),
        (conv(512, 4, (1, 4), SAME), "words of 8 to 511 bytes"),
        (conv(256, 4, (1, 8), replace(SAME, strides=(1, 2))), "words of 8 to 255 bytes"),
    ],
)
def test_what_does_not_slide_is_left_to_others(layer, reason) -> None:
    rejection = SlideKernel().accepts(layer)
    assert rejection is not None
    assert reason in rejection.reason
    assert WindowKernel().accepts(layer) is None or layer.inputs[0].channels == 10


def test_it_is_preferred_and_cheaper() -> None:
    for stride in (1, 2):
        layer = conv(16, 16, (32, 32), replace(SAME, strides=(stride, stride)))
        first, second = [k for k in candidates(layer, 8) if k.accepts(layer) is None][:2]
        assert (first.name, second.name) == ("dory_gap8_slide", "dory_gap8_window")
        tile = geometry.extent(layer)
        assert first.cycles(layer, tile) < second.cycles(layer, tile)


def test_packed_tiles_slide_once_they_are_bytes() -> None:
    bytewise = conv(8, 8, (6, 8), SAME, (requant(3, 5, 1 << 9, 0, 15),))
    layer = typed(bytewise.op, (8, 6, 8, 0, 255), packed=True)
    assert layer.output.bits == 4
    kernel = UnpackingKernel(SlideKernel())
    assert kernel.accepts(layer) is None
    HostLibrary([whole_case(kernel, layer)]).check()
