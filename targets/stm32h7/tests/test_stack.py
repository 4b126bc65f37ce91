"""Measured on the emulated core: an image needs less stack than its linker script reserves."""

from __future__ import annotations

from pathlib import Path

import pytest
from dory_stm32h7.hardware import STACK_BYTES
from image import LONG, compiled, require_emulator, session

from dory_core.api import Graph, ops
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import load_plugins

#: Left for interrupts and drivers of the user: a quarter of what is reserved.
SPARE_BYTES = STACK_BYTES // 4
_UNTOUCHED = 0xA5
_TIMEOUT_S = 300.0


def every_kind() -> Graph:
    """Return a network with the kernels of this target: dense, depthwise, pooled, of pairs."""
    around = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    b = GraphBuilder((7, 12, 50), name="kinds")
    b.conv(8, ops.Window(kernel=(7, 7), pads=(3, 3, 3, 3)))
    first = b.conv(8, around, groups=8)
    b.add(b.conv(8, ops.Window(kernel=(1, 1)), output=(-300, 700)), first)
    b.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    b.conv(6, around, wide=True)
    b.avg_pool(ops.Window(kernel=(3, 3)))
    b.linear(5, bias=True)
    return b.graph()


def used_bytes(app: Path) -> int:
    """Run the image and return how far its stack grew."""
    run = session(app)
    machine = run.machine
    top = machine.image.symbol("stack_top").address
    stack = machine.memories.view(top - STACK_BYTES, STACK_BYTES, "the stack")
    stack[:] = _UNTOUCHED
    run.run(_TIMEOUT_S)
    touched = (stack != _UNTOUCHED).nonzero()[0]
    return STACK_BYTES - int(touched[0])


@pytest.mark.parametrize("settings", [{}, {"memory": "dcache"}], ids=["tcm", "dcache"])
def test_layers_of_every_kind_leave_stack(settings: dict[str, str], tmp_path: Path) -> None:
    require_emulator()
    build_app(every_kind(), "stm32h7", tmp_path / "app", settings=settings)
    assert 64 < used_bytes(tmp_path / "app") <= STACK_BYTES - SPARE_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_networks_leave_stack(name: str, tmp_path: Path) -> None:
    require_emulator()
    compiled(name, tmp_path / "app", load_plugins())
    assert 64 < used_bytes(tmp_path / "app") <= STACK_BYTES - SPARE_BYTES
