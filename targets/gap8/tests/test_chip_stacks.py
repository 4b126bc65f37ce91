"""The stack that layers take with the chip's compiler, read from its assembly."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from dory_gap8.hardware import STACK_CORE0_BYTES, STACK_CORE_BYTES
from test_chip_build import MAIN_STACK_BYTES, most_taps, tables_of_tiles, wide_inputs
from test_code_sizes import INCLUDES, chip_command

from dory_core.testing.apps import build_app

#: Sources with their optimisation, as the application's Makefile has it.
FOLDERS = {"src": "-Os", "kernels": "-O3"}
_LABEL = re.compile(r"^(dory_\w+)(?:\.[\w.]+)?:", re.MULTILINE)
_FRAME = re.compile(r"^\s*addi?\s+sp,\s*sp,\s*-(\d+)", re.MULTILINE)
_CALL = re.compile(r"^\s*(?:call|tail|jal|j)\s+(?:ra,\s*)?(dory_\w+)", re.MULTILINE)


def frames(app: Path) -> dict[str, tuple[int, set[str]]]:
    """Return bytes of stack and callees of each function; of equal names the most bytes."""
    found: dict[str, tuple[int, set[str]]] = {}
    includes = (f"-I{path}" for path in INCLUDES)
    command = (*chip_command(), *includes, "-std=gnu99", "-w", "-S", "-o", "-")
    for folder, optimise in FOLDERS.items():
        for source in sorted((app / folder).glob("*.c")):
            call = (*command, optimise, str(source))
            text = subprocess.run(call, cwd=app, capture_output=True, text=True, check=True).stdout
            pieces = _LABEL.split(text)
            for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
                size, callees = found.get(name, (0, set()))
                own = sum(map(int, _FRAME.findall(body)))
                found[name] = max(size, own), callees | set(_CALL.findall(body))
    return found


def deepest(functions: dict[str, tuple[int, set[str]]], root: str) -> int:
    """Return the most bytes of stack that a function and what it calls take."""

    @cache
    def below(name: str) -> int:
        size, callees = functions.get(name, (0, set()))
        return size + max((below(one) for one in callees if one != name), default=0)

    return below(root)


@pytest.mark.parametrize("network", [most_taps, wide_inputs, tables_of_tiles])
def test_no_layer_takes_more_than_the_stack_of_a_core(network, tmp_path: Path) -> None:
    chip_command()  # skips without the compiler
    budgets = {1: 20_000, 2: 90_000} if network is tables_of_tiles else {}
    build_app(network(), "gap8", tmp_path / "app", budgets=budgets)
    needed = deepest(frames(tmp_path / "app"), "dory_network_run")
    assert 400 < needed <= STACK_CORE_BYTES - MAIN_STACK_BYTES


def test_words_of_a_stack_are_odd_so_that_cores_read_different_banks() -> None:
    assert STACK_CORE_BYTES % 8 == 4
    assert STACK_CORE_BYTES < STACK_CORE0_BYTES  # which moves rows by way of 1 KiB
