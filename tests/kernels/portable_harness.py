"""Compiles the calls of portable kernels for the host and runs them tile by tile.

Every buffer of a call is a heap block of exactly its size, so that the address sanitizer sees the
first byte too many. Run as a program, it checks the random layers of a seed and prints a line.
"""

from __future__ import annotations

import ctypes
import itertools
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np

from dory_core.codegen.arguments import ArgumentText, call_text
from dory_core.ir import Add, Layer, Linear, pixel_bytes
from dory_core.ir.geometry import (
    axis_spans,
    channel_spans,
    extent,
    input_granule,
    is_channelwise,
    make_tile,
    spans,
)
from dory_core.ir.packing import pack_rows
from dory_core.ir.reference import run_layer
from dory_core.kernels import portable_kernels
from dory_core.kernels.kernel import Kernel
from dory_core.simulate import runtime
from dory_core.testing.compilers import host_compiler

HEADER = Path(runtime.__file__).parent / "include"
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")

# The part of the HAL that kernels use.
HAL = """
extern uint32_t stub_core, stub_cores;
static inline uint32_t dory_core_id(void) { return stub_core; }
static inline uint32_t dory_core_count(void) { return stub_cores; }
"""

HARNESS = """
#include <stdlib.h>
#include <string.h>
#include "dory_hal.h"
#include "dory_portable.h"

uint32_t stub_core, stub_cores;

typedef struct { uint8_t *data; uint32_t bytes; } buffer_t;
typedef struct {
  buffer_t x, x2, w, psum, y;
  int32_t x_h, x_w, x_c, y_h, y_w, y_c, pad_top, pad_left, first, last, mul, bias, weights;
} args_t;

$functions

static void (*const layers[])(const args_t *) = {$names};

static buffer_t copy(buffer_t from)
{
  buffer_t to = from;
  to.data = malloc(from.bytes);
  if (from.bytes != 0) {
    memcpy(to.data, from.data, from.bytes);
  }
  return to;
}

static void back(buffer_t to, buffer_t from)
{
  if (from.bytes != 0) {
    memcpy(to.data, from.data, from.bytes);
  }
  free(from.data);
}

/* Runs the cores first .. end - 1 of `cores`. */
void run(int index, const args_t *args, uint32_t first, uint32_t end, uint32_t cores)
{
  args_t own = *args;
  own.x = copy(args->x);
  own.x2 = copy(args->x2);
  own.w = copy(args->w);
  own.psum = copy(args->psum);
  own.y = copy(args->y);
  stub_cores = cores;
  for (stub_core = first; stub_core < end; stub_core++) {
    layers[index](&own);
  }
  back(args->psum, own.psum);
  back(args->y, own.y);
  free(own.x.data);
  free(own.x2.data);
  free(own.w.data);
}
"""

_SIZES = ("x_h", "x_w", "x_c", "y_h", "y_w", "y_c", "pad_top", "pad_left", "first", "last")
_PARTS = ("mul", "bias", "weights")


class Buffer(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_uint32))


class Args(ctypes.Structure):
    _fields_ = (
        *((name, Buffer) for name in ("x", "x2", "w", "psum", "y")),
        *((name, ctypes.c_int32) for name in (*_SIZES, *_PARTS)),
    )


def kernel_of(layer: Layer) -> Kernel:
    """Return the one portable kernel that accepts the layer."""
    (kernel,) = [k for k in portable_kernels() if k.accepts(layer) is None]
    return kernel


def _function(number: int, layer: Layer) -> str:
    names = {name: f"a->{name}" for name in _SIZES}
    names |= {name: f"(a->w.data + a->{name})" for name in _PARTS}
    names |= {name: f"a->{name}.data" for name in ("x", "x2", "y")}
    names["psum"] = "(int32_t *)(void *)a->psum.data"
    texts = {name: ArgumentText(text, text) for name, text in names.items()}
    text = call_text(kernel_of(layer).call(layer), texts.__getitem__)
    return f"static void layer_{number}(const args_t *a)\n{{\n{text}\n}}\n"


@dataclass(frozen=True)
class Compiled:
    """Layers with a library that runs them."""

    layers: list[Layer]
    library: ctypes.CDLL

    def run(
        self,
        number: int,
        args: dict[str, int],
        buffers: dict[str, np.ndarray],
        cores: range,
        of: int,
    ) -> None:
        """Run the given cores of ``of``; buffers y and psum are changed in place."""
        call = Args(**args)
        for name, array in buffers.items():
            assert array.flags.c_contiguous
            setattr(call, name, Buffer(array.ctypes.data, array.nbytes))
        self.library.run(number, ctypes.byref(call), cores.start, cores.stop, of)


def compile_layers(layers: list[Layer], folder: Path, *flags: str) -> Compiled:
    """Compile the kernels with every warning on, and one C function per layer."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dory_hal_impl.h").write_text(HAL)
    files = {f.path: f for layer in layers for f in kernel_of(layer).sources(layer)}
    for path, file in files.items():
        target = folder / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(str(file.content))
    text = Template(HARNESS).substitute(
        functions="\n".join(_function(n, layer) for n, layer in enumerate(layers)),
        names=", ".join(f"layer_{n}" for n in range(len(layers))),
    )
    (folder / "harness.c").write_text(text)
    sources = ["harness.c", *sorted(p for p in files if p.endswith(".c"))]
    include = ["-I.", "-Ikernels", f"-I{HEADER}"]
    command = [
        *host_compiler(),
        *WARNINGS,
        "-O1",
        "-fPIC",
        "-shared",
        *flags,
        *include,
        *sources,
    ]
    subprocess.run([*command, "-o", "layers.so"], cwd=folder, check=True)
    return Compiled(layers, ctypes.CDLL(str(folder / "layers.so")))


def random_operands(layer: Layer, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return values of shape (C, H, W) per operand, limits of the range included."""
    return tuple(rng.integers(t.lo, t.hi, t.shape, endpoint=True) for t in layer.inputs)


def _box(layer: Layer, values: np.ndarray, channels, rows, columns) -> np.ndarray:
    """Return the input of a tile, pixels by channels in the last axis."""
    start, end = channels[0], channels[0] + channels[1]
    if isinstance(layer.op, Linear):
        flat, step = values.transpose(1, 2, 0).reshape(-1), input_granule(layer)
        whole_pixels = step == len(values) and start % step == 0 and end % step == 0
        return flat[start:end].reshape(-1, step) if whole_pixels else flat[start:end]
    box = values[start:end, rows.x_start : rows.x_start + rows.x_size]
    return box[:, :, columns.x_start : columns.x_start + columns.x_size].transpose(1, 2, 0)


def _storage(values: np.ndarray, bits: int, signed: bool) -> np.ndarray:
    return np.ascontiguousarray(pack_rows(values, bits, signed)).reshape(-1)


def tile_sizes(layer: Layer, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Return random legal tile sizes (c_out, h, w, c_in)."""
    full, kernel = extent(layer), kernel_of(layer)
    split = kernel.traits(layer).accumulates
    while True:
        c_out, h, w = (int(rng.integers(1, n + 1)) for n in (full.c_out, full.h, full.w))
        c_in = int(rng.integers(1, full.c_in + 1)) if split else full.c_in
        tile = make_tile(layer, c_out, h, w, c_in)
        if all(c.condition for c in kernel.constraints(layer, tile)):
            return c_out, h, w, c_in


def tile_calls(layer: Layer, operands, sizes):
    """Yield (y box as slices, calls); a call is (args, buffers) of one input-channel tile."""
    kernel, full, output = kernel_of(layer), extent(layer), layer.output
    c_out, h, w, c_in = sizes
    apart = is_channelwise(layer)
    boxes = itertools.product(
        channel_spans(layer, c_out), axis_spans(layer, 0, h), axis_spans(layer, 1, w)
    )
    for channels, rows, columns in boxes:
        psum = np.full(rows.size * columns.size * channels.size, 0x5A5A5A5A, np.int32)
        y = np.full(
            rows.size * columns.size * pixel_bytes(channels.size, output.bits), 0xA5, np.uint8
        )
        inputs = [(channels.x_start, channels.x_size)] if apart else spans(full.c_in, c_in)
        calls = []
        for n, part in enumerate(inputs):
            c_out_range = (channels.start, channels.start + channels.size)
            block = kernel.weight_block(layer, c_out_range, (part[0], part[0] + part[1]))
            tile = make_tile(layer, channels.size, rows.size, columns.size, part[1])
            assert kernel.weight_bytes(layer, tile) == (0 if block is None else len(block.data))
            args = dict(
                x_h=rows.x_size, x_w=columns.x_size, x_c=part[1],
                y_h=rows.size, y_w=columns.size, y_c=channels.size,
                pad_top=rows.pad_before, pad_left=columns.pad_before,
                first=int(n == 0), last=int(n == len(inputs) - 1),
                **({} if block is None else {p: block.parts[p] for p in block.parts}),
            )  # fmt: skip
            x = [
                _storage(_box(layer, values, part, rows, columns), t.bits, t.signed)
                for values, t in zip(operands, layer.inputs, strict=True)
            ]
            buffers = {"x": x[0], "psum": psum, "y": y}
            if isinstance(layer.op, Add):
                buffers["x2"] = x[1]
            if block is not None:
                buffers["w"] = np.frombuffer(block.data, np.uint8)
            calls.append((args, buffers))
        box = tuple(slice(s.start, s.start + s.size) for s in (channels, rows, columns))
        yield box, calls


def expected_bytes(layer: Layer, golden: np.ndarray, box) -> np.ndarray:
    """Return the storage form of a box of the golden output."""
    return _storage(golden[box].transpose(1, 2, 0), layer.output.bits, layer.output.signed)


def check_layer(compiled: Compiled, number: int, seed: int, cores: int) -> None:
    """Compare one layer in random tiles with the reference, every byte of the storage form."""
    rng = np.random.default_rng(seed)
    layer = compiled.layers[number]
    operands = random_operands(layer, rng)
    golden = run_layer(layer, operands)
    for box, calls in tile_calls(layer, operands, tile_sizes(layer, rng)):
        for args, buffers in calls:
            compiled.run(number, args, buffers, range(cores), cores)
        y = calls[-1][1]["y"]
        np.testing.assert_array_equal(y, expected_bytes(layer, golden, box), str(layer))


if __name__ == "__main__":
    from tests.kernels.portable_layers import all_layers

    sample = all_layers(seed=int(sys.argv[2]))[:: int(sys.argv[3])]
    built = compile_layers(sample, Path(sys.argv[1]), *sys.argv[4:])
    for position in range(len(sample)):
        check_layer(built, position, seed=position, cores=3)
    print(f"{len(sample)} layers are exact")
