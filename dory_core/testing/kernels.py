"""Single kernels: tiles of layers through the calls of an application.

The call text of each kernel becomes a C function, which gets the weight blocks of an application.
Every buffer is a memory block of exactly its size, so that the address sanitizer finds every access
outside it.

    cases = [make_case(kernel, layer, np.random.default_rng(0))]
    HostLibrary(cases).check()

A :class:`Machine` of your own runs the same cases elsewhere, for example on an emulator.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import struct
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import numpy as np

from dory_core.errors import DoryError
from dory_core.ir import reference
from dory_core.ir.geometry import (
    Span,
    axis_spans,
    channel_spans,
    make_tile,
    spans,
)
from dory_core.simulate import runtime
from dory_core.simulate.build import (
    FLAGS,
    SANITIZED,
    SEEN_COPIES,
    SOURCE_FOLDERS,
    Recipe,
    build_program,
)
from dory_core.simulate.compiler import Compiler, find_compiler
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
from dory_core.testing.kernel_cases import (
    KernelCase,
    Values,
    alone,
    make_case,
    typed,
    values_of,
    whole_case,
)
from dory_core.testing.sources import (
    KERNEL_FOLDERS,
    source_flags,
    texts_of,
    write_sources,
)

__all__ = [
    "NUMBERS",
    "POINTERS",
    "SANITIZE",
    "SANITIZE_THREADS",
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


#: Flags of a :class:`HostLibrary` for :func:`sanitizers.run_sanitized`.
SANITIZE = (*SANITIZED, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
#: Flags of a :class:`HostLibrary` that finds races of cores; it takes ``at_once``.
SANITIZE_THREADS = (*SANITIZED, "-fsanitize=thread", "-fno-omit-frame-pointer", *SEEN_COPIES)
#: Level of code that ``flags`` may change.
LEVEL = "-O2"
_SECONDS = 120  # time limit of a call, under sanitizers on a loaded machine
_HERE = Path(__file__).parent
_RUNTIME = Path(runtime.__file__).parent / "include"


class Machine(ABC):
    """Runs its cases by :meth:`call`; ``calls`` counts the kernel calls of each case."""

    def __init__(self, cases: Sequence[KernelCase]) -> None:
        self.cases = tuple(cases)
        self.calls = [0] * len(self.cases)

    @abstractmethod
    def call(self, number: int, buffers: Buffers, numbers: Mapping[str, int]) -> None:
        """Call the kernel of case ``number`` on one tile; buffers are changed in place.

        Args:
            number: Number of the case.
            buffers: Buffers of the call, by names of POINTERS.
            numbers: Values of all NUMBERS.
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
            cycles = kernel.cycles(layer, tile)
            assert cycles > 0, f"a call takes {cycles} cycles: {case.label}"
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
    """The kernels of several cases on this machine, in a separate process.

    A kernel that crashes or does not end fails its case. Cores call a kernel one after another, or
    as threads when the kernel has barriers.

    Attributes:
        flags: Flags of the compiler in addition to warnings as errors.
        compiler: The compiler, by default that of applications.
        at_once: Whether cores are always threads.
    """

    def __init__(
        self,
        cases: Sequence[KernelCase],
        flags: tuple[str, ...] = (),
        compiler: tuple[str, ...] | None = None,
        at_once: bool = False,
    ) -> None:
        super().__init__(cases)
        self._process: subprocess.Popen[bytes] | None = None
        self._at_once = [at_once or _meets(case) for case in self.cases]
        self._directory = tempfile.TemporaryDirectory()
        folder = Path(self._directory.name)
        write_sources(cases, folder)
        (folder / "src" / "table.c").write_text(_table(len(self.cases)))
        (folder / "dory_hal_impl.h").write_text("/* nothing is inline */\n")
        for name in ("cores.c", "host.c"):
            shutil.copy(_HERE / name, folder / "src")
        used = find_compiler() if compiler is None else Compiler.identify(*compiler)
        assert used is not None, f"{compiler} cannot be run"
        try:
            self._program = build_program(folder, _recipe(flags), used)
        except DoryError as error:
            raise AssertionError(error.message) from error

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
            environment = {**_SANITIZERS, **os.environ}
            with log.open("wb") as errors:
                self._process = subprocess.Popen(
                    command, stdin=pipe, stdout=pipe, stderr=errors, env=environment
                )
        return self._process

    def _ended(self, case: KernelCase) -> NoReturn:
        """Raise AssertionError with the exit of a kernel's process."""
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


def _recipe(flags: tuple[str, ...]) -> Recipe:
    """Return how cases are built. Kernels are objects of the cache, which other cases share.

    They are optimised as on a chip, where compilers exploit undefined behaviour, unless ``flags``
    have another level.
    """
    sizes = (f"-D{name}={value}" for name, value in _SIZES.items())
    includes = (*KERNEL_FOLDERS, ".", str(_RUNTIME), str(_HERE))
    flags = (*FLAGS, *sizes, LEVEL, "-pthread", *flags)
    return Recipe("kernels", "kernels.out", SOURCE_FOLDERS, includes, flags)


_SIZES = {"DORY_TESTING_NUMBERS": len(NUMBERS), "DORY_TESTING_POINTERS": len(POINTERS)}
_SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "halt_on_error=1"}


def _meets(case: KernelCase) -> bool:
    """Return True when cores of the kernel meet at barriers."""
    return any("dory_barrier(" in text for text in texts_of(case))


def _table(cases: int) -> str:
    """Return the C of the table of the cases' functions."""
    names = [f"call_{number}" for number in range(cases)]
    heads = "".join(f"dory_testing_call_t {name};\n" for name in names)
    table = f"dory_testing_call_t *const dory_testing_calls[] = {{{', '.join(names)}}};\n"
    return f'#include "dory_testing.h"\n\n{heads}\n{table}'
