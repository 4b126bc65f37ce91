"""Kernels on their own: tiles of layers through the calls that an application would make.

The call text of each kernel becomes a C function, which gets the weight blocks that an application
would ship. Every buffer is a memory block of exactly its size, so that the address sanitizer sees
the first byte too many.

    cases = [make_case(kernel, layer, np.random.default_rng(0))]
    HostLibrary(cases).check()

A :class:`Machine` of your own runs the same cases elsewhere, for example on an emulator.
"""

from __future__ import annotations

import itertools
import os
import signal
import struct
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

import dory_core
from dory_core import reference
from dory_core.binding import rejection_of
from dory_core.ir import Layer, Op, Pairwise, Tensor, storage_for
from dory_core.ir.geometry import (
    Span,
    axis_spans,
    channel_spans,
    extent,
    input_granule,
    make_tile,
    output_granule,
    spans,
)
from dory_core.ir.ranges import infer_types
from dory_core.kernel import Kernel
from dory_core.simulate.compiler import find_compiler
from dory_core.testing.buffers import (
    NUMBERS,
    POINTERS,
    WRITTEN,
    Buffers,
    TileSpans,
    output_buffer,
    output_values,
    tile_buffers,
    tile_numbers,
)
from dory_core.testing.sources import source_flags, texts_of, write_sources

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
_Kind = TypeVar("_Kind", bound=Op)

#: Flags that a :class:`HostLibrary` is compiled with for :func:`sanitizers.run_sanitized`.
SANITIZE = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_DRAWS = 50  # of tile sizes, until constraints allow them
_UNITS = (1, 1, 1, 2, 4, 8, 16)  # that sizes are multiples of, as constraints like them
_SECONDS = 120  # that a call may take under sanitizers on a loaded machine
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
    def channels(self) -> int:
        """The input channels that tiles can split: all elements of the input of a Linear."""
        return extent(self.layer).c_in

    @property
    def label(self) -> str:
        """Kernel, layer and tile, for messages."""
        return f"{self.kernel.symbol(self.layer)}: {described(self.layer)}, tile {self.tile}"


def described(layer: Layer) -> str:
    """Return what sets a layer apart in one line: kind, types, sizes, window, requantisations."""
    op = layer.op
    shapes = (f"{t.type_name} {t.channels}x{t.height}x{t.width}" for t in layer.inputs)
    y = layer.output
    text = f"{op.kind} {', '.join(shapes)} > {y.type_name} {y.channels}x{y.height}x{y.width}"
    for name in ("window", "groups", "counts_padding", "real", "operand_requants"):
        if hasattr(op, name):
            text += f", {name}={getattr(op, name)}"
    if getattr(op, "bias", None) is not None:
        text += ", with bias"
    steps = (
        f"div={s.div} lo={s.lo} hi={s.hi} mul={_few(s.mul)} add={_few(s.add)}"
        + (f" add_negative={_few(s.add_negative)} turn={s.turn}" if s.add_negative else "")
        for s in op.requants
    )
    return text + "".join(f", requant({step})" for step in steps)


def _few(values: Sequence[int]) -> str:
    return ",".join(map(str, values[:2])) + (",..." if len(values) > 2 else "")


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
    full, traits = extent(layer), kernel.traits(layer)
    if traits.in_place:
        return case
    layouts = [layout for layout in (*traits.inputs, traits.output) if not layout.is_hwc]
    multiples = (layout.channel_multiple for layout in layouts)
    together, step = int(np.lcm.reduce([output_granule(layer), granule])), input_granule(layer)
    together = int(np.lcm.reduce([together, *multiples]))

    def size(total: int, unit: int = 1) -> int:
        if random.random() < 0.4:
            return total
        unit *= int(random.choice(_UNITS)) if constrained else 1
        return min(int(random.integers(1, -(-total // unit) + 1)) * unit, total)

    for _ in range(_DRAWS):
        c_in = -(-full.c_in // (step * int(random.integers(1, 4)))) * step
        width = full.w if layouts else size(full.w)
        sizes = (size(full.c_out, together), size(full.h), width, min(c_in, full.c_in))
        splits = traits.accumulates and not layouts
        sizes = sizes if splits else (*sizes[:3], full.c_in)
        tile = make_tile(layer, *sizes[:3], sizes[3] if splits else None)
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
    """Runs the cases that it was made for, by :meth:`call`.

    calls: of the kernel of each case, so far.
    """

    def __init__(self, cases: Sequence[KernelCase]) -> None:
        self.cases = tuple(cases)
        self.calls = [0] * len(self.cases)

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
            box = (slice(s.start, s.start + s.size) for s in (c, h, w))
            out[tuple(box)] = self._tile(number, c, h, w)
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

    def _tile(self, number: int, c: Span, h: Span, w: Span) -> Values:
        """Return the values (c, h, w) of one output tile."""
        case = self.cases[number]
        layer, kernel = case.layer, case.kernel
        splits = kernel.traits(layer).accumulates
        psum = np.full((h.size, w.size, c.size), 123456789, dtype=np.int32)
        at = TileSpans(c, h, w, c.x_start, c.x_size)
        y = output_buffer(case, at)
        parts = spans(case.channels, case.tile[3]) if splits else ((c.x_start, c.x_size),)
        for start, count in parts:
            at = TileSpans(c, h, w, start, count)
            tile = make_tile(layer, c.size, h.size, w.size, count)
            buffers = tile_buffers(case, at, tile)
            buffers["y"] = y
            if splits:
                buffers["psum"] = psum
            scratch = int(kernel.scratch_bytes(layer, tile))
            if scratch:
                buffers["scratch"] = np.full(scratch, 0xA5, np.uint8)
            before = {n: a.copy() for n, a in buffers.items() if n not in WRITTEN}
            self.calls[number] += 1
            self.call(number, buffers, tile_numbers(case, at))
            for name, copy in before.items():
                assert np.array_equal(copy, buffers[name]), f"{name} was written: {case.label}"
        return output_values(case, at, y)


class HostLibrary(Machine):
    """The kernels of several cases on this machine, in a process of their own.

    A kernel that crashes or does not end fails its case. Cores call one after another, or as
    threads where the code of the kernel meets at barriers. flags: of the compiler, beside warnings
    as errors. compiler: by default the one that applications are built with.
    """

    def __init__(
        self,
        cases: Sequence[KernelCase],
        flags: tuple[str, ...] = (),
        compiler: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(cases)
        self._process: subprocess.Popen[bytes] | None = None
        self._at_once = [any("dory_barrier(" in text for text in texts_of(c)) for c in self.cases]
        self._directory = tempfile.TemporaryDirectory()
        folder = Path(self._directory.name)
        sources = [*write_sources(cases, folder), str(folder / "table.c")]
        (folder / "table.c").write_text(_table(len(self.cases)))
        (folder / "dory_hal_impl.h").write_text("/* nothing is inline */\n")
        self._program = folder / "kernels.out"
        command = [*(compiler or find_compiler().command), *source_flags(folder)]
        command += [f"-D{name}={value}" for name, value in _SIZES.items()]
        command += ["-O1", "-pthread", f"-I{_RUNTIME}", f"-I{_HERE}", *flags]
        command += [*sources, *(str(_HERE / name) for name in ("cores.c", "host.c"))]
        command += ["-o", str(self._program)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]

    def call(self, number: int, buffers: Buffers, numbers: Mapping[str, int]) -> None:
        """Call the kernel with every core of the case.

        Raises AssertionError, with the kernel's name, when its process ends.
        """
        case = self.cases[number]
        given = [buffers.get(name) for name in POINTERS]
        request = struct.pack("=3I", number, case.cores, self._at_once[number])
        request += struct.pack(f"={len(NUMBERS)}i", *(numbers[n] for n in NUMBERS))
        sizes = (-1 if buffer is None else buffer.nbytes for buffer in given)
        request += struct.pack(f"={len(POINTERS)}q", *sizes)
        present = [buffer for buffer in given if buffer is not None]
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(b"".join([request, *(buffer.tobytes() for buffer in present)]))
            process.stdin.flush()
        except BrokenPipeError:
            self._ended(case)
        wanted = sum(buffer.nbytes for buffer in present)
        answer = process.stdout.read(wanted)
        if len(answer) < wanted:
            self._ended(case)
        at = 0
        for buffer in present:
            part = np.frombuffer(answer, buffer.dtype, buffer.size, at)
            buffer[...] = part.reshape(buffer.shape)
            at += buffer.nbytes

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            pipe, log = subprocess.PIPE, Path(self._directory.name) / "log.txt"
            command = [str(self._program), str(_SECONDS)]
            environment = {**_NO_LEAKS, **os.environ}
            with log.open("wb") as errors:
                self._process = subprocess.Popen(
                    command, stdin=pipe, stdout=pipe, stderr=errors, env=environment
                )
        return self._process

    def _ended(self, case: KernelCase) -> NoReturn:
        """Say how the process of a kernel has ended."""
        assert self._process is not None
        status = self._process.wait()
        self._close()
        log = (Path(self._directory.name) / "log.txt").read_text(errors="replace")
        how = f"ended with status {status}"
        if status == -signal.SIGALRM:
            how = f"did not end within {_SECONDS} s"
        elif status < 0:
            how = f"crashed: {signal.Signals(-status).name}"
        raise AssertionError(f"{case.kernel.name} {how}: {case.label}\n{log[-3000:]}".rstrip())

    def _close(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(BrokenPipeError):
                    if pipe is not None:
                        pipe.close()
            self._process.wait()
            self._process = None

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self._close()


_SIZES = {"DORY_TESTING_NUMBERS": len(NUMBERS), "DORY_TESTING_POINTERS": len(POINTERS)}
_NO_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}


def _table(cases: int) -> str:
    """Return the C of the table of the cases' functions."""
    names = [f"call_{number}" for number in range(cases)]
    heads = "".join(f"dory_testing_call_t {name};\n" for name in names)
    table = f"dory_testing_call_t *const dory_testing_calls[] = {{{', '.join(names)}}};\n"
    return f'#include "dory_testing.h"\n\n{heads}\n{table}'
