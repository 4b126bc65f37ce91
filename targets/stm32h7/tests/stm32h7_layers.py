"""Random layers over everything that the kernels of the STM32H7 accept, and more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from dory_stm32h7.backend import builtin_kernels

from dory_core.api import Feature, Layer, Requant, ops, requantisation
from dory_core.importing import Array, requant
from dory_core.testing.kernel_cases import KernelCase, make_case, takes
from dory_core.testing.kernels import alone, typed
from dory_core.testing.random_layers import LayerSpace, RandomLayers

SPACE = LayerSpace(
    filters_per_channel=(1,),
    kernels=((3, 3), (5, 2), (1, 4), (2, 1)),
    numerator_bits=(18, 24, 32, 40),
)


#: Windows of 3x3 pixels within an image, and of one pixel.
SAME = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
POINT = ops.Window(kernel=(1, 1))

#: Sums of bytes for which there are tables take those first.
SUMS = ("dory_stm32h7_sums", "dory_stm32h7_add")

TURNED = replace(SPACE, features=frozenset({Feature.PAD_VALUE, Feature.TWO_ADDENDS, Feature.TURN}))


def cases_of(
    kind: str, seed: int, count: int, space: LayerSpace = SPACE, most: int = 4
) -> list[KernelCase]:
    """Return ``count`` random cases of one kind, of which few may be rejected."""
    random = RandomLayers(space, seed)
    cases: list[KernelCase] = []
    tried = 0
    while len(cases) < count:
        layer = random.layer(kind)
        tried += 1
        taken = [k for k in builtin_kernels() if takes(k, layer)]
        first, *others = [k.name for k in taken] or [""]
        assert set(others) <= {"dory_stm32h7_lut"} or (first, *others) == SUMS
        cases += [make_case(k, layer, random.numbers) for k in taken[:1]]
    assert tried <= most * count
    return cases


def turned_cases(kind: str, seed: int, count: int) -> list[KernelCase]:
    """Return cases of layers whose requantisation has two addends now and then.

    Steps that fall have none that the kernels compute: more are rejected.
    """
    return cases_of(kind, 100 + seed, count, TURNED, 8)


def real_mean(random: np.random.Generator, window: ops.Window, channels: int = 6) -> Layer:
    x, y = (float(np.float32(random.uniform(0.001, 3))) for _ in range(2))
    zeros = random.integers(-128, 128, 2).tolist()
    layer = alone(
        ops.AvgPool,
        window=window,
        counts_padding=bool(random.integers(2)),
        real=ops.RealMean(x, zeros[0], y, zeros[1]),
        requants=(requant(1, 0, 1, -128, 127),),
    )
    return typed(layer, (channels, 8, 8, -128, 127))


def even_step(channels: int, reach: int) -> Requant:
    """Return a step in binary32, every third scale a power of two: ties to even."""
    scales = 100 / reach * (1 + np.arange(channels) / channels)
    scales[::3] = 2.0 ** np.floor(np.log2(scales[::3]))
    rounded = [float(np.float32(scale)) for scale in scales]
    return requantisation.float_requant(rounded, -5, -128, 127)


def channel_step(channels: int, reach: int, hi: int = 255) -> Requant:
    """Return a step per channel that spreads accumulators up to ``reach`` over the outputs."""
    mul = max(1, 200 * (1 << 24) // reach)
    random = np.random.default_rng(channels)
    add = random.integers(-20 << 24, 50 << 24, channels)
    return requant([mul + c for c in range(channels)], add.tolist(), 1 << 24, 0, hi)


def conv_layer(
    c_in: int,
    c_out: int,
    image: tuple[int, int],
    window: ops.Window,
    *,
    groups: int = 1,
    steps: tuple[Requant, ...] | None = None,
    weights: np.ndarray | None = None,
    lo: int = 0,
    least: int = -128,
) -> Layer:
    random = np.random.default_rng(c_in * 100 + c_out)
    shape = (c_out, c_in // groups, *window.kernel)
    fan_in = c_in // groups * window.taps
    layer = alone(
        ops.Conv,
        weights=Array(random.integers(least, least + 256, shape) if weights is None else weights),
        window=window,
        groups=groups,
        requants=(channel_step(c_out, fan_in * 64 * 255),) if steps is None else steps,
    )
    return typed(layer, (c_in, *image, lo, 255 if lo == 0 else -1 - lo))


def linear_layer(
    inputs: int,
    outputs: int,
    steps: tuple[Requant, ...] = (),
    lo: int = 0,
    hi: int = 255,
    least: int = -128,
) -> Layer:
    weights = np.random.default_rng(inputs).integers(least, least + 256, (outputs, inputs))
    layer = alone(ops.Linear, weights=Array(weights), requants=steps)
    return typed(layer, (inputs, 1, 1, lo, hi))


def wide_sum(mul: int = 932966493, shift: int = 17, last: int = 1901167265) -> Layer:
    """As TensorFlow Lite Micro has it for 16 bits: 15 bits below the point, rounded twice."""
    half = 1 << (shift - 1)
    less = 1 << (shift - 3)
    second = requant(mul, half + less, 1 << shift, add_negative=half - less)
    half, nudge = 1 << 43, 1 << 30
    step = requant(last, half + nudge, 1 << 44, -32768, 32767, half - nudge)
    layer = alone(ops.Add, operand_requants=(requant(32768, 1, 2), second), requants=(step,))
    return typed(layer, (16, 8, 8, -32768, 32767), (16, 8, 8, -32768, 32767))
