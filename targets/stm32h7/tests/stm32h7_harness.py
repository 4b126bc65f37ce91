"""Runs kernels of the STM32H7 tile by tile: on this machine through ctypes, or as Cortex-M7 code.

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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from dory_core import reference
from dory_core.ir import Layer, Linear, Tensor, TypedLayer
from dory_core.kernel import Kernel
from dory_core.passes.ranges import infer_types
from dory_core.simulate.build import EXTERNAL_FLAGS, EXTERNAL_FOLDER
from dory_core.tiling.geometry import axis_spans, channel_spans, extent, make_tile, output_granule

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
FLAGS = ("-O1", "-fPIC", "-shared")
SANITIZE = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
POINTERS = ("x", "x2", "y", "weights", "mul", "add", "bias", "psum", "scratch")
NUMBERS = (
    *("x_h", "x_w", "x_c", "y_h", "y_w", "y_c"),
    *("pad_top", "pad_left", "pad_bottom", "pad_right", "first", "last"),
)
Arrays = dict[str, np.ndarray]


class Machine(Protocol):
    """What executes the calls: ``arrays`` are updated in place."""

    def call(self, number: int, arrays: Arrays, sizes: dict[str, int]) -> None: ...


@dataclass(frozen=True)
class Case:
    """A kernel, a layer that it accepts, values of the layer's inputs, and a size of tiles."""

    kernel: Kernel
    layer: TypedLayer
    inputs: tuple[np.ndarray, ...]
    tile: tuple[int, int, int]

    @property
    def label(self) -> str:
        return f"{self.kernel.symbol(self.layer)} {self.layer.layer} tile {self.tile}"


def typed(layer: Layer, *inputs: tuple[int, int, int, int, int]) -> TypedLayer:
    """Return ``layer`` with its types; inputs are (C, H, W, lo, hi), named as the layer says."""
    tensors = []
    for name, (c, h, w, lo, hi) in zip(layer.inputs, inputs, strict=True):
        signed = lo < 0
        byte = (lo >= -128 and hi < 128) if signed else hi < 256
        tensors.append(Tensor(name, c, h, w, lo, hi, 8 if byte else 16, signed))
    return infer_types("net", tuple(tensors), (layer,), (layer.output,)).typed(0)


def element_type(tensor: Tensor) -> np.dtype:
    return np.dtype(f"{'i' if tensor.signed else 'u'}{tensor.bits // 8}")


def exact(array: np.ndarray) -> np.ndarray:
    """Return a copy in a block of exactly its size, so that a sanitizer sees what is beyond it."""
    return np.ascontiguousarray(array).copy()


def write_sources(cases: Sequence[Case], path: Path) -> list[str]:
    """Write kernels and calls of the cases; return the C files."""
    files = {f.path: f.content for c in cases for f in c.kernel.sources(c.layer)}
    for case in cases:
        for file in case.kernel.sources(case.layer):
            assert files[file.path] == file.content, f"two contents of {file.path}"
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(content)
    headers = sorted({h for c in cases for h in c.kernel.headers(c.layer)})
    text = "".join(f'#include "{h}"\n' for h in headers)
    for number, case in enumerate(cases):
        names = {n: f"p[{i}]" for i, n in enumerate(POINTERS)}
        names |= {n: f"n[{i}]" for i, n in enumerate(NUMBERS)}
        call = string.Template(case.kernel.call(case.layer)).substitute(names)
        text += f"void call_{number}(void *const *p, const int32_t *n);\n"
        text += f"void call_{number}(void *const *p, const int32_t *n) {{\n(void)n;\n{call}\n}}\n"
    (path / "calls.c").write_text(text)
    compiled = [n for n in files if n.endswith(".c") and "/cmsis-nn/" not in n]
    return [*(str(path / n) for n in compiled), str(path / "calls.c")]


def source_flags(path: Path) -> list[str]:
    """Return warnings and folders of headers; a library's sources are compiled as they are."""
    external = path / EXTERNAL_FOLDER
    folders = [f"-I{path / 'kernels'}", f"-I{external}"]
    return [*WARNINGS, *(EXTERNAL_FLAGS if external.exists() else ()), *folders]


class Library:
    """The compiled kernels of several cases on this machine."""

    def __init__(
        self,
        cases: Sequence[Case],
        flags: tuple[str, ...] = (),
        compiler: tuple[str, ...] = ("cc",),
    ) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory)
            sources = write_sources(cases, path)
            target = path / "kernels.so"
            command = [*compiler, *source_flags(path), *FLAGS, *flags, *sources]
            done = subprocess.run([*command, "-o", str(target)], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[:4000]
            self._library = ctypes.CDLL(str(target))

    def call(self, number: int, arrays: Arrays, sizes: dict[str, int]) -> None:
        pointers = (ctypes.c_void_p * len(POINTERS))()
        for i, name in enumerate(POINTERS):
            if name in arrays:
                pointers[i] = arrays[name].ctypes.data
        numbers = (ctypes.c_int32 * len(NUMBERS))(*(sizes[n] for n in NUMBERS))
        getattr(self._library, f"call_{number}")(pointers, numbers)


def run(case: Case, number: int, machine: Machine) -> np.ndarray:
    """Return the output (C, H, W) of a case, computed tile by tile."""
    layer, kernel = case.layer, case.kernel
    out = np.zeros(layer.output.shape, dtype=np.int64)
    size_c, size_h, size_w = case.tile
    assert not kernel.accumulates(layer)
    assert kernel.input_layout(layer) == "HWC"
    for c, h, w in itertools.product(
        channel_spans(layer, size_c), axis_spans(layer, 0, size_h), axis_spans(layer, 1, size_w)
    ):
        y = np.full((h.size, w.size, c.size), 0x35, dtype=element_type(layer.output))
        arrays: Arrays = {"y": y}
        for name, values, tensor in zip(("x", "x2"), case.inputs, layer.inputs, strict=False):
            if isinstance(layer.layer, Linear):
                box = values.transpose(1, 2, 0).reshape(-1)
            else:
                box = values[
                    c.x_start : c.x_start + c.x_size,
                    h.x_start : h.x_start + h.x_size,
                    w.x_start : w.x_start + w.x_size,
                ].transpose(1, 2, 0)
            arrays[name] = exact(box.astype(element_type(tensor)))
        tile = make_tile(layer, c.size, h.size, w.size)
        block = kernel.weight_block(layer, (c.start, c.start + c.size), (0, c.x_size))
        expected = kernel.weight_bytes(layer, tile)
        assert (0 if block is None else len(block.data)) == expected, case.label
        if block is not None:
            assert expected % 8 == 0
            image = exact(np.frombuffer(block.data, np.uint8))
            ends = [*sorted(block.parts.values()), len(image)][1:]
            parts = sorted(block.parts.items(), key=lambda p: p[1])
            for (name, offset), end in zip(parts, ends, strict=True):
                assert offset % 4 == 0
                arrays[name] = exact(image[offset:end])
        scratch = int(kernel.scratch_bytes(layer, tile))
        if scratch:
            arrays["scratch"] = exact(np.full(scratch, 0xA5, np.uint8))
        sizes = {
            "x_h": h.x_size,
            "x_w": w.x_size,
            "x_c": c.x_size,
            "y_h": h.size,
            "y_w": w.size,
            "y_c": c.size,
            "pad_top": h.pad_before,
            "pad_left": w.pad_before,
            "pad_bottom": h.pad_after,
            "pad_right": w.pad_after,
            "first": 1,
            "last": 1,
        }
        before = {n: a.copy() for n, a in arrays.items() if n not in ("y", "scratch")}
        machine.call(number, arrays, sizes)
        for name, copy in before.items():
            assert np.array_equal(copy, arrays[name]), f"{name} was written: {case.label}"
        out[c.start : c.start + c.size, h.start : h.start + h.size, w.start : w.start + w.size] = (
            arrays["y"].transpose(2, 0, 1)
        )
    return out


def check(cases: Sequence[Case], machine: Machine | None = None) -> None:
    """Compare every case with the reference, element by element."""
    machine = machine or Library(cases)
    for number, case in enumerate(cases):
        expected = reference.run_layer(case.layer, case.inputs)
        got = run(case, number, machine)
        different = np.argwhere(got != expected)
        assert different.size == 0, (
            f"{case.label}: {len(different)} differ, first {different[0]}: "
            f"{got[tuple(different[0])]}, not {expected[tuple(different[0])]}"
        )


def values_of(tensor: Tensor, random: np.random.Generator) -> np.ndarray:
    """Return random values of the whole range, extremes included."""
    values = random.integers(tensor.lo, tensor.hi + 1, tensor.shape)
    edge = random.random(tensor.shape)
    values[edge < 0.05] = tensor.lo
    values[edge > 0.95] = tensor.hi
    return values.astype(np.int64)


def whole(kernel: Kernel, layer: TypedLayer, inputs: tuple[np.ndarray, ...] = ()) -> Case:
    """Return a case of one tile; random values unless inputs are given."""
    rejection = kernel.accepts(layer)
    assert rejection is None, rejection
    random = np.random.default_rng(5)
    inputs = inputs or tuple(values_of(x, random) for x in layer.inputs)
    return Case(kernel, layer, inputs, layer.output.shape)


def make_case(kernel: Kernel, layer: TypedLayer, random: np.random.Generator) -> Case:
    """Return a case with random values and a random size of tiles."""
    inputs = tuple(values_of(t, random) for t in layer.inputs)
    full, granule = extent(layer), output_granule(layer)

    def size(total: int, unit: int = 1) -> int:
        if random.random() < 0.4:
            return total
        return min(int(random.integers(1, -(-total // unit) + 1)) * unit, total)

    return Case(kernel, layer, inputs, (size(full.c_out, granule), size(full.h), size(full.w)))


if __name__ == "__main__":
    from stm32h7_layers import sample

    cases = sample(seed=int(sys.argv[1]), count=int(sys.argv[2]))
    check(cases, Library(cases, SANITIZE))
    print("computed")
