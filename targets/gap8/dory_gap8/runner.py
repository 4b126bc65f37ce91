"""The runner ``gvsoc``: builds an application with the SDK, runs it on the SDK's simulator.

The program on the target compares and prints one line per layer; they are read here into the same
result as that of the host simulation, with cycles where the application measures them.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dory_core.api import ToolMissing, UsageError, VerificationFailed, simulate

RULES = "pmsis_rules.mk"
_SHOWN_LINES = 20
_TIMEOUT_S = 3600.0
_IGNORED = ("build", "BUILD")

_RUN = re.compile(r"dory: run (\d+) input (\d+)")
_CYCLES = re.compile(r"dory: layer (\d+) cycles (\d+)")
_EXACT = re.compile(r"dory: layer (\d+) exact (\d+)")
_DIFFERS = re.compile(
    r"dory: layer (\d+) differs (\d+) of (\d+) elements, first element (\d+): "
    r"expected (-?\d+), got (-?\d+)"
)
_OUTPUT = re.compile(r"dory: output of layer (\d+) differs")
_UNCHECKED = re.compile(r"dory: (layer \d+ unchecked: .*)")
_ERROR = re.compile(r"dory: error: (.*)")
_END = re.compile(r"dory: (exact|differs)\s*$")


@dataclass
class _Lines:
    """What one execution printed, by layer. differs: (mismatches, first element, expected, got)."""

    vector: int
    cycles: dict[int, int] = field(default_factory=dict)
    exact: set[int] = field(default_factory=set)
    differs: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)


def run_gvsoc(app_dir: Path, request: simulate.RunRequest) -> simulate.RunResult:
    """Build ``app_dir`` in a copy with the SDK, run it on GVSOC and read what it printed.

    Inputs replace the vectors of the copy. Raises ToolMissing without an SDK, UsageError for what
    only the host simulation has, VerificationFailed when the build fails or the program does not
    end properly.
    """
    if (request.dma, request.seed, request.sanitize, request.dump) != ("early", 1, None, None):
        raise UsageError(
            "the simulator of the chip has no --dma, --seed, --sanitize and --dump",
            "leave them out, or use the host simulation (no --runner)",
        )
    _require_sdk()
    with tempfile.TemporaryDirectory(prefix="dory-gvsoc-") as folder:
        copy = Path(folder, "app")
        shutil.copytree(app_dir, copy, ignore=shutil.ignore_patterns(*_IGNORED))
        if request.inputs is not None:
            _replace_vectors(copy, request, request.inputs)
        text = _make(copy, request.repeat, request.timeout_s or _TIMEOUT_S)
    runs = []
    for number, lines in enumerate(read_lines(text)):
        if lines.vector != number % len(request.expected):
            raise VerificationFailed(f"run {number} had input {lines.vector}", "report this")
        runs.append(request.run(number, (_result(layer, lines) for layer in request.layers)))
    if len(runs) != request.executions:
        raise VerificationFailed(
            f"{len(runs)} runs were reported, {request.executions} were to be",
            "the application and its vectors disagree: compile it again",
        )
    return request.result(GVSOC_RUNNER.name, runs)


def read_lines(text: str) -> list[_Lines]:
    """Return the lines of each execution. Raises VerificationFailed for an error or no end."""
    runs: list[_Lines] = []
    ended = False
    for line in text.splitlines():
        if error := _ERROR.search(line) or _UNCHECKED.search(line):
            raise VerificationFailed(f"on the target: {error[1]}", "compile the network again")
        if match := _RUN.search(line):
            runs.append(_Lines(int(match[2])))
        elif _END.search(line):
            ended = True
        elif runs and (match := _CYCLES.search(line)):
            runs[-1].cycles[int(match[1])] = int(match[2])
        elif runs and (match := _EXACT.search(line)):
            runs[-1].exact.add(int(match[1]))
        elif runs and (match := _DIFFERS.search(line)):
            layer, wrong, _, first, wanted, got = (int(text) for text in match.groups())
            runs[-1].differs[layer] = (wrong, first, wanted, got)
        elif match := _OUTPUT.search(line):
            raise VerificationFailed(
                f"the network's output is not that of layer {match[1]} when the layers are not "
                "handed out",
                "a transfer or a barrier is missing: run on the host simulation with --dma random",
            )
    if not ended:
        shown = "\n".join(text.splitlines()[-_SHOWN_LINES:])
        raise VerificationFailed(f"the program did not end properly:\n{shown}")
    return runs


def _result(layer: simulate.LayerOutput, lines: _Lines) -> simulate.LayerResult:
    cycles = lines.cycles.get(layer.index)
    if layer.index in lines.exact:
        return layer.reported(None, cycles)
    if layer.index not in lines.differs:
        raise VerificationFailed(
            f"layer {layer.index} '{layer.name}' did not run",
            "the application and the plan disagree: compile it again",
        )
    return layer.reported(lines.differs[layer.index], cycles)


def _require_sdk() -> None:
    rules = os.environ.get("RULES_DIR", "")
    if not rules or not Path(rules, RULES).is_file():
        raise ToolMissing(
            f"the environment of the GreenWaves SDK is not set: RULES_DIR/{RULES} "
            + (f"is not there ({rules})" if rules else "is not known"),
            "source the SDK's configuration of your board, for example configs/gapuino_v3.sh",
        )
    if shutil.which("make") is None:
        raise ToolMissing("make is not installed", "the SDK needs it")


def _replace_vectors(app: Path, request: simulate.RunRequest, inputs: Sequence[bytes]) -> None:
    folder = app / "vectors"
    (folder / "input.bin").write_bytes(b"".join(inputs))
    if request.starts:
        (folder / "resets.bin").write_bytes(bytes(request.starts))
    for layer in request.layers:
        data = b"".join(layer.pack(values[layer.index]) for values in request.expected)
        (folder / f"layer_{layer.index:02d}.bin").write_bytes(data)


def _make(app: Path, repeat: int, timeout_s: float) -> str:
    """Build and run; return what was printed."""
    variables = ["platform=gvsoc", "PMSIS_OS=pulpos", f"REPEAT={repeat}"]
    build = simulate.run_process(
        ["make", "clean", "all", *variables], app, timeout_s, "make clean all"
    )
    if build.returncode != 0:
        shown = "\n".join((build.stderr or build.stdout).strip().splitlines()[-_SHOWN_LINES:])
        raise VerificationFailed(
            f"the SDK does not build the application:\n{shown}",
            "compare with `make clean all platform=gvsoc PMSIS_OS=pulpos` in its directory",
        )
    # The exit status says whether values differ, which the lines say too and better.
    return simulate.run_process(["make", "run", *variables], app, timeout_s, "make run").stdout


GVSOC_RUNNER = simulate.Runner(
    name="gvsoc",
    summary="the application built with the GreenWaves SDK, on its simulator GVSOC",
    run=run_gvsoc,
)
