"""The digital array's layouts and its fetched constants on a Diana with a memory below L2."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from array_networks import ArrayBuilder
from dory_diana import hardware

from dory_core.api import Graph, Level, Link, Memory, MemoryHierarchy, TargetContext, ops
from dory_core.testing.apps import assert_exact, build_app

SAME = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
HALF = ops.Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))


def with_ram(hierarchy: MemoryHierarchy) -> MemoryHierarchy:
    ram = Level(3, (Memory("RAM", 1 << 24, alignment_bytes=16),))
    link = Link(2, 3, setup_cycles=300, bytes_per_cycle=1.0, issue_cycles=50, alignment_bytes=4)
    return replace(hierarchy, levels=(*hierarchy.levels, ram), links=(*hierarchy.links, link))


def network() -> Graph:
    builder = ArrayBuilder((16, 24, 24), name="deep")
    builder.digital(32, SAME)
    builder.digital(32, SAME)
    builder.digital(64, HALF)
    builder.digital(128, SAME)
    builder.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    return builder.graph()


@pytest.mark.sample(2)
@pytest.mark.parametrize(("l2_bytes", "layers"), [(100_000, 1), (70_000, 2)])
def test_constants_of_the_array_pass_through_l2_in_groups_of_channels(
    l2_bytes: int, layers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = hardware.hierarchy

    def deeper(ctx: TargetContext) -> MemoryHierarchy:
        return with_ram(right(ctx))

    monkeypatch.setattr(hardware, "hierarchy", deeper)
    plan = build_app(network(), "diana", tmp_path / "app", budgets={2: l2_bytes}, seeds=(0, 1))
    assert plan.levels[1].used <= l2_bytes and plan.transfers
    cut = [step for step in plan.steps if len(step.parts) > 1]
    assert len(cut) == layers
    assert all(step.kernel.engine == "digital" and step.kernel.fetches for step in cut)
    assert all(step.weights is not None and len(step.weights.chunks) > 1 for step in cut)
    assert_exact(tmp_path / "app")
