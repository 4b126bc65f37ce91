"""The stack that layers take with the chip's compiler, read from its assembly."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from dory_gap8.hardware import STACK_CORE0_BYTES, STACK_CORE_BYTES
from test_chip_build import MAIN_STACK_BYTES, most_taps, tables_of_tiles, wide_inputs
from test_code_sizes import INCLUDES, chip_command

from dory_core.testing.apps import build_app
from dory_core.testing.compilers import deepest_call

#: Sources with their optimisation, as the application's Makefile has it.
FOLDERS = {"src": "-Os", "kernels": "-O3"}
_LABEL = re.compile(r"^(dory_\w+)(?:\.[\w.]+)?:", re.MULTILINE)
_FRAME = re.compile(r"^\s*addi?\s+sp,\s*sp,\s*-(\d+)", re.MULTILINE)
_CALL = re.compile(r"^\s*(?:call|tail|jal|j)\s+(?:ra,\s*)?(dory_\w+)", re.MULTILINE)


def frames_and_calls(app: Path) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Return bytes of stack and callees of each function; of equal names the most bytes."""
    frames: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    includes = (f"-I{path}" for path in INCLUDES)
    command = (*chip_command(), *includes, "-std=gnu99", "-w", "-S", "-o", "-")
    for folder, optimise in FOLDERS.items():
        for source in sorted((app / folder).glob("*.c")):
            call = (*command, optimise, str(source))
            text = subprocess.run(call, cwd=app, capture_output=True, text=True, check=True).stdout
            pieces = _LABEL.split(text)
            for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
                own = sum(map(int, _FRAME.findall(body)))
                frames[name] = max(frames.get(name, 0), own)
                calls.setdefault(name, set()).update(_CALL.findall(body))
    return frames, calls


@pytest.mark.parametrize("network", [most_taps, wide_inputs, tables_of_tiles])
def test_no_layer_takes_more_than_the_stack_of_a_core(network, tmp_path: Path) -> None:
    chip_command()  # skips without the compiler
    budgets = {1: 20_000, 2: 90_000} if network is tables_of_tiles else {}
    build_app(network(), "gap8", tmp_path / "app", budgets=budgets)
    needed = deepest_call(*frames_and_calls(tmp_path / "app"), "dory_network_run")
    assert 400 < needed <= STACK_CORE_BYTES - MAIN_STACK_BYTES


def test_words_of_a_stack_are_odd_so_that_cores_read_different_banks() -> None:
    assert STACK_CORE_BYTES % 8 == 4
    assert STACK_CORE_BYTES < STACK_CORE0_BYTES  # which moves rows by way of 1 KiB
