"""Tests of CMSIS-NN: layers as TensorFlow Lite Micro computes them, and copies of the library."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dory_cmsis_nn.library import CmsisNn, find_cmsis_nn
from dory_core.api import Layer, Requant, ops
from dory_core.importing import Array, requant
from dory_core.testing import CompileOptions, Plugins, compile_network, run_application
from dory_core.testing.kernels import alone, typed

#: What tells a release that is new enough.
COMPLETE = "arm_fully_connected_per_channel_s8 arm_nn_mat_mult_nt_t_s8_s32 upscale_dims"


def require_library() -> CmsisNn:
    """Return the library at CMSIS_NN_PATH; skip the test without it."""
    path = os.environ.get("CMSIS_NN_PATH")
    if not path:
        pytest.skip("needs the sources of CMSIS-NN: set CMSIS_NN_PATH")
    return find_cmsis_nn(Path(path))


def fake_library(root: Path, text: str = COMPLETE) -> Path:
    """Make folders as the library has them; text: of its header."""
    (root / "Include").mkdir(parents=True)
    (root / "Source").mkdir()
    (root / "Include" / "arm_nnfunctions.h").write_text(text)
    return root


def run_as_it_is(
    network: Path, golden: Path, target: str, library: CmsisNn, app: Path, plugins: Plugins
) -> None:
    """Compile a network of TensorFlow Lite with the library as it is, and run it on this machine.

    Raises AssertionError where a layer with weights has another kernel, or other values.
    """
    settings = {"kernels": f"cmsis-nn={library.root}"}
    options = CompileOptions(network, target, "tflite", app, golden=(golden,), settings=settings)
    result = compile_network(options, plugins)
    assert result.golden_exact
    steps = result.plan.steps
    weighted = [s.kernel.name for s in steps if isinstance(s.layer.op, (ops.Conv, ops.Linear))]
    assert weighted and all(kernel.endswith("_tflm") for kernel in weighted)
    includes = [path.read_text() for path in (app / "kernels/external").glob("*.c")]
    assert not any("dory_cmsis_nn_requantize.h" in text for text in includes)
    assert run_application(app, plugins=plugins, runner="host", dma="late").exact


def tflm_step(
    channels: int, reach: int, zero_point: int, bounds: tuple[int, int], seed: int = 0
) -> tuple[Requant, list[tuple[int, int]]]:
    """Return a requantisation with two roundings, ties away, and (mantissa, shift) of each channel.

    The closed form: the addend depends on the sign of the accumulator.
    """
    random = np.random.default_rng(seed)
    size = max(1, reach // 200).bit_length()
    pairs = [(int(random.integers(1 << 30, 1 << 31)), 1 - size) for _ in range(channels)]
    forms = []
    for mantissa, shift in pairs:
        right = -shift
        half = 1 << (30 + right) if right else 0
        zero = zero_point << (31 + right)
        away = (1 << 30) if right else 0
        start = half if right else 1 << 30
        forms.append((mantissa, start + away + zero, start - away + zero, 31 + right))
    (bits,) = {form[3] for form in forms}
    muls, adds, lows = ([form[k] for form in forms] for k in range(3))
    return requant(muls, adds, 1 << bits, *bounds, add_negative=lows), pairs


def tflm_layer(
    kind: str,
    seed: int,
    zero_point: int = -7,
    bounds: tuple[int, int] = (-128, 127),
    values: tuple[int, int] = (-128, 127),
) -> Layer:
    """Return a layer as TensorFlow Lite Micro computes it.

    Args:
        kind: conv, grouped, pointwise, depthwise or linear.
        seed: Of sizes, weights and factors.
        zero_point: Of the output.
        bounds: Of the output.
        values: Of the input.
    """
    random = np.random.default_rng(seed)
    c_in, c_out = int(random.integers(1, 20)), int(random.integers(1, 20))
    height, width = (int(n) for n in random.integers(4, 9, 2))
    pad = min(max(int(random.choice([-128, -5, 0, 3, 127])), values[0]), values[1])
    if kind == "linear":
        shape: tuple[int, ...] = (c_out, c_in)
        fields: dict[str, object] = {}
        image = (c_in, 1, 1)
    else:
        own, groups = kind == "depthwise", 2 if kind == "grouped" else 1
        c_in, c_out = c_in * groups, c_in if own else c_out * groups
        kernel = (1, 1) if kind == "pointwise" else tuple(int(n) for n in random.integers(1, 4, 2))
        if own and seed % 2:
            kernel = (3, 3)
        pads = tuple(int(random.integers(0, k)) for k in (*kernel, *kernel))
        window = ops.Window(kernel=kernel, pads=pads, pad_value=pad)
        groups = c_in if own else groups
        shape = (c_out, c_in // groups, *kernel)
        fields = {"window": window, "groups": groups}
        image = (c_in, height, width)
    weights = random.integers(-128, 128, shape)
    step, _ = tflm_step(c_out, int(np.prod(shape[1:])) * 128 * 100, zero_point, bounds, seed)
    op = alone(
        ops.Linear if kind == "linear" else ops.Conv,
        weights=Array(weights),
        bias=Array(random.integers(-3000, 3000, c_out)),
        requants=(step,),
        **fields,
    )
    layer = typed(op, (*image, *values))
    return replace(layer, output=replace(layer.output, scale=0.5, zero_point=zero_point))
