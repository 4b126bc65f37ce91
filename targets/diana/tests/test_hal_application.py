"""A whole program of the chip on this machine: only the driver library is the functional model.

Network, kernels, HAL and the board's main are compiled as for the chip, so that every transfer goes
through the HAL and the model of the DMA.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from array_networks import ArrayCase, network_cases
from diana_machine import HERE, WARNINGS
from dory_diana.runtime import model_files

from dory_core.testing.apps import build_app
from dory_core.testing.compilers import host_compiler

PARTS = ("job", "digital", "analog", "memcpy")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs the sections of ELF")


def build(app: Path, program: Path) -> None:
    """Compile the chip's program; the model comes from the host simulation's folder.

    Folders of headers are absolute: zig takes what it has made of diana_board.c in another
    application, whose folders have the same names, for this one.
    """
    for file in model_files(adc_scale=16):
        (app / file.path).write_text(str(file.content))
    folders = ("src", "weights", "kernels", "hal/diana", "board")
    sources = [str(path) for name in folders for path in sorted(app.glob(f"{name}/*.[cS]"))]
    model = [str(app / f"hal/host/dory_diana_{part}.c") for part in PARTS]
    includes = ("inc", "src", "hal/include", "hal/diana", "kernels", "board", "hal/host")
    command = [
        *host_compiler(),
        *WARNINGS,
        "-O1",
        *(f"-I{app / name}" for name in includes),
        *sources,
        *model,
    ]
    command += [str(HERE / "c/diana_board.c"), "-Wl,-z,noexecstack", "-o", str(program)]
    done = subprocess.run(command, cwd=app, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]


def run(program: Path) -> tuple[int, str]:
    """Return how many bytes of the output differ, as main does, and what the model said."""
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


def case_of(name: str) -> ArrayCase:
    return next(case for case in network_cases() if str(case) == name)


def check(case: ArrayCase, folder: Path, budgets: dict[int, int]) -> None:
    build_app(case.build(), "diana", folder / "app", budgets=budgets, seeds=(0, 1))
    build(folder / "app", folder / "program")
    assert run(folder / "program") == (0, "")


@pytest.mark.sample(4)
@pytest.mark.parametrize("case", network_cases(), ids=str)
def test_networks_in_tiles_are_exact_on_the_hal(case: ArrayCase, tmp_path: Path) -> None:
    check(case, tmp_path, {1: 12288})


def test_a_network_of_whole_layers_is_exact_on_the_hal(tmp_path: Path) -> None:
    check(case_of("mixed"), tmp_path, {})


def test_a_hal_that_rounds_up_is_found(tmp_path: Path) -> None:
    """Sixteen bytes as 32 overwrite what follows; the model does not even let it happen."""
    app = tmp_path / "app"
    build_app(case_of("mixed").build(), "diana", app)
    hal = app / "hal/diana/dory_diana_dma.c"
    text = hal.read_text()
    assert "bytes / GRANULE * GRANULE" in text
    hal.write_text(text.replace("bytes / GRANULE * GRANULE", "bytes"))
    build(app, tmp_path / "program")
    status, words = run(tmp_path / "program")
    assert status == 70
    assert "memcpy_dig: " in words and "are no multiple of 32" in words
