"""The sources of the chip's build: checked by the host's compiler, linked for 32-bit RISC-V.

The SDK's headers are those of ``sdk/include``, which have the names that are used and no more. An
accessor of a register is an instruction of the chip alone, so both take the models' instead.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import dory_gap8
import pytest
from dory_gap8.hardware import STACK_CORE_BYTES

from dory_core.api import Graph, ops
from dory_core.testing.apps import build_app
from dory_core.testing.cases import network_cases
from dory_core.testing.compilers import ONLY_CHECK, deepest_stack, host_compiler
from dory_core.testing.graphs import GraphBuilder

ARM = "arm-none-eabi-gcc"
# What the main program has on the stack of a core that runs the network; pulp-os has nothing there.
MAIN_STACK_BYTES = 16
SDK = Path(__file__).parent / "sdk"
KERNELS = Path(dory_gap8.__file__).parent / "kernels"
MODELS = ("-include", str(SDK / "model_registers.h"), f"-I{SDK}")
FOLDERS = ("src", "weights", "kernels", "hal/gap8")
FLAGS = ("-std=gnu99", "-Werror")
INCLUDES = ("inc", "src", "hal/include", "hal/gap8", "kernels", str(SDK / "include"))


@pytest.fixture(scope="module", params=["two-levels", "three-levels"])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("chip") / "app"
    network = next(case for case in network_cases() if case.name == "residual").build()
    budgets = {1: 6000} if request.param == "two-levels" else {1: 6000, 2: 7000}
    build_app(network, "gap8", directory, budgets=budgets)
    return directory


def sources(app: Path) -> list[str]:
    return sorted(
        str(path.relative_to(app)) for folder in FOLDERS for path in app.glob(f"{folder}/*.c")
    )


def compile_all(app: Path, folder: Path, *command: str) -> None:
    """Compile all sources as the SDK does, in ``folder``; a warning is an error."""
    includes = (f"-I{app / path}" for path in INCLUDES)
    done = subprocess.run(
        [*command, *FLAGS, *includes, *(str(app / path) for path in sources(app))],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.sample(2)
def test_sources_are_clean(app: Path, tmp_path: Path) -> None:
    warnings = ("-Wall", "-Wextra", "-Wno-pointer-to-int-cast")
    compile_all(app, tmp_path, *host_compiler(), *ONLY_CHECK, *warnings, *MODELS)


@pytest.mark.sample(2)
@pytest.mark.skipif(find_spec("ziglang") is None, reason="the ziglang wheel is not installed")
def test_program_links_for_32_bit_risc_v(app: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    compile_all(
        app,
        tmp_path,
        *(sys.executable, "-m", "ziglang", "cc", "-target", "riscv32-linux-gnu"),
        *("-O1", "-DDORY_GAP8_XPULPV2=0", "-DSTUB_L1_BYTES=65504"),
        *MODELS,
        *(str(SDK / "model.c"), str(SDK / "model_storage.c"), "-o", str(program)),
    )
    header = program.read_bytes()[:20]
    assert header[:5] == b"\x7fELF\x01"  # 32 bits
    assert header[18:20] == b"\xf3\x00"  # RISC-V


def most_taps() -> Graph:
    """Filters of as many taps as block kernels take, then sums that go through the stack."""
    b = GraphBuilder((7, 12, 50), name="taps")
    b.conv(8, ops.Window(kernel=(1, 49), pads=(0, 24, 0, 24)))
    b.conv(8, ops.Window(kernel=(7, 7), pads=(3, 3, 3, 3)))
    b.conv(6, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)), output=(-300, 700))
    b.add(
        b.conv(6, ops.Window(kernel=(1, 1))),
        b.conv(6, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))),
    )
    return b.graph()


def wide_inputs() -> Graph:
    """Inputs of 16 bits with weights of two, which the compiler unpacks beside each other."""
    b = GraphBuilder((12, 9, 9), values=(0, 1020), name="wide")
    b.conv(8, ops.Window(kernel=(3, 3)), weights=(-2, 1), output=(-300, 700))
    b.conv(8, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)), groups=8)
    return b.graph()


def tables_of_tiles() -> Graph:
    """Parts of a chain whose tiles have sizes and places of their own."""
    b = GraphBuilder((16, 47, 47), seed=7, name="tables")
    b.conv(40, ops.Window(kernel=(1, 49), pads=(0, 24, 0, 24)))
    b.conv(16, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    return b.graph()


def block_frame() -> int:
    """Return the bytes of stack of the block in assembly, with those of a tie in binary32."""
    sizes = [
        max(map(int, re.findall(pattern, (KERNELS / name).read_text())))
        for name, pattern in (
            ("dory_gap8_block_asm.h", r"addi sp, sp, -(\d+)"),
            ("dory_gap8_slide_asm.h", r"addi sp, sp, -(\d+)"),
            ("dory_gap8_even_asm.h", r"define DORY_EVEN_FRAME (\d+)"),
        )
    ]
    return max(sizes[:2]) + sizes[2]


@pytest.mark.sample(4)
@pytest.mark.skipif(shutil.which(ARM) is None, reason=f"no {ARM} (package gcc-arm-none-eabi)")
@pytest.mark.parametrize("network", [most_taps, wide_inputs, tables_of_tiles])
@pytest.mark.parametrize("optimise", ["-Os", "-O3"])
def test_no_layer_needs_more_stack_than_a_core_has(
    network: Callable[[], Graph], optimise: str, tmp_path: Path
) -> None:
    """Another 32-bit target stands for the chip."""
    app = tmp_path / "app"
    budgets = {1: 20_000, 2: 90_000} if network is tables_of_tiles else {}
    build_app(network(), "gap8", app, budgets=budgets)
    files = [app / name for name in sources(app) if name.split("/")[0] in ("src", "kernels")]
    options = (ARM, "-mcpu=cortex-m4", optimise, "-std=gnu99")
    includes = (f"-I{app / path}" for path in INCLUDES)
    command = [*options, *includes, *map(str, files)]
    assembly = {"dory_block_run": block_frame()}
    needed = deepest_stack(command, tmp_path, "dory_network_run", assembly)
    assert 0 < needed <= STACK_CORE_BYTES - MAIN_STACK_BYTES
