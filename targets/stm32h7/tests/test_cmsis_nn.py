"""The kernels of CMSIS-NN; most tests need its sources at CMSIS_NN_PATH."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import cortex_m7
import numpy as np
import pytest
from cortex_m7 import CortexM7
from dory_cmsis_nn.library import CmsisNn
from dory_cmsis_nn.testing import fake_library, require_library, run_as_it_is, tflm_layer
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
from image import L1_BYTES, compiled, require_emulator, run_image
from stm32h7_layers import POINT, SAME, SPACE, conv_layer

from dory_core.api import Layer, ops
from dory_core.importing import Array, requant
from dory_core.testing import (
    IMPORTED,
    accumulator_bounds,
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


@pytest.fixture(scope="session")
def library() -> CmsisNn:
    return require_library()


def _reason(kernel: CmsisKernel, layer: Layer) -> str:
    rejection = kernel.accepts(layer)
    assert rejection is not None
    return rejection.reason


def test_layers_without_exact_parameters_are_left_to_others(tmp_path: Path) -> None:
    kernel = CmsisPointwise(CmsisNn(tmp_path))
    steep = requant(3, 0, 4, 0, 255)
    assert "upper half" in _reason(kernel, conv_layer(4, 4, (3, 3), POINT, steps=(steep,)))
    constant = requant((0, 7), (5 << 12, 0), 1 << 12, 0, 255)
    assert "constant" in _reason(kernel, conv_layer(4, 2, (3, 3), POINT, steps=(constant,)))
    assert "output is i32" in _reason(kernel, conv_layer(4, 2, (3, 3), POINT, steps=()))
    wide = ops.Window(kernel=(3, 3), pads=(2, 2, 2, 2))
    assert "pads by one" in _reason(
        CmsisDepthwise3x3(CmsisNn(tmp_path)), conv_layer(4, 4, (5, 5), wide, groups=4)
    )
    dilated = ops.Window(kernel=(3, 3), dilations=(2, 1))
    assert "dilated" in _reason(
        CmsisDepthwise(CmsisNn(tmp_path)), conv_layer(4, 4, (8, 8), dilated, groups=4)
    )


def test_parameters_are_a_bias_a_multiplier_and_a_rest_below_it(tmp_path: Path) -> None:
    step = requant((700, -900), (12345, 1 << 20), 1 << 20, 0, 255)
    layer = conv_layer(8, 2, (3, 3), POINT, steps=(step,))
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


def _native_cases(library: CmsisNn, seeds: range) -> list[KernelCase]:
    random, cases = np.random.default_rng(5), []
    for kind in ("conv", "pointwise", "depthwise", "linear"):
        for seed in seeds:
            layer = tflm_layer(kind, seed)
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
    run_as_it_is(net.path, net.golden, "stm32h7", library, tmp_path / "app", plugins)
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
        dense, own = (conv_layer(c, n, (9, 9), window, groups=g) for n, g in ((4, 1), (c, c)))
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
        (CmsisConv(library), conv_layer(3, 16, (10, 10), SAME)),
        (CmsisConv(library), conv_layer(16, 16, (8, 8), SAME)),
        (CmsisConv(library), conv_layer(16, 12, (7, 7), SAME, groups=2)),
        (CmsisPointwise(library), conv_layer(32, 32, (8, 8), POINT)),
        (CmsisPointwise(library), conv_layer(64, 32, (3, 3), POINT)),
        (CmsisPointwise(library), conv_layer(64, 64, (2, 1), POINT)),
        (CmsisDepthwise3x3(library), conv_layer(16, 16, (12, 12), SAME, groups=16)),
        (CmsisDepthwise3x3(library), conv_layer(32, 32, (3, 3), SAME, groups=32)),
        (CmsisDepthwise(library), conv_layer(16, 16, (12, 12), wide, groups=16)),
        *((NativeConv(library), tflm_layer("conv", seed)) for seed in (0, 5)),
        *((NativePointwise(library), tflm_layer("pointwise", seed)) for seed in (0, 1)),
        (NativeLinear(library), tflm_layer("linear", 6)),
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
    root = fake_library(tmp_path / "library")
    (root / "Source" / "a.c").write_text("int arm_convolve_1x1_s8_fast(void)\n{\n}\n")
    layer = conv_layer(256, 256, (3, 3), POINT)
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


def test_networks_have_plans_with_the_data_cache(tmp_path: Path) -> None:
    """Every kernel is asked for the accesses of its tile."""
    root = fake_library(tmp_path / "library")
    names = ("arm_convolve_s8", "arm_convolve_1x1_s8_fast", "arm_depthwise_conv_3x3_s8")
    names += ("arm_depthwise_conv_s8_opt", "arm_max_pool_s8")
    names += ("arm_fully_connected_per_channel_s8", "arm_nn_mat_mult_nt_t_s8_s32")
    text = "".join(f"int {name}(void)\n{{\n}}\n" for name in names)
    (root / "Source" / "a.c").write_text(text)
    builder = GraphBuilder((8, 12, 12), name="cached", values=(0, 127))
    builder.conv(8, SAME, output=(0, 127))
    builder.conv(8, POINT, output=(0, 127))
    builder.conv(8, SAME, groups=8, output=(0, 127))
    builder.conv(8, ops.Window(kernel=(5, 5)), groups=8, output=(0, 127))
    builder.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    builder.linear(16, output=(0, 127))
    builder.linear(10)
    settings = {"kernels": f"cmsis-nn={root}", "memory": "dcache"}
    setup = setup_for(load_plugins(), "stm32h7", settings, frontend="testing")
    plan = run_stages(builder.graph(), setup, after=IMPORTED)
    assert [layer["kernel"] for layer in plan.to_json()["layers"]] == [*names]


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
