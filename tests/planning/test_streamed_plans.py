"""What must hold for every streamed plan, on the networks of the cascade and on a large one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import Setup
from dory_core.errors import DoesNotFit
from dory_core.plan import Plan
from dory_core.plan.block_ids import BlockKind
from dory_core.plan.budgets import resolve_budgets
from dory_core.plugins.manager import Plugins
from tests.planning.computed import Wrong
from tests.planning.networks import CASES, Case, changed_plan, mobile, plan_graph
from tests.planning.properties import (
    PROPERTIES,
    constants_are_fetched_several_layers_ahead,
    constants_come_in_few_large_transfers,
    groups_of_a_layer_are_balanced,
    large_pointwise_layers_have_few_parts,
)
from tests.planning.symbolic import check_plan
from tests.toy.chip import NAME, three_levels

SMALL = {f"{case} in {case.budgets[-1]}": (case.build, case.budgets[-1]) for case in CASES}
LARGE = {"mobile in 448 KiB": (mobile, 448 * 1024), "mobile in 256 KiB": (mobile, 256 * 1024)}
NETWORKS = SMALL | LARGE


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return three_levels().plugins()


@pytest.fixture(scope="module")
def plan_of(plugins: Plugins) -> Callable[[str], Plan]:
    """Return a function that plans a network once."""
    plans: dict[str, Plan] = {}

    def plan(name: str) -> Plan:
        if name not in plans:
            build, l2 = NETWORKS[name]
            plans[name] = plan_graph(build(), plugins, l2)
        return plans[name]

    return plan


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_plan_has_the_properties_of_a_streamed_one(
    name: str, plan_of: Callable[[str], Plan]
) -> None:
    plan = plan_of(name)
    for check in PROPERTIES.values():
        check(plan)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_constants_of_a_large_network_come_early_in_few_large_transfers(
    name: str, plan_of: Callable[[str], Plan]
) -> None:
    plan = plan_of(name)
    constants_come_in_few_large_transfers(plan)
    groups_of_a_layer_are_balanced(plan)


@pytest.mark.slow
def test_constants_are_fetched_several_layers_ahead(plan_of: Callable[[str], Plan]) -> None:
    constants_are_fetched_several_layers_ahead(plan_of("mobile in 448 KiB"))


@pytest.mark.slow
def test_large_pointwise_layers_have_few_parts(
    plan_of: Callable[[str], Plan], plugins: Plugins
) -> None:
    build, l2 = LARGE["mobile in 256 KiB"]
    plan = plan_graph(build(), plugins, l2, moves="-finer-chunks")
    large_pointwise_layers_have_few_parts(plan)
    finer = plan_of("mobile in 256 KiB")
    assert finer.cycles <= plan.cycles
    pairs = zip(finer.steps, plan.steps, strict=True)
    assert all(len(one.parts) <= 2 * len(other.parts) for one, other in pairs)


@pytest.mark.sample(25)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_plan_is_the_same_every_time(
    case: Case, plan_of: Callable[[str], Plan], plugins: Plugins
) -> None:
    first = plan_of(f"{case} in {case.budgets[-1]}").to_json()
    assert first == plan_graph(case.build(), plugins, case.budgets[-1]).to_json()


@pytest.mark.slow
def test_estimate_counts_waiting_for_l3(plan_of: Callable[[str], Plan], plugins: Plugins) -> None:
    plan = plan_of("mobile in 448 KiB")
    layers = sum(step.estimate.cycles for step in plan.steps)
    moved = sum(t.size for t in plan.transfers)
    rate = plugins.context(NAME).memory.link(2).bytes_per_cycle
    # one engine moves everything, and much of it is hidden
    assert layers < plan.cycles < layers + 1.1 * moved / rate
    small = plan_of("mobile in 256 KiB")
    assert small.cycles > sum(step.estimate.cycles for step in small.steps)


def test_plan_json_says_what_is_cut_and_what_dominates(plan_of: Callable[[str], Plan]) -> None:
    plan = plan_of("one_large_layer in 16000")
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
    chip = plugins.context(NAME, {})
    *inner, outer = chip.memory.levels
    # Constants have no other place than the memory that the budget is about.
    writable = replace(outer, memories=tuple(m for m in outer.memories if not m.read_only))
    ctx = chip.with_hierarchy(replace(chip.memory, levels=(*inner, writable)))

    def plan(l3: int) -> Plan:
        budgets = resolve_budgets(ctx.memory, {2: 9_000, 3: l3})
        return run(case.build(), Setup(ctx, budgets, plugins), after=IMPORTED)

    with pytest.raises(DoesNotFit) as caught:
        plan(10_000)
    needed, message = caught.value.needed_bytes, caught.value.message
    assert needed is not None and needed > 10_000
    assert all(word in message for word in ("L3", "10000 B", f"{needed} B", "activations"))
    assert str(needed) in caught.value.hint
    assert plan(needed).levels[2].used == needed
    with pytest.raises(DoesNotFit):
        plan(needed - 1)


@pytest.mark.slow
def test_outputs_that_were_spilled_are_read_where_they_return(plugins: Plugins) -> None:
    case = next(c for c in CASES if c.name == "output_with_late_reader")
    found = False
    for l2 in range(6_000, 14_000, 250):
        plan = plan_graph(case.build(), plugins, l2, moves="-l1-residency")
        check_plan(plan)
        backs = {t.block.tensor for t in plan.transfers if t.block.kind is BlockKind.BACK}
        found |= bool(backs & {place.tensor.name for place in plan.outputs})
    assert found


@pytest.mark.parametrize("step", [12_000, pytest.param(4_000, marks=pytest.mark.slow)])
def test_network_inputs_share_a_level_and_lie_in_one_block(step: int, plugins: Plugins) -> None:
    case = next(c for c in CASES if c.name == "two_inputs")
    levels = set()
    for l2 in range(8_000, 40_000, step):
        plan = plan_graph(case.build(), plugins, l2)
        first, second = plan.inputs
        assert first.level == second.level
        levels.add(first.level)
        if first.level == 3:
            assert second.offset == first.offset + first.tensor.size_bytes
    assert levels == {2, 3}


@pytest.mark.sample(5)
@pytest.mark.parametrize("fifth", range(5))
def test_symbolic_check_refuses_a_plan_with_one_wrong_number(fifth: int, plugins: Plugins) -> None:
    case = next(c for c in CASES if c.name == "residual")
    plan = plan_graph(case.build(), plugins, 20_000)
    missed = []
    for n, transfer in list(enumerate(plan.transfers))[fifth::5]:
        for change in (
            {"l3_offset": transfer.l3_offset + 1},
            {"l2_offset": transfer.l2_offset + 8},
            {"size": transfer.size - 1},
            {"wait": transfer.wait + 1},
        ):
            wrong = list(plan.transfers)
            wrong[n] = replace(transfer, **change)  # type: ignore[arg-type]
            try:
                check_plan(changed_plan(plan, transfers=tuple(wrong)))
            except Wrong:
                continue
            missed.append((transfer, change))
    late_stores = [m for m in missed if "wait" in m[1] and not m[0].incoming]
    assert len(missed) == len(late_stores), [m for m in missed if m not in late_stores]


# -- what a link can move -------------------------------------------------------------------------


def plan_with_link(plugins: Plugins, case_name: str, l2: int, **link: int) -> Plan:
    """Plan for the chip with another link to L3, without chains: they depend on the link."""
    ctx = plugins.context(NAME, {"moves": "-fused-chains"})
    links = tuple(replace(x, **link) if x.upper == 2 else x for x in ctx.memory.links)  # type: ignore[arg-type]
    ctx = ctx.with_hierarchy(replace(ctx.memory, links=links))
    case = next(c for c in CASES if c.name == case_name)
    budgets = resolve_budgets(ctx.memory, {2: l2})
    return run(case.build(), Setup(ctx, budgets, plugins), after=IMPORTED)


def test_transfers_keep_to_the_largest_that_the_link_can_move(plugins: Plugins) -> None:
    whole = plan_with_link(plugins, "residual", 18_000)
    cut = plan_with_link(plugins, "residual", 18_000, max_bytes=500)
    check_plan(cut)
    assert max(t.size for t in whole.transfers) > 500 >= max(t.size for t in cut.transfers)
    assert sum(t.size for t in whole.transfers) == sum(t.size for t in cut.transfers)


@pytest.mark.sample(3)
@pytest.mark.parametrize("unit", [4, 8])
@pytest.mark.parametrize("name", ["residual", "height_113"])
def test_the_link_moves_whole_units_whatever_the_rows(
    plugins: Plugins, name: str, unit: int
) -> None:
    plan = plan_with_link(
        plugins, name, 20_000 if name == "residual" else 6_000, alignment_bytes=unit
    )
    check_plan(plan)
    assert plan.transfers
    for t in plan.transfers:
        assert (t.l2_offset % unit, t.l3_offset % unit, t.size % unit) == (0, 0, 0)
