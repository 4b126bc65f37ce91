"""Tensors that stay in L1 need no L2: a streamed network is not cut for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from dory_core.ir import Graph, Window, requant
from dory_core.plan import Form, LayerStep, Place, Plan
from dory_core.planning.cascade import streamed
from dory_core.planning.decision import Decision
from dory_core.planning.problem import Problem
from dory_core.planning.sequence.peaks import LiveBytes
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.sanitizers import require_sanitizer
from tests.planning.networks import plan_graph
from tests.planning.symbolic import check_plan
from tests.toy.chip import NAME, three_levels

PLUGINS = three_levels().plugins()
SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
POINT = Window(kernel=(1, 1))
SUM = requant(1, 0, 2, 0, 255)
#: Bytes of L2: fewer than two tensors of the network, and than its constants.
LITTLE = 7_000


def small_tensors(first: int = 3) -> Graph:
    """Return a network whose tensors fit L1 in pairs; first: channels of the first output."""
    b = GraphBuilder((4, 16, 16), seed=41, name="small_tensors")
    b.conv(first, SAME)
    early = b.conv(16, POINT)
    b.conv(16, SAME, groups=16)
    b.conv(16, POINT)
    b.conv(16, SAME, groups=16)
    late = b.conv(16, POINT)
    b.add(early, late, operands=(None, None), requants=(SUM,))
    b.conv(48, Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)))
    b.conv(32, POINT)
    return b.graph()


@cache
def problem_in_little_l2() -> Problem:
    """Return the problem of the network within few bytes of L2, as the planner makes it."""
    found = list[Problem]()

    def kept(problem: Problem, residents: bool = True) -> tuple[Decision, ...]:
        found.append(problem)
        return streamed(problem, residents)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dory_core.planning.fitting.streamed", kept)
        plan_graph(small_tensors(), PLUGINS, LITTLE)
    return found[0]


def inner(step: LayerStep) -> Iterator[Place]:
    """Yield the places of a layer's tensors that are made and read within the network."""
    if step.index > 0:
        yield from (operand.place for operand in step.inputs)


def residents(plan: Plan) -> int:
    return sum(step.output.form == Form.RESIDENT for step in plan.steps)


def parts(plan: Plan) -> int:
    return sum(len(step.parts) for step in plan.steps)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path]:
    """Return the plan of the network in little L2, and its application."""
    directory = tmp_path_factory.mktemp("residents") / "app"
    plan = build_app(
        small_tensors(), NAME, directory, budgets={2: LITTLE}, plugins=PLUGINS, seeds=(0, 1)
    )
    return plan, directory


@pytest.mark.parametrize("sanitizer", [None, "address,undefined"])
def test_layers_whose_tensors_stay_in_l1_are_exact(
    sanitizer: str | None, app: tuple[Plan, Path]
) -> None:
    if sanitizer is not None:
        require_sanitizer(sanitizer)
    assert_exact(app[1], plugins=PLUGINS, sanitize=sanitizer)


def test_layers_whose_tensors_stay_in_l1_are_not_cut(app: tuple[Plan, Path]) -> None:
    plan, _ = app
    check_plan(plan)
    assert residents(plan) > 6 and not any(p.level == 3 for step in plan.steps for p in inner(step))
    in_groups = next(step for step in plan.steps if len(step.parts) > 1)
    assert in_groups.inputs[0].form == Form.RESIDENT  # each group reads all of it
    moved = plan_graph(small_tensors(), PLUGINS, LITTLE, moves="-l1-residency")
    assert parts(plan) < parts(moved) / 4 and plan.cycles < moved.cycles


def test_a_layer_in_stripes_finds_and_leaves_nothing_in_l1(tmp_path: Path) -> None:
    """The first tensor is too large for both memories; some of what comes after it stays in L1."""
    graph = small_tensors(first=120)
    plan = build_app(
        graph, NAME, tmp_path / "app", budgets={2: 7_000}, plugins=PLUGINS, seeds=(0, 1)
    )
    check_plan(plan)
    cut = [step for step in plan.steps if len(step.parts) > 1]
    forms = {operand.form for step in cut for operand in (*step.inputs, step.output)}
    assert residents(plan) and cut and Form.RESIDENT not in forms
    assert_exact(tmp_path / "app", plugins=PLUGINS)


def test_a_tensor_that_leaves_l1_is_counted_wherever_it_is_live() -> None:
    """An operand of the Add is made long before the layers that change with it."""
    problem = problem_in_little_l2()
    flow, live = problem.network.flow, LiveBytes(problem)
    add = next(n for n, layer in enumerate(problem.network.layers) if layer.op.kind == "Add")
    early = flow.reads[add][0]
    wholes = tuple(cuts.whole for cuts in problem.network.cuts)
    before = Decision(wholes, streamed=True, in_l1=frozenset({early}))
    after = replace(before, in_l1=frozenset())
    assert live.counted(after, live.counted(before)).peaks != live.counted(before).peaks
    some, every = live.counted(after, live.counted(before)), live.counted(after)
    assert [one[:2] for one in some.peaks] == [one[:2] for one in every.peaks]


def test_the_cascade_counts_on_no_resident_tensor_where_the_move_is_off() -> None:
    problem = problem_in_little_l2()
    off = replace(problem.ctx, options={**problem.ctx.options, "moves": "-l1-residency"})
    for one, kept in ((problem, True), (replace(problem, ctx=off), False)):
        assert all(bool(decision.resident) == kept for decision in streamed(one))
    assert not any(decision.resident for decision in streamed(problem, residents=False))
