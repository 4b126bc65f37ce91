"""Running an application on the host simulation and comparing every layer."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dory_core.errors import DoesNotFit, UsageError, VerificationFailed
from dory_core.ir.layout import HWC
from dory_core.simulate.build import build
from dory_core.simulate.compiler import Compiler, lacks_shadow, no_shadow
from dory_core.simulate.process import run_process
from dory_core.simulate.request import DMA_MODES, RunRequest, make_folder
from dory_core.simulate.result import Counts, LayerOutput, Run, RunResult
from dory_core.simulate.runtime import RESETS_FILE

_EXIT_DIFFERS = 5
_TIMEOUT_S = 600.0
_EXTERNAL = -1  # stands for a layer in counts.txt
_EXIT_USAGE = 2
_REPORT_LINES = 25
_FAULT = "dory-sim: error: "
_NO_MEMORY = "no memory for "
_REPORT_MARKS = ("ERROR: AddressSanitizer", "runtime error:", "WARNING: ThreadSanitizer")


def run_host(app_dir: Path, request: RunRequest, *, compiler: Compiler | None = None) -> RunResult:
    """Build ``app_dir``, run it on the host simulation and compare every layer.

    Args:
        app_dir: Directory of the application.
        request: Inputs, expected values and DMA mode.
        compiler: The compiler; None for the default.

    Raises:
        VerificationFailed: When the simulator, a sanitizer or the operating system stopped the
            program, or it did not end in time. Values that differ are in the result.
        UsageError: For wrong arguments.
        DoesNotFit: For arenas beyond this machine's memory.
    """
    if request.dma not in DMA_MODES:
        raise UsageError(f"unknown DMA mode {request.dma!r}", f"known are {', '.join(DMA_MODES)}")
    app_dir = Path(app_dir).resolve()
    if request.dump is not None:
        make_folder(request.dump)
    program = build(app_dir, request.sanitize, compiler)
    with tempfile.TemporaryDirectory(prefix="dory-run-") as folder:
        vectors = app_dir / "vectors"
        if request.inputs is not None:
            vectors = Path(folder, "vectors")
            vectors.mkdir()
            (vectors / "input.bin").write_bytes(b"".join(request.inputs))
            if request.floats is not None:
                floats = b"".join(given for given, _ in request.floats)
                (vectors / "input_float.bin").write_bytes(floats)
            if request.starts:
                (vectors / RESETS_FILE).write_bytes(bytes(request.starts))
        raw = Path(folder, "dump")
        command = [str(program), "--vectors", str(vectors), "--dump", str(raw)]
        command += ["--dma", request.dma, "--seed", str(request.seed)]
        command += ["--repeat", str(request.repeat)]
        _execute(command, app_dir, request.timeout_s or _TIMEOUT_S)
        executions = sorted(raw.iterdir(), key=lambda path: int(path.name.removeprefix("run_")))
        if len(executions) != request.executions:
            raise UsageError(
                f"the application has {len(executions) // request.repeat} inputs, "
                f"expected values are given for {len(request.expected)}"
            )
        runs = [_compare(number, path, request) for number, path in enumerate(executions)]
    return request.result("host", runs)


def _compare(number: int, execution: Path, request: RunRequest) -> Run:
    values = {layer.index: _load(execution, layer) for layer in request.layers}
    run = request.compare(number, values)
    _check_bytes(execution, request, "output", request.output_layers, run.input)
    _check_bytes(execution, request, "state", request.state_layers, run.input)
    if request.floats is not None:
        _, expected = request.floats[number % len(request.floats)]
        _check_floats((execution / "output_float.bin").read_bytes(), expected, run.input)
    counts = _read_counts(execution / "counts.txt")
    external = counts.pop(_EXTERNAL, Counts(0, 0, 0))
    return replace(run, counts=counts, external_counts=external)


def _read_counts(path: Path) -> dict[int, Counts]:
    rows = (map(int, line.split()) for line in path.read_text(encoding="ascii").splitlines())
    return {layer: Counts(*numbers) for layer, *numbers in rows}


def _load(execution: Path, layer: LayerOutput) -> npt.NDArray[np.int64]:
    path = execution / f"layer_{layer.index:02d}.bin"
    if not path.is_file():
        raise VerificationFailed(
            f"layer {layer.index} '{layer.name}' did not run",
            "the application and the plan disagree: compile it again",
        )
    try:
        data = path.read_bytes()
        values = layer.layout.unpack(data, layer.tensor)
    except ValueError as error:
        raise VerificationFailed(f"layer {layer.index} '{layer.name}': {error}") from None
    if layer.layout.clean and layer.layout.pack(values, layer.tensor) != data:
        what = (
            "padding bits after the channels of a pixel"
            if layer.layout.is_hwc
            else f"bytes of padding of layout {layer.layout.name}"
        )
        raise VerificationFailed(
            f"layer {layer.index} '{layer.name}': {what} are not zero",
            "its kernel has to clear them: others rely on it",
        )
    return layer.full(values.transpose(1, 2, 0))


def _check_bytes(
    execution: Path, request: RunRequest, what: str, layers: Sequence[int], name: str
) -> None:
    """Raise unless the network's output or state, in HWC, equals the outputs of its layers."""
    if not layers:
        return
    layouts = {layer.index: layer for layer in request.layers if not layer.layout.is_hwc}
    made = b""
    for index in layers:
        data = (execution / f"layer_{index:02d}.bin").read_bytes()
        if index in layouts:
            layer = layouts[index]
            data = HWC.pack(layer.layout.unpack(data, layer.tensor), layer.tensor)
        made += data
    if (execution / f"{what}.bin").read_bytes() != made:
        listed = ", ".join(str(index) for index in layers)
        raise VerificationFailed(f"{name}: the network's {what} is not that of layer {listed}")


def _check_floats(data: bytes, expected: bytes, name: str) -> None:
    """Raise unless the network's output as float32 equals the expected one, bit by bit."""
    if data != expected:
        got, wanted = np.frombuffer(data, "<f4"), np.frombuffer(expected, "<f4")
        at = int((got.view("<u4") != wanted.view("<u4")).argmax())
        raise VerificationFailed(
            f"{name}: float output {at} is {got[at]!r}, expected {wanted[at]!r}",
            "its integers are exact: the conversion is at fault",
        )


def _execute(command: list[str], cwd: Path, timeout_s: float) -> None:
    """Run the program; raise unless it compared all layers, exactly or not."""
    environment = dict(os.environ)
    environment.setdefault("ASAN_OPTIONS", "detect_leaks=0")
    environment.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    result = run_process(command, cwd, timeout_s, "the simulation", environment)
    if result.returncode in (0, _EXIT_DIFFERS):
        return
    if result.returncode == _EXIT_USAGE:
        reason = result.stderr.strip().splitlines()[0] if result.stderr else "no input"
        written = "cannot write" in reason
        raise UsageError(reason, "let TMPDIR name a directory with free space" if written else "")
    if lacks_shadow(result.stderr):
        raise no_shadow()
    failure = _failure(result.returncode, result.stderr)
    if _NO_MEMORY in failure:
        raise DoesNotFit(
            failure.removeprefix(_FAULT),
            "this machine has too little memory for such budgets: compile with smaller ones",
        )
    raise VerificationFailed(
        failure, "the generated C or a kernel is at fault: run again with --sanitize to learn more"
    )


def _failure(status: int, stderr: str) -> str:
    """Return why the program stopped: the simulator's line, then the start of a report."""
    lines = stderr.splitlines()
    headlines = [line for line in lines if line.startswith(_FAULT)]
    start = next(
        (i for i, line in enumerate(lines) if any(mark in line for mark in _REPORT_MARKS)), None
    )
    if start is not None:
        report = lines[start : start + _REPORT_LINES]
        return "\n".join([*headlines, *(line for line in report if line not in headlines)])
    if headlines:
        return headlines[0]
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        headline = f"the simulation crashed with {name}"
    else:
        headline = f"the simulation ended with status {status}"
    return "\n".join([headline, *lines[:_REPORT_LINES]])
