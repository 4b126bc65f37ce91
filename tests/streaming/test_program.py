"""What must hold for every streamed plan, on the networks of the cascade and on the real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from dory_core.budgets import resolve_budgets
from dory_core.compiler import CompileOptions, compile_network, plan_network
from dory_core.errors import DoesNotFit, NotSupported
from dory_core.plan import ExtTransfer, LayerStep, Plan
from dory_core.plugins import Plugins, load_plugins
from tests.nets import net
from tests.streaming.networks import CASES, Case, plan_graph
from tests.streaming.symbolic import Wrong, check_plan

REAL: dict[str, tuple[str, Mapping[int, int]]] = {
    "mv1_100_128": ("nemo_mv1_100_128", {}),
    "mv1_100_128 in 256 KiB": ("nemo_mv1_100_128", {2: 256 * 1024}),
    "dronet_complete": ("nemo_dronet_complete", {}),
    "proxylessnas": ("nemo_proxylessnas_pulp_dronet", {}),
    "mv2_035_96 in 60 kB": ("nemo_mv2_035_96", {2: 60_000}),
}
SMALL = {f"{case} in {case.budgets[-1]}": (case, case.budgets[-1]) for case in CASES}


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


@pytest.fixture(scope="module")
def plan_of(plugins: Plugins) -> Callable[[str], Plan]:
    """Return a function that plans a network once."""
    plans: dict[str, Plan] = {}

    def plan(name: str) -> Plan:
        if name not in plans:
            if name in SMALL:
                case, l2 = SMALL[name]
                plans[name] = plan_graph(case.build(), plugins, l2)
            else:
                plans[name] = _real(name, plugins)
        return plans[name]

    return plan


def _real(name: str, plugins: Plugins) -> Plan:
    folder, budgets = REAL[name]
    source = net(folder)
    options = CompileOptions(
        source.onnx,
        "gap8",
        source.frontend,
        input_bits=source.input_bits,
        input_signed=source.input_signed,
        budgets=budgets,
        plan_only=True,
    )
    return compile_network(options, plugins).plan


every_plan = pytest.mark.parametrize("name", [*REAL, *SMALL])


def constants(plan: Plan) -> list[tuple[LayerStep, ExtTransfer]]:
    """Return the transfers that bring constants, in order of use, with their layers."""
    found = []
    for step in plan.steps:
        if step.weights is None or step.weights.level != 3:
            continue
        table = range(step.weights.offset, step.weights.offset + step.weights.size)
        found += [(step, t) for t in plan.transfers if t.incoming and t.l3_offset in table]
    return sorted(found, key=lambda pair: pair[1].wait)


@every_plan
def test_plan_computes_the_network_whatever_the_speed_of_transfers(
    name: str, plan_of: Callable[[str], Plan]
) -> None:
    check_plan(plan_of(name))


@every_plan
def test_constants_never_block_and_come_in_order_of_use(
    name: str, plan_of: Callable[[str], Plan]
) -> None:
    plan = plan_of(name)
    fetched = constants(plan)
    for _, transfer in fetched:
        assert transfer.start < transfer.wait, transfer
    starts = [t.start for _, t in fetched]
    assert starts == sorted(starts)
    used = {(s.index, p.position) for s in plan.steps for p in s.parts if p.weights is not None}
    assert {(s.index, t.wait) for s, t in fetched} <= used


@every_plan
def test_l2_stays_below_the_stack_of_the_paper_and_the_budget(
    name: str, plan_of: Callable[[str], Plan]
) -> None:
    plan = plan_of(name)
    l2 = plan.levels[1]
    assert l2.used <= l2.budget
    if plan.transfers:
        assert l2.stack_bytes is not None and l2.packed_bytes is not None
        assert l2.packed_bytes <= l2.used <= l2.stack_bytes
        assert l2.used == max(-(-b.end // 8) * 8 for b in l2.blocks)


@every_plan
def test_every_stage_of_a_layer_is_needed(name: str, plan_of: Callable[[str], Plan]) -> None:
    """What does not touch L3 is not cut along its rows."""
    for step in plan_of(name).steps:
        touches = any(t.place.level == 3 for t in (*step.inputs, step.output))
        chunks = len(step.weights.chunks) if step.weights is not None else 1
        if not touches:
            assert len(step.parts) == chunks


@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan_is_the_same_every_time(case: Case, plugins: Plugins) -> None:
    first, second = (
        plan_graph(case.build(), plugins, case.budgets[-1]).to_json() for _ in range(2)
    )
    assert first == second


def test_constants_are_fetched_several_layers_ahead(plan_of: Callable[[str], Plan]) -> None:
    plan = plan_of("mv1_100_128")
    at = {part.position: n for n, step in enumerate(plan.steps) for part in step.parts}
    ahead = [at[t.wait] - at[max(t.start, 0)] for _, t in constants(plan)]
    assert max(ahead) >= 3
    assert sum(n >= 2 for n in ahead) >= 5


def test_constants_come_in_few_large_transfers(plan_of: Callable[[str], Plan]) -> None:
    for name in ("mv1_100_128", "mv1_100_128 in 256 KiB"):
        for step, transfer in constants(plan_of(name)):
            assert step.weights is not None
            assert transfer.size >= min(4096, step.weights.size), (name, step.index)
    plan = plan_of("mv1_100_128 in 256 KiB")
    last = [s for s in plan.steps if s.layer.inputs[0].channels == s.layer.output.channels == 1024]
    pointwise = [s for s in last if s.layer.inputs[0].height == 4 and s.layer.macs > 10_000_000]
    assert pointwise
    for step in pointwise:
        assert 1 < len(step.parts) < 64


def test_groups_of_a_layer_are_balanced(plan_of: Callable[[str], Plan]) -> None:
    for name in ("mv1_100_128", "mv1_100_128 in 256 KiB"):
        for step in plan_of(name).steps:
            if step.weights is None or len(step.weights.chunks) < 2:
                continue
            sizes = [len(chunk.data) for chunk in step.weights.chunks]
            assert max(sizes[:-1]) == min(sizes[:-1]) >= sizes[-1], (name, step.index)


def test_estimate_counts_waiting_for_l3(plan_of: Callable[[str], Plan]) -> None:
    plan = plan_of("mv1_100_128")
    layers = sum(step.estimate.cycles for step in plan.steps)
    moved = sum(t.size for t in plan.transfers)
    # one engine moves everything, a byte takes 1.23 cycles; much of it is hidden
    assert layers < plan.cycles < layers + 1.3 * moved
    small = plan_of("mv1_100_128 in 256 KiB")
    assert small.cycles > sum(step.estimate.cycles for step in small.steps)


def test_plan_json_says_what_is_cut_and_what_dominates(plan_of: Callable[[str], Plan]) -> None:
    plan = plan_of("proxylessnas")
    document = plan.to_json()
    assert [layer["l3_tiles"] for layer in document["layers"]] == [
        len(step.parts) for step in plan.steps
    ]
    assert max(layer["l3_tiles"] for layer in document["layers"]) > 1
    for level in ("L1", "L2", "L3"):
        use = document["memory"][level]
        assert 0 < use["used"] <= use["budget"]
        assert use["dominant"] in {block["name"] for block in use["blocks"]}
    end = sum(len(step.parts) for step in plan.steps)
    assert all(-1 <= b["first"] <= b["last"] <= end for b in document["memory"]["L3"]["blocks"])


def test_l3_is_refused_with_numbers_when_it_is_too_small(plugins: Plugins) -> None:
    case = next(c for c in CASES if c.name == "input_and_output")
    chip = plugins.context("gap8", {})
    *inner, outer = chip.memory.levels
    # Constants have no other place than the memory that the budget is about.
    writable = replace(outer, memories=tuple(m for m in outer.memories if not m.read_only))
    ctx = chip.with_hierarchy(replace(chip.memory, levels=(*inner, writable)))

    def plan(l3: int) -> Plan:
        budgets = resolve_budgets(ctx.memory, {2: 9_000, 3: l3})
        return plan_network(case.build(), ctx, budgets, plugins, "testing")

    with pytest.raises(DoesNotFit) as caught:
        plan(10_000)
    needed, message = caught.value.needed_bytes, caught.value.message
    assert needed is not None and needed > 10_000
    assert all(word in message for word in ("L3", "10000 B", f"{needed} B", "activations"))
    assert str(needed) in caught.value.hint
    assert plan(needed).levels[2].used == needed
    with pytest.raises(DoesNotFit):
        plan(needed - 1)


def test_outputs_that_were_spilled_are_read_where_they_return(plugins: Plugins) -> None:
    case = next(c for c in CASES if c.name == "output_with_late_reader")
    found = False
    for l2 in range(6_000, 14_000, 250):
        plan = plan_graph(case.build(), plugins, l2)
        check_plan(plan)
        backs = {t.name.removesuffix(".back") for t in plan.transfers if t.name.endswith(".back")}
        found |= bool(backs & {place.tensor.name for place in plan.outputs})
    assert found


def test_network_inputs_share_a_level_and_lie_in_one_block(plugins: Plugins) -> None:
    case = next(c for c in CASES if c.name == "two_inputs")
    levels = set()
    for l2 in range(8_000, 40_000, 2_000):
        plan = plan_graph(case.build(), plugins, l2)
        first, second = plan.inputs
        assert first.level == second.level
        levels.add(first.level)
        if first.level == 3:
            assert second.offset == first.offset + first.tensor.size_bytes
    assert levels == {2, 3}


def test_symbolic_check_refuses_a_plan_with_one_wrong_number(plugins: Plugins) -> None:
    case = next(c for c in CASES if c.name == "residual")
    plan = plan_graph(case.build(), plugins, 20_000)
    missed = []
    for n, transfer in enumerate(plan.transfers):
        for change in (
            {"l3_offset": transfer.l3_offset + 1},
            {"l2_offset": transfer.l2_offset + 8},
            {"size": transfer.size - 1},
            {"wait": transfer.wait + 1},
        ):
            wrong = list(plan.transfers)
            wrong[n] = replace(transfer, **change)  # type: ignore[arg-type]
            try:
                check_plan(replace(plan, transfers=tuple(wrong)))
            except Wrong:
                continue
            missed.append((transfer, change))
    late_stores = [m for m in missed if "wait" in m[1] and not m[0].incoming]
    assert len(missed) == len(late_stores), [m for m in missed if m not in late_stores]


# -- what a link can move -------------------------------------------------------------------------


def plan_with_link(plugins: Plugins, case_name: str, l2: int, **link: int) -> Plan:
    """Plan for the chip with another link to L3."""
    ctx = plugins.context("gap8", {})
    links = tuple(replace(x, **link) if x.upper == 2 else x for x in ctx.memory.links)  # type: ignore[arg-type]
    ctx = ctx.with_hierarchy(replace(ctx.memory, links=links))
    case = next(c for c in CASES if c.name == case_name)
    return plan_network(case.build(), ctx, resolve_budgets(ctx.memory, {2: l2}), plugins, "testing")


def test_transfers_keep_to_the_largest_that_the_link_can_move(plugins: Plugins) -> None:
    whole = plan_with_link(plugins, "residual", 20_000)
    cut = plan_with_link(plugins, "residual", 20_000, max_bytes=500)
    check_plan(cut)
    assert max(t.size for t in whole.transfers) > 500 >= max(t.size for t in cut.transfers)
    assert sum(t.size for t in whole.transfers) == sum(t.size for t in cut.transfers)


def test_rows_that_the_link_cannot_move_are_refused(plugins: Plugins) -> None:
    aligned = plan_with_link(plugins, "residual", 20_000, alignment_bytes=4)
    check_plan(aligned)
    for t in aligned.transfers:
        assert (t.l2_offset % 4, t.l3_offset % 4, t.size % 4) == (0, 0, 0)
    with pytest.raises(NotSupported) as caught:
        plan_with_link(plugins, "height_113", 6_000, alignment_bytes=4)
    assert "multiples of 4 B" in caught.value.message and caught.value.hint
