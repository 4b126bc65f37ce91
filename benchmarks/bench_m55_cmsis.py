"""Instructions of CMSIS-NN with MVE on QEMU's Corstone-300, beside those of dory's kernels.

    CMSIS_NN_PATH=... python benchmarks/bench_m55_cmsis.py [NETWORK ...] [--layers]

A network is a directory below ../shared/nets_tflite; by default the four of MLPerf Tiny. Each layer
is one call of CMSIS-NN on the whole tensors, compiled with -O3; what it needs once, such as sums of
weights, is not counted. dory's figures are those of the image: of layers in tiles, with the copies
into DTCM, compiled with -O2. Layers that CMSIS-NN has no function for are left out of both.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from bench_m55 import MLPERF, NETWORKS
from dory_cortex_m55 import qemu, toolchain
from dory_stm32h7.backend.cmsis_library import CmsisNn, find_cmsis_nn

from dory_core.api import Layer, ops, simulate
from dory_core.driver.application import run_application
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plugins.manager import load_plugins

_BOARD = ("startup.c", "semihosting.c", "semihosting.h", "libc.c", "libc/string.h")
_FUNCTIONS = (
    "arm_convolve_wrapper_s8",
    "arm_convolve_wrapper_s8_get_buffer_size",
    "arm_depthwise_conv_wrapper_s8",
    "arm_depthwise_conv_wrapper_s8_get_buffer_size",
    "arm_fully_connected_s8",
    "arm_vector_sum_s8",
    "arm_avgpool_s8",
    "arm_elementwise_add_s8",
    "arm_softmax_s8",
)
_HEAD = """\
#include "arm_nnfunctions.h"
#include "semihosting.h"

#define REG32(address_) (*(volatile uint32_t *)(address_))
#define FAR __attribute__((section(".board_data"), aligned(32)))

static int8_t x[1 << 20] FAR, x2[1 << 20] FAR, y[1 << 20] FAR, w[1 << 21] FAR, buffer[1 << 20] FAR;
static int32_t mul[4096] FAR, shift[4096] FAR, bias[4096] FAR;
static uint32_t counts[COUNT] FAR;

int main(void)
{
  const cmsis_nn_context ctx = {buffer, sizeof buffer};
  const cmsis_nn_per_channel_quant_params quant = {mul, shift};
  const cmsis_nn_activation act = {-128, 127};
  for (int i = 0; i < 4096; i++) {
    mul[i] = 1518500250 + i, shift[i] = -8, bias[i] = i;
  }
  REG32(0x58100000u) = 1u;
  uint32_t mark;
"""
_TAIL = """\
  const int results = semihosting_open("results.bin", SEMIHOSTING_WRITE);
  semihosting_write(results, counts, sizeof counts);
  return 0;
}
"""


def call_of(layer: Layer) -> tuple[str, str] | None:
    """Return what goes before, and the call of CMSIS-NN of a layer; None where it has none."""
    op, (c, h, w) = layer.op, layer.inputs[0].shape
    if isinstance(op, ops.AvgPool):
        p = f"const cmsis_nn_pool_params p = {{{_steps(op.window)}, act}};"
        call = "arm_avgpool_s8(&ctx, &p, &in, x, &f, &out, y)"
        return f"{_sizes(layer, (1, *op.window.kernel, 1))} {p}", call
    if isinstance(op, ops.Conv):
        return _convolution(op, layer)
    if isinstance(op, ops.Linear):
        return _linear(layer)
    if isinstance(op, ops.Add) and [x.shape for x in layer.inputs] == [(c, h, w)] * 2:
        numbers = "128, mul[0], 0, 128, mul[0], 0, 20, y, -128, mul[0], -19, -128, 127"
        return "", f"arm_elementwise_add_s8(x, x2, {numbers}, {c * h * w})"
    if isinstance(op, ops.Softmax):
        return "", f"arm_softmax_s8(x, {h * w}, {c}, 1 << 30, 24, -248, y)"
    return None


def _convolution(op: ops.Conv, layer: Layer) -> tuple[str, str] | None:
    c, channels, window = layer.inputs[0].channels, layer.output.channels, op.window
    steps = f"{_steps(window)}, {{{window.dilations[1]}, {window.dilations[0]}}}, act"
    if op.groups == 1:
        p = f"const cmsis_nn_conv_params p = {{128, -128, {steps}}};"
        return f"{_sizes(layer, (channels, *window.kernel, c))} {p}", _weighted("convolve")
    if op.is_depthwise:
        p = f"const cmsis_nn_dw_conv_params p = {{128, -128, {channels // c}, {steps}}};"
        return f"{_sizes(layer, (1, *window.kernel, channels))} {p}", _weighted("depthwise_conv")
    return None


def _linear(layer: Layer) -> tuple[str, str]:
    length, channels = math.prod(layer.inputs[0].shape), layer.output.channels
    before = (
        f"const cmsis_nn_dims in = {{1, 1, 1, {length}}}, f = {{{length}, 1, 1, {channels}}};",
        f"const cmsis_nn_dims out = {{1, 1, 1, {channels}}}, b = out;",
        "const cmsis_nn_fc_params p = {128, 0, -128, act};",
        "const cmsis_nn_per_tensor_quant_params q = {mul[0], shift[0]};",
        f"arm_vector_sum_s8(ctx.buf, {length}, {channels}, w, 128, 0, bias);",
    )
    call = "arm_fully_connected_s8(&ctx, &p, &q, &in, x, &f, w, &b, bias, &out, y)"
    return " ".join(before), call


def _steps(window: ops.Window) -> str:
    """Return strides and padding, of width and height."""
    top, left, _, _ = window.pads
    return f"{{{window.strides[1]}, {window.strides[0]}}}, {{{left}, {top}}}"


def _sizes(layer: Layer, kernel: tuple[int, ...]) -> str:
    """Return the sizes of input, output, bias and filter."""
    (c, h, w), (channels, rows, columns) = layer.inputs[0].shape, layer.output.shape
    sizes = {"in": (1, h, w, c), "out": (1, rows, columns, channels), "f": kernel}
    sizes["b"] = (1, 1, 1, channels)
    named = (f"{name} = {{{', '.join(map(str, values))}}}" for name, values in sizes.items())
    return f"const cmsis_nn_dims {', '.join(named)}; (void)b;"


def _weighted(kind: str) -> str:
    return f"arm_{kind}_wrapper_s8(&ctx, &p, &quant, &in, x, &f, w, &b, bias, &out, y)"


def program(layers: Sequence[Layer]) -> str:
    """Return main.c: each layer is called once, and instructions are counted."""
    parts = [f"#define COUNT {len(layers)}\n{_HEAD}"]
    for number, layer in enumerate(layers):
        found = call_of(layer)
        assert found is not None
        before, call = found
        parts.append(f"  {{\n    {before}\n    mark = REG32(0x58000000u);\n    {call};\n")
        parts.append(f"    counts[{number}] = REG32(0x58000000u) - mark;\n  }}\n")
    return "".join((*parts, _TAIL))


def _sources(library: CmsisNn) -> Iterator[Path]:
    yield from dict.fromkeys(path for name in _FUNCTIONS for path in library.sources(name))


def instructions(layers: Sequence[Layer], library: CmsisNn) -> list[int]:
    """Return the instructions of each layer with CMSIS-NN."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        board = files("dory_cortex_m55") / "board"
        for part in _BOARD:
            (folder / "board" / part).parent.mkdir(parents=True, exist_ok=True)
            (folder / "board" / part).write_text((board / part).read_text())
        script = (board / "corstone300.ld").read_text()
        for key, region in (("@L1@", "DTCM"), ("@L2@", "SRAM")):
            script = script.replace(key, region)
        (folder / toolchain.SCRIPT).write_text(script)
        (folder / "src").mkdir()
        (folder / "src/main.c").write_text(program(layers))
        for path in _sources(library):
            (folder / "src" / path.name).write_text(path.read_text())
        tools = toolchain.find_toolchain()
        recipe = tools.recipe()
        include = f"-I{library.root / 'Include'}"
        flags = tuple(f for f in recipe.flags if not f.startswith(("-W", "-O", "-std")))
        flags = (*flags, "-O3", "-std=c11", include)
        recipe = replace(recipe, folders=("src", "board"), flags=flags)
        image = simulate.build_program(folder, recipe, tools.compiler)
        command = [*qemu.COMMAND, "-icount", f"shift={qemu.SHIFT}", "-kernel", str(image)]
        subprocess.run(command, cwd=folder, check=True, timeout=600)
        raw = (folder / "results.bin").read_bytes()
    ticks = (int.from_bytes(raw[at : at + 4], "little") for at in range(0, len(raw), 4))
    return [qemu.instructions(count) for count in ticks]


def measure(name: str, library: CmsisNn, show: bool) -> None:
    """Print the row of a network, and those of its layers."""
    plugins, folder = load_plugins(), NETWORKS / name
    with tempfile.TemporaryDirectory() as app:
        output = Path(app, "app")
        options = CompileOptions(folder / "net.tflite", "cortex_m55", "tflite", output)
        plan = compile_network(options, plugins).plan
        run = run_application(output, plugins=plugins, runner="qemu").runs[0]
    ours = {layer.index: layer.instructions or 0 for layer in run.layers}
    steps = [step for step in plan.steps if call_of(step.layer) is not None]
    theirs = instructions([step.layer for step in steps], library)
    own, other = sum(ours[step.index] for step in steps), sum(theirs)
    cells = (name, f"{own / 1e6:.3f}", f"{other / 1e6:.3f}", f"{own / other:.2f}")
    print(f"| {' | '.join(cells)} | {len(plan.steps) - len(steps)} |")
    for step, count in zip(steps, theirs, strict=True) if show else ():
        mine = ours[step.index]
        print(f"    {step.index:02d} {step.layer.op.kind:8} {mine:9} {count:9} {mine / count:.2f}")


def main() -> None:
    """Measure the networks that were named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=MLPERF)
    parser.add_argument("--layers", action="store_true", help="each layer: instructions of both")
    arguments = parser.parse_args()
    path = os.environ.get("CMSIS_NN_PATH")
    if path is None or not NETWORKS.is_dir():
        print(f"CMSIS_NN_PATH names no sources of CMSIS-NN, or {NETWORKS} is not there")
        return
    library = find_cmsis_nn(Path(path))
    print("| network | dory, M instructions | CMSIS-NN | ratio | layers left out |")
    print("| --- | --- | --- | --- | --- |")
    for name in arguments.networks:
        measure(name, library, arguments.layers)


if __name__ == "__main__":
    main()
