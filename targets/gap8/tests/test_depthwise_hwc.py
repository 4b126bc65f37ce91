"""Depthwise kernels on tiles with channels last: forms, sharing, borders, weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dory_gap8.backend import DepthwiseHwcKernel
from dory_gap8.backend.depthwise_form import form_of
from gap8_layers import CLIPS, SPACE, make_case

from dory_core.api import Layer, NotSupported, ops
from dory_core.importing import Array, requant
from dory_core.testing import make_tile
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, typed, whole_case
from dory_core.testing.random_layers import RandomLayers

STEP = requant(37, 1 << 9, 1 << 12, 0, 255)


def _layer(
    channels: int,
    image: tuple[int, int],
    window: ops.Window,
    *,
    multiplier: int = 1,
    signed: bool = False,
    steps=(STEP,),
    weights: np.ndarray | None = None,
) -> Layer:
    count = channels * multiplier
    random = np.random.default_rng(count * 100 + image[0])
    shape = (count, 1, *window.kernel)
    conv = alone(
        ops.Conv,
        weights=Array(random.integers(-128, 128, shape) if weights is None else weights),
        window=window,
        groups=channels,
        requants=steps,
    )
    return typed(conv, (channels, *image, *((-128, 127) if signed else (0, 255))))


def _square(size: int, stride: int = 1, pad: int | None = None, dilation: int = 1) -> ops.Window:
    pad = size // 2 if pad is None else pad
    return ops.Window(
        kernel=(size, size),
        strides=(stride, stride),
        dilations=(dilation, dilation),
        pads=(pad,) * 4,
    )


def _whole(layer: Layer, cores: int = 8) -> KernelCase:
    return whole_case(DepthwiseHwcKernel(cores), layer)


def _random_cases(seed: int, count: int, cores: int) -> list[KernelCase]:
    """Filters of all shapes; images that end anywhere in a strip, a walk and a group."""
    random = RandomLayers(SPACE, seed)
    kernel = DepthwiseHwcKernel(cores)
    cases: list[KernelCase] = []
    while len(cases) < count:
        size = random.pick((3, 3), (3, 3), (3, 1), (1, 3), (2, 2), (5, 5), (1, 7), (9, 1), (4, 3))
        window = random.window(size)
        if random.integer(0, 2):
            stride = random.pick(1, 1, 2)
            window = replace(window, strides=(stride, stride), dilations=(1, 1))
        h, w = random.image(window)
        if random.integer(0, 5) == 0:
            h, w = random.pick((h, w + 40), (h + 40, w))
        c = random.pick(2, 3, 4, 5, 7, 8, 13, 16, 18)
        c_out = c * random.pick(1, 1, 1, 2, 3)
        source = (c, h, w, *random.pick((0, 255), (-128, 127)))
        clip = CLIPS[random.pick("u8", "i8", "i16")]
        steps = random.requants(c_out, 64 * 255 * size[0] * size[1], clip)
        conv = alone(
            ops.Conv,
            weights=random.weights(c_out, 1, *size),
            window=window,
            groups=c,
            bias=random.bias(c_out),
            requants=random.pick((), steps, steps, steps),
        )
        try:
            layer = typed(conv, source)
        except NotSupported:
            continue
        if kernel.accepts(layer) is None:
            cases.append(make_case(kernel, layer, random.numbers))
    return cases


@pytest.mark.sample(8)
@pytest.mark.parametrize("cores", range(1, 9))
def test_random_tiles_equal_the_reference(cores: int) -> None:
    HostLibrary(_random_cases(cores, 12, cores)).check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_tiles_equal_the_reference(seed: int) -> None:
    HostLibrary(_random_cases(seed, 25, 1 + seed % 8)).check()


@pytest.mark.parametrize("stride", [1, 2])
def test_every_size_of_image_up_to_two_strips(stride: int) -> None:
    """Heights and widths that end after each output of a strip, one row and one column included."""
    window = _square(3, stride)
    sizes = [(h, w) for h in range(1, 10) for w in (1, 2, 3, 6)]
    HostLibrary([_whole(_layer(5, size, window)) for size in sizes]).check()


@pytest.mark.sample(20)
@pytest.mark.parametrize(
    ("channels", "image"),
    [(13, (16, 16)), (16, (16, 16)), (192, (8, 8)), (4, (70, 33)), (3, (9, 65)), (2, (5, 5))],
)
@pytest.mark.parametrize("cores", [1, 5, 8])
def test_cores_share_channels_and_strips(channels: int, image, cores: int) -> None:
    HostLibrary([_whole(_layer(channels, image, _square(3, s)), cores) for s in (1, 2)]).check()


def test_extreme_products_do_not_overflow() -> None:
    """-128 times 255 and -128 times -128 in every tap."""
    weights = np.full((4, 1, 3, 3), -128)
    for signed, value in ((False, 255), (True, -128)):
        layer = _layer(4, (6, 6), _square(3), steps=(), weights=weights, signed=signed)
        case = replace(_whole(layer), inputs=(np.full((4, 6, 6), value, dtype=np.int64),))
        library = HostLibrary([case])
        library.check()
        assert np.abs(library.run(0)).max() == 128 * abs(value) * 9


@pytest.mark.sample(2)
@pytest.mark.parametrize("stride", [1, 2])
def test_weights_of_9_bits_are_sums_of_two(stride: int) -> None:
    random = np.random.default_rng(stride)
    weights = random.integers(-255, 255, (5, 1, 3, 3))
    weights[0, 0, 0] = (-256, 254, 200)
    layers = [
        _layer(5, image, _square(3, stride), weights=weights, signed=signed)
        for image in ((1, 1), (7, 9), (10, 6))
        for signed in (False, True)
    ]
    assert form_of(layers[0]).row == 24
    HostLibrary([_whole(layer) for layer in layers]).check()
    large = random.integers(-255, 255, (5, 1, 5, 5))
    rejection = DepthwiseHwcKernel().accepts(_layer(5, (9, 9), _square(5), weights=large))
    assert rejection is not None
    assert "not in 8 bits" in rejection.reason


@pytest.mark.sample(4)
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_has_any_value(size: int, stride: int) -> None:
    square = _square(size, stride)
    layers = [
        _layer(5, image, replace(square, pad_value=value), signed=value < 0)
        for value in (-128, -5, 255)
        for image in ((1, 2), (7, 9))
    ]
    HostLibrary([_whole(layer) for layer in layers]).check()


@pytest.mark.parametrize("hi", [127, 100])
def test_another_addend_below_zero_is_assembly_with_the_clip_of_a_byte(hi: int) -> None:
    mul = [3000, 2001, 1507, 4000, 77]
    add = [m * 300 + (1 << 17) for m in mul]
    below = [a - (1 << 16) for a in add]
    step = requant(mul, add, 1 << 18, -hi - 1, hi, add_negative=below, turn=-300)
    layer = _layer(5, (6, 7), _square(3), steps=(step,), signed=True)
    symbol = DepthwiseHwcKernel().label(layer)
    assert "turned" in symbol
    assert symbol.endswith("_full") == (hi == 127)
    HostLibrary([_whole(layer)]).check()


def test_filters_up_to_3x3_have_a_kernel_of_their_own() -> None:
    image = (12, 12)
    assert DepthwiseHwcKernel().label(_layer(8, image, _square(3))) == (
        "dory_gap8_depthwise_3x3_s1_u8_i8_u8_q32_scalar"
    )
    assert form_of(_layer(8, image, _square(3, 2))).stride == 2
    assert form_of(_layer(8, image, ops.Window(kernel=(3, 1), pads=(1, 0, 1, 0)))).stride == 1
    assert form_of(_layer(8, image, ops.Window(kernel=(1, 2)))).stride == 1
    assert form_of(_layer(8, image, _square(5))).stride == 0
    assert form_of(_layer(8, image, _square(5))).classes == 4
    assert form_of(_layer(8, image, _square(3, dilation=2))).stride == 0
    assert form_of(_layer(8, image, ops.Window(kernel=(3, 3), strides=(1, 2)))).stride == 0


def test_a_row_of_samples_is_cut_into_strips_along_its_length() -> None:
    """One-dimensional data has one row: strips of four rows would be three quarters empty."""
    layer = _layer(8, (1, 60), ops.Window(kernel=(1, 9), pads=(0, 4, 0, 4)))
    form = form_of(layer)
    assert form.swapped
    assert (form.kernel, form.pads, form.words) == ((9, 1), (4, 0), 3)
    HostLibrary([_whole(layer)]).check()


def test_weights_of_a_3x3_filter_are_a_word_per_tap_column() -> None:
    weights = np.arange(1, 19).reshape(2, 1, 3, 3)
    layer = _layer(2, (8, 8), _square(3), weights=weights)
    block = DepthwiseHwcKernel().weight_block(layer, (1, 2), (1, 2))
    assert dict(block.parts) == {"weights": 0}
    assert np.frombuffer(block.data, np.int8)[:12].tolist() == [
        *(10, 13, 16, 0),
        *(11, 14, 17, 0),
        *(12, 15, 18, 0),
    ]


def test_weights_of_other_windows_are_spread_for_each_output_of_a_strip() -> None:
    """Stride 2, dilation 3 along the strip: outputs start 2 rows apart, taps are 3 rows apart."""
    window = ops.Window(kernel=(2, 1), strides=(2, 1), dilations=(3, 1))
    layer = _layer(2, (40, 5), window, weights=np.array([1, 2, 3, 4]).reshape(2, 1, 2, 1))
    form = form_of(layer)
    assert (form.swapped, form.words, form.row) == (False, 3, 48)
    rows = form.rows(layer.op.weights.values[:, 0])
    outputs = rows[0].reshape(3, 4, 4).transpose(1, 0, 2).reshape(4, 12)
    for output in range(4):
        expected = np.zeros(12, dtype=int)
        expected[[2 * output, 2 * output + 3]] = (1, 2)
        assert outputs[output].tolist() == expected.tolist()


def test_scratch_does_not_grow_with_the_image_beyond_a_walk() -> None:
    layer = _layer(16, (126, 126), _square(3))
    kernel = DepthwiseHwcKernel()
    assert kernel.scratch_bytes(layer, make_tile(layer, 16, 8, 126)) == 8 * 2 * 34 * 16
    assert kernel.scratch_bytes(layer, make_tile(layer, 16, 8, 16)) == 8 * 2 * 18 * 16


@pytest.mark.parametrize(
    ("channels", "size", "window", "measured"),
    [
        (32, 16, _square(3), 12385),
        (16, 32, _square(3), 22137),
        (192, 8, _square(3), 22586),
        (32, 16, _square(3, 2), 5975),
        (16, 32, _square(3, 2), 10331),
        (16, 16, _square(5), 22767),
        (16, 14, _square(7), 32584),
        (16, 16, _square(3, 1, 2, 2), 20717),
    ],
)
def test_cycles_meet_the_measured_tiles(channels, size, window, measured) -> None:
    """8 cores, 32-bit requantisation without clamp; any window as compiled.

    The assembly does not have a clip of two bounds. Filters up to 3x3 were measured when compiled
    code went from strip to strip and transposed: 170 cycles per strip, 60 per block and 3 per
    column that the assembly does not take.
    """
    lowest = 0 if max(window.kernel) <= 3 and window.dilations == (1, 1) else 1
    step = requant([1] * channels, list(range(channels)), 1 << 8, lowest, 255)
    layer = _layer(
        channels,
        (size, size),
        window,
        steps=(step,),
        weights=np.ones((channels, 1, *window.kernel), int),
    )
    tile = make_tile(layer, channels, layer.output.height, layer.output.width)
    cycles = DepthwiseHwcKernel().cycles(layer, tile)
    if lowest:
        assert cycles == pytest.approx(measured, rel=0.08)
    else:
        height = layer.output.height
        strips = channels * -(-height // 4) / 8 / 4
        blocks = strips * window.strides[0] + max(1, channels / 8 / 4)
        replaced = 170 * strips + blocks * (60 + 3 * size)
        assert cycles + replaced == pytest.approx(measured, rel=0.04)


@pytest.mark.parametrize("stride", [1, 2])
def test_last_strips_of_two_outputs_cost_less_where_every_core_has_one(stride: int) -> None:
    kernel = DepthwiseHwcKernel()

    def cycles(channels: int, rows: int) -> int:
        step = requant([1] * channels, list(range(channels)), 1 << 8, 0, 255)
        layer = _layer(channels, (8 * stride, 6 * stride), _square(3, stride), steps=(step,))
        return kernel.cycles(layer, make_tile(layer, channels, rows, 6))

    for whole in (4, 8):
        assert cycles(64, whole - 3) == cycles(64, whole - 2)
        assert cycles(64, whole - 1) == cycles(64, whole)
    # Two groups of a core: four channels, six outputs of each, four rows that are not transposed,
    # and the call.
    channel = 6 * (31 - 15) + 38 - 21 if stride == 1 else 6 * (40 - 20) + 30 - 16
    saved = 2 * (4 * channel + 46 + 6 * stride * 18 - 14)
    assert cycles(64, 7) - cycles(64, 6) == pytest.approx(1.03 * saved, abs=1)
    # Four channels of one strip for each core: some have those of a whole one.
    assert cycles(16, 6) == cycles(16, 7)


def test_any_window_is_cheaper_in_assembly() -> None:
    """Two outputs along the strip by four beside it share the loads of weights; 5x5 are squares."""
    step = requant([1] * 16, list(range(16)), 1 << 8, 0, 255)
    for size in (3, 5, 7):
        window = _square(size, dilation=2 if size == 3 else 1)
        layer = _layer(16, (32, 32), window, steps=(step,))
        bounds = _layer(16, (32, 32), window, steps=(replace(step, lo=1),))
        for side in (3, 5, 16):
            tile = make_tile(layer, 16, side, side)
            ratio = DepthwiseHwcKernel().cycles(layer, tile) / DepthwiseHwcKernel().cycles(
                bounds, tile
            )
            assert (0.4 if size == 5 else 0.55) < ratio < 0.99


@pytest.mark.parametrize("stride", [1, 2])
def test_any_window_in_pairs_and_what_is_left_over(stride: int) -> None:
    windows = (_square(5, stride), _square(7, stride), _square(3, stride, dilation=2))
    images = [(9, 12), (17, 41), (6, 13)]
    HostLibrary(
        [_whole(_layer(5, image, window)) for image in images for window in windows]
    ).check()


def test_sixteen_bit_inputs_are_left_to_the_other_kernel() -> None:
    layer = _layer(4, (8, 8), _square(3))
    wide = replace(layer, inputs=(replace(layer.inputs[0], bits=16, hi=300),))
    rejection = DepthwiseHwcKernel().accepts(wide)
    assert rejection is not None
    assert rejection.reason == "its input is u16, possible are u8, i8"


def test_the_parts_of_a_layer_have_its_direction() -> None:
    """A layer in stripes is one kernel, though 17 rows of 56 would go the other way."""
    whole, part = (_layer(8, image, _square(3)) for image in ((100, 56), (17, 56)))
    assert form_of(whole) == form_of(part)


def test_strips_lie_where_they_fill_a_wide_image() -> None:
    """A stripe of 13 rows of 56: standing strips would compute 16."""
    square = _square(3)
    assert [form_of(_layer(8, (13, w), square)).swapped for w in (12, 16, 50, 56)] == [
        *(False, True, False, True)
    ]
    layers = [_layer(8, (h, 16), window) for h in (1, 13) for window in (square, _square(5, 2))]
    HostLibrary([_whole(layer) for layer in layers]).check()
    lying, standing = (_layer(8, (13, w), square) for w in (56, 57))
    kernel = DepthwiseHwcKernel()
    costs = [kernel.cycles(x, make_tile(x, 8, 13, 56)) for x in (lying, standing)]
    assert costs[0] < 0.9 * costs[1]


@pytest.mark.sample(2)
@pytest.mark.parametrize("cores", [3, 8])
def test_strips_of_one_column_follow_one_another(cores: int) -> None:
    """Samples along the rows: a word is transposed once, and no strip starts anew."""
    windows = [
        ops.Window(kernel=(k, 1), strides=(s, 1), pads=(k // 2, 0, k // 2, 0))
        for k in (3, 9)
        for s in (1, 2)
    ]
    sizes = [(5, h) for h in (1, 2, 3, 4, 5, 8, 70, 131)] + [(c, 49) for c in (2, 5, 12)]
    layers = [_layer(c, (h, 1), window, signed=True) for c, h in sizes for window in windows]
    spread = ops.Window(kernel=(5, 1), dilations=(2, 1), pads=(4, 0, 4, 0))
    layers.append(_layer(5, (23, 1), spread, multiplier=2, signed=True))
    kernel = DepthwiseHwcKernel(cores)
    assert all("depthwise_line" in kernel.symbol(layer) for layer in layers)
    padded = [_layer(5, (9, 1), replace(w, pads=(1, 1, 1, 1))) for w in windows]
    assert not any("depthwise_line" in kernel.symbol(layer) for layer in padded)
    HostLibrary([_whole(layer, cores) for layer in (*layers, *padded)]).check()


@pytest.mark.parametrize("cores", [3, 8])
def test_lines_whose_cores_have_whole_groups(cores: int) -> None:
    """30 groups of four channels, 8 cores: four groups each, not 15 channels of five groups.

    The last group has one to four channels, and several outputs of each.
    """
    window = ops.Window(kernel=(9, 1), pads=(4, 0, 4, 0))
    layers = [
        _layer(channels, (13, 1), window, multiplier=multiplier, signed=True)
        for channels in (117, 118, 119, 120)
        for multiplier in (1, 2)
    ]
    HostLibrary([_whole(layer, cores) for layer in layers]).check()


def test_a_line_costs_less_than_a_strip_at_a_time() -> None:
    step = requant([1] * 120, list(range(120)), 1 << 8, 0, 255)
    window = ops.Window(kernel=(9, 1), pads=(4, 0, 4, 0))
    line, image = (_layer(120, (49, w), window, steps=(step,)) for w in (1, 2))
    kernel = DepthwiseHwcKernel()
    cycles = [kernel.cycles(x, make_tile(x, 120, 49, 1)) for x in (line, image)]
    assert cycles[0] < cycles[1] / 2


def test_filters_up_to_5x5_are_squares() -> None:
    """Windows that go on by two, and those by one on images that fill four classes of outputs."""
    image = (12, 12)

    def kernel(h: int, w: int, stride: int, dilation: int = 1, width: int = 12) -> str:
        pads, strides, dilations = (h // 2, w // 2) * 2, (stride,) * 2, (dilation,) * 2
        window = ops.Window(kernel=(h, w), strides=strides, pads=pads, dilations=dilations)
        return form_of(_layer(8, (12, width), window)).kind

    assert [kernel(5, 5, s) for s in (1, 2, 3)] == ["depthwise_5x5"] * 2 + ["depthwise_any"]
    assert [kernel(4, 5, 1), kernel(6, 3, 2)] == ["depthwise_5x5"] * 2
    assert [kernel(3, 5, 1), kernel(6, 6, 1), kernel(7, 7, 2)] == ["depthwise_any"] * 3
    assert [kernel(5, 5, 1, dilation=2), kernel(5, 5, 1, width=4)] == ["depthwise_any"] * 2
    bounds = requant(37, 1 << 9, 1 << 12, 3, 255)
    compiled = _layer(8, image, _square(5), steps=(bounds,))
    assert form_of(compiled).kind == "depthwise_any"


def test_weights_of_squares_stand_where_the_windows_of_a_class_begin() -> None:
    weights = np.arange(1, 26).reshape(1, 1, 5, 5)
    for stride, classes in ((1, 4), (2, 1)):
        layer = _layer(1, (12, 12), _square(5, stride), weights=weights)
        words = form_of(layer).rows(weights[:, 0]).reshape(classes, 3, 3, 2, 2)
        for number in range(classes):  # places along b, along a, then the four of a square
            places = words[number].transpose(1, 2, 0, 3).reshape(6, 6)
            top, left = divmod(number, 2)
            assert np.array_equal(places[top : top + 5, left : left + 5], weights[0, 0])
            assert np.count_nonzero(places) == 25


def test_squares_at_every_border() -> None:
    """Pads of either parity, walks, sizes that end anywhere in a square and a strip."""
    windows = [_square(k, s, p) for k, s in ((5, 1), (5, 2), (4, 2)) for p in (0, 1, 2)]
    layers = [_layer(5, (h, w), window) for window in windows for h, w in ((6, 13), (9, 62))]
    padded = replace(_square(5, 2), pad_value=-7)
    layers.append(_layer(5, (11, 14), padded, multiplier=2, signed=True))
    layers.append(_layer(3, (7, 9), _square(5)))
    assert {form_of(layer).kind for layer in layers} == {"depthwise_5x5"}
    HostLibrary([_whole(layer, 3) for layer in layers]).check()


def test_squares_cost_less_than_half() -> None:
    """5x5 by two: 18 products and 4 loads for two outputs instead of 60 and 23."""
    step = requant([1] * 48, list(range(48)), 1 << 8, 0, 255)
    wide = requant([1] * 48, list(range(48)), 1 << 8, 1, 255)
    squares, compiled = (_layer(48, (50, 50), _square(5, 2), steps=(s,)) for s in (step, wide))
    kernel = DepthwiseHwcKernel()
    tile = make_tile(squares, 48, 25, 25)
    assert kernel.cycles(squares, tile) < 0.45 * kernel.cycles(compiled, tile)
    # 30 instructions for two outputs; stalls, what is laid, and channels.
    assert 48 * 25 * 26 / 2 * 30 / 8 < kernel.cycles(squares, tile) < 48 * 25 * 26 / 2 * 50 / 8
