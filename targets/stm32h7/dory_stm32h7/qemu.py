"""Runner ``qemu``: the same C on QEMU's Cortex-M7 board, a second opinion on core and instructions.

QEMU has no MDMA and other memories: the image is linked again, and its transfers are copies by the
core. It traps unaligned double-word accesses, which unicorn does not.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dory_core.api import ToolMissing, UsageError, VerificationFailed, simulate
from dory_core.tools import read_plan

NAME = "qemu"
PROGRAM = "qemu-system-arm"
VARIANT = "mps2_an500"
SCRIPT = "board/qemu/mps2_an500.ld"

# One instruction takes 2^SHIFT ns of virtual time; the board's timer runs at 25 MHz.
SHIFT = 6
TIMER_NS = 40
_EXIT_DIFFERS = 5
_TIMEOUT_S = 600.0
_OUTPUT = 0xFFFF_FFFF


def run_qemu(app_dir: Path, request: simulate.RunRequest) -> simulate.RunResult:
    """Build the application for QEMU's board, execute it and compare every layer.

    Raises UsageError for an application that needs the MDMA, ToolMissing without QEMU,
    VerificationFailed when the program does not come to its end.
    """
    if request.dma != "early" or request.sanitize is not None:
        raise UsageError(
            f"runner {NAME} has neither DMA modes nor sanitizers", "use --runner host for them"
        )
    if shutil.which(PROGRAM) is None:
        raise ToolMissing(f"{PROGRAM} is missing", "install QEMU, or use another --runner")
    app_dir = Path(app_dir).resolve()
    if (app_dir / "hal/stm32h7/dory_mdma.c").exists() or not (app_dir / "board/qemu").is_dir():
        raise UsageError(
            f"the board of runner {NAME} has no MDMA",
            "compile with --set dma=memcpy and --set form=application",
        )
    if request.inputs is not None:
        data = b"".join(request.inputs)
    else:
        data = (app_dir / "vectors/input.bin").read_bytes()
    with tempfile.TemporaryDirectory(prefix="dory-qemu-") as folder:
        Path(folder, "input.bin").write_bytes(data * request.repeat)
        Path(folder, "resets.bin").write_bytes(bytes(request.starts) * request.repeat)
        _execute(_build(app_dir), Path(folder), request.timeout_s or _TIMEOUT_S)
        results = Path(folder, "results.bin")
        records = _records(results.read_bytes() if results.exists() else b"")
        executions = list(_executions(records))
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


def _build(app_dir: Path) -> Path:
    from dory_stm32h7.parts import DEFAULT, part_of
    from dory_stm32h7.toolchain import find_toolchain

    external = part_of(read_plan(app_dir)["options"]).external
    toolchain = find_toolchain(replace(DEFAULT, external=external))  # where constants go
    defines = {"BOARD_ALWAYS_SEMIHOSTING": 1, "DORY_OTHER_CHIP": 1}
    recipe = toolchain.recipe(VARIANT, SCRIPT, ("board/qemu",), defines)
    return simulate.build_program(app_dir, recipe, toolchain.compiler)


def _execute(program: Path, folder: Path, timeout_s: float) -> None:
    command = [PROGRAM, "-M", "mps2-an500", "-display", "none", "-monitor", "none"]
    command += ["-serial", "none", "-semihosting-config", "enable=on,target=native"]
    command += ["-icount", f"shift={SHIFT}", "-kernel", str(program)]
    result = simulate.run_process(command, folder, timeout_s, "the image")
    if result.returncode not in (0, _EXIT_DIFFERS):
        text = (result.stdout + result.stderr).strip()[:400]
        raise VerificationFailed(f"the image ends with status {result.returncode}: {text}")


def _executions(
    records: Iterator[tuple[int, int, bytes]],
) -> Iterator[dict[int, tuple[int, bytes]]]:
    """Yield (instructions, bytes) of each layer of a run; pieces of a layer are joined."""
    mine: dict[int, tuple[int, bytes]] = {}
    for index, count, raw in records:
        before, data = mine.get(index, (0, b""))
        mine[index] = (before + count, data + raw)
        if index == _OUTPUT:
            yield mine
            mine = {}


def _records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield (layer, instructions, bytes)."""
    at = 0
    while at < len(data):
        layer, size, ticks = struct.unpack_from("<III", data, at)
        at += 12
        yield layer, ticks * TIMER_NS >> SHIFT, data[at : at + size]
        at += size
