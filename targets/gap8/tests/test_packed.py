"""Packed activations are stored in bytes where a network is faster so, and fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_measured import network_of

import dory_core.tools as dory
from dory_core.api import Graph, ops
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder

POINT = ops.Window(kernel=(1, 1))
SAME = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
U4, I4 = (0, 15), (-8, 7)
PACKED = {"storage": "packed"}


def network(values: tuple[int, int], pixels: int = 24) -> Graph:
    """Return a network whose tensors all have four bits."""
    b = GraphBuilder((16, pixels, pixels), values=values, name="packed")
    b.conv(16, SAME, groups=16, output=values)
    b.conv(32, POINT, output=values)
    b.conv(32, SAME, groups=32, output=values)
    b.conv(16, POINT, output=values)
    return b.graph()


@pytest.mark.sample(2)
@pytest.mark.parametrize("values", [U4, I4], ids=["u4", "i4"])
def test_bytes_are_faster_and_exact(values: tuple[int, int], tmp_path: Path) -> None:
    """What the caller hands over and takes stays packed."""
    plan = build_app(network(values), "gap8", tmp_path / "app", seeds=(0, 1))
    inner = [step.output.place.tensor.bits for step in plan.steps[:-1]]
    ends = (plan.inputs[0].tensor.bits, plan.outputs[0].tensor.bits)
    assert inner == [8, 8, 8] and ends == (4, 4)
    assert_exact(tmp_path / "app")
    packed = build_app(network(values), "gap8", tmp_path / "packed", settings=PACKED)
    assert [step.output.place.tensor.bits for step in packed.steps] == [4, 4, 4, 4]
    assert_exact(tmp_path / "packed", dma=("late",))
    assert plan.cycles < 0.9 * packed.cycles


@pytest.mark.parametrize("way", ["budget", pytest.param("ram", marks=pytest.mark.slow)])
def test_they_stay_packed_where_bytes_do_not_fit(way: str, tmp_path: Path) -> None:
    """Within a budget of L2, and where as few bytes as possible are asked for."""
    graph = network(U4, 30)
    packed = build_app(graph, "gap8", tmp_path / "packed", settings=PACKED)
    wide = build_app(graph, "gap8", tmp_path / "wide")
    used = [plan.levels[1].used for plan in (packed, wide)]
    assert wide.steps[0].output.place.tensor.bits == 8 and used[0] < used[1]
    options = {"budgets": {2: used[0]}} if way == "budget" else {"objective": "ram"}
    plan = build_app(graph, "gap8", tmp_path / "app", **options)
    assert plan.levels[1].used <= used[0]
    assert_exact(tmp_path / "app", dma=("late",))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "has_packed"),
    [
        ("quantlab_mixed_conv", False),
        ("quantlab_mv1_025_96_4b", True),
    ],
)
def test_the_front_has_packed_plans_and_plans_in_bytes(name: str, has_packed: bool) -> None:
    """The fastest plan is in bytes; it is compiled, or the one with the least data and code.

    Functions that unpack take more code than the tensors of a small network lose.
    """
    file = network_of(f"nets/{name}/net.onnx")
    points = dory.least_ram(file, "gap8").result.points
    assert points[0].cycles == dory.compile(file, "gap8").cycles
    packed = dory.compile(file, "gap8", settings=PACKED, objective="ram")
    sizes = [point.l2_bytes for point in points]
    assert (packed.plan["memory"]["L2"]["used"] in sizes[1:]) == has_packed
    least = dory.compile(file, "gap8", objective="ram")
    assert least.plan["memory"]["L2"]["used"] == min(sizes) == sizes[-1]
