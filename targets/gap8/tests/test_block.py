"""The kernels of the 4x4 block equal the reference, element by element."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from dory_gap8.backend import GatherKernel, WindowKernel
from dory_gap8.backend.block import BlockKernel, interleave
from dory_gap8.backend.block_finish import finish
from gap8_layers import CLIPS, RANGES, SPACE, make_case

from dory_core.api import Layer, Requant, ops
from dory_core.importing import Array, requant
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, typed, whole_case
from dory_core.testing.random_layers import RandomLayers

SAME = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))


def conv(
    c_in: int,
    c_out: int,
    image: tuple[int, int],
    window: ops.Window,
    steps: tuple[Requant, ...] | None = None,
    x: str = "u8",
) -> Layer:
    """Return a convolution with random weights; by default with a 32-bit step per channel."""
    random = np.random.default_rng(c_in * 1000 + c_out)
    if steps is None:
        k = c_in * window.taps
        mul = [int(v) for v in random.integers(10, 40, c_out)]
        add = [int(v) for v in random.integers(-(1 << 14), 1 << 14, c_out)]
        steps = (requant(mul, add, 1 << (10 + k.bit_length() // 2), 0, 255),)
    layer = alone(
        ops.Conv,
        weights=Array(random.integers(-128, 128, (c_out, c_in, *window.kernel))),
        window=window,
        requants=steps,
    )
    return typed(layer, (c_in, *image, *RANGES[x]))


def whole(kernel: BlockKernel, layer: Layer, cores: int = 8) -> KernelCase:
    return whole_case(replace(kernel, cores=cores), layer)


def random_cases(seed: int, count: int, cores: int = 8) -> list[KernelCase]:
    """Random windows, channels, types and requantisations, tiles included."""
    random = RandomLayers(SPACE, seed)
    cases: list[KernelCase] = []
    while len(cases) < count:
        x, y = (
            random.pick("u8", "u8", "i8", "u16", "i16"),
            random.pick("u8", "u8", "i8", "i32", "i16"),
        )
        kernel: BlockKernel = random.pick(WindowKernel(cores), GatherKernel(cores))
        window = random.window(random.pick((1, 1), (3, 3), (2, 3), (5, 1), (1, 4)))
        c_in = random.pick(8, 12, 16, 32) if random.integer(0, 2) else random.integer(1, 10)
        c_out = random.integer(1, 40)
        weights = random.weights(c_out, c_in, *window.kernel)
        reach = 255 * 128 * c_in * window.taps // 4
        layer = alone(
            ops.Conv,
            weights=weights,
            window=window,
            requants=() if y == "i32" else random.requants(c_out, reach, CLIPS[y]),
        )
        made = typed(layer, (c_in, *random.image(window), *RANGES[x]))
        if kernel.accepts(made) is None and made.output.type_name in ("u8", "i8", "i16", "i32"):
            cases.append(make_case(kernel, made, random.numbers))
    return cases


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(3))
def test_random_tiles_equal_the_reference(seed: int) -> None:
    HostLibrary(random_cases(seed, 12)).check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 40))
def test_many_random_tiles_equal_the_reference(seed: int) -> None:
    HostLibrary(random_cases(seed, 25)).check()


@pytest.mark.sample(6)
@pytest.mark.parametrize("cores", [1, 2, 3, 5, 7])
def test_every_number_of_cores_computes_the_whole_tile(cores: int) -> None:
    cases = [
        whole(WindowKernel(), conv(8, c_out, image, SAME), cores)
        for c_out in (3, 4, 18)
        for image in ((1, 1), (3, 3), (5, 8))
    ]
    HostLibrary([*cases, *random_cases(100 + cores, 4, cores)]).check()


@pytest.mark.parametrize(("hi", "div"), [(127, 1 << 14), (127, 1 << 22), (100, 1 << 16)])
def test_another_addend_below_zero_is_part_of_the_block(hi: int, div: int) -> None:
    random = np.random.default_rng(hi + div)
    mul = random.integers(div >> 12, div >> 11, 14)
    add = [int(m) * 300 + div // 2 for m in mul]
    step = requant(
        *([int(m) for m in mul], add, div, -hi - 1, hi),
        add_negative=[a - div // 3 for a in add],
        turn=-300,
    )
    layer = conv(16, 14, (5, 6), SAME, (step,), "i8")
    done = finish(layer)
    assert done.turned
    assert done.form != "DORY_BLOCK_RAW"
    HostLibrary([whole(WindowKernel(), layer)]).check()


def test_filters_of_many_taps_are_gathered() -> None:
    window = ops.Window(kernel=(10, 8), strides=(2, 2), pads=(4, 3, 5, 4), pad_value=-7)
    layer = conv(1, 8, (23, 20), window, x="i8")
    rejection = WindowKernel().accepts(conv(8, 8, (23, 20), window, x="i8"))
    assert rejection is not None
    assert "80 taps" in rejection.reason
    HostLibrary([whole(GatherKernel(), layer)]).check()


@pytest.mark.sample(5)
@pytest.mark.parametrize("c_out", [1, 4, 31, 32, 33, 70])
@pytest.mark.parametrize("width", [1, 3, 4, 9])
def test_tails_of_channels_and_pixels(c_out: int, width: int) -> None:
    HostLibrary(
        [
            whole(WindowKernel(), conv(8, c_out, (3, width), ops.Window(kernel=(1, 1)))),
            whole(GatherKernel(), conv(5, c_out, (3, width), SAME)),
        ]
    ).check()


@pytest.mark.parametrize("cores", [1, 8])
def test_the_last_pixels_of_a_core_are_a_whole_block(cores: int) -> None:
    """It begins in the block before, whose last pixels it computes again."""
    one = ops.Window(kernel=(1, 1))
    images = [(1, width) for width in (5, 6, 7, 9)] + [(5, 25), (2, 59), (23, 5)]
    HostLibrary([whole(WindowKernel(), conv(8, 12, image, one), cores) for image in images]).check()


def test_four_channels_of_weights_are_interleaved_four_inputs_at_a_time() -> None:
    rows = np.arange(3 * 8, dtype=np.int8).reshape(3, 8)
    zeros = [0, 0, 0, 0]
    first = [*range(4), *range(8, 12), *range(16, 20), *zeros]
    second = [*range(4, 8), *range(12, 16), *range(20, 24), *zeros]
    assert interleave(rows).tolist() == first + second


def test_a_weight_block_holds_parameters_of_channels_in_fours_then_weights() -> None:
    step = requant([5, 6, 7, 8, 9], [-1, -2, -3, -4, -5], 1 << 12, 0, 255)
    layer = conv(8, 5, (4, 4), ops.Window(kernel=(1, 1)), (step,))
    block = WindowKernel().weight_block(layer, (4, 5), (0, 8))
    assert dict(block.parts) == {"mul": 0, "weights": 32}
    assert np.frombuffer(block.data, "<i4", 8).tolist() == [9, -5, *(0,) * 6]
    assert len(block.data) == 32 + 4 * 8


def test_a_clip_between_odd_bounds_leaves_the_sums_to_c() -> None:
    step = requant([1 << 40, 3, 5], [1 << 50, 1, 2], 1 << 55, -3, 99)
    layer = conv(8, 3, (4, 4), ops.Window(kernel=(1, 1)), (step,))
    assert finish(layer).form == "DORY_BLOCK_RAW"
    assert "_raw_" in WindowKernel().symbol(layer)
    HostLibrary([whole(WindowKernel(), layer)]).check()


# Of the TensorFlow Lite format, with scales that differ.
MULTIPLIERS = [1518500249, 1753413057 >> 1, 1900671691 >> 3]


@pytest.mark.parametrize(
    ("inputs", "step", "token"),
    [
        (32, requant([99371, 77777, 70001], [1 << 20, 5, 7], 1 << 20, 0, 255), "_cq32u"),
        (32, requant([99371, -77777, 70001], [1 << 20, 5, 7], 1 << 20, -128, 127), "_cq32s"),
        (32, requant([1003, 1009, 1013], [9, 8, -(1 << 25)], (1 << 21) - 1, 0, 255), "_lu"),
        (128, requant([100003, 10009, -10019], [9, 8, -9], (1 << 23) - 1, 0, 255), "_clu"),
        (96, requant([100003, 10009, -10019], [9, 8, -9], (1 << 23) - 1, 0, 255), "_olu"),
        (64, requant([11 << 9, 13, 9], [1 << 11] * 3, 1 << 12, 0, 255), "_oq32u"),
        (256, requant(MULTIPLIERS, [1 << 42] * 3, 1 << 43, -128, 127), "_hs"),
    ],
)
def test_every_form_of_requantisation_is_in_the_block(inputs, step, token) -> None:
    layer = conv(inputs, 3, (9, 9), ops.Window(kernel=(1, 1)), (step,))
    assert WindowKernel().label(layer).endswith(token)
    HostLibrary([whole(WindowKernel(), layer)]).check()


@pytest.mark.parametrize(("lo", "hi", "token"), [(0, 255, "u"), (0, 127, "u"), (-128, 127, "s")])
def test_usual_clips_are_an_instruction(lo: int, hi: int, token: str) -> None:
    layer = conv(8, 7, (5, 5), SAME, (requant([3, -2, 5, 1, 9, 4, -7], 100, 1 << 9, lo, hi),))
    assert WindowKernel().label(layer).endswith(f"_q32{token}")
    HostLibrary([whole(WindowKernel(), layer)]).check()


def test_extreme_values_do_not_overflow() -> None:
    """-128 * 255 in every product of a column of 3 * 3 * 32."""
    layer = conv(32, 4, (3, 3), SAME, ())
    weights = Array(np.full((4, 32, 3, 3), -128))
    lowest = typed(replace(layer.op, weights=weights), (32, 3, 3, 0, 255))
    case = replace(whole(WindowKernel(), lowest), inputs=(np.full((32, 3, 3), 255),))
    library = HostLibrary([case])
    library.check()
    assert library.run(0).min() == -128 * 255 * 9 * 32


@pytest.mark.slow
def test_windows_of_few_inputs_are_copied_at_borders() -> None:
    """Pixels of one word and more; windows that see nothing but padding; borders on all sides."""
    windows = (
        ops.Window(kernel=(1, 3), pads=(0, 1, 0, 1)),
        ops.Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
        ops.Window(kernel=(2, 5), dilations=(3, 1), pads=(7, 6, 3, 5)),
    )
    shapes = [("u8", 4), ("i8", 4), ("u8", 16), ("i16", 2), ("u16", 6)]
    cases = [
        whole(WindowKernel(), conv(c_in, 9, (6, width), window, x=x))
        for window in windows
        for width in (3, 11)
        for x, c_in in shapes
    ]
    assert all("_copied_" in WindowKernel().symbol(case.layer) for case in cases)
    cases += [replace(case, tile=(5, 3, 2, case.tile[3])) for case in cases[:10]]
    HostLibrary(cases).check()


def test_pixels_of_a_word_with_other_padding_are_gathered() -> None:
    window = ops.Window(kernel=(1, 3), pads=(0, 1, 0, 1), pad_value=3)
    layer = conv(4, 5, (2, 9), window)
    assert "word" in GatherKernel().accepts(conv(4, 5, (2, 9), replace(window, pad_value=0))).reason
    HostLibrary([whole(GatherKernel(), layer)]).check()


@pytest.mark.sample(4)
@pytest.mark.parametrize("cores", [1, 3, 8])
def test_blocks_of_gathered_pixels_are_computed_by_one_call(cores: int) -> None:
    """Numbers of pixels that leave over blocks and parts of a block, with and without a copy."""
    windows = (ops.Window(kernel=(5, 5), strides=(2, 2), pads=(2, 2, 2, 2)), SAME)
    cases, batches = [], set()
    for window, image in itertools.product(windows, ((6, 6), (9, 150), (5, 37))):
        for c_in, c_out in ((1, 8), (3, 4)):
            layer = conv(c_in, c_out, image, window)
            kernel = replace(GatherKernel(), cores=cores)
            source = next(f for f in kernel.sources(layer) if f.path.endswith(".c")).content
            batches.add(int(source.split("DORY_BATCH ")[1].split()[0]))
            cases.append(whole(GatherKernel(), layer, cores))
    assert batches == {1, 3}
    HostLibrary(cases).check()


def test_windows_of_all_shapes_read_their_inputs_in_place() -> None:
    windows = (
        ops.Window(kernel=(1, 1), strides=(2, 2)),
        ops.Window(kernel=(3, 2), strides=(1, 2), dilations=(2, 3), pads=(0, 3, 4, 1)),
        ops.Window(kernel=(1, 7), dilations=(1, 4), pads=(0, 24, 0, 0)),
        ops.Window(kernel=(5, 5), strides=(2, 2), pads=(2, 1, 2, 3)),
    )
    HostLibrary([whole(WindowKernel(), conv(8, 6, (9, 25), w)) for w in windows]).check()
    HostLibrary([whole(WindowKernel(), conv(162, 6, (9, 25), w)) for w in windows]).check()
    HostLibrary([whole(GatherKernel(), conv(3, 6, (9, 25), w)) for w in windows]).check()


@pytest.mark.sample(2)
@pytest.mark.parametrize("y", ["u8", "i32"])
def test_images_of_three_columns_are_computed_in_blocks_of_three(y: str) -> None:
    steps = () if y == "i32" else None
    for cores in (8, 3):
        cases = []
        for rows, c_in, c_out, window in (
            (1, 8, 5, ops.Window(kernel=(1, 1))),
            (3, 8, 68, ops.Window(kernel=(1, 1))),
            (7, 8, 8, ops.Window(kernel=(1, 1))),
            (3, 16, 13, SAME),
            (4, 8, 36, SAME),
        ):
            layer = conv(c_in, c_out, (rows, 3), window, steps)
            assert "_threes_" in WindowKernel().symbol(layer)
            cases.append(whole(WindowKernel(), layer, cores))
        for c_in in (1, 3):
            layer = conv(c_in, 9, (3, 3), SAME, steps)
            assert "_threes_" in GatherKernel().symbol(layer)
            cases.append(whole(GatherKernel(), layer, cores))
        HostLibrary(cases).check()


@pytest.mark.sample(4)
@pytest.mark.parametrize("x", ["u8", "i8", "i16"])
def test_neighbours_are_gathered_at_once_and_borders_one_by_one(x: str) -> None:
    """Rows that end behind a block, in it, and before; padding of every width and any value."""
    cases = []
    for width, stride, pads in (
        (140, 1, (1, 1, 1, 1)),
        (143, 2, (2, 4, 0, 1)),
        (142, 2, (0, 0, 3, 5)),
        (141, 3, (5, 7, 1, 6)),
        (136, 2, (0, 0, 0, 0)),
    ):
        value = {"u8": 9, "i8": -128, "i16": 300}[x]
        window = ops.Window(kernel=(3, 3), strides=(2, stride), pads=pads, pad_value=value)
        for channels in (1, 3):
            layer = conv(channels, 5, (5, width), window, x=x)
            assert "copied" not in GatherKernel().symbol(layer)
            cases.append(whole(GatherKernel(), layer, 3))
    HostLibrary(cases).check()


def test_tiles_of_large_filters_are_copied_with_their_padding() -> None:
    kernels = {3: False, 5: True}
    for size, copied in kernels.items():
        window = ops.Window(kernel=(size, size), strides=(2, 2), pads=(size // 2,) * 4)
        layer = conv(1, 5, (9, 160), window)
        assert ("copied" in GatherKernel().symbol(layer)) == copied
        HostLibrary([whole(GatherKernel(), layer)]).check()


@pytest.mark.sample(5)
@pytest.mark.parametrize("y", ["u8", "i32"])
@pytest.mark.parametrize(("height", "cores"), [(1, 8), (2, 1), (3, 3), (6, 8)])
def test_rows_that_are_padding_for_four_windows_are_left_out(
    height: int, cores: int, y: str
) -> None:
    """Several groups of channels, whose weights have a gap then, and channels that are no group."""
    steps = () if y == "i32" else None
    windows = (
        SAME,
        ops.Window(kernel=(5, 3), pads=(4, 1, 4, 1)),
        ops.Window(kernel=(3, 1), strides=(2, 1), pads=(2, 0, 2, 0)),
    )
    HostLibrary(
        [
            whole(WindowKernel(), conv(8, c_out, (height, 17), window, steps), cores)
            for window in windows
            for c_out in (8, 13)
        ]
    ).check()


@pytest.mark.parametrize(
    ("channels", "window", "order"),
    [
        (1, ops.Window(kernel=(2, 5)), [0, 1, 2, 3, 5, 6, 7, 8, 4, 9]),
        (1, ops.Window(kernel=(1, 5), dilations=(1, 2)), [0, 1, 2, 3, 4]),
        (5, ops.Window(kernel=(1, 2), dilations=(1, 3)), [0, 1, 2, 3, 5, 6, 7, 8, 4, 9]),
    ],
)
def test_gathered_columns_begin_with_the_words_of_all_runs(channels, window, order) -> None:
    layer = conv(channels, 1, (9, 9), window)
    block = GatherKernel().weight_block(layer, (0, 1), (0, channels))
    start, words = block.parts["weights"], GatherKernel().row_bytes(layer) // 4
    image = np.frombuffer(block.data, np.int8, 16 * words, start).reshape(words, 4, 4)[:, 0]
    weights = np.moveaxis(layer.op.weights.values, 1, 3).reshape(-1)
    assert image.reshape(-1)[: len(order)].tolist() == weights[order].tolist()
    HostLibrary([whole(GatherKernel(), layer)]).check()


@pytest.mark.parametrize("dilation", (1, 4))
def test_windows_along_a_row_are_copied_by_all_cores(dilation: int) -> None:
    """All borders of a causal filter are in the first pixels: no core has them alone."""
    kernel, cases = GatherKernel(), []
    for width, pads in ((140, (0, 10, 0, 0)), (37, (0, 3, 0, 7)), (41, (0, 0, 0, 0))):
        left, right = pads[1] * dilation, pads[3] * dilation
        window = ops.Window(
            kernel=(1, 11), dilations=(1, dilation), pads=(0, left, 0, right), pad_value=3
        )
        layer = conv(11, 11, (1, width + 40 * (not any(pads))), window)
        assert ("copied" in kernel.symbol(layer)) == any(pads)
        cases.append(whole(kernel, layer))
        y = layer.output
        cases.append(KernelCase(kernel, layer, cases[-1].inputs, (8, 1, y.width // 2, 11)))
    HostLibrary(cases).check()


def test_long_columns_of_odd_channels_are_not_gathered() -> None:
    layer = conv(102, 32, (8, 8), SAME)
    assert GatherKernel().accepts(layer).reason == (
        "its columns of 918 bytes are too long: it gathers 160"
    )
    assert WindowKernel().label(layer) == "dory_gap8_window_3x3_pad_odd_u8_i8_u8_q32u"
    assert WindowKernel().row_bytes(layer) == 9 * 104
    assert WindowKernel().accepts(conv(17, 32, (8, 8), SAME)).reason == (
        "its pixels of 17 bytes are no words"
    )


@pytest.mark.parametrize("x", ["u16", "i16"])
def test_inputs_of_16_bits_meet_weights_of_16_bits(x: str) -> None:
    layer = conv(6, 5, (5, 7), SAME, (requant(3, 5, 1 << 14, -128, 127),), x)
    block = WindowKernel().weight_block(layer, (0, 5), (0, 6))
    start = block.parts["weights"]
    weights = layer.op.weights.values
    first = np.frombuffer(block.data, "<i2", 8, start).tolist()
    assert first == [int(weights[c, i, 0, 0]) for c in range(4) for i in range(2)]
    cases = [whole(WindowKernel(), layer)]
    odd = conv(5, 5, (5, 7), SAME, (requant(3, 5, 1 << 14, -128, 127),), x)
    cases.append(whole(GatherKernel(), odd))
    HostLibrary([*cases, whole(WindowKernel(), conv(45, 4, (3, 3), SAME, None, x))]).check()


@pytest.mark.sample(2)
@pytest.mark.parametrize("x", ["u8", "i8"])
def test_weights_of_9_bits_are_sums_of_two(x: str) -> None:
    random = np.random.default_rng(9)
    windows = (ops.Window(kernel=(1, 1)), SAME, replace(SAME, strides=(2, 2)))
    cases = []
    for window, (c_in, c_out) in itertools.product(
        windows, ((1, 8), (3, 6), (8, 6), (12, 6), (45, 6))
    ):
        layer = conv(c_in, c_out, (5, 7), window, x=x)
        weights = random.integers(-255, 255, layer.op.weights.shape)
        weights.reshape(-1)[:2] = (-256, 254)
        layer = alone(ops.Conv, weights=Array(weights), window=window, requants=layer.op.requants)
        layer = typed(layer, (c_in, 5, 7, *RANGES[x]))
        kernel = next(k for k in (WindowKernel(), GatherKernel()) if k.accepts(layer) is None)
        assert "_wide_" in kernel.symbol(layer)
        cases.append(whole(kernel, layer))
    HostLibrary(cases).check()


def test_weights_beyond_9_bits_are_refused() -> None:
    layer = conv(8, 4, (3, 3), SAME)
    weights = np.full(layer.op.weights.shape, 255)
    layer = typed(alone(ops.Conv, weights=Array(weights), window=SAME), (8, 3, 3, 0, 255))
    assert WindowKernel().accepts(layer).reason == "its weights lie in [255, 255], not in 9 bits"


def test_filters_beyond_the_table_are_refused() -> None:
    layer = conv(8, 4, (9, 9), ops.Window(kernel=(9, 9)))
    assert WindowKernel().accepts(layer).reason == (
        "its filter has 81 taps, at most 49 are possible"
    )
