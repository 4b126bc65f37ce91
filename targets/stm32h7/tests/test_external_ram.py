"""An STM32H7 with a memory for activations between SRAM and flash: four levels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from dory_stm32h7 import hardware

from dory_core.api import Graph, Level, Link, Memory, MemoryHierarchy, TargetContext, ops
from dory_core.importing import requant
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder

SAME = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))


def with_sdram(hierarchy: MemoryHierarchy) -> MemoryHierarchy:
    """Return the levels with SDRAM as L3; the flash, from which constants are read, is L4."""
    l1, l2, flash = hierarchy.levels
    inner, outer = hierarchy.links
    sdram = Memory("SDRAM", 1 << 24, alignment_bytes=32, holds=frozenset({"activations"}))
    return replace(
        hierarchy,
        levels=(l1, l2, Level(3, (sdram,)), replace(flash, number=4)),
        links=(
            inner,
            Link(2, 3, setup_cycles=300, bytes_per_cycle=1.0, issue_cycles=50),
            replace(outer, upper=3, lower=4),
        ),
    )


def network() -> Graph:
    builder = GraphBuilder((16, 40, 13), name="tall")
    first = builder.conv(16, SAME)
    builder.conv(16, SAME)
    second = builder.conv(16, ops.Window(kernel=(1, 1)))
    builder.add(first, second, operands=(None, None), requants=(requant(1, 0, 2, 0, 255),))
    builder.conv(8, ops.Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)))
    return builder.graph()


@pytest.mark.parametrize(("memory", "in_place"), [("dcache", True), ("dtcm", False)])
def test_activations_pass_through_sram_in_stripes(
    memory: str, in_place: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = hardware.hierarchy

    def deeper(ctx: TargetContext) -> MemoryHierarchy:
        return with_sdram(right(ctx))

    monkeypatch.setattr(hardware, "hierarchy", deeper)
    plan = build_app(
        network(),
        "stm32h7",
        tmp_path / "app",
        budgets={2: 12 * 1024},
        settings={"memory": memory, "moves": "-fused-chains"},
        seeds=(0, 1),
    )
    assert plan.levels[1].used <= 12 * 1024
    assert all(step.in_place == in_place for step in plan.steps)
    assert any(step.output.place.level == 3 for step in plan.steps)
    assert all(len(step.parts) > 1 for step in plan.steps)
    assert {step.weights.level for step in plan.steps if step.weights is not None} == {4}
    assert_exact(tmp_path / "app")
