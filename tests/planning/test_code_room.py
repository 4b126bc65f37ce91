"""Code that lies beside the data takes their room: refusals say so, before any long search."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dory_core.cli.tables.plan import memory_table
from dory_core.driver.check import check_tiled
from dory_core.driver.front import front_of
from dory_core.driver.pipeline import BOUND, IMPORTED, TILED, run
from dory_core.driver.setup import Setup
from dory_core.errors import DoesNotFit
from dory_core.hardware.code_sizes import CodeSizes
from dory_core.ir import Graph, Window
from dory_core.plan import Plan
from dory_core.plan.budgets import least_functions, resolve_budgets
from dory_core.plan.code import event_count, program_bytes
from dory_core.planning import fitting
from dory_core.planning.fitting import Fitted, place_network
from dory_core.planning.front import streamed
from dory_core.planning.front.streamed import Streamed
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.toy.chip import NAME, three_levels

LAYERS = 6


def chain() -> Graph:
    """Return a network whose constants are larger than its activations."""
    b = GraphBuilder((32, 8, 8))
    for _ in range(LAYERS):
        b.conv(32, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    return b.graph()


def setup(left: int, left_streamed: int, row: int | None = None) -> Setup:
    """Return a chip whose L2 has so many bytes beside the code of the network, and then those
    beside the code of the streamed network; below 0: less than nothing. row: bytes of code of a
    layer that runs the function of another one."""
    plugins = three_levels().plugins()
    chip = plugins.context(NAME, {})
    inner, l2, outer = chip.memory.levels
    size = 1 << 20
    code = ((size - left) // LAYERS, (size - left_streamed) // LAYERS)
    memory = replace(
        l2.memories[0],
        size_bytes=size,
        reserved_bytes=0,
        code_bytes_per_layer=code,
        code_bytes_per_row=None if row is None else (row, row),
    )
    levels = (inner, replace(l2, memories=(memory,)), outer)
    ctx = chip.with_hierarchy(replace(chip.memory, levels=levels))
    return Setup(ctx, resolve_budgets(ctx.memory, {}), plugins)


def refused(chip: Setup, until: str | None = None, graph: Graph | None = None) -> DoesNotFit:
    """Return the error of a network that is refused for its number of layers."""
    with pytest.raises(DoesNotFit) as caught:
        run(graph or chain(), chip, after=IMPORTED, **({} if until is None else {"until": until}))
    error = caught.value
    assert f"the code of {LAYERS} layers" in error.message and "B of L2" in error.message
    assert "a larger --l2 does not help" in error.hint and "raise" not in error.hint
    assert "`--l2 16M --not-deployable-ok` writes it for the simulation" in error.hint
    assert error.needed_bytes is None
    return error


def test_code_without_room_for_any_data_is_refused_before_tiling() -> None:
    refused(setup(-10, -20), until=BOUND)


def test_code_of_streamed_layers_is_checked_before_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def search(*arguments: object) -> None:
        raise AssertionError("the search ran")

    monkeypatch.setattr(fitting, "streamed", search)
    assert "that are streamed" in refused(setup(20_000, -20)).message


def test_code_that_leaves_too_little_is_named_beside_what_is_needed() -> None:
    error = refused(setup(20_000, 500))
    assert "in its smallest parts" in error.message


def test_a_network_that_fits_beside_its_code_is_planned() -> None:
    assert run(chain(), setup(20_000, 20_000), after=IMPORTED).levels[1].used <= 20_000


def test_code_is_not_blamed_for_constants_beyond_the_outer_level() -> None:
    chip = setup(20_000, 20_000)
    *inner, outer = chip.ctx.memory.levels
    small = replace(outer.memories[0], size_bytes=4096, reserved_bytes=0)
    levels = (*inner, replace(outer, memories=(small,)))
    ctx = chip.ctx.with_hierarchy(replace(chip.ctx.memory, levels=levels))
    chip = replace(chip, ctx=ctx, budgets=resolve_budgets(ctx.memory, {}))
    with pytest.raises(DoesNotFit) as caught:
        run(chain(), chip, after=IMPORTED)
    assert "L3" in caught.value.message and "code" not in caught.value.message
    assert "too many layers" not in caught.value.hint


def alternating(layers: int) -> Graph:
    """Return layers of two kinds in turn, which run few functions."""
    b = GraphBuilder((16, 8, 8))
    for number in range(layers):
        b.conv(
            16, Window(kernel=(3, 3), pads=(1, 1, 1, 1)) if number % 2 else Window(kernel=(1, 1))
        )
    return b.graph()


@pytest.mark.sample(2)
@pytest.mark.parametrize("left", [-1, 3000], ids=["no room", "too little room"])
def test_layers_that_share_functions_need_room_for_their_rows_alone(left: int) -> None:
    layers = 30
    chip = setup(left, left, row=64)
    chip = with_code_of(chip, layers, left)
    plan = run(alternating(layers), chip, after=IMPORTED)
    functions = len(plan.program.functions)
    assert functions < 12
    room = chip.ctx.memory.level(2).room_bytes(layers, bool(plan.transfers), functions)
    assert plan.levels[1].used <= room


@pytest.mark.sample(2)
@pytest.mark.parametrize(("left", "fits"), [(3000, True), (3001, False)])
def test_check_counts_the_functions_that_layers_run(left: int, fits: bool) -> None:
    layers = 30
    chip = with_code_of(setup(left, left, row=64), layers, left)
    if not fits:
        chip = replace(chip, budgets=replace(chip.budgets, bytes={1: 65536, 2: 900, 3: 900}))
    tiled = run(alternating(layers), chip, after=IMPORTED, until=TILED)
    report = check_tiled(tiled, chip, ())
    assert report.fits is fits
    level = next(row for row in report.to_json()["levels"] if row["name"] == "L2")
    own = next(m for m in chip.ctx.memory.level(2).memories).code_bytes_per_layer[0]
    assert 2 * own <= level["code"] < 12 * own + 64 * layers
    table = memory_table([("L2", level)])
    assert "code" in table.titles


#: A rule by which copies take nearly all that code takes.
RULE = CodeSizes(
    *(100, 10, 16),  # network, layer, event
    *(50, 400, 0, 0, 0, 0),  # function, copy, wait, barrier, condition, axis
    *(0, 0, 0, 0, 300),  # part, row, number, line, kernel
)


def measured(chip: Setup, size: int, reserve: int = 0, rule: CodeSizes = RULE) -> Setup:
    """Return the chip with so many bytes of L2 and a rule, which takes nothing for granted."""
    inner, l2, outer = chip.ctx.memory.levels
    memory = replace(l2.memories[0], size_bytes=size, code_bytes_per_layer=(0, 0), code=rule)
    levels = (inner, replace(l2, memories=(memory,)), outer)
    ctx = chip.ctx.with_hierarchy(replace(chip.ctx.memory, levels=levels))
    return replace(chip, ctx=ctx, budgets=resolve_budgets(ctx.memory, {}, reserve))


def kernels_of(plan: Plan) -> int:
    return RULE.kernel * len({step.kernel.symbol for step in plan.steps})


@pytest.mark.parametrize("size", [1 << 20, 90_000, 80_000, 50_000, 30_000])
def test_a_plan_fits_beside_its_own_code(size: int) -> None:
    """The smaller L2 is, the more is streamed, and the more code and transfers there are."""
    plan = run(chain(), measured(setup(0, 0), size), after=IMPORTED)
    code = program_bytes(plan.program, plan.steps, RULE) + kernels_of(plan)
    assert plan.code_bytes == code > RULE.network + LAYERS * RULE.layer
    assert plan.levels[1].used + code <= size


def test_parts_that_take_more_code_than_they_save_give_way_to_larger_ones() -> None:
    """While the input stays in L2, each plan has more parts than the last one, and more code."""
    b = GraphBuilder((15, 96, 64))
    b.conv(1, Window(kernel=(5, 5), pads=(2, 2, 2, 2)))
    size = 95_000
    plan = run(b.graph(), measured(setup(0, 0), size, rule=replace(RULE, part=17)), after=IMPORTED)
    assert plan.levels[1].used + plan.code_bytes <= size
    assert len(plan.steps[0].parts) == 4 and plan.inputs[0].level == 3


def test_bytes_of_l2_that_are_kept_are_kept_beside_code() -> None:
    whole = run(chain(), measured(setup(0, 0), 1 << 20), after=IMPORTED)
    needed = whole.levels[1].used + whole.code_bytes
    fits = run(chain(), measured(setup(0, 0), needed + 1000, reserve=1000), after=IMPORTED)
    assert not fits.transfers
    kept = run(chain(), measured(setup(0, 0), needed + 999, reserve=1000), after=IMPORTED)
    assert kept.transfers and kept.levels[1].used + kept.code_bytes <= needed - 1


def test_a_network_that_never_fits_beside_its_code_is_refused() -> None:
    with pytest.raises(DoesNotFit) as caught:
        run(chain(), measured(setup(0, 0), 6000), after=IMPORTED)
    assert f"the code of {LAYERS} layers with their kernels" in caught.value.message


def test_entries_of_the_table_of_transfers_are_counted_exactly(tmp_path: Path) -> None:
    plan = build_app(chain(), NAME, tmp_path, budgets={2: 9000}, plugins=three_levels().plugins())
    assert plan.transfers
    text = (tmp_path / "src/network.c").read_text()
    table = text.partition("events[] = {")[2].partition("};")[0]
    rows = sum(table.count(name) for name in ("DORY_EXT_", "DORY_REPORT(", "DORY_RUN"))
    assert event_count(plan.program) == rows > 20


def with_code_of(chip: Setup, layers: int, left: int) -> Setup:
    """Return the chip on which the code of that many layers leaves ``left`` bytes."""
    inner, l2, outer = chip.ctx.memory.levels
    [memory] = l2.memories
    bytes_ = (memory.size_bytes - left) // layers
    memory = replace(memory, code_bytes_per_layer=(bytes_, bytes_))
    levels = (inner, replace(l2, memories=(memory,)), outer)
    return replace(chip, ctx=chip.ctx.with_hierarchy(replace(chip.ctx.memory, levels=levels)))


def test_a_refusal_counts_functions_once() -> None:
    chip = with_code_of(setup(-1, -1, row=1 << 18), LAYERS, -1)
    message = refused(chip, until=BOUND).message
    assert f"the code of {LAYERS} layers in 1 function takes" in message


def test_layers_of_different_sizes_run_no_common_function() -> None:
    b = GraphBuilder((8, 8, 8))
    for channels in (8, 8, 16, 16, 8):
        b.conv(channels, Window(kernel=(1, 1)))
    assert least_functions(b.graph()) == 4


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("size", "reserve"), [(30_000, 25_000), (90_000, 80_000), (30_000, 29_999)]
)
def test_where_bytes_are_kept_the_way_out_is_to_keep_fewer(size: int, reserve: int) -> None:
    with pytest.raises(DoesNotFit, match="the code of") as caught:
        run(chain(), measured(setup(0, 0), size, reserve), after=IMPORTED)
    hint = caught.value.hint
    assert hint.startswith(f"give a smaller --l2-reserve than {reserve}: ")
    assert "in its place `--l2 16M --not-deployable-ok` writes it for the simulation" in hint


def ways(chip: Setup) -> tuple[Streamed, Fitted]:
    """Return the chain on a chip, and its first plan."""
    tiled = run(chain(), chip, after=IMPORTED, until=TILED)
    found = Streamed.of(chip.tilings(tiled), chip.ctx, chip.budgets, any_core=False)
    return found, place_network(found.tiling, chip.ctx, chip.budgets, any_core=False)


def least_data(chip: Setup) -> tuple[int, list[DoesNotFit]]:
    """Return the least bytes of data of the chain in L2, and the errors of plans on the way."""
    refusals, place = list[DoesNotFit](), streamed.place_network

    def placed(*arguments: Any, **more: Any) -> Any:
        try:
            return place(*arguments, **more)
        except DoesNotFit as error:
            refusals.append(error)
            raise

    found, first = ways(chip)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streamed, "place_network", placed)
        return found.least_data(first).planned.home_bytes, refusals


def chip_of_the_front() -> Setup:
    return measured(setup(0, 0), 1 << 20, rule=replace(RULE, event=60))


@cache
def plans_of_the_front() -> tuple[Fitted, Fitted, int]:
    """Return the plan of the least data and code, that of the least data, and its bytes."""
    found, first = ways(chip_of_the_front())
    data = found.least_data(first)
    return found.smallest(first), data, data.planned.home_bytes


@pytest.mark.slow
def test_budgets_whose_parts_have_no_room_for_their_code_are_not_planned() -> None:
    """With less room for data there are more parts, and more code."""
    rule = CodeSizes(*[0] * 13, kernel=0)
    least, refusals = least_data(measured(setup(0, 0), 60_000, rule=rule))
    assert not refusals
    size = 60_000
    more, refusals = least_data(measured(setup(0, 0), size, rule=replace(rule, event=200)))
    assert least < more < size and not refusals


def test_plans_of_a_front_need_ever_fewer_bytes_of_data_and_code() -> None:
    chip = chip_of_the_front()
    points = front_of(run(chain(), chip, after=IMPORTED, until=TILED), chip).points
    for fast, small in pairwise(points):
        assert fast.cycles < small.cycles
        assert fast.l2_bytes + fast.code_bytes > small.l2_bytes + small.code_bytes
    smallest, less, _ = plans_of_the_front()
    assert smallest.l2_bytes == points[-1].l2_bytes + points[-1].code_bytes
    assert less.planned.home_bytes < points[-1].l2_bytes and less.l2_bytes > smallest.l2_bytes


@pytest.mark.parametrize(("share", "fits"), [(1.0, True), (0.5, False)])
def test_a_budget_below_those_of_the_front_is_planned_if_possible(share: float, fits: bool) -> None:
    """The plan with less data, and more code, is one more point."""
    chip, (*_, least) = chip_of_the_front(), plans_of_the_front()
    chip = replace(chip, budgets=resolve_budgets(chip.ctx.memory, {2: int(least * share)}))
    found = front_of(run(chain(), chip, after=IMPORTED, until=TILED), chip)
    assert found.fits is fits
    assert [point.fits for point in found.points].count(True) == fits
    assert found.points[-1].l2_bytes <= least * 1.01
