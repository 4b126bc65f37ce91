"""Runner ``qemu``: the application's image on QEMU's board of the Corstone-300, with its MVE."""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dory_core.api import ToolMissing, UsageError, VerificationFailed, simulate
from dory_cortex_m55.toolchain import find_toolchain, has_toolchain

NAME = "qemu"
PROGRAM = "qemu-system-arm"
COMMAND = (
    *(PROGRAM, "-M", "mps3-an547", "-display", "none", "-monitor", "none", "-serial", "none"),
    *("-semihosting-config", "enable=on,target=native"),
)

# One instruction takes 2^SHIFT ns of virtual time; the system counter of the board runs at 32 MHz.
SHIFT = 7
_COUNTER_HZ = 32_000_000
_TIMEOUT_S = 600.0
_OUTPUT = 0xFFFF_FFFF

#: Of a layer, or of the network's output: instructions, and bytes as they lie in memory.
Results = dict[int, tuple[int, bytes]]


def runner() -> simulate.Runner:
    """Return the runner; preferred where its tools are installed."""
    missing = ""
    if shutil.which(PROGRAM) is None:
        missing = f"{PROGRAM} is not installed"
    elif not has_toolchain():
        missing = "neither arm-none-eabi-gcc nor the Python package ziglang is installed"
    return simulate.Runner(
        NAME,
        "the image of the Corstone-300 on QEMU, which executes every instruction of the kernels",
        run_qemu,
        preferred=not missing,
        missing=missing,
    )


def run_qemu(app_dir: Path, request: simulate.RunRequest) -> simulate.RunResult:
    """Build the image, execute it and compare every layer.

    Raises UsageError for modes of the host simulation, ToolMissing without QEMU,
    VerificationFailed when the program does not come to its end.
    """
    if request.dma != "early" or request.sanitize is not None:
        raise UsageError(
            f"runner {NAME} has neither DMA modes nor sanitizers", "use --runner host for them"
        )
    if shutil.which(PROGRAM) is None:
        raise ToolMissing(f"{PROGRAM} is missing", "install QEMU, or use --runner host")
    app_dir = Path(app_dir).resolve()
    if request.inputs is not None:
        data = b"".join(request.inputs)
    else:
        data = (app_dir / "vectors/input.bin").read_bytes()
    toolchain = find_toolchain()
    image = simulate.build_program(app_dir, toolchain.recipe(), toolchain.compiler)
    with tempfile.TemporaryDirectory(prefix="dory-qemu-") as folder:
        Path(folder, "input.bin").write_bytes(data * request.repeat)
        Path(folder, "resets.bin").write_bytes(bytes(request.starts) * request.repeat)
        _execute(image, Path(folder), request.timeout_s or _TIMEOUT_S)
        results = Path(folder, "results.bin")
        found = list(_executions(results.read_bytes() if results.exists() else b""))
    return _compared(request, found)


def _execute(image: Path, folder: Path, timeout_s: float) -> None:
    command = [*COMMAND, "-icount", f"shift={SHIFT}", "-kernel", str(image)]
    result = simulate.run_process(command, folder, timeout_s, "the image")
    if result.returncode != 0:
        text = (result.stdout + result.stderr).strip()[:400]
        raise VerificationFailed(f"the image ends with status {result.returncode}: {text}")


def _compared(request: simulate.RunRequest, executions: list[Results]) -> simulate.RunResult:
    by_layer = {layer.index: layer for layer in request.layers}
    wanted = {*by_layer, _OUTPUT}
    if len(executions) != request.executions or any(mine.keys() != wanted for mine in executions):
        raise VerificationFailed(f"the image wrote results of {len(executions)} runs, or not all")
    runs = []
    for number, mine in enumerate(executions):
        values = {i: layer.unpack(mine[i][1]) for i, layer in by_layer.items()}
        run = request.compare(number, values, {index: mine[index][0] for index in by_layer})
        made = b"".join(mine[i][1] for i in request.output_layers)
        if request.output_layers and mine[_OUTPUT][1] != made:
            raise VerificationFailed(f"{run.input}: the network's output is not that of its layers")
        runs.append(run)
    return request.result(NAME, runs, "none")


def _executions(data: bytes) -> Iterator[Results]:
    """Yield the results of each run; pieces of a layer are joined."""
    mine: Results = {}
    for index, count, raw in _records(data):
        before, bytes_ = mine.get(index, (0, b""))
        mine[index] = (before + count, bytes_ + raw)
        if index == _OUTPUT:
            yield mine
            mine = {}


def _records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield (layer, instructions, bytes) of each record, as board/main.c writes them."""
    at = 0
    while at < len(data):
        layer, size, ticks = struct.unpack_from("<III", data, at)
        at += 12
        yield layer, instructions(ticks), data[at : at + size]
        at += size


def instructions(ticks: int) -> int:
    """Return the instructions that were executed in some ticks of the counter."""
    return (ticks * 1_000_000_000 // _COUNTER_HZ) >> SHIFT
