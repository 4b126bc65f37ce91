"""The kernels of CMSIS-NN; most tests need its sources at CMSIS_NN_PATH."""

from __future__ import annotations

import ctypes
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import cortex_m7
import numpy as np
import pytest
from cortex_m7 import CortexM7
from dory_stm32h7.backend.cmsis import (
    CmsisConv,
    CmsisDepthwise,
    CmsisDepthwise3x3,
    CmsisKernel,
    CmsisLinear,
    CmsisLogits,
    CmsisMaxPool,
    CmsisPointwise,
    NativeConv,
    NativeLinear,
    NativePointwise,
    cmsis_kernels,
)
from dory_stm32h7.backend.cmsis_library import CmsisNn, find_cmsis_nn
from dory_stm32h7.backend.cmsis_parameters import Parameters, find_native, rounded_twice
from image import L1_BYTES, compiled, require_emulator, run_image
from stm32h7_layers import SPACE

from dory_core.api import Layer, Rejection, Requant, UsageError, ops
from dory_core.importing import Array, requant
from dory_core.testing import (
    IMPORTED,
    CompileOptions,
    accumulator_bounds,
    compile_network,
    make_tile,
    reference,
    run_application,
    run_stages,
    setup_for,
)
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.compilers import host_compiler
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, make_case, typed, whole_case
from dory_core.testing.random_layers import RandomLayers
from dory_core.tools import load_plugins
from tests.nets import tflite_net

KINDS = ("conv", "grouped", "pointwise", "depthwise", "linear", "maxpool")
SAME = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
POINT = ops.Window(kernel=(1, 1))


@pytest.fixture(scope="session")
def library() -> CmsisNn:
    path = os.environ.get("CMSIS_NN_PATH")
    if not path:
        pytest.skip("needs the sources of CMSIS-NN: set CMSIS_NN_PATH")
    return find_cmsis_nn(Path(path))


def _fake(root: Path, text: str = "") -> Path:
    (root / "Include").mkdir(parents=True)
    (root / "Source").mkdir()
    (root / "Include" / "arm_nnfunctions.h").write_text(text)
    return root


COMPLETE = "arm_fully_connected_per_channel_s8 arm_nn_mat_mult_nt_t_s8_s32 upscale_dims"


@pytest.mark.parametrize(
    "folder",
    [
        *("", "NN", "CMSIS/NN", "CMSIS-NN", "Drivers/CMSIS/NN"),
        "Middlewares/Third_Party/ARM_CMSIS/CMSIS/NN",
        *("6.0.0", "CMSIS-NN/7.0.0", "ARM/CMSIS-NN/7.0.0", "Packs/ARM/CMSIS-NN/7.0.0"),
    ],
)
def test_library_is_found_in_checkouts_packages_and_packs(folder: str, tmp_path: Path) -> None:
    root = _fake(tmp_path / "sdk" / folder, COMPLETE)
    assert find_cmsis_nn(tmp_path / "sdk").root.resolve() == root.resolve()


def test_newest_release_of_a_pack_is_taken(tmp_path: Path) -> None:
    for version in ("4.1.0", "10.0.0", "7.0.0"):
        _fake(tmp_path / "ARM/CMSIS-NN" / version, COMPLETE)
    assert find_cmsis_nn(tmp_path).root.name == "10.0.0"


def test_old_library_of_a_package_does_not_hide_a_newer_one(tmp_path: Path) -> None:
    _fake(tmp_path / "Drivers/CMSIS/NN", "arm_convolve_s8")
    header = tmp_path / "Drivers/CMSIS/NN/Include/arm_nnfunctions.h"
    header.write_bytes(b"/* \xa9 2018 */ void arm_convolve_HWC_q7_fast(void);")
    with pytest.raises(UsageError, match="too old"):
        find_cmsis_nn(tmp_path / "Drivers/CMSIS")
    newer = _fake(tmp_path / "CMSIS-NN" / "7.0.0", COMPLETE)
    assert find_cmsis_nn(tmp_path).root == newer


def test_missing_and_old_libraries_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="need its sources") as none:
        find_cmsis_nn(None)
    assert "CMSIS_NN_PATH" in (none.value.hint or "")
    with pytest.raises(UsageError, match="there is no CMSIS-NN in"):
        find_cmsis_nn(tmp_path)
    _fake(tmp_path / "NN", "arm_convolve_s8 arm_nn_mat_mult_nt_t_s8_s32")
    with pytest.raises(UsageError, match="too old: it has no arm_fully_connected_per_channel_s8"):
        find_cmsis_nn(tmp_path)


def test_sources_follow_calls_and_stay_untouched(tmp_path: Path) -> None:
    root = _fake(tmp_path, '#include "Internal/a.h"\n' + COMPLETE)
    (root / "Include" / "Internal").mkdir()
    (root / "Include" / "Internal" / "a.h").write_text("/* a */\n")
    first = "void arm_max_pool_s8(void)\n{\n  arm_helper(); /* arm_other */\n}\n"
    (root / "Source" / "arm_max_pool_s8.c").write_text(first)
    (root / "Source" / "helpers.c").write_text("int arm_helper(void)\n{\n  return 0;\n}\n")
    (root / "Source" / "arm_other.c").write_text("int arm_other(void)\n{\n  return 1;\n}\n")
    files = {
        f.path: f.content
        for f in CmsisNn(root).application_files("arm_max_pool_s8", "arm_max_pool_s8", False)
    }
    external = "kernels/external"
    assert files[f"{external}/cmsis-nn/Source/arm_max_pool_s8.c"] == first
    assert f"{external}/cmsis-nn/Source/helpers.c" in files
    assert f"{external}/cmsis-nn/Source/arm_other.c" not in files
    assert f"{external}/Internal/a.h" in files
    wrapper = str(files[f"{external}/helpers.c"]).split("\n")
    assert wrapper[0] == '#include "dory_cmsis_nn_requantize.h"'
    assert '#include "cmsis-nn/Source/helpers.c"' in wrapper


def _step(channels: int, reach: int, hi: int = 255) -> Requant:
    mul = max(1, 200 * (1 << 24) // reach)
    add = np.random.default_rng(channels).integers(-20 << 24, 50 << 24, channels)
    return requant([mul + c for c in range(channels)], add.tolist(), 1 << 24, 0, hi)


def _conv(
    c_in: int,
    c_out: int,
    image: tuple[int, int],
    window: ops.Window,
    groups: int = 1,
    steps: tuple[Requant, ...] | None = None,
) -> Layer:
    random = np.random.default_rng(c_in * 100 + c_out)
    shape = (c_out, c_in // groups, *window.kernel)
    reach = int(np.prod(shape[1:])) * 64 * 255
    layer = alone(
        ops.Conv,
        weights=Array(random.integers(-128, 128, shape)),
        window=window,
        groups=groups,
        requants=(_step(c_out, reach),) if steps is None else steps,
    )
    return typed(layer, (c_in, *image, 0, 255))


def _reason(kernel: CmsisKernel, layer: Layer) -> str:
    rejection = kernel.accepts(layer)
    assert rejection is not None
    return rejection.reason


def test_layers_without_exact_parameters_are_left_to_others(tmp_path: Path) -> None:
    kernel = CmsisPointwise(CmsisNn(tmp_path))
    steep = requant(3, 0, 4, 0, 255)
    assert "upper half" in _reason(kernel, _conv(4, 4, (3, 3), POINT, steps=(steep,)))
    constant = requant((0, 7), (5 << 12, 0), 1 << 12, 0, 255)
    assert "constant" in _reason(kernel, _conv(4, 2, (3, 3), POINT, steps=(constant,)))
    assert "output is i32" in _reason(kernel, _conv(4, 2, (3, 3), POINT, steps=()))
    wide = ops.Window(kernel=(3, 3), pads=(2, 2, 2, 2))
    assert "pads by one" in _reason(
        CmsisDepthwise3x3(CmsisNn(tmp_path)), _conv(4, 4, (5, 5), wide, groups=4)
    )
    dilated = ops.Window(kernel=(3, 3), dilations=(2, 1))
    assert "dilated" in _reason(
        CmsisDepthwise(CmsisNn(tmp_path)), _conv(4, 4, (8, 8), dilated, groups=4)
    )


def test_parameters_are_a_bias_a_multiplier_and_a_rest_below_it(tmp_path: Path) -> None:
    step = requant((700, -900), (12345, 1 << 20), 1 << 20, 0, 255)
    layer = _conv(8, 2, (3, 3), POINT, steps=(step,))
    kernel = CmsisPointwise(CmsisNn(tmp_path))
    assert kernel.accepts(layer) is None
    block = kernel.weight_block(layer, (0, 2), (0, 8))
    assert block is not None
    mul, rest, bias = (
        np.frombuffer(block.data, "<i4", 2, block.parts[name]).astype(object)
        for name in ("mul", "add", "bias")
    )
    assert (abs(rest) < abs(mul)).all()
    lowest, highest = accumulator_bounds(layer.op, layer.inputs)
    for c in range(2):
        acc = np.arange(lowest[c], highest[c] + 1).astype(object)
        got = np.clip(((acc + bias[c]) * mul[c] + rest[c]) >> 32, 0, 255)
        assert (got == np.clip((acc * step.mul[c] + step.add[c]) // step.div, 0, 255)).all()


def _tflm_step(
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


def _tflm_layer(
    kind: str, seed: int, zero_point: int = -7, bounds: tuple[int, int] = (-128, 127)
) -> Layer:
    """Return a layer of signed bytes as TensorFlow Lite Micro computes it."""
    random = np.random.default_rng(seed)
    c_in, c_out = int(random.integers(1, 20)), int(random.integers(1, 20))
    height, width = (int(n) for n in random.integers(4, 9, 2))
    pad = int(random.choice([-128, -5, 0, 3, 127]))
    if kind == "linear":
        shape: tuple[int, ...] = (c_out, c_in)
        fields: dict[str, object] = {}
        image = (c_in, 1, 1)
    else:
        own = kind == "depthwise"
        c_out = c_in if own else c_out
        kernel = (1, 1) if kind == "pointwise" else tuple(int(n) for n in random.integers(1, 4, 2))
        if own and seed % 2:
            kernel = (3, 3)
        pads = tuple(int(random.integers(0, k)) for k in (*kernel, *kernel))
        window = ops.Window(kernel=kernel, pads=pads, pad_value=pad)
        shape = (c_out, 1 if own else c_in, *kernel)
        fields = {"window": window, "groups": c_in if own else 1}
        image = (c_in, height, width)
    weights = random.integers(-128, 128, shape)
    step, _ = _tflm_step(c_out, int(np.prod(shape[1:])) * 128 * 100, zero_point, bounds, seed)
    op = alone(
        ops.Linear if kind == "linear" else ops.Conv,
        weights=Array(weights),
        bias=Array(random.integers(-3000, 3000, c_out)),
        requants=(step,),
        **fields,
    )
    layer = typed(op, (*image, -128, 127))
    return replace(layer, output=replace(layer.output, scale=0.5, zero_point=zero_point))


def _requantize_as_in_c(value: int, mantissa: int, shift: int) -> int:
    """arm_nn_requantize of arm_nnsupportfunctions.h, word for word in Python integers."""
    product = (value << max(shift, 0)) * mantissa + (1 << 30)
    result, exponent = product >> 31, max(-shift, 0)
    mask = (1 << exponent) - 1
    remainder, result_threshold = mask & result, mask >> 1
    result_threshold += result < 0
    return (result >> exponent) + (remainder > result_threshold)


@pytest.mark.parametrize("kind", ["conv", "pointwise", "depthwise", "linear"])
def test_native_parameters_give_the_network_for_every_accumulator(kind: str) -> None:
    for seed in range(6):
        layer = _tflm_layer(kind, seed)
        found = find_native(layer)
        assert isinstance(found, Parameters) and found.mul is not None and found.rest is not None
        step = layer.op.requants[0]
        lowest, highest = accumulator_bounds(layer.op, layer.inputs)
        for c in range(layer.output.channels):
            for acc in range(int(lowest[c]), int(highest[c]) + 1, 997):
                got = _requantize_as_in_c(acc, int(found.mul[c]), int(found.rest[c]))
                assert min(max(got - 7, -128), 127) == step.scalar(acc, c)


def test_native_multipliers_are_those_of_the_file() -> None:
    layer = _tflm_layer("conv", 4)
    reach = int(np.prod(layer.of(ops.Conv).weights.shape[1:])) * 128 * 100
    _, pairs = _tflm_step(layer.output.channels, reach, -7, (-128, 127), 4)
    found = find_native(layer)
    assert isinstance(found, Parameters) and found.mul is not None and found.rest is not None
    assert list(zip(found.mul.tolist(), found.rest.tolist(), strict=True)) == pairs


def test_every_accumulator_of_every_channel_of_one_layer_is_equal() -> None:
    layer = _tflm_layer("depthwise", 1)
    found, step = find_native(layer), layer.op.requants[0]
    assert isinstance(found, Parameters) and found.mul is not None and found.rest is not None
    acc = np.arange(layer.ranges.acc_lo, layer.ranges.acc_hi + 1)
    both = np.broadcast_to(acc, (layer.output.channels, len(acc)))
    got = rounded_twice(both, found.mul[:, None], found.rest[:, None]) - 7
    assert np.array_equal(np.clip(got, -128, 127), step.apply(both))


def test_other_roundings_are_not_taken_for_the_library_s_own() -> None:
    layer = _tflm_layer("conv", 2)
    step = layer.op.requants[0]
    up = requant(step.mul, step.add, step.div, step.lo, step.hi)
    for wrong in (
        up,
        requant(step.mul, [a + step.div // 64 for a in step.add], step.div, -128, 127),
    ):
        other = replace(layer, op=replace(layer.op, requants=(wrong,)))
        assert isinstance(find_native(other), Rejection)
    unscaled = replace(layer, output=replace(layer.output, scale=None))
    assert isinstance(find_native(unscaled), Rejection)


def test_roundings_that_a_relu_hides_are_taken() -> None:
    layer = _tflm_layer("conv", 2, zero_point=-128, bounds=(-128, 127))
    step = layer.op.requants[0]
    plain = requant(step.mul, step.add, step.div, -128, 127)
    assert isinstance(
        find_native(replace(layer, op=replace(layer.op, requants=(plain,)))), Parameters
    )


def test_channels_that_are_constant_and_huge_biases_are_taken() -> None:
    layer = _tflm_layer("conv", 4)
    step, channels = layer.op.requants[0], layer.output.channels
    assert step.add_negative is not None
    parts = (step.mul, step.add, step.add_negative)
    mul, add, low = (list(part * (channels // len(part))) for part in parts)
    mul[0], add[0], low[0] = 0, -7 * step.div, -7 * step.div
    bias = np.zeros(channels, np.int64)
    bias[1] = -(1 << 30)  # it is clipped, whatever the input
    steps = (requant(mul, add, step.div, -128, 127, add_negative=low),)
    op = replace(layer.of(ops.Conv), bias=Array(bias), requants=steps)
    shape = layer.inputs[0].shape
    other = typed(op, (*shape, -128, 127))
    other = replace(other, output=replace(other.output, scale=0.5, zero_point=-7))
    found = find_native(other)
    assert isinstance(found, Parameters) and found.mul is not None
    assert found.mul[0] == 0 and (found.mul[1:] >= 1 << 30).all()


def _native_cases(library: CmsisNn, seeds: range) -> list[KernelCase]:
    random, cases = np.random.default_rng(5), []
    for kind in ("conv", "pointwise", "depthwise", "linear"):
        for seed in seeds:
            layer = _tflm_layer(kind, seed)
            taken = [k for k in cmsis_kernels(library) if k.accepts(layer) is None]
            assert taken[0].name.endswith("_tflm")
            cases += [make_case(k, layer, random) for k in taken if k.name.endswith("_tflm")]
    return cases


def test_native_tiles_equal_the_reference(library: CmsisNn) -> None:
    HostLibrary(_native_cases(library, range(8))).check()


@pytest.mark.parametrize("compiler", [cortex_m7.ZIG, cortex_m7.GCC], ids=["ziglang", "gcc"])
def test_native_code_of_the_chip_equals_the_reference(
    compiler: tuple[str, ...], library: CmsisNn
) -> None:
    cortex_m7.require(compiler)
    CortexM7(_native_cases(library, range(20, 26)), compiler).check()


def test_both_forms_of_the_library_are_in_one_program(library: CmsisNn) -> None:
    native = _native_cases(library, range(2))
    HostLibrary([*native, *_cases(library, "conv", 3, 3), *_cases(library, "linear", 3, 3)]).check()


NATIVE = ("mlperf_kws_ref_model", "tflm_micro_speech")
LARGER = ("mlperf_pretrainedResnet_quant", "mlperf_ad01_int8", "mlperf_vww_96_int8", "mcunet_vww")


@pytest.mark.parametrize(
    "name", [*NATIVE, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGER)]
)
def test_tflite_networks_run_on_the_library_as_it_is(
    name: str, library: CmsisNn, tmp_path: Path
) -> None:
    plugins, net = load_plugins(), tflite_net(name)
    options = CompileOptions(
        net.path,
        "stm32h7",
        "tflite",
        tmp_path / "app",
        golden=(net.golden,),
        settings={"kernels": f"cmsis-nn={library.root}"},
    )
    result = compile_network(options, plugins)
    assert result.golden_exact
    steps = result.plan.steps
    weighted = [s.kernel.name for s in steps if isinstance(s.layer.op, (ops.Conv, ops.Linear))]
    assert weighted and all(kernel.endswith("_tflm") for kernel in weighted)
    includes = [p.read_text() for p in (tmp_path / "app/kernels/external").glob("*.c")]
    assert not any("dory_cmsis_nn_requantize.h" in text for text in includes)
    assert run_application(tmp_path / "app", plugins=plugins, runner="host", dma="late").exact
    require_emulator()
    run_image(tmp_path / "app", plugins)


def _cases(library: CmsisNn, kind: str, seed: int, count: int) -> list[KernelCase]:
    """Return ``count`` cases of a kind with every kernel that takes the layer."""
    random = RandomLayers(SPACE, seed)
    cases: list[KernelCase] = []
    while len(cases) < count:
        layer = random.layer(kind)
        taken = [k for k in cmsis_kernels(library) if k.accepts(layer) is None]
        cases += [make_case(k, layer, random.numbers) for k in taken]
    return cases


@pytest.mark.parametrize("kind", KINDS)
def test_random_tiles_equal_the_reference(kind: str, library: CmsisNn) -> None:
    HostLibrary(_cases(library, kind, 3, 12)).check()


@pytest.mark.parametrize("compiler", [cortex_m7.ZIG, cortex_m7.GCC], ids=["ziglang", "gcc"])
def test_code_of_the_chip_equals_the_reference(compiler: tuple[str, ...], library: CmsisNn) -> None:
    """The library computes with other functions there than on this machine."""
    cortex_m7.require(compiler)
    cases = [c for kind in KINDS for c in _cases(library, kind, 9, 8)]
    CortexM7(cases, compiler).check()


_SIZES = """
#include "arm_nnfunctions.h"
int32_t conv(int32_t c, int32_t h, int32_t w)
{
  const cmsis_nn_dims x = {1, 9, 9, c}, filter = {4, h, w, c};
  return arm_convolve_s8_get_buffer_size(&x, &filter);
}
int32_t depthwise(int32_t c, int32_t h, int32_t w)
{
  const cmsis_nn_dims x = {1, 9, 9, c}, filter = {1, h, w, c};
  return arm_depthwise_conv_s8_opt_get_buffer_size_dsp(&x, &filter);
}
"""


def test_scratch_is_what_the_library_asks_for(library: CmsisNn, tmp_path: Path) -> None:
    (tmp_path / "sizes.c").write_text(_SIZES)
    sources = {
        str(path)
        for name in ("arm_convolve_s8_get_buffer_size", "arm_depthwise_conv_s8_opt_get_buffer_size")
        for path in library.sources(name)
    }
    command = [*host_compiler(), "-w", "-shared", "-fPIC", f"-I{library.root / 'Include'}"]
    command += [str(tmp_path / "sizes.c"), *sorted(sources), "-o", str(tmp_path / "sizes.so")]
    subprocess.run(command, check=True)
    sizes = ctypes.CDLL(str(tmp_path / "sizes.so"))
    for c, kernel in ((3, (3, 3)), (8, (5, 2)), (17, (1, 4))):
        window = ops.Window(kernel=kernel)
        dense, own = (_conv(c, n, (9, 9), window, groups=g) for n, g in ((4, 1), (c, c)))
        tile = make_tile(dense, *dense.output.shape)
        assert CmsisConv(library).buffer_bytes(dense, tile) == sizes.conv(c, *kernel)
        tile = make_tile(own, *own.output.shape)
        assert CmsisDepthwise(library).buffer_bytes(own, tile) == sizes.depthwise(c, *kernel)


def _single(kind: type[ops.Operator], shape: tuple[int, int, int], **fields: object) -> Layer:
    return typed(alone(kind, **fields), (*shape, -128, 127))


def _estimated(library: CmsisNn) -> list[tuple[CmsisKernel, Layer]]:
    """Return layers of all kernels, requantised by the library or not, of even and odd sizes."""
    pool = ops.Window(kernel=(2, 2), strides=(2, 2))
    logits = Array(np.random.default_rng(2).integers(-128, 128, (10, 64)))
    wide = ops.Window(kernel=(5, 5), pads=(2, 2, 2, 2))
    return [
        (CmsisConv(library), _conv(3, 16, (10, 10), SAME)),
        (CmsisConv(library), _conv(16, 16, (8, 8), SAME)),
        (CmsisConv(library), _conv(16, 12, (7, 7), SAME, groups=2)),
        (CmsisPointwise(library), _conv(32, 32, (8, 8), POINT)),
        (CmsisPointwise(library), _conv(64, 32, (3, 3), POINT)),
        (CmsisPointwise(library), _conv(64, 64, (2, 1), POINT)),
        (CmsisDepthwise3x3(library), _conv(16, 16, (12, 12), SAME, groups=16)),
        (CmsisDepthwise3x3(library), _conv(32, 32, (3, 3), SAME, groups=32)),
        (CmsisDepthwise(library), _conv(16, 16, (12, 12), wide, groups=16)),
        *((NativeConv(library), _tflm_layer("conv", seed)) for seed in (0, 5)),
        *((NativePointwise(library), _tflm_layer("pointwise", seed)) for seed in (0, 1)),
        (NativeLinear(library), _tflm_layer("linear", 6)),
        (CmsisLogits(library), _single(ops.Linear, (64, 1, 1), weights=logits, requants=())),
        (CmsisMaxPool(library), _single(ops.MaxPool, (16, 8, 8), window=pool)),
    ]


@pytest.mark.parametrize("compiler", [cortex_m7.ZIG, cortex_m7.GCC], ids=["ziglang", "gcc"])
def test_estimates_are_those_of_the_pipeline(compiler: tuple[str, ...], library: CmsisNn) -> None:
    """The code of two compilers differs by up to 30 %: what is between them serves both."""
    layers = _estimated(library)
    machine = CortexM7([whole_case(*one) for one in layers], cortex_m7.require(compiler))
    for number, (kernel, layer) in enumerate(layers):
        machine.reset()
        got = machine.run(number)
        assert np.array_equal(got, reference.run_layer(layer, machine.cases[number].inputs))
        estimate = int(kernel.cycles(layer, make_tile(layer, *layer.output.shape)))
        what = f"{kernel.name} {layer.inputs[0].shape} {layer.output.shape}"
        bound = 1.4 if isinstance(kernel, CmsisLogits) else 1.25
        if machine.cycles:
            assert machine.cycles / bound < estimate < bound * machine.cycles, what
        assert 0.9 * estimate < machine.instructions < 2 * estimate, what


def test_pixels_of_a_1x1_convolution_stay_together(tmp_path: Path) -> None:
    """Each call sums the weights up: 12 calls of few pixels cost twice what one costs."""
    root = _fake(tmp_path / "library", COMPLETE)
    (root / "Source" / "a.c").write_text("int arm_convolve_1x1_s8_fast(void)\n{\n}\n")
    layer = _conv(256, 256, (3, 3), POINT)
    kernel = CmsisPointwise(CmsisNn(root))
    whole, part = (int(kernel.cycles(layer, make_tile(layer, 256, *n))) for n in ((3, 3), (1, 1)))
    assert 9 * part > 2 * whole
    builder = GraphBuilder((256, 3, 3), name="pixels", values=(0, 127))
    builder.conv(256, POINT)
    settings = {"kernels": f"cmsis-nn={root}"}
    setup = setup_for(load_plugins(), "stm32h7", settings, frontend="testing")
    plan = run_stages(builder.graph(), setup, after=IMPORTED)
    (planned,) = plan.to_json()["layers"]
    assert planned["kernel"] == "arm_convolve_1x1_s8_fast"
    assert (planned["tiles"]["h"], planned["tiles"]["w"]) == (3, 3)
    assert planned["tiles"]["count"] <= 8


def test_linear_kernel_is_named_after_the_function(tmp_path: Path) -> None:
    assert CmsisLinear(CmsisNn(tmp_path)).name == "arm_fully_connected_per_channel_s8"


@pytest.mark.parametrize("l1_bytes", [24 * 1024, L1_BYTES])
def test_network_is_exact_on_the_host_and_on_the_chip(
    l1_bytes: int, library: CmsisNn, tmp_path: Path
) -> None:
    plugins = load_plugins()
    directory = tmp_path / "app"
    setting = f"cmsis-nn={library.root}"
    result = compiled("nemo_small_cnn", directory, plugins, {1: l1_bytes}, kernels=setting)
    names = {step.kernel.name for step in result.plan.steps}
    assert {"arm_convolve_s8", "arm_max_pool_s8", "arm_nn_mat_mult_nt_t_s8_s32"} <= names
    run_ = run_application(directory, plugins=plugins, dma="late", repeat=2)
    assert run_.first_difference is None
    require_emulator()
    run_image(directory, plugins)


def test_copies_of_inputs_in_place_have_room_for_what_no_window_reaches(
    library: CmsisNn, tmp_path: Path
) -> None:
    """Unsigned inputs are copied to scratch memory as a whole; the last row is not read."""
    builder = GraphBuilder((16, 4, 8), name="skipped", values=(0, 255))
    builder.conv(8, ops.Window(kernel=(3, 3), strides=(2, 2)))
    settings = {"kernels": f"cmsis-nn={library.root}", "memory": "dcache"}
    plan = build_app(builder.graph(), "stm32h7", tmp_path / "app", settings=settings)
    assert [step.kernel.name for step in plan.steps] == ["arm_convolve_s8"]
    assert_exact(tmp_path / "app")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nemo_mv1_025_96", "quantlab_resnet8", "nemo_ds_cnn_kws"])
def test_larger_networks_are_exact(name: str, library: CmsisNn, tmp_path: Path) -> None:
    plugins = load_plugins()
    directory = tmp_path / "app"
    result = compiled(name, directory, plugins, kernels=f"cmsis-nn={library.root}")
    assert any(step.kernel.name.startswith("arm_") for step in result.plan.steps)
    assert run_application(directory, plugins=plugins).first_difference is None
    require_emulator()
    run_image(directory, plugins, repeat=1)
