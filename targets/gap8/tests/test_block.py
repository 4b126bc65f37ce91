"""The kernels of the 4x4 block equal the reference, element by element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dory_gap8.backend import GatherKernel, WindowKernel
from dory_gap8.backend.block import BlockKernel, finish, interleave
from gap8_harness import SANITIZE, Case, Library, make_case, typed, values_of
from gap8_layers import RANGES, Random

from dory_core.ir import Array, Conv, Requant, TypedLayer, Window, requant

SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))


def conv(
    c_in: int,
    c_out: int,
    image: tuple[int, int],
    window: Window,
    steps: tuple[Requant, ...] | None = None,
    x: str = "u8",
) -> TypedLayer:
    """Return a convolution with random weights; by default with a 32-bit step per channel."""
    random = np.random.default_rng(c_in * 1000 + c_out)
    if steps is None:
        k = c_in * window.kernel[0] * window.kernel[1]
        mul = [int(v) for v in random.integers(10, 40, c_out)]
        add = [int(v) for v in random.integers(-(1 << 14), 1 << 14, c_out)]
        steps = (requant(mul, add, 1 << (10 + k.bit_length() // 2), 0, 255),)
    layer = Conv(
        index=0,
        name="conv",
        inputs=("input",),
        output="layer_00",
        weights=Array(random.integers(-128, 128, (c_out, c_in, *window.kernel))),
        window=window,
        requants=steps,
    )
    return typed(layer, (c_in, *image, *RANGES[x]))


def whole(kernel: BlockKernel, layer: TypedLayer, cores: int = 8) -> Case:
    y = layer.output
    inputs = (values_of(layer.inputs[0], np.random.default_rng(5)),)
    tile = (y.channels, y.height, y.width, layer.inputs[0].channels)
    return Case(replace(kernel, cores=cores), layer, inputs, tile, cores)


def random_cases(seed: int, count: int, cores: int = 8) -> list[Case]:
    """Random windows, channels, types and requantisations, tiles included."""
    random = Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        x, y = random.pick("u8", "i8"), random.pick("u8", "u8", "i8", "i32", "i16")
        kernel: BlockKernel = random.pick(WindowKernel(cores), GatherKernel(cores))
        window = random.window(random.pick((1, 1), (3, 3), (2, 3), (5, 1), (1, 4)))
        c_in = random.pick(8, 12, 16, 32) if random.integer(0, 2) else random.integer(1, 10)
        c_out = random.integer(1, 40)
        weights = random.weights(c_out, c_in, *window.kernel)
        reach = 255 * 128 * c_in * window.kernel[0] * window.kernel[1] // 4
        layer = Conv(
            index=0,
            name="conv",
            inputs=("input",),
            output="layer_00",
            weights=weights,
            window=window,
            requants=() if y == "i32" else random.requants(c_out, reach, y),
        )
        made = typed(layer, (c_in, *random.image(window), *RANGES[x]))
        if kernel.accepts(made) is None and made.output.type_name in ("u8", "i8", "i16", "i32"):
            cases.append(make_case(kernel, made, random.numbers, cores))
    return cases


@pytest.mark.parametrize("seed", range(3))
def test_random_tiles_equal_the_reference(seed: int) -> None:
    Library(random_cases(seed, 12)).check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 40))
def test_many_random_tiles_equal_the_reference(seed: int) -> None:
    Library(random_cases(seed, 25)).check()


@pytest.mark.parametrize("cores", [1, 2, 3, 5, 7])
def test_every_number_of_cores_computes_the_whole_tile(cores: int) -> None:
    cases = [
        whole(WindowKernel(), conv(8, c_out, image, SAME), cores)
        for c_out in (3, 4, 18)
        for image in ((1, 1), (3, 3), (5, 8))
    ]
    Library([*cases, *random_cases(100 + cores, 4, cores)]).check()


@pytest.mark.parametrize("c_out", [1, 4, 31, 32, 33, 70])
@pytest.mark.parametrize("width", [1, 3, 4, 9])
def test_tails_of_channels_and_pixels(c_out: int, width: int) -> None:
    Library(
        [
            whole(WindowKernel(), conv(8, c_out, (3, width), Window(kernel=(1, 1)))),
            whole(GatherKernel(), conv(5, c_out, (3, width), SAME)),
        ]
    ).check()
