"""What must hold for every streamed plan, as functions that assert it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dory_core.plan import ExtTransfer, LayerStep, Plan
from tests.planning.symbolic import check_plan


def constants(plan: Plan) -> list[tuple[LayerStep, ExtTransfer]]:
    """Return the transfers that bring constants, in order of use, with their layers."""
    found = []
    for step in plan.steps:
        if step.weights is None or step.weights.level != 3:
            continue
        table = range(step.weights.offset, step.weights.offset + step.weights.size)
        found += [(step, t) for t in plan.transfers if t.incoming and t.l3_offset in table]
    return sorted(found, key=lambda pair: pair[1].wait)


def constants_never_block_and_come_in_order_of_use(plan: Plan) -> None:
    fetched = constants(plan)
    for _, transfer in fetched:
        assert transfer.start < transfer.wait, transfer
    starts = [t.start for _, t in fetched]
    assert starts == sorted(starts)
    used = {(s.index, p.position) for s in plan.steps for p in s.parts if p.weights is not None}
    loaded_before = {
        (plan.steps[s.ahead.step].index, s.parts[0].position)
        for s in plan.steps
        if s.ahead is not None and s.ahead.fetched
    }
    assert {(s.index, t.wait) for s, t in fetched} <= used | loaded_before


def l2_stays_within_the_budget(plan: Plan) -> None:
    l2 = plan.levels[1]
    assert l2.used <= l2.budget
    if plan.transfers:
        assert l2.packed_bytes is not None and l2.packed_bytes <= l2.used
        assert l2.used == max(-(-b.end // 8) * 8 for b in l2.blocks)


def every_stage_of_a_layer_is_needed(plan: Plan) -> None:
    """What does not touch L3 is not cut along its rows."""
    for step in plan.steps:
        places = [t.place for t in (*step.inputs, step.output)]
        touches = any(place.level == 3 or place.passing for place in places)
        chunks = len(step.weights.chunks) if step.weights is not None else 1
        if not touches:
            assert len(step.parts) == chunks


def constants_are_fetched_several_layers_ahead(plan: Plan) -> None:
    at = {part.position: n for n, step in enumerate(plan.steps) for part in step.parts}
    ahead = [at[t.wait] - at[max(t.start, 0)] for _, t in constants(plan)]
    assert max(ahead) >= 3
    assert sum(n >= 2 for n in ahead) >= 5


def constants_come_in_few_large_transfers(plan: Plan) -> None:
    for step, transfer in constants(plan):
        assert step.weights is not None
        assert transfer.size >= min(4096, step.weights.size), step.index


def groups_of_a_layer_are_balanced(plan: Plan) -> None:
    for step in plan.steps:
        if step.weights is None or len(step.weights.chunks) < 2:
            continue
        sizes = [len(chunk.data) for chunk in step.weights.chunks]
        assert max(sizes[:-1]) == min(sizes[:-1]) >= sizes[-1], step.index


def large_pointwise_layers_have_few_parts(plan: Plan) -> None:
    """Those of 1024 channels whose constants are beyond the free L2."""
    last = [s for s in plan.steps if s.layer.inputs[0].channels == s.layer.output.channels == 1024]
    pointwise = [s for s in last if s.layer.inputs[0].height == 4 and s.layer.macs > 10_000_000]
    assert pointwise
    for step in pointwise:
        assert 1 < len(step.parts) < 64


#: Of every plan, by name.
PROPERTIES: Mapping[str, Callable[[Plan], None]] = {
    check.__name__: check
    for check in (
        check_plan,
        constants_never_block_and_come_in_order_of_use,
        l2_stays_within_the_budget,
        every_stage_of_a_layer_is_needed,
    )
}
