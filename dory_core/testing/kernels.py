"""Kernels on their own: tiles of layers through the calls that an application would make.

The call text of each kernel becomes a C function, which gets the weight blocks that an application
would ship. Every buffer is a memory block of exactly its size, so that the address sanitizer sees
the first byte too many.

    cases = [make_case(kernel, layer, np.random.default_rng(0))]
    HostLibrary(cases).check()

A :class:`Machine` of your own runs the same cases elsewhere, for example on an emulator.
"""

from __future__ import annotations

import ctypes
import itertools
import string
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

import dory_core
from dory_core import reference
from dory_core.binding import rejection_of
from dory_core.ir import Layer, Linear, Op, Pairwise, Tensor, pixel_bytes, storage_for
from dory_core.ir.geometry import (
    Span,
    Tile,
    axis_spans,
    channel_spans,
    extent,
    input_granule,
    make_tile,
    output_granule,
    spans,
)
from dory_core.ir.packing import pack_rows, unpack_rows
from dory_core.ir.places import whole_axes
from dory_core.ir.ranges import infer_types
from dory_core.kernel import OPERANDS, Kernel
from dory_core.simulate.build import EXTERNAL_FLAGS, EXTERNAL_FOLDER, FLAGS, SOURCE_FOLDERS
from dory_core.simulate.compiler import find_compiler

__all__ = [
    "NUMBERS",
    "POINTERS",
    "SANITIZE",
    "Buffers",
    "HostLibrary",
    "KernelCase",
    "Machine",
    "alone",
    "make_case",
    "source_flags",
    "typed",
    "values_of",
    "whole_case",
    "write_sources",
]

Values = npt.NDArray[np.int64]
Buffers = dict[str, npt.NDArray[Any]]
_Kind = TypeVar("_Kind", bound=Op)

#: Flags that a :class:`HostLibrary` is compiled with for :func:`sanitizers.run_sanitized`.
SANITIZE = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
#: What ``void call_N(void *const *pointers, const int32_t *numbers)`` gets, in this order.
POINTERS = ("x", "x2", "y", "weights", "mul", "add", "bias", "psum", "scratch", *OPERANDS[2:])
NUMBERS = (
    *("x_h", "x_w", "x_c", "y_h", "y_w", "y_c"),
    *("pad_top", "pad_left", "pad_bottom", "pad_right", "first", "last"),
    *("x_row", "x_column", "x_channel", "y_row", "y_column", "y_channel"),
)

_DRAWS = 50  # of tile sizes, until constraints allow them
_WRITTEN = ("y", "psum", "scratch")
_HERE = Path(__file__).parent
_RUNTIME = Path(dory_core.__file__).parent / "runtime" / "include"


@dataclass(frozen=True, slots=True)
class KernelCase:
    """A kernel, a layer that it accepts, and how the layer is computed.

    inputs: values of shape (C, H, W). tile: sizes (c_out, h, w, c_in); c_in counts where the kernel
    accumulates.
    """

    kernel: Kernel
    layer: Layer
    inputs: tuple[Values, ...]
    tile: tuple[int, int, int, int]

    @property
    def cores(self) -> int:
        """How many cores call the kernel: its attribute ``cores``, 1 where it has none."""
        return int(getattr(self.kernel, "cores", 1))

    @property
    def label(self) -> str:
        """Kernel, layer and tile, for messages."""
        return f"{self.kernel.symbol(self.layer)} {self.layer.op} tile {self.tile}"


def alone(kind: type[_Kind], **fields: Any) -> _Kind:
    """Return a layer that is a network of its own: it reads ``input`` and writes ``layer_00``.

    kind: class of the layer; one with two operands reads ``input_1``, too. fields: what else the
    class takes.
    """
    inputs = ("input", "input_1") if issubclass(kind, Pairwise) else ("input",)
    given: dict[str, Any] = {"name": kind.__name__.lower(), "inputs": inputs, **fields}
    return kind(index=0, output="layer_00", **given)


def typed(layer: Op, *inputs: tuple[int, int, int, int, int], packed: bool = False) -> Layer:
    """Return ``layer`` with its types; inputs are (C, H, W, lo, hi), named as the layer says.

    packed: values that fit 2 or 4 bits are stored so, else in 8.
    Raises NotSupported where range analysis does.
    """
    least = 2 if packed else 8

    def bits(lo: int, hi: int) -> int:
        return max(storage_for(lo, hi)[0], least)

    tensors = tuple(
        Tensor(name, c, h, w, lo, hi, bits(lo, hi), lo < 0)
        for name, (c, h, w, lo, hi) in zip(layer.inputs, inputs, strict=True)
    )
    found = infer_types("net", tensors, (layer,), (layer.output,)).layer(0)
    y = found.output
    return found if y.bits > 8 else replace(found, output=replace(y, bits=bits(y.lo, y.hi)))


def values_of(tensor: Tensor, random: np.random.Generator) -> Values:
    """Return random values (C, H, W) of the whole range, its ends among them."""
    values = random.integers(tensor.lo, tensor.hi + 1, tensor.shape, dtype=np.int64)
    edge = random.random(tensor.shape)
    values[edge < 0.05] = tensor.lo
    values[edge > 0.95] = tensor.hi
    return values


def make_case(
    kernel: Kernel,
    layer: Layer,
    random: np.random.Generator,
    granule: int = 1,
    constrained: bool = True,
) -> KernelCase:
    """Return a case with random values and random tile sizes, some of which are the whole axis.

    granule: output channels that the kernel takes only together. constrained: only tiles that the
    kernel's constraints allow; else also those that come about at borders alone.
    """
    case = whole_case(kernel, layer, random)
    full = extent(layer)
    together, step = int(np.lcm(output_granule(layer), granule)), input_granule(layer)

    def size(total: int, unit: int = 1) -> int:
        if random.random() < 0.4:
            return total
        return min(int(random.integers(1, -(-total // unit) + 1)) * unit, total)

    for _ in range(_DRAWS):
        c_in = -(-full.c_in // (step * int(random.integers(1, 4)))) * step
        sizes = (size(full.c_out, together), size(full.h), size(full.w), min(c_in, full.c_in))
        tile = make_tile(layer, *sizes[:3], sizes[3] if kernel.traits(layer).accumulates else None)
        if not constrained or all(c.condition for c in kernel.constraints(layer, tile)):
            return replace(case, tile=sizes)
    return case


def takes(kernel: Kernel, layer: Layer) -> bool:
    """Return whether a kernel is given a layer: it accepts it and has the features for it."""
    return rejection_of(kernel, layer) is None


def whole_case(
    kernel: Kernel,
    layer: Layer,
    inputs: np.random.Generator | tuple[Values, ...] | None = None,
) -> KernelCase:
    """Return a case of one tile. inputs: values (C, H, W) of each operand, or what draws them."""
    rejection = kernel.accepts(layer)
    assert rejection is None, f"{kernel.name} rejects {layer.op.name}: {rejection}"
    if not isinstance(inputs, tuple):
        random = np.random.default_rng(5) if inputs is None else inputs
        inputs = tuple(values_of(x, random) for x in layer.inputs)
    full = extent(layer)
    return KernelCase(kernel, layer, inputs, (full.c_out, full.h, full.w, full.c_in))


class Machine(ABC):
    """Runs the cases that it was made for, by :meth:`call`."""

    def __init__(self, cases: Sequence[KernelCase]) -> None:
        self.cases = tuple(cases)

    @abstractmethod
    def call(self, number: int, buffers: Buffers, numbers: Mapping[str, int]) -> None:
        """Call the kernel of case ``number`` on one tile; buffers are changed in place.

        buffers: those of POINTERS that the call has. numbers: all of NUMBERS.
        """

    def run(self, number: int) -> Values:
        """Return the output (C, H, W) of a case, computed tile by tile."""
        case = self.cases[number]
        layer, output = case.layer, case.layer.output
        out = np.zeros(output.shape, dtype=np.int64)
        size_c, size_h, size_w, _ = case.tile
        for c, h, w in itertools.product(
            channel_spans(layer, size_c), axis_spans(layer, 0, size_h), axis_spans(layer, 1, size_w)
        ):
            y = self._tile(number, c, h, w)
            values = unpack_rows(y, c.size, output.bits, output.signed)
            stored = pack_rows(values, output.bits, output.signed)
            assert np.array_equal(stored, y), f"padding bits are not zero: {case.label}"
            box = (slice(s.start, s.start + s.size) for s in (c, h, w))
            out[tuple(box)] = values.transpose(2, 0, 1)
        return out

    def check(self) -> None:
        """Compare every case with the reference executor, element by element."""
        for number, case in enumerate(self.cases):
            expected = reference.run_layer(case.layer, case.inputs)
            got = self.run(number)
            wrong = np.argwhere(got != expected)
            assert not wrong.size, (
                f"{case.label}: {len(wrong)} differ, first {wrong[0]}: "
                f"{got[tuple(wrong[0])]}, not {expected[tuple(wrong[0])]}"
            )

    def _tile(self, number: int, c: Span, h: Span, w: Span) -> npt.NDArray[np.uint8]:
        """Return the bytes (h, w, bytes of a pixel) of one output tile."""
        case = self.cases[number]
        layer, kernel = case.layer, case.kernel
        full, splits = extent(layer), kernel.traits(layer).accumulates
        y = np.full((h.size, w.size, pixel_bytes(c.size, layer.output.bits)), 0xB5, dtype=np.uint8)
        psum = np.full((h.size, w.size, c.size), 123456789, dtype=np.int32)
        parts = spans(full.c_in, case.tile[3]) if splits else ((c.x_start, c.x_size),)
        for start, count in parts:
            tile = make_tile(layer, c.size, h.size, w.size, count)
            buffers = _inputs(case, start, count, h, w) | _constants(case, tile, c, start, count)
            buffers["y"] = y
            if splits:
                buffers["psum"] = psum
            scratch = int(kernel.scratch_bytes(layer, tile))
            if scratch:
                buffers["scratch"] = np.full(scratch, 0xA5, np.uint8)
            before = {n: a.copy() for n, a in buffers.items() if n not in _WRITTEN}
            numbers = {
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
                "x_row": h.x_start,
                "x_column": w.x_start,
                "x_channel": start,
                "y_row": h.start,
                "y_column": w.start,
                "y_channel": c.start,
                "first": int(start == 0 or not splits),
                "last": int(start + count == full.c_in or not splits),
            }
            self.call(number, buffers, numbers)
            for name, copy in before.items():
                assert np.array_equal(copy, buffers[name]), f"{name} was written: {case.label}"
        return y


def _inputs(case: KernelCase, start: int, count: int, h: Span, w: Span) -> Buffers:
    """Return the input tiles with channels (of a Linear: elements) start:start + count."""
    layer = case.layer
    buffers: Buffers = {}
    for operand, (values, tensor) in enumerate(zip(case.inputs, layer.inputs, strict=True)):
        name, (all_c, all_h, all_w) = OPERANDS[operand], whole_axes(layer, operand)
        if isinstance(layer.op, Linear):
            box = values.transpose(1, 2, 0).reshape(-1)[start : start + count]
            if tensor.channels * tensor.bits % 8:  # every pixel starts on a byte
                box = box.reshape(-1, tensor.channels)
        else:
            axes = (start, count), (h.x_start, h.x_size), (w.x_start, w.x_size)
            box = values[
                tuple(
                    slice(None) if whole else slice(first, first + size)
                    for whole, (first, size) in zip((all_c, all_h, all_w), axes, strict=True)
                )
            ]
            if not case.kernel.traits(layer).planar:
                box = box.transpose(1, 2, 0)
        buffers[name] = _exact(pack_rows(box, tensor.bits, tensor.signed))
    return buffers


def _constants(case: KernelCase, tile: Tile, c: Span, start: int, count: int) -> Buffers:
    """Return the parts of the weight block of a tile, each in a memory block of its own."""
    channels = (c.start, c.start + c.size)
    block = case.kernel.weight_block(case.layer, channels, (start, start + count))
    expected = case.kernel.weight_bytes(case.layer, tile)
    given = 0 if block is None else len(block.data)
    assert given == expected, f"weight_bytes {expected}, block of {given}: {case.label}"
    if block is None:
        return {}
    assert expected % 8 == 0, f"a block of {expected} bytes: {case.label}"
    image = np.frombuffer(block.data, np.uint8)
    parts = sorted(block.parts.items(), key=lambda part: part[1])
    ends = [*(offset for _, offset in parts[1:]), len(image)]
    buffers: Buffers = {}
    for (name, offset), end in zip(parts, ends, strict=True):
        assert offset % 4 == 0, f"{name} at byte {offset} of its block: {case.label}"
        buffers[name] = _exact(image[offset:end])
    return buffers


def _exact(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a copy in a memory block of exactly its size."""
    return np.ascontiguousarray(array).copy()


def write_sources(cases: Sequence[KernelCase], folder: Path) -> list[str]:
    """Write the kernels of the cases, and a function ``call_N`` for each; return the C files.

    The functions get POINTERS and NUMBERS and call the kernel as one core.
    """
    files: dict[str, str | bytes] = {}
    for case in cases:
        for file in case.kernel.sources(case.layer):
            content = files.setdefault(file.path, file.content)
            assert content == file.content, f"two contents of {file.path}"
    headers = sorted({h for case in cases for h in case.kernel.headers(case.layer)})
    text = "".join(f'#include "{name}"\n' for name in ("stdint.h", *headers))
    for number, case in enumerate(cases):
        names = {name: f"pointers[{i}]" for i, name in enumerate(POINTERS)}
        names |= {name: f"numbers[{i}]" for i, name in enumerate(NUMBERS)}
        call = string.Template(str(case.kernel.call(case.layer))).substitute(names)
        head = f"void call_{number}(void *const *pointers, const int32_t *numbers)"
        text += f"{head};\n{head}\n{{\n(void)numbers;\n{call}\n}}\n"
    for path, data in {**files, "calls.c": text}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data.encode() if isinstance(data, str) else data)
    compiled = [n for n in files if n.endswith(".c") and str(Path(n).parent) in SOURCE_FOLDERS]
    return [str(folder / name) for name in (*compiled, "calls.c")]


def source_flags(folder: Path) -> list[str]:
    """Return flags and folders of headers for what :func:`write_sources` wrote to ``folder``.

    All warnings are errors, but a library's sources are compiled as they are.
    """
    external = folder / EXTERNAL_FOLDER
    headers = (folder / "kernels", external, external / "host", folder)
    return [
        *FLAGS,
        *(EXTERNAL_FLAGS if external.exists() else ()),
        *(f"-I{path}" for path in headers),
    ]


class HostLibrary(Machine):
    """The kernels of several cases on this machine.

    Cores call one after another, or as threads where the code of the kernel meets at barriers.
    flags: of the compiler, beside warnings as errors. compiler: by default the one that
    applications are built with.
    """

    def __init__(
        self,
        cases: Sequence[KernelCase],
        flags: tuple[str, ...] = (),
        compiler: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(cases)
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(directory)
            sources = [*write_sources(cases, folder), str(_HERE / "cores.c")]
            (folder / "dory_hal_impl.h").write_text("/* nothing is inline */\n")
            library = folder / "kernels.so"
            command = [*(compiler or find_compiler().command), *source_flags(folder)]
            command += ["-O1", "-fPIC", "-shared", "-pthread", f"-I{_RUNTIME}", *flags]
            command += [*sources, "-o", str(library)]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[:4000]
            self._library = ctypes.CDLL(str(library))
        self._at_once = [any("dory_barrier(" in text for text in _texts(c)) for c in self.cases]

    def call(self, number: int, buffers: Buffers, numbers: Mapping[str, int]) -> None:
        """Call the kernel with every core of the case."""
        pointers = (ctypes.c_void_p * len(POINTERS))(
            *(buffers[n].ctypes.data if n in buffers else None for n in POINTERS)
        )
        values = (ctypes.c_int32 * len(NUMBERS))(*(numbers[n] for n in NUMBERS))
        function = getattr(self._library, f"call_{number}")
        cores, at_once = self.cases[number].cores, int(self._at_once[number])
        status = self._library.dory_testing_run(function, pointers, values, cores, at_once)
        assert status == 0, f"{cores} cores cannot be started"


def _texts(case: KernelCase) -> list[str]:
    """Return the call and the code of a kernel."""
    contents = (file.content for file in case.kernel.sources(case.layer))
    return [str(case.kernel.call(case.layer)), *(c for c in contents if isinstance(c, str))]
