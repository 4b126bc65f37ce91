"""What an application consists of, and that its C compiles for the chip and for a runtime."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from array_networks import network_cases

from dory_core.testing import INCLUDE_FOLDERS
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.compilers import ONLY_CHECK, host_compiler

MIXED = next(case for case in network_cases() if case.name == "mixed")
RISCV = ("-target", "riscv32-linux-musl", "-mcpu=generic_rv32+m+c")
FLAGS = ("-std=c99", "-ffreestanding", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2")
CHIP_FOLDERS = ("inc", "src", "hal/include", "hal/diana", "kernels", "board")
STRICT = (
    *("-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wundef", "-Wcast-qual", "-Wvla"),
    *("-Wstrict-prototypes", "-Wmissing-prototypes", "-Wwrite-strings", "-Wpointer-arith"),
)

USER = """\
#include "dory_diana_layers.h"

static uint8_t l2[DORY_L2_SIZE] __attribute__((aligned(DORY_ARENA_ALIGN)));

void dory_diana_fault(const char *reason) { (void)reason; }

void run_first_layer(void);
void run_first_layer(void) { dory_layer_00(dory_diana_l1_arena(), l2); }
"""


def ziglang() -> list[str]:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the ziglang wheel is not installed")
    return [sys.executable, "-m", "ziglang", "cc"]


def compile_for_the_chip(app: Path, folders: tuple[str, ...]) -> None:
    command = ziglang()
    includes = [f"-I{folder}" for folder in CHIP_FOLDERS]
    sources = [str(p.relative_to(app)) for f in folders for p in sorted((app / f).glob("*.[cS]"))]
    assert sources
    done = subprocess.run(
        [*command, *RISCV, *FLAGS, *includes, "-c", *sources],
        cwd=app,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:4000]


def test_application_compiles_for_the_chip(tmp_path: Path) -> None:
    build_app(MIXED.build(), "diana", tmp_path / "app")
    makefile = (tmp_path / "app/Makefile").read_text()
    assert "include board/board.mk" in makefile
    compile_for_the_chip(tmp_path / "app", ("src", "weights", "kernels", "hal/diana", "board"))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("folders", "includes"),
    [
        (("src", "weights", "kernels", "hal/host"), INCLUDE_FOLDERS),
        (("src", "kernels", "hal/diana", "board"), CHIP_FOLDERS),
    ],
    ids=["host", "chip"],
)
def test_application_is_clean_under_strict_warnings(
    folders: tuple[str, ...], includes: tuple[str, ...], tmp_path: Path
) -> None:
    app = tmp_path / "app"
    build_app(MIXED.build(), "diana", app)
    files = [str(p) for folder in folders for p in sorted((app / folder).glob("*.c"))]
    flags = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *STRICT, *ONLY_CHECK)
    done = subprocess.run(
        [*host_compiler(), *flags, *(f"-I{app / f}" for f in includes), *files],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:4000]


def test_calls_are_those_of_the_public_driver(tmp_path: Path) -> None:
    build_app(MIXED.build(), "diana", tmp_path / "app")
    text = "".join(p.read_text() for p in sorted((tmp_path / "app/src").glob("dory_layer_*.c")))
    called = {
        "digital_conv_2d",
        "digital_depthwise_conv_2d",
        "digital_fully_connected",
        "element_wise_sum",
        "analog_conv_2d",
    }
    for name in called:
        assert re.search(rf"^\s*{name}\([^;]*&parameters\);$", text, re.MULTILINE), name
    header = (tmp_path / "app/kernels/dory_diana_driver.h").read_text()
    assert all(f"void {name}(" in header for name in called)
    assert not (tmp_path / "app/kernels/dory_diana_digital.c").exists(), "the model is the host's"
    assert (tmp_path / "app/hal/host/dory_diana_digital.c").exists()


def test_library_is_exact_and_has_one_header_and_no_main(tmp_path: Path) -> None:
    app = tmp_path / "app"
    plan = build_app(MIXED.build(), "diana", app, settings={"form": "library"})
    assert_exact(app, dma=("random",))
    assert not (app / "board").exists()
    sources = [p for f in ("src", "kernels", "weights", "hal/diana") for p in (app / f).glob("*.c")]
    assert not any(re.search(r"\bmain\s*\(", p.read_text()) for p in sources)
    header = (app / "inc/dory_diana_layers.h").read_text()
    for step in plan.steps:
        assert f"void dory_layer_{step.index:02d}(" in header
        assert f"{step.output.place.tensor.name}: " in header
    assert "layout digital" in header and "layout analog" in header and "layout HWC" in header


def test_layers_of_a_library_are_called_from_a_runtime_for_the_chip(tmp_path: Path) -> None:
    app = tmp_path / "app"
    build_app(MIXED.build(), "diana", app, settings={"form": "library"})
    (app / "user").mkdir()
    (app / "user/user.c").write_text(USER)
    compile_for_the_chip(app, ("src", "weights", "kernels", "hal/diana", "user"))


@pytest.mark.parametrize("l1_kib", ["128", "256"])
def test_the_size_of_l1_is_an_option(l1_kib: str, tmp_path: Path) -> None:
    plan = build_app(MIXED.build(), "diana", tmp_path / "app", settings={"l1_kib": l1_kib})
    assert (
        f"#define DORY_L1_SIZE {int(l1_kib) * 1024}u"
        in (tmp_path / "app/src/network.h").read_text()
    )
    assert plan.deployable
    assert_exact(tmp_path / "app", dma=("late",))


def test_another_scale_of_the_converters_leaves_ternary_layers_to_the_host(tmp_path: Path) -> None:
    plan = build_app(MIXED.build(), "diana", tmp_path / "app", settings={"adc_scale": "24"})
    assert "analog" not in {step.kernel.engine for step in plan.steps}
    [reason] = [
        r.reason for s in plan.steps if s.index == 1 for r in s.rejections if "analog" in r.kernel
    ]
    assert "6-bit converters" in reason
    assert_exact(tmp_path / "app", dma=("early",))


def test_legend_names_every_kernel_of_the_arrays(tmp_path: Path) -> None:
    from dory_diana.backend import analog, digital

    build_app(MIXED.build(), "diana", tmp_path / "app")
    legend = (tmp_path / "app/kernels/README.md").read_text(encoding="utf-8")
    kernels = [getattr(module, name) for module in (analog, digital) for name in dir(module)]
    named = {k.name: k.function for k in kernels if isinstance(getattr(k, "function", None), str)}
    assert len(named) == 6
    assert all(f"| `{name}` |" in legend for name in named)
    assert all(f"`{function}`" in legend for function in named.values())
