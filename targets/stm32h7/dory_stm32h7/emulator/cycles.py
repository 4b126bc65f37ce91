"""Cycles of an application's layers: executed blocks of its image, weighted by a model of the core.

The image runs on the emulated chip; how long a block takes says the model of the Cortex-M7's
pipeline (pipeline.py), or another function of its instructions.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dory_core.api import ToolMissing
from dory_stm32h7.emulator import pipeline

if TYPE_CHECKING:
    from dory_stm32h7.emulator.machine import Machine
    from dory_stm32h7.emulator.runner import Session

Blocks = dict[tuple[int, int], int]
_DISASSEMBLERS = ("llvm-objdump", "arm-none-eabi-objdump")


@dataclass(frozen=True, slots=True)
class LayerCycles:
    """What a layer takes on the emulated chip, transfers aside.

    estimate, stalls: cycles that the plan says for computing, and for waiting.
    """

    index: int
    name: str
    kernel: str
    macs: int
    instructions: int
    cycles: float
    estimate: int
    stalls: int


def has_disassembler() -> bool:
    """Return True when code can be listed."""
    return any(shutil.which(name) for name in _DISASSEMBLERS)


def listing(program: Path) -> dict[int, str]:
    """Return the instructions of a program by address. Raises ToolMissing."""
    tool = next((name for name in _DISASSEMBLERS if shutil.which(name)), None)
    if tool is None:
        raise ToolMissing(
            f"no disassembler found (tried {', '.join(_DISASSEMBLERS)})",
            "install llvm or binutils-arm-none-eabi",
        )
    command = [tool, "-d", "--no-show-raw-insn", str(program)]
    command += ["--mcpu=cortex-m7"] if tool.startswith("llvm") else []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = (re.match(r"^\s*([0-9a-f]+):\s+(\S[^;@]*)", line) for line in done.stdout.splitlines())
    return {int(m[1], 16): m[2].strip() for m in lines if m}


def executed(session: Session) -> dict[int, Blocks]:
    """Run an image to its end; return the blocks of each layer in the first inference."""
    found: dict[int, Blocks] = {}
    before: Blocks = {}

    def start(machine: Machine) -> None:
        before.clear()
        before.update(machine.blocks)

    def layer(machine: Machine) -> None:
        now = machine.blocks
        count = {b: n - before.get(b, 0) for b, n in now.items() if n != before.get(b, 0)}
        found.setdefault(machine.argument(0), count)
        start(machine)

    session.machine.at(f"{session.plan['prefix']}_network_run", start)
    session.machine.at("board_layer", layer)
    session.run(600)
    return found


def measure(
    session: Session, model: Callable[[list[str]], float] = pipeline.cycles
) -> list[LayerCycles]:
    """Return the cycles of the layers of an application. Raises ToolMissing without a disassembler.

    model: cycles of a straight block of code.
    """
    code = listing(session.program)
    found = executed(session)
    known: dict[tuple[int, int], tuple[int, float]] = {}
    for blocks in found.values():
        for start, size in blocks:
            if (start, size) not in known:
                lines = [code[a] for a in range(start, start + size, 2) if a in code]
                known[start, size] = len(lines), model(lines)
    return [
        LayerCycles(
            layer["index"],
            layer["name"],
            layer["kernel"],
            layer["macs"],
            sum(n * known[b][0] for b, n in found[layer["index"]].items()),
            sum(n * known[b][1] for b, n in found[layer["index"]].items()),
            layer["estimate"]["compute_cycles"],
            layer["estimate"]["cycles"] - layer["estimate"]["compute_cycles"],
        )
        for layer in session.plan["layers"]
    ]
