"""Generated C has nothing to say to a compiler that is asked for more than applications ask."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dory_core.ir import Window
from dory_core.simulate.build import FLAGS, INCLUDE_FOLDERS
from dory_core.simulate.compiler import find_compiler
from dory_core.testing.apps import build_app
from dory_core.testing.compilers import ONLY_CHECK
from dory_core.testing.graphs import I8, GraphBuilder
from tests.toy.array import array_chip
from tests.toy.chip import NAME as CHIP
from tests.toy.chip import ToyChip, three_levels

STRICT = (
    *("-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wundef", "-Wcast-qual", "-Wvla"),
    *("-Wstrict-prototypes", "-Wmissing-prototypes", "-Wwrite-strings", "-Wpointer-arith"),
)
FOLDERS = ("src", "weights", "kernels", "hal/host")
SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))


def every_kind() -> GraphBuilder:
    """Return a network with each kind of layer, 4-bit tensors and weights, and 32-bit outputs."""
    net = GraphBuilder((3, 20, 20))
    net.conv(8, Window(kernel=(3, 3), strides=(2, 2), pads=(0, 0, 1, 1)))
    net.conv(8, SAME, groups=8, wide=True)
    first = net.max_pool(Window(kernel=(2, 2), strides=(2, 2)))
    second = net.conv(8, Window(kernel=(1, 1)), output=(0, 15), weights=(-8, 7))
    net.conv(8, SAME, source=second, output=(0, 255), weights=I8)
    net.add(net.last, first)
    net.avg_pool(Window(kernel=(5, 5)))
    net.linear(4, bias=True)
    return net


@pytest.mark.parametrize("chip", [ToyChip(), three_levels()], ids=["two levels", "three levels"])
def test_an_application_is_clean_under_strict_warnings(chip: ToyChip, tmp_path: Path) -> None:
    app = tmp_path / "app"
    build_app(every_kind().graph(), CHIP, app, plugins=chip.plugins())
    check(app)


def test_a_streamed_application_is_clean_under_strict_warnings(tmp_path: Path) -> None:
    app, plugins = tmp_path / "app", three_levels().plugins()
    plan = build_app(every_kind().graph(), CHIP, app, plugins=plugins, budgets={2: 2400})
    assert plan.transfers
    check(app)


def test_an_application_with_layouts_is_clean_under_strict_warnings(tmp_path: Path) -> None:
    """Conversions, tensors that stay in L1, kernels in place; the test's own kernels apart."""
    app, chip = tmp_path / "app", array_chip(resident_l1=True, l1_bytes=16 * 1024)
    net = GraphBuilder((16, 10, 10))
    net.conv(16, Window(kernel=(1, 1)))
    net.conv(16, SAME, groups=16)
    net.max_pool(Window(kernel=(2, 2), strides=(2, 2)))
    net.conv(16, Window(kernel=(1, 1)))
    build_app(net.graph(), CHIP, app, plugins=chip.plugins())
    check(app, "array.c")


def check(app: Path, *own: str) -> None:
    """Compile every C file but those of the test's ``own`` kernels, to a folder beside ``app``."""
    files = [p for f in FOLDERS for p in (app / f).glob("*.c") if p.name not in own]
    assert len(files) > 10
    compiler = find_compiler()
    gcc = "Free Software Foundation" in compiler.version
    strict = (*STRICT, "-Wcast-align=strict" if gcc else "-Wcast-align")
    folders = [f"-I{app / folder}" for folder in INCLUDE_FOLDERS]
    command = [*compiler.command, *FLAGS, *strict, *ONLY_CHECK, *folders, *map(str, files)]
    (app.parent / "assembly").mkdir()
    done = subprocess.run(command, cwd=app.parent / "assembly", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
