"""What lies where in streamed plans that keep tensors in L1: sound plans pass, faults are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from dory_core.checks.contents import verify_contents
from dory_core.checks.held import L2, Held, Range
from dory_core.errors import DoryError
from dory_core.ir import Window
from dory_core.plan import ExtTransfer, Form, LayerStep, Plan
from dory_core.plan.block_ids import BlockId, BlockKind
from dory_core.plan.memories import L3
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.testing.graphs import GraphBuilder
from tests.planning.networks import CASES, changed_plan, plan_graph

Change = Callable[[Plan], Plan]


def verify(plan: Plan) -> None:
    verify_contents(plan.program, plan.steps)


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


#: Cases that are planned in little time: with tensors in L1, with constants in chunks, with rows.
QUICK = ("pointwise_1021", "residual", "adds", "linears", "output_with_late_reader")
QUICK += ("many_constants", "many_filters", "mixed_multipliers")


@pytest.fixture(scope="module", params=["quick", pytest.param("all", marks=pytest.mark.slow)])
def plans(plugins: Plugins, request: pytest.FixtureRequest) -> list[Plan]:
    """Cases of the cascade, some or all, that are streamed in their last budgets."""
    cases = [case for case in CASES if request.param == "all" or case.name in QUICK]
    made = [plan_graph(case.build(), plugins, case.budgets[-1]) for case in cases]
    streamed = [plan for plan in made if plan.transfers]
    assert len(streamed) > (5 if len(cases) == len(CASES) else 4)
    return streamed


def test_sound_streamed_plans_pass(plans: list[Plan]) -> None:
    for plan in plans:
        verify(plan)


def test_some_streamed_plans_keep_tensors_in_l1(plans: list[Plan]) -> None:
    found = [
        t for plan in plans for step in plan.steps for t in step.inputs if t.form == Form.RESIDENT
    ]
    assert found
    assert all(t.place.level == 1 for t in found)


@pytest.mark.parametrize("axis", ["c_out", "h", "w"])
@pytest.mark.parametrize("change", [-1, 1])
def test_tiles_that_are_not_the_output_are_found(axis: str, change: int, plugins: Plugins) -> None:
    """One row too many may lie where nothing else does, and one too few too."""
    builder = GraphBuilder((4, 6, 6))
    builder.conv(8, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    plan = plan_graph(builder.graph(), plugins, 65536)
    (step,) = plan.steps
    (part,) = step.parts
    spans = getattr(part.schedule, axis)
    last = replace(spans[-1], size=spans[-1].size + change)
    schedule = replace(part.schedule, **{axis: (*spans[:-1], last)})
    wrong = replace(step, parts=(replace(part, schedule=schedule),))
    verify_contents(plan.program, plan.steps)
    with pytest.raises(DoryError, match=r"tiles of layer 0 .* end at"):
        verify_contents(plan.program, (wrong,))


def _changed(plan: Plan, kind: str, change: Callable[..., object]) -> list[Plan]:
    """Return plans with one load of constants, or one store, changed each."""
    changed = []
    ways = Counter((t.l2_offset, t.l3_offset) for t in plan.transfers)
    for n, transfer in enumerate(plan.transfers):
        # What comes to the same place twice may still lie there.
        once = ways[transfer.l2_offset, transfer.l3_offset] == 1
        if once and (
            transfer.block.kind is BlockKind.CHUNK if kind == "load" else not transfer.incoming
        ):
            other = change(transfer)
            transfers = (*plan.transfers[:n], other, *plan.transfers[n + 1 :])
            changed.append(changed_plan(plan, transfers=transfers))
    return changed


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "fault",
    ["a load from elsewhere", "a load to elsewhere", "a load that comes late", "no load"],
)
@pytest.mark.parametrize("most", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_faults_of_loads_are_found(fault: str, most: int, plans: list[Plan]) -> None:
    changes = {
        "a load from elsewhere": lambda t: replace(t, l3_offset=t.l3_offset + 8),
        "a load to elsewhere": lambda t: replace(t, l2_offset=t.l2_offset + 8),
        "a load that comes late": lambda t: replace(t, start=t.start + 400, wait=t.wait + 400),
        "no load": lambda t: replace(t, start=10**6, wait=10**6),
    }
    tried = 0
    for plan in plans:
        for other in _changed(plan, "load", changes[fault])[:most]:
            tried += 1
            with pytest.raises(DoryError, match="memory plan is wrong"):
                verify(other)
    assert tried > 20


@pytest.mark.slow
@pytest.mark.parametrize("ninth", range(9))
def test_stores_that_are_forgotten_are_found(ninth: int, plans: list[Plan]) -> None:
    """All but those of the few rows that a stride leaves unread."""
    changed = [
        other
        for plan in plans
        for other in _changed(plan, "store", lambda t: replace(t, start=10**6, wait=10**6))
    ]
    changed = changed[ninth::9]
    found = 0
    for plan in changed:
        try:
            verify(plan)
        except DoryError:
            found += 1
    assert changed
    assert found > 0.8 * len(changed)


def test_a_tensor_of_l1_that_a_layer_overwrites_is_found(plans: list[Plan]) -> None:
    tried = 0
    for plan in plans:
        for n, step in enumerate(plan.steps):
            for operand in (t for t in step.inputs if t.form == Form.RESIDENT):
                makers = [m for m, s in enumerate(plan.steps) if s.kept and m < n]
                before = plan.steps[makers[-1]]
                assert operand.place in before.kept
                steps = list(plan.steps)
                steps[makers[-1]] = replace(before, kept=())
                tried += 1
                with pytest.raises(DoryError, match="memory plan is wrong"):
                    verify(changed_plan(plan, steps=tuple(steps)))
    assert tried


def _with_groups(plan: Plan) -> list[LayerStep]:
    """Return the layers of a plan that are cut into groups of channels."""
    return [
        step
        for step in plan.steps
        if any(
            sum(span.size for span in part.schedule.c_out) < step.layer.output.channels
            for part in step.parts
        )
    ]


@pytest.mark.parametrize("streamed", [False, True])
def test_groups_that_write_the_same_channels_are_found(streamed: bool, plans: list[Plan]) -> None:
    """A group has all elements that it shall have, in the place of another one."""
    tried = 0
    for plan in plans:
        for step in _with_groups(plan):
            if (step.output.place.level == 3) != streamed:
                continue
            for n, (one, two) in enumerate(pairwise(step.parts)):
                if one.output == two.output:
                    continue
                parts = (
                    *step.parts[: n + 1],
                    replace(two, output=one.output),
                    *step.parts[n + 2 :],
                )
                wrong = replace(step, parts=parts)
                steps = tuple(wrong if other is step else other for other in plan.steps)
                rows = [sum(span.size for span in p.schedule.h) for p in (one, two)]
                if rows[0] != rows[1] or one.chunk == two.chunk:
                    continue  # another stripe, of the rows of which something may be computed twice
                tried += 1
                with pytest.raises(DoryError, match=r"memory plan is wrong: layer .* has .*group"):
                    verify_contents(plan.program, steps)
    assert tried > 3


def test_constants_that_overlap_in_the_image_are_found(plans: list[Plan]) -> None:
    tried = 0
    for plan in plans:
        streamed = [s for s in plan.steps if s.weights is not None and not s.weights.linked]
        for one, two in pairwise(streamed):
            assert one.weights is not None and two.weights is not None
            moved = replace(two.weights, offset=one.weights.offset + one.weights.size - 4)
            wrong = replace(two, weights=moved)
            steps = tuple(wrong if other is two else other for other in plan.steps)
            tried += 1
            with pytest.raises(
                DoryError, match=r"constants of layer .* overlap constants of layer"
            ):
                verify_contents(plan.program, steps)
    assert tried > 3


def test_chunks_that_overlap_in_their_table_are_found(plans: list[Plan]) -> None:
    tried = 0
    for plan in plans:
        for step in plan.steps:
            if step.weights is None or len(step.weights.chunks) < 2:
                continue
            first, second, *rest = step.weights.chunks
            for chunks in (
                (first, replace(second, offset=first.offset + 4), *rest),
                (first, second, *rest[:-1], replace([second, *rest][-1], offset=step.weights.size)),
            ):
                wrong = replace(step, weights=replace(step.weights, chunks=tuple(chunks)))
                steps = tuple(wrong if other is step else other for other in plan.steps)
                tried += 1
                with pytest.raises(DoryError, match=r"constants of layer .* overlap"):
                    verify_contents(plan.program, steps)
    assert tried > 3


LOAD = ExtTransfer(BlockId("weights of a layer"), 64, 4096, 32, incoming=True, start=3, wait=5)
STORE = ExtTransfer(BlockId("a tensor"), 64, 4096, 32, incoming=False, start=3, wait=5)


@pytest.mark.parametrize("start", [40, 64, 80, 95])
def test_the_target_of_a_transfer_is_its_own_until_it_is_waited_for(start: int) -> None:
    """Something that begins there, or reaches into it, before the transfer has ended."""
    held = Held()
    held.start(LOAD)
    held.take(L2, Range(start, start + 32, "other"))
    with pytest.raises(DoryError, match="weights of a layer is written over before it is waited"):
        held.wait(LOAD)


@pytest.mark.parametrize("start", [32, 96])
def test_beside_a_transfer_others_may_write(start: int) -> None:
    held = Held()
    held.start(LOAD)
    held.take(L2, Range(start, start + 32, "other"))
    held.wait(LOAD)
    assert held.at(L2, 64) is not None


def test_the_target_in_l3_and_the_source_of_a_store_are_its_own() -> None:
    held = Held()
    held.take(L2, Range(64, 96, "tensor"))
    held.start(STORE)
    held.take(L3, Range(4100, 4104, "other"))
    with pytest.raises(DoryError, match="a tensor is written over before it is waited for"):
        held.wait(STORE)
    held = Held()
    held.take(L2, Range(64, 96, "tensor"))
    held.start(STORE)
    held.take(L2, Range(90, 99, "other"))
    with pytest.raises(DoryError, match="tensor is written over while a tensor is on its way"):
        held.wait(STORE)
