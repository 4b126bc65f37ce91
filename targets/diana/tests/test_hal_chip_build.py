"""HAL and header compiled for the chip's host core, and an application linked for it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from dory_diana.runtime import driver_files, hal_files

from dory_core.testing import runtime
from dory_core.testing.apps import build_app
from dory_core.testing.cases import network_cases

RUNTIME = Path(runtime.__file__).parent / "include"
COMPILE = (
    *(sys.executable, "-m", "ziglang", "cc", "-target", "riscv32-linux-gnu"),
    *("-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"),
)
# What a board's driver library supplies and a program that only links does without.
LIBRARY = """
#include "dory_diana_driver.h"
void memcpy_dig(unsigned int *l2, unsigned int l1, unsigned int bytes, unsigned int direction,
                unsigned int banks)
{ (void)l2; (void)l1; (void)bytes; (void)direction; (void)banks; }
void dory_cores_barrier_digital(void) {}
void dory_cores_barrier_analog(void) {}
#define CALL(name) void name(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, \\
                             Layer_parameters *p) \\
{ (void)a; (void)b; (void)c; (void)d; (void)e; (void)p; }
CALL(digital_conv_2d)
CALL(digital_depthwise_conv_2d)
CALL(digital_fully_connected)
CALL(element_wise_sum)
#define ANALOG(name) void name(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, \\
                               uintptr_t f, Layer_parameters *p) \\
{ (void)a; (void)b; (void)c; (void)d; (void)e; (void)f; (void)p; }
ANALOG(analog_conv_2d)
ANALOG(analog_fully_connected)
"""
MAIN = """
#include "dory_diana_hal.h"
#include "dory_io.h"
#include "network.h"
static uint8_t l2[DORY_L2_SIZE] __attribute__((aligned(16)));
static uint8_t input[DORY_NETWORK_INPUT_BYTES], output[DORY_NETWORK_OUTPUT_BYTES];
int main(void)
{
  const dory_network_io_t io = {dory_diana_l1_arena(), l2, DORY_L1_SIZE, DORY_L2_SIZE, input,
                                output, 0, 0, 0, 0, 0, 0};
  return dory_network_run(&io);
}
"""

pytestmark = pytest.mark.skipif(
    find_spec("ziglang") is None, reason="the ziglang wheel is not installed"
)


def write(folder: Path) -> None:
    for file in (*driver_files(), *hal_files()):
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(file.content))


def compile_for_the_chip(folder: Path, *arguments: str) -> None:
    done = subprocess.run([*COMPILE, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    assert "warning" not in done.stderr


def test_the_hal_compiles_for_32_bit_risc_v(tmp_path: Path) -> None:
    write(tmp_path)
    includes = (f"-I{RUNTIME}", "-Ihal/diana", "-Ikernels")
    compile_for_the_chip(tmp_path, *includes, "-c", "hal/diana/dory_diana_dma.c", "-o", "dma.o")
    (tmp_path / "cycles.c").write_text(
        '#include "dory_hal.h"\nuint32_t now(void);\nuint32_t now(void) { return dory_cycles(); }\n'
    )
    compile_for_the_chip(tmp_path, *includes, "-c", "cycles.c", "-o", "cycles.o")
    read_mcycle_into_a0 = 0xB0002573
    assert read_mcycle_into_a0.to_bytes(4, "little") in (tmp_path / "cycles.o").read_bytes()


@pytest.mark.slow
def test_an_application_links_for_32_bit_risc_v(tmp_path: Path) -> None:
    app = tmp_path / "app"
    network = next(case for case in network_cases() if case.name == "residual").build()
    build_app(network, "diana", app)
    write(app)
    (tmp_path / "library.c").write_text(LIBRARY)
    (tmp_path / "main.c").write_text(MAIN)
    sources = sorted(
        str(path) for name in ("src", "weights", "kernels") for path in (app / name).glob("*.c")
    )
    includes = [f"-I{app / name}" for name in ("inc", "src", "hal/include", "hal/diana", "kernels")]
    compile_for_the_chip(
        tmp_path,
        *includes,
        *sources,
        str(app / "hal/diana/dory_diana_dma.c"),
        *("library.c", "main.c", "-o", "program"),
    )
    header = (tmp_path / "program").read_bytes()[:20]
    assert header[:5] == b"\x7fELF\x01"  # 32 bits
    assert header[18:20] == b"\xf3\x00"  # RISC-V
