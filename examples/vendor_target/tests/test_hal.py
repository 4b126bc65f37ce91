"""The driver of the DMA is C for the chip: a RISC-V compiler takes it without a warning."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import dory_kite
import pytest

from dory_core.testing import runtime

HAL = Path(dory_kite.__file__).parent / "hal"
INCLUDE = Path(runtime.__file__).parent / "include"


def test_driver_compiles_for_the_chip(tmp_path: Path) -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("needs a compiler for RISC-V: pip install ziglang")
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "riscv32-freestanding-none"]
    command += ["-mcpu=generic_rv32+m+c", "-O2", "-std=gnu99", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{HAL}", f"-I{INCLUDE}", "-c", str(HAL / "dory_hal_kite.c")]
    subprocess.run([*command, "-o", str(tmp_path / "hal.o")], check=True)
