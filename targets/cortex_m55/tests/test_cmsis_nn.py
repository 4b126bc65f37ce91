"""The kernels of CMSIS-NN with MVE; most tests need its sources at CMSIS_NN_PATH."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from dory_cmsis_nn.library import CmsisNn
from dory_cmsis_nn.parameters import Parameters, find_native, weights_of
from dory_cmsis_nn.testing import fake_library, require_library, run_as_it_is, tflm_layer
from dory_cortex_m55 import toolchain
from dory_cortex_m55.backend.cmsis import CmsisConv, CmsisDepthwise, cmsis_kernels
from emulated import Qemu, choose_compiler, require_qemu
from test_plugin import cmake, context
from test_qemu import MLPERF

from dory_core.api import Layer, Rejection, UsageError, ops
from dory_core.testing import CompileOptions, compile_network, make_tile, run_application
from dory_core.testing.compilers import host_compiler
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, make_case, typed
from dory_core.tools import load_plugins, read_plan
from tests.nets import tflite_net

ROOT = Path(__file__).resolve().parents[3]
WEIGHTED = ("conv", "grouped", "pointwise", "depthwise", "linear")
# The zero point of outputs, their bounds, and values of inputs.
RANGES = (
    (-7, (-128, 127), (-128, 127)),
    (100, (0, 255), (0, 255)),
    (0, (0, 127), (0, 127)),
)
POOL = ops.Window(kernel=(3, 2), strides=(2, 2), pads=(1, 0, 1, 1))


@pytest.fixture(scope="session")
def library() -> CmsisNn:
    return require_library()


def cases_of(library: CmsisNn, seeds: range) -> list[KernelCase]:
    """Return layers of each kind, in random tiles; unsigned inputs and outputs among them."""
    random, cases = np.random.default_rng(7), []
    for seed in seeds:
        ranges = RANGES[seed % len(RANGES)]
        layers = [tflm_layer(kind, seed, *ranges) for kind in WEIGHTED]
        layers.append(typed(alone(ops.MaxPool, window=POOL), (5 + seed, 9, 7, *ranges[2])))
        for layer in layers:
            taken = [one for one in cmsis_kernels(library) if one.accepts(layer) is None]
            cases += [make_case(kernel, layer, random) for kernel in taken[:1]]
    assert len(cases) > 5 * len(seeds), "all but filters of one channel for several outputs"
    return cases


def test_random_tiles_equal_the_reference(library: CmsisNn) -> None:
    HostLibrary(cases_of(library, range(8))).check()


@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_code_of_the_chip_equals_the_reference(
    compiler: str, library: CmsisNn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library computes with other functions there than on this machine."""
    require_qemu()
    choose_compiler(compiler, monkeypatch)
    Qemu(cases_of(library, range(20, 28))).check()


_SIZES = """
#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"
int32_t conv(int32_t c, int32_t h, int32_t w)
{
  const cmsis_nn_dims x = {1, 9, 9, c}, filter = {4, h, w, c};
  return arm_convolve_s8_get_buffer_size_mve(&x, &filter);
}
int32_t depthwise(int32_t c, int32_t h, int32_t w)
{
  const cmsis_nn_dims x = {1, 9, 9, c}, filter = {1, h, w, c};
  return arm_depthwise_conv_s8_opt_get_buffer_size_mve(&x, &filter);
}
"""


def conv(c_in: int, c_out: int, window: ops.Window, groups: int = 1) -> Layer:
    """Return a convolution that rounds as no file of TensorFlow Lite does: up."""
    builder = GraphBuilder((c_in, 9, 9), values=(-128, 127))
    builder.conv(c_out, window, groups=groups, output=(-128, 127))
    return builder.graph().layers[0]


def test_scratch_is_what_the_library_asks_for(library: CmsisNn, tmp_path: Path) -> None:
    (tmp_path / "sizes.c").write_text(_SIZES)
    names = ("arm_convolve_s8_get_buffer_size", "arm_depthwise_conv_s8_opt_get_buffer_size")
    sources = {str(path) for name in names for path in library.sources(name)}
    command = [*host_compiler(), "-w", "-shared", "-fPIC", f"-I{library.root / 'Include'}"]
    command += [str(tmp_path / "sizes.c"), *sorted(sources), "-o", str(tmp_path / "sizes.so")]
    subprocess.run(command, check=True)
    sizes = ctypes.CDLL(str(tmp_path / "sizes.so"))
    for c, kernel in ((3, (3, 3)), (8, (5, 2)), (17, (1, 4)), (130, (3, 3))):
        dense, own = (conv(c, n, ops.Window(kernel=kernel), g) for n, g in ((4, 1), (c, c)))
        tile = make_tile(dense, *dense.output.shape)
        assert CmsisConv(library).buffer_bytes(dense, tile) == sizes.conv(c, *kernel)
        tile = make_tile(own, *own.output.shape)
        assert CmsisDepthwise(library).buffer_bytes(own, tile) == sizes.depthwise(c, *kernel)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", MLPERF)
def test_networks_are_exact_and_as_long_as_estimated(
    name: str, library: CmsisNn, tmp_path: Path
) -> None:
    require_qemu()
    plugins, net = load_plugins(), tflite_net(name)
    run_as_it_is(net.path, net.golden, "cortex_m55", library, tmp_path / "app", plugins)
    run = run_application(tmp_path / "app", plugins=plugins, runner="qemu")
    assert run.exact
    counts = {layer.index: layer.instructions or 0 for layer in run.runs[0].layers}
    for planned in read_plan(tmp_path / "app")["layers"]:
        count, estimate = counts[planned["index"]], planned["estimate"]["cycles"]
        if planned["kind"] == "Conv" and count > 10_000:
            assert 0.85 * count < estimate < 1.2 * count, (name, planned["index"])


def test_make_and_cmake_compile_the_library(library: CmsisNn, tmp_path: Path) -> None:
    """Its sources have warnings, and other flags than ours."""
    if any(shutil.which(tool) is None for tool in ("make", "cmake", "ninja", toolchain.GCC)):
        pytest.skip(f"make, cmake, ninja or {toolchain.GCC} is not installed")
    options = CompileOptions(
        ROOT / "examples/tones/net.tflite",
        "cortex_m55",
        "tflite",
        tmp_path / "app",
        settings={"kernels": f"cmsis-nn={library.root}"},
    )
    compile_network(options, load_plugins())
    assert cmake(tmp_path / "app", tmp_path / "build", cross=True) == ""
    for command in (["cmake", "--build", str(tmp_path / "build")], ["make", "-C", "app", "image"]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "app/build" / toolchain.VARIANT / toolchain.PROGRAM).exists()


def test_other_roundings_are_left_to_the_other_kernels(tmp_path: Path) -> None:
    layer = conv(8, 8, ops.Window(kernel=(3, 3)))
    for kernel in cmsis_kernels(CmsisNn(tmp_path)):
        assert isinstance(kernel.accepts(layer), Rejection)


def test_offsets_of_inputs_are_in_the_bias_of_fully_connected_layers(tmp_path: Path) -> None:
    (kernel,) = (k for k in cmsis_kernels(CmsisNn(tmp_path)) if "connected" in k.name)
    layer = tflm_layer("linear", 3)
    found = kernel.parameters(layer)
    assert isinstance(found, Parameters) and found.bias is not None and found.x_offset == 0
    plain = find_native(layer)
    assert isinstance(plain, Parameters) and plain.bias is not None
    rows = weights_of(layer).astype(np.int64).sum(axis=1)
    assert np.array_equal(found.bias, plain.bias + plain.x_offset * rows)


def test_unknown_kernels_are_wrong_usage(tmp_path: Path) -> None:
    assert context(kernels=f"cmsis-nn={fake_library(tmp_path / 'library')}").memory.keeps_binary32
    for kernels in ("dory", "cmsis-nn=", "portable=x"):
        with pytest.raises(UsageError) as caught:
            context(kernels=kernels)
        assert "builtin, portable, cmsis-nn=PATH" in (caught.value.hint or "")
