"""The sources of the chip's build: checked by the host's compiler, linked for 32-bit RISC-V.

The SDK's headers are those of ``sdk/include``, which have the names that are used and no more. An
accessor of a register is an instruction of the chip alone, so the link takes the models' instead.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from dory_core.testing.apps import build_app
from dory_core.testing.cases import network_cases

SDK = Path(__file__).parent / "sdk"
FOLDERS = ("src", "weights", "kernels", "hal/gap8")
INCLUDES = ("inc", "hal/include", "hal/gap8", "kernels", str(SDK / "include"))


@pytest.fixture(scope="module", params=["two-levels", "three-levels"])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("chip") / "app"
    network = next(case for case in network_cases() if case.name == "residual").build()
    budgets = {1: 6000} if request.param == "two-levels" else {1: 6000, 2: 9000}
    build_app(network, "gap8", directory, budgets=budgets)
    return directory


def sources(app: Path) -> list[str]:
    return sorted(
        str(path.relative_to(app)) for folder in FOLDERS for path in app.glob(f"{folder}/*.c")
    )


def compile_all(app: Path, *command: str) -> None:
    done = subprocess.run(
        [*command, "-std=gnu99", *(f"-I{path}" for path in INCLUDES), *sources(app)],
        cwd=app,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler called cc")
def test_sources_are_clean(app: Path) -> None:
    warnings = ("-Wall", "-Wextra", "-Werror", "-Wno-pointer-to-int-cast")
    compile_all(app, "cc", "-fsyntax-only", *warnings)


@pytest.mark.skipif(find_spec("ziglang") is None, reason="the ziglang wheel is not installed")
def test_program_links_for_32_bit_risc_v(app: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    compile_all(
        app,
        *(sys.executable, "-m", "ziglang", "cc", "-target", "riscv32-linux-musl"),
        *("-O1", "-DDORY_GAP8_XPULPV2=0", "-DSTUB_L1_BYTES=65504"),
        *("-include", str(SDK / "model_registers.h"), f"-I{SDK}"),
        *(str(SDK / "model.c"), str(SDK / "model_storage.c"), "-o", str(program)),
    )
    header = program.read_bytes()[:20]
    assert header[:5] == b"\x7fELF\x01"  # 32 bits
    assert header[18:20] == b"\xf3\x00"  # RISC-V
