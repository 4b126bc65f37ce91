"""An application needs less stack on the host than the target reserves for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from array_networks import SEVEN, ArrayBuilder
from dory_diana.hardware import STACK_BYTES

from dory_core.api import Graph, ops
from dory_core.testing.apps import build_app

#: Left for interrupts and for what the board's library does behind a call: a quarter.
SPARE_BYTES = STACK_BYTES // 4
COMPILE = (
    *(sys.executable, "-m", "ziglang", "cc", "-target", "riscv32-linux-musl"),
    *("-mcpu=generic_rv32+m+c", "-std=c99", "-ffreestanding", "-Werror=vla", "-S"),
    "-Wframe-larger-than=0",
)
FOLDERS = ("src", "kernels", "hal/diana")
INCLUDES = ("inc", "src", "hal/include", "hal/diana", "kernels", "board")
_FRAME = re.compile(r"(\S+):\d+:\d+: warning: stack frame size \((\d+)\) exceeds .* in '(\w+)'")


def every_engine() -> Graph:
    """Return layers of both arrays and kernels of the host, wide filters and outputs among them."""
    around = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    b = ArrayBuilder((16, 16, 16), values=SEVEN, name="engines")
    first = b.ternary(16, around)
    b.sum(first, b.digital(16, around))
    b.digital(16, around, groups=16)
    b.conv(8, ops.Window(kernel=(7, 7), pads=(3, 3, 3, 3)), output=(-300, 700))
    b.conv(8, around, groups=2)
    b.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    b.avg_pool(ops.Window(kernel=(3, 3)))
    b.linear(5, bias=True)
    return b.graph()


@pytest.mark.sample(2)
@pytest.mark.skipif(find_spec("ziglang") is None, reason="the ziglang wheel is not installed")
@pytest.mark.parametrize("optimise", ["-O2", "-Os"])
def test_no_layer_needs_more_stack_than_is_reserved(optimise: str, tmp_path: Path) -> None:
    """The network calls a layer, this one a kernel or the driver; a kernel calls others.

    The largest frames stand for the deepest calls: two of the network's file, one of a layer, four
    of the kernels, two of the driver.
    """
    app = tmp_path / "app"
    plan = build_app(every_engine(), "diana", app)
    assert {step.kernel.engine for step in plan.steps} >= {"analog", "digital"}
    files = [path for folder in FOLDERS for path in sorted(app.glob(f"{folder}/*.c"))]
    command = [*COMPILE, optimise, *(f"-I{app / path}" for path in INCLUDES), *map(str, files)]
    # The compiler is silent about what it has compiled before: it gets a cache that is empty.
    caches = {f"ZIG_{name}_CACHE_DIR": str(tmp_path / name) for name in ("LOCAL", "GLOBAL")}
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | caches, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    frames: dict[str, dict[str, int]] = {}
    for file, size, function in _FRAME.findall(done.stderr):
        path = Path(file)
        folder = "network" if path.stem == "network" else path.parent.name
        own = frames.setdefault(folder, {})
        own[function] = max(own.get(function, 0), int(size))
    assert len(frames["src"]) >= len(files) // 3
    depths = {"network": 2, "src": 1, "kernels": 4, "diana": 2}
    needed = {name: sum(sorted(frames[name].values())[-n:]) for name, n in depths.items()}
    assert min(needed.values()) > 0
    assert sum(needed.values()) <= STACK_BYTES - SPARE_BYTES, needed
