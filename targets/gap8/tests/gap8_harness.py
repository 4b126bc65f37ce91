"""Runs GAP8 kernels on this machine: tiles of random layers, core after core, through ctypes.

The call text of each kernel becomes a C function, so that what is tested is what an application
would call, with the weight blocks that it would ship. Run as a program, it computes a sample of
layers; the tests do so under the sanitizers.
"""

from __future__ import annotations

import ctypes
import itertools
import string
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from math import lcm
from pathlib import Path

import numpy as np
from dory_gap8.backend.conv import group_channels

import dory_core
from dory_core import reference
from dory_core.ir import Layer, Linear, Tensor, TypedLayer, pixel_bytes
from dory_core.kernel import Kernel
from dory_core.passes.ranges import infer_types
from dory_core.simulate.packing import pack_rows, unpack_rows
from dory_core.tiling.geometry import (
    axis_spans,
    channel_spans,
    extent,
    input_granule,
    make_tile,
    output_granule,
    spans,
)

CORES = 8
FLAGS = (
    "-std=c99",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
    "-O1",
    "-fPIC",
    "-shared",
    "-pthread",
)
SANITIZE = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
RUNTIME = Path(dory_core.__file__).parent / "runtime" / "include"

# Cores run one after another, or at once where they meet at barriers.
_HAL = """
#define _POSIX_C_SOURCE 200112L
#include <pthread.h>
#include "dory_hal.h"
#include "stub.h"
__thread uint32_t stub_core;
uint32_t stub_cores;
static pthread_barrier_t barrier;
static core_t core_function;
static const call_t *core_call;
uint32_t dory_core_id(void) { return stub_core; }
uint32_t dory_core_count(void) { return stub_cores; }
void (dory_barrier)(void) { pthread_barrier_wait(&barrier); }
static void *run_core(void *number) {
  stub_core = *(const uint32_t *)number;
  core_function(core_call);
  return NULL;
}
void stub_run(core_t function, const call_t *call, uint32_t cores, int at_once) {
  stub_cores = cores;
  if (at_once == 0) {
    for (stub_core = 0; stub_core < cores; stub_core++) {
      function(call);
    }
    return;
  }
  pthread_t threads[8];
  uint32_t numbers[8];
  core_function = function;
  core_call = call;
  pthread_barrier_init(&barrier, NULL, cores);
  for (uint32_t i = 0; i < cores; i++) {
    numbers[i] = i;
    pthread_create(&threads[i], NULL, run_core, &numbers[i]);
  }
  for (uint32_t i = 0; i < cores; i++) {
    pthread_join(threads[i], NULL);
  }
  pthread_barrier_destroy(&barrier);
}
"""
_STUB = """
typedef struct { void *const *p; const int32_t *n; } call_t;
typedef void (*core_t)(const call_t *);
void stub_run(core_t function, const call_t *call, uint32_t cores, int at_once);
"""
_POINTERS = ("x", "x2", "y", "weights", "mul", "add", "bias", "psum", "scratch")
_NUMBERS = (
    *("x_h", "x_w", "x_c", "y_h", "y_w", "y_c"),
    *("pad_top", "pad_left", "pad_bottom", "pad_right", "first", "last"),
)


@dataclass(frozen=True)
class Case:
    """A kernel, a layer that it accepts, values of the layer's inputs, and a size of tiles."""

    kernel: Kernel
    layer: TypedLayer
    inputs: tuple[np.ndarray, ...]
    tile: tuple[int, int, int, int]
    cores: int = CORES

    @property
    def label(self) -> str:
        return f"{self.kernel.symbol(self.layer)} {self.layer.layer} tile {self.tile}"


def typed(
    layer: Layer, *inputs: tuple[int, int, int, int, int], packed: bool = False
) -> TypedLayer:
    """Return ``layer`` with its types; inputs are (C, H, W, lo, hi), named as the layer says.

    packed: values that fit 2 or 4 bits are stored so.
    """
    tensors = []
    for name, (c, h, w, lo, hi) in zip(layer.inputs, inputs, strict=True):
        bits = next(
            bits
            for bits in ((2, 4) if packed else ()) + (8, 16)
            if (-(1 << bits - 1) <= lo and hi < 1 << bits - 1) or (lo >= 0 and hi < 1 << bits)
        )
        tensors.append(Tensor(name, c, h, w, lo, hi, bits, lo < 0))
    found = infer_types("net", tuple(tensors), (layer,), (layer.output,)).typed(0)
    y = found.output
    if not packed or y.bits != 8:
        return found
    bits = next(
        bits
        for bits in (2, 4, 8)
        if -(1 << bits - y.signed) * y.signed <= y.lo and y.hi < 1 << bits - y.signed
    )
    return replace(found, output=replace(y, bits=bits))


def stored(values: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Return the bytes of values whose last axis is packed, in a block of exactly their size."""
    return exact(pack_rows(values, tensor.bits, tensor.signed))


class Library:
    """The compiled kernels of several cases."""

    def __init__(
        self, cases: list[Case], flags: tuple[str, ...] = (), compiler: tuple[str, ...] = ("cc",)
    ):
        self.cases = cases
        self._directory = tempfile.TemporaryDirectory()
        path = Path(self._directory.name)
        files = {f.path: f.content for c in cases for f in c.kernel.sources(c.layer)}
        for case in cases:
            for file in case.kernel.sources(case.layer):
                assert files[file.path] == file.content, f"two contents of {file.path}"
        (path / "kernels").mkdir()
        for name, content in files.items():
            (path / name).write_text(content)
        (path / "dory_hal_impl.h").write_text("/* nothing is inline */\n")
        (path / "stub.c").write_text(_HAL)
        (path / "stub.h").write_text(_STUB)
        (path / "calls.c").write_text(self._calls())
        sources = [str(path / n) for n in files if n.endswith(".c")]
        include = [f"-I{path}", f"-I{path / 'kernels'}", f"-I{RUNTIME}"]
        target = path / "kernels.so"
        command = [*compiler, *FLAGS, *flags, *include, *sources]
        command += [str(path / "stub.c"), str(path / "calls.c"), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]
        self._library = ctypes.CDLL(str(target))

    def _calls(self) -> str:
        text = ""
        headers = {h for c in self.cases for h in c.kernel.headers(c.layer)} | {"stub.h"}
        for number, case in enumerate(self.cases):
            names = {n: f"call->p[{i}]" for i, n in enumerate(_POINTERS)}
            names |= {n: f"call->n[{i}]" for i, n in enumerate(_NUMBERS)}
            call = string.Template(str(case.kernel.call(case.layer))).substitute(names)
            texts = (call, *(f.content for f in case.kernel.sources(case.layer)))
            at_once = int(any("dory_barrier(" in t for t in texts))
            text += (
                f"static void core_{number}(const call_t *call) {{\n{call}\n}}\n"
                f"void call_{number}(void *const *p, const int32_t *n, uint32_t cores);\n"
                f"void call_{number}(void *const *p, const int32_t *n, uint32_t cores) {{\n"
                f"  const call_t call = {{p, n}};\n"
                f"  stub_run(core_{number}, &call, cores, {at_once});\n}}\n"
            )
        includes = "".join(f'#include "{h}"\n' for h in sorted(headers))
        return f"#include <stdint.h>\n{includes}{text}"

    def _call(self, number: int, arrays: dict[str, np.ndarray], sizes: dict[str, int]) -> None:
        pointers = (ctypes.c_void_p * len(_POINTERS))()
        for i, name in enumerate(_POINTERS):
            if name in arrays:
                pointers[i] = arrays[name].ctypes.data
        numbers = (ctypes.c_int32 * len(_NUMBERS))(*(sizes[n] for n in _NUMBERS))
        cores = ctypes.c_uint32(self.cases[number].cores)
        getattr(self._library, f"call_{number}")(pointers, numbers, cores)

    def run(self, number: int) -> np.ndarray:
        """Return the output (C, H, W) of a case, computed tile by tile."""
        case = self.cases[number]
        layer, kernel = case.layer, case.kernel
        kind = layer.layer
        out = np.zeros(layer.output.shape, dtype=np.int64)
        size_c, size_h, size_w, size_in = case.tile
        full = extent(layer)
        splits = kernel.accumulates(layer)
        for c, h, w in itertools.product(
            channel_spans(layer, size_c), axis_spans(layer, 0, size_h), axis_spans(layer, 1, size_w)
        ):
            pixel = pixel_bytes(c.size, layer.output.bits)
            y = np.full((h.size, w.size, pixel), 0xB5, dtype=np.uint8)
            psum = np.full((h.size, w.size, c.size), 123456789, dtype=np.int32)
            parts = spans(full.c_in, size_in) if splits else ((c.x_start, c.x_size),)
            for start, count in parts:
                arrays: dict[str, np.ndarray] = {"y": y}
                if splits:
                    arrays["psum"] = psum
                for name, values, tensor in zip(
                    ("x", "x2"), case.inputs, layer.inputs, strict=False
                ):
                    if isinstance(kind, Linear):
                        box = values.transpose(1, 2, 0).reshape(-1)[start : start + count]
                        if tensor.channels * tensor.bits % 8:
                            box = box.reshape(-1, tensor.channels)
                    else:
                        channels = slice(start, start + count)
                        box = values[
                            channels,
                            h.x_start : h.x_start + h.x_size,
                            w.x_start : w.x_start + w.x_size,
                        ]
                        if kernel.input_layout(layer) == "HWC":
                            box = box.transpose(1, 2, 0)
                    arrays[name] = stored(box, tensor)
                tile = make_tile(layer, c.size, h.size, w.size, count)
                block = kernel.weight_block(
                    layer, (c.start, c.start + c.size), (start, start + count)
                )
                expected = kernel.weight_bytes(layer, tile)
                assert (0 if block is None else len(block.data)) == expected, case.label
                if block is not None:
                    assert expected % 8 == 0
                    image = exact(np.frombuffer(block.data, np.uint8))
                    ends = [*sorted(block.parts.values()), len(image)][1:]
                    for (name, offset), end in zip(
                        sorted(block.parts.items(), key=lambda p: p[1]), ends, strict=True
                    ):
                        arrays[name] = exact(image[offset:end])
                scratch = int(kernel.scratch_bytes(layer, tile))
                if scratch:
                    arrays["scratch"] = exact(np.full(scratch, 0xA5, np.uint8))
                sizes = {
                    "x_h": h.x_size,
                    "x_w": w.x_size,
                    "x_c": count,
                    "y_h": h.size,
                    "y_w": w.size,
                    "y_c": c.size,
                    "pad_top": h.pad_before,
                    "pad_left": w.pad_before,
                    "pad_bottom": h.pad_after,
                    "pad_right": w.pad_after,
                    "first": int(start == 0 or not splits),
                    "last": int(start + count == full.c_in or not splits),
                }
                before = {
                    n: a.copy() for n, a in arrays.items() if n not in ("y", "psum", "scratch")
                }
                self._call(number, arrays, sizes)
                for name, copy in before.items():
                    assert np.array_equal(copy, arrays[name]), f"{name} was written: {case.label}"
            out[
                c.start : c.start + c.size, h.start : h.start + h.size, w.start : w.start + w.size
            ] = self._values(y, c.size, layer.output).transpose(2, 0, 1)
        return out

    @staticmethod
    def _values(y: np.ndarray, channels: int, tensor: Tensor) -> np.ndarray:
        """Return the values of an output tile, whose padding bits must be zero."""
        values = unpack_rows(y, channels, tensor.bits, tensor.signed)
        assert np.array_equal(pack_rows(values, tensor.bits, tensor.signed), y), "padding bits"
        return values

    def check(self) -> None:
        """Compare every case with the reference, element by element."""
        for number, case in enumerate(self.cases):
            expected = reference.run_layer(case.layer, case.inputs)
            got = self.run(number)
            different = np.argwhere(got != expected)
            assert different.size == 0, (
                f"{case.label}: {len(different)} differ, first {different[0]}: "
                f"{got[tuple(different[0])]}, not {expected[tuple(different[0])]}"
            )


def exact(array: np.ndarray) -> np.ndarray:
    """Return a copy in a block of exactly its size, so that a sanitizer sees what is beyond it."""
    return np.ascontiguousarray(array).copy()


def values_of(tensor: Tensor, random: np.random.Generator) -> np.ndarray:
    """Return random values of the whole range, extremes included."""
    values = random.integers(tensor.lo, tensor.hi + 1, tensor.shape)
    edge = random.random(tensor.shape)
    values[edge < 0.05] = tensor.lo
    values[edge > 0.95] = tensor.hi
    return values.astype(np.int64)


def random_tile(layer: TypedLayer, random: np.random.Generator) -> tuple[int, int, int, int]:
    """Return random tile sizes (c_out, h, w, c_in); some are the whole axis."""
    full = extent(layer)

    def size(total: int, granule: int = 1) -> int:
        if random.random() < 0.4:
            return total
        return min(int(random.integers(1, -(-total // granule) + 1)) * granule, total)

    granule = lcm(output_granule(layer), group_channels(layer)[1] or 1)
    step = input_granule(layer)
    c_in = -(-full.c_in // (step * int(random.integers(1, 4)))) * step
    return size(full.c_out, granule), size(full.h), size(full.w), min(c_in, full.c_in)


def make_case(
    kernel: Kernel, layer: TypedLayer, random: np.random.Generator, cores: int = CORES
) -> Case:
    """Return a case with random values and a random size of tiles."""
    rejection = kernel.accepts(layer)
    assert rejection is None, rejection
    inputs = tuple(values_of(t, random) for t in layer.inputs)
    return Case(kernel, layer, inputs, random_tile(layer, random), cores)


if __name__ == "__main__":
    from gap8_layers import sample

    Library(sample(seed=int(sys.argv[1]), count=int(sys.argv[2])), SANITIZE).check()
    print("computed")
