"""Layers that take turns: tensors between them pass through L2 in stripes and never leave it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from dory_core.checks.contents import verify_contents
from dory_core.errors import DoryError
from dory_core.hardware.memories import Link
from dory_core.ir import Graph, requant
from dory_core.plan import LayerStep, Plan
from dory_core.plan.network import lower, lower_network
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from tests.planning.networks import plan_graph, win
from tests.planning.properties import PROPERTIES
from tests.planning.symbolic import Wrong, check_plan
from tests.toy.chip import NAME, three_levels

_CHIP = three_levels()
#: Moving a tensor to L3 and back takes longer than computing it.
CHIP = replace(_CHIP, links=(_CHIP.links[0], Link(2, 3, setup_cycles=60, bytes_per_cycle=0.002)))


def bottlenecks() -> Graph:
    """Return blocks as those of MobileNetV2, whose wide tensors are larger than L2."""
    b = GraphBuilder((3, 37, 29), seed=41, name="bottlenecks")
    x = b.conv(8, win(3, 2, 1))
    for stride in (1, 2):
        y = b.conv(48, win(1), source=x)
        y = b.conv(48, win(3, stride, 1), groups=48, source=y)
        y = b.conv(8, win(1), source=y)
        x = b.add(y, x, requants=(requant(1, 0, 256, 0, 255),)) if stride == 1 else y
    b.linear(5)
    return b.graph()


def rows_nobody_reads() -> Graph:
    """Return layers of which some rows and columns are read by nobody, and an odd window."""
    b = GraphBuilder((6, 31, 17), seed=42, name="rows_nobody_reads")
    b.conv(40, win(3, 1, 1))
    b.conv(40, win(1, 2))
    b.conv(36, win((5, 3), 1, (3, 1, 2, 0), (2, 1)))
    b.max_pool(win(2, 2))
    b.conv(4, win(1))
    return b.graph()


def temporal() -> Graph:
    """Return layers of one row, which are cut along their columns."""
    b = GraphBuilder((6, 1, 931), seed=43, name="temporal")
    b.conv(40, win((1, 3), 1, (0, 2, 0, 0)))
    b.conv(40, win((1, 5), 1, (0, 4, 0, 4), (1, 2)), groups=40)
    b.conv(6, win(1))
    return b.graph()


def wide_values() -> Graph:
    """Return layers whose elements have two bytes."""
    b = GraphBuilder((6, 24, 20), seed=44, name="wide_values", values=(0, 1020))
    b.conv(24, win(3, 1, 1), output=(0, 3000))
    b.conv(24, win(3, 1, 1), output=(0, 3000))
    b.conv(4, win(1))
    return b.graph()


CASES: dict[str, tuple[Callable[[], Graph], int]] = {
    "bottlenecks": (bottlenecks, 9_000),
    "rows_nobody_reads": (rows_nobody_reads, 24_000),
    "temporal": (temporal, 14_000),
    "wide_values": (wide_values, 21_000),
}


def chains(plan: Plan) -> list[list[LayerStep]]:
    """Return the layers of each chain."""
    found = []
    for number, step in enumerate(plan.steps):
        before = plan.steps[number - 1]
        follows = before.parts[0].position == step.parts[0].position - 1
        if step.chain > 1 and not (follows and before.chain == step.chain):
            found.append(list(plan.steps[number : number + step.chain]))
    return found


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CASES)
def test_chains_are_exact(name: str, tmp_path: Path) -> None:
    build, l2 = CASES[name]
    plugins = CHIP.plugins()
    plan = build_app(build(), NAME, tmp_path / "app", plugins=plugins, budgets={2: l2})
    found = chains(plan)
    assert found and plan.levels[1].used <= l2
    for check in PROPERTIES.values():
        check(plan)
    passing = {s.output.place.tensor.name for chain in found for s in chain[:-1]}
    assert passing == {s.output.place.tensor.name for s in plan.steps if s.output.place.passing}
    assert not any(t.block.tensor in passing for t in plan.transfers)
    for chain in found:
        starts = [
            part.position for parts in zip(*(s.parts for s in chain), strict=True) for part in parts
        ]
        assert all(b == a + 1 for a, b in pairwise(starts))
    document = [(layer["turns"], layer["l3_tiles"]) for layer in plan.to_json()["layers"]]
    assert document == [(step.chain, len(step.parts)) for step in plan.steps]
    assert_exact(tmp_path / "app", plugins=plugins)


@pytest.mark.parametrize("name", CASES)
def test_chains_are_faster(name: str) -> None:
    build, l2 = CASES[name]
    with_chains = plan_graph(build(), CHIP.plugins(), l2)
    without = plan_graph(build(), CHIP.plugins(), l2, moves="-fused-chains")
    assert not chains(without)
    assert with_chains.cycles < without.cycles


def test_chains_gain_nothing_where_the_link_is_as_fast_as_the_cores() -> None:
    quick = replace(CHIP, links=(CHIP.links[0], replace(CHIP.links[1], bytes_per_cycle=8.0)))
    plans = [
        plan_graph(bottlenecks(), quick.plugins(), CASES["bottlenecks"][1], moves=moves)
        for moves in ("", "-fused-chains")
    ]
    assert 0.999 < plans[0].cycles / plans[1].cycles < 1.001


# -- wrong plans are found ---------------------------------------------------------------------


def moved(plan: Plan, number: int, bytes_: int) -> Plan:
    """Return a plan in which a layer reads another place in its second part."""
    steps = list(plan.steps)
    step = steps[number]
    part = step.parts[1]
    part = replace(part, inputs=tuple(at + bytes_ for at in part.inputs))
    steps[number] = replace(step, parts=(step.parts[0], part, *step.parts[2:]))
    blocks = (block for level in plan.levels if level.name == "L2" for block in level.blocks)
    operations = lower_network(
        steps, plan.transfers, plan.inputs, plan.outputs, plan.final_conversions, blocks
    )
    return replace(plan, steps=tuple(steps), program=lower(steps, operations, plan.any_core))


def test_a_stripe_that_is_read_elsewhere_is_found() -> None:
    plan = plan_graph(bottlenecks(), CHIP.plugins(), CASES["bottlenecks"][1])
    reader = chains(plan)[0][1]
    number = plan.steps.index(reader)
    verify_contents(plan.program, plan.steps)
    check_plan(moved(plan, number, 0))
    pitch = reader.layer.inputs[0].width * reader.layer.inputs[0].channels
    wrong = moved(plan, number, pitch)
    with pytest.raises(Wrong):
        check_plan(wrong)
    far = moved(plan, number, 3 * plan.levels[1].used)
    with pytest.raises(DoryError, match="where it does not lie"):
        verify_contents(far.program, far.steps)
