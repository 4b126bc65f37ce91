"""Programs of layers: their operations as text, and walked step by step beside the schedule."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from dory_core.codegen.values import Values
from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import setup_for
from dory_core.hardware.copies import CORES, Carriage
from dory_core.ir.geometry import Span
from dory_core.plan import LayerStep, Plan
from dory_core.plan.lower import lower_layer
from dory_core.plan.operations import (
    AHEAD,
    AXES,
    Barrier,
    Call,
    Copy,
    LayerProgram,
    Mark,
    Of,
    Wait,
    When,
)
from dory_core.plan.share import layer_functions
from dory_core.schedule.loops import Buffering, LoopOrder, Schedule
from dory_core.testing.graphs import GraphBuilder
from tests.plan.program_text import program_text
from tests.plan.walk import value, walk
from tests.planning.networks import CASES, plan_graph, win
from tests.planning.test_found_inputs import looped
from tests.toy.chip import NAME, ToyChip, three_levels

SAME = win(3, pads=1)


def plan_of(builder: GraphBuilder, l1: int | None = None) -> Plan:
    budgets = {} if l1 is None else {1: l1}
    return run(
        builder.graph(), setup_for(ToyChip().plugins(), NAME, budgets=budgets), after=IMPORTED
    )


def test_a_layer_in_one_tile_has_no_loop_and_numbers_for_addresses() -> None:
    net = GraphBuilder((4, 6, 6))
    net.conv(8, SAME)
    [step] = plan_of(net).steps
    program = lower_layer(step, any_core=False)
    assert program.loop is None
    lines = program_text(program).splitlines()
    kinds = [line.split()[0] for line in lines]
    assert kinds[:7] == ["mark", "barrier", "copy", "copy", "wait", "wait", "barrier"]
    assert kinds[7] == "mark"
    assert kinds[-5:] == ["mark", "call", "barrier", "copy", "wait"]
    x = step.block("x")
    assert x is not None
    assert (
        f"copy x of t: l1 + {x.offsets[0]} <- l2 + {step.parts[0].inputs[0]}, 144 x 1 x 1" in lines
    )


pytestmark = pytest.mark.usefixtures("tiles_of_the_objective")

Pairs = list[tuple[LayerStep, LayerStep | None]]

#: Networks in three levels, and bytes of L2.
THREE_LEVELS = {"residual": 20_000, "many_constants": 15_000, "height_113": 6_000}
NETS = ("tiled", *THREE_LEVELS, "parts")


@cache
def layers_of(net: str) -> Pairs:
    """Return layers in several tiles, and the later layer whose constants each one loads."""
    if net == "tiled":
        return tiled()
    if net == "parts":
        return [(step, later) for step, later in pairs(looped()) if len(step.parts) > 1]
    case = next(case for case in CASES if case.name == net)
    return pairs(plan_graph(case.build(), three_levels().plugins(), THREE_LEVELS[net]))


def tiled() -> Pairs:
    """Return layers of all kinds, in one part."""
    net = GraphBuilder((16, 18, 18), seed=3)
    net.conv(48, SAME)
    net.conv(48, SAME, groups=48)
    net.max_pool(win(2, stride=2))
    net.conv(24, win(1))
    net.avg_pool(win(3, stride=3))
    net.linear(40)
    found = pairs(plan_of(net, 4096))
    assert any(later is not None for _, later in found)
    return found


def every_layer() -> Pairs:
    return [pair for net in NETS for pair in layers_of(net)]


def pairs(plan: Plan) -> Pairs:
    return [(s, None if s.ahead is None else plan.steps[s.ahead.step]) for s in plan.steps]


EVERY_NET = pytest.mark.parametrize("net", NETS)


@pytest.mark.sample(5)
@EVERY_NET
def test_walking_a_program_follows_the_schedule(net: str) -> None:
    """Tiles, loads and stores come in the schedule's order, in the slots that it says."""
    for step, later in layers_of(net):
        program = lower_layer(step, any_core=False, later=later)
        for number, part in enumerate(step.parts):
            schedule = part.schedule
            steps = list(schedule.steps())
            tiles = [values["tile"] for op, values in walk(program, number) if isinstance(op, Call)]
            assert tiles == list(range(schedule.count))
            starts: dict[str, list[tuple[int, int]]] = {"x": [], "w": [], "y": []}
            for operation, values in walk(program, number):
                if isinstance(operation, Copy) and operation.operand in starts:
                    block = step.block(operation.operand)
                    assert block is not None
                    slot = block.offsets.index(value(operation.l1.offset, values))
                    starts[operation.operand].append((values["tile"], slot))
            moved = {operand for operand, found in starts.items() if found}
            wanted = {
                "x": [(s.index, s.x_slot) for s in steps if s.load_x],
                "w": [(s.index, s.w_slot) for s in steps if s.load_w],
                "y": [(s.index, s.y_slot) for s in steps if s.store_y],
            }
            wanted["w"] = wanted["w"][step.loaded_ahead :]
            assert {operand: starts[operand] for operand in moved} == {
                operand: wanted[operand] for operand in moved
            }


@pytest.mark.sample(2)
@EVERY_NET
def test_every_tile_waits_for_what_it_reads_before_it_is_computed(net: str) -> None:
    for step, later in layers_of(net):
        program = lower_layer(step, any_core=False, later=later)
        for number in range(len(step.parts)):
            open_: dict[str, set[int]] = {"w": {0}} if step.loaded_ahead else {}
            for operation, values in walk(program, number):
                if isinstance(operation, Copy):
                    slot = value(operation.ticket_slot, values)
                    assert slot not in open_.setdefault(operation.operand, set())
                    open_[operation.operand].add(slot)
                elif isinstance(operation, Wait):
                    slots = open_.get(operation.operand, set())
                    slot = value(operation.slot, values)
                    assert slot in slots or not operation.open
                    slots.discard(slot)
                elif isinstance(operation, Call):
                    still_open = {op for op in ("x", "x2", "w") if open_.get(op)}
                    early = {
                        op.operand
                        for op, _ in walk(program, number)
                        if isinstance(op, Copy) and op.of is Of.NEXT
                    }
                    assert still_open <= early
            assert open_.pop(AHEAD, set()) == ({0} if later is not None else set())
            assert not any(open_.values())


def overtaken(program: LayerProgram, step: LayerStep, part: int) -> list[int]:
    """Return the tiles that load a copy of a buffer which cores may still use: no barrier stands
    between its last use and the start of the load. What the cores copy counts as theirs."""
    found, used = [], set[tuple[str, int]]()
    for operation, values in walk(program, part):
        if isinstance(operation, Call):
            used = {(name, values.get(f"{name}_slot", 0)) for name in ("x", "w")}
        elif isinstance(operation, Barrier):
            used = set()
        elif isinstance(operation, Copy) and operation.operand in ("x", "w"):
            block = step.block(operation.operand)
            assert block is not None
            slot = block.offsets.index(value(operation.l1.offset, values))
            if (operation.operand, slot) in used:
                found.append(values["tile"])
    return found


def without_barrier_behind_the_kernel(program: LayerProgram) -> LayerProgram:
    loop = program.loop
    assert loop is not None
    call = next(n for n, one in enumerate(loop.body) if isinstance(one, Call))
    assert isinstance(loop.body[call + 1], Barrier)
    other = replace(loop, body=(*loop.body[: call + 1], *loop.body[call + 2 :]))
    operations = tuple(other if one is loop else one for one in program.operations)
    return replace(program, operations=operations)


def test_all_cores_have_left_what_a_load_overwrites() -> None:
    faults = 0
    for step, later in every_layer():
        program = lower_layer(step, any_core=False, later=later)
        for part in range(len(step.parts)):
            assert not overtaken(program, step, part)
            if program.loop is not None:
                wrong = without_barrier_behind_the_kernel(program)
                faults += bool(overtaken(wrong, step, part))
    assert faults > 5


def test_loads_of_the_next_tile_start_when_the_cores_have_met_right_before_the_kernel() -> None:
    doubled = [
        one for one in every_layer() if one[0].schedule.buffering.x > 1 < one[0].schedule.count
    ]
    assert doubled
    for step, later in doubled:
        shares = {**step.carriages, "x": Carriage(CORES)}
        for one in (step, replace(step, carriages=shares)):
            loop = lower_layer(one, any_core=False, later=later).loop
            assert loop is not None
            bodies = [op.body if isinstance(op, When) else (op,) for op in loop.body]
            copies = ((n, body[0]) for n, body in enumerate(bodies))
            loads = [n for n, op in copies if isinstance(op, Copy) and op.operand in ("x", "w")]
            barrier = next(n for n, body in enumerate(bodies) if isinstance(body[0], Barrier))
            kernel = next(n for n, body in enumerate(bodies) if isinstance(body[0], Call))
            early = [n for n in loads if n < kernel]
            assert early and early[0] > barrier
            between = (operation for body in bodies[barrier + 1 : kernel] for operation in body)
            assert all(isinstance(operation, Copy | Mark) for operation in between)


def spans(count: int) -> tuple[Span, ...]:
    return tuple(Span(4 * k, 4, 4 * k, 4) for k in range(count))


@pytest.mark.parametrize("order", LoopOrder)
@pytest.mark.parametrize("counts", list(product((1, 2, 3), repeat=3)), ids=str)
def test_slots_have_closed_forms(order: str, counts: tuple[int, int, int]) -> None:
    """Whatever the nesting: a slot is the number of the iteration of the loops that change it."""
    o, h, w = counts
    split = layers_of("tiled")[0][0]
    schedule = Schedule(order, spans(o), spans(h), spans(w), spans(1), Buffering(2, 2, 2))
    placed = tuple(
        replace(block, offsets=(block.offsets[0], block.offsets[0] + 100_000))
        if block.name in ("x", "w", "y")
        else block
        for block in split.l1
    )
    part = replace(split.parts[0], schedule=schedule)
    weights = split.weights
    assert weights is not None
    [chunk] = weights.chunks
    tile = chunk.tiles[0][0]
    chunk = replace(chunk, tiles=((tile,),) * o)
    step = replace(split, l1=placed, parts=(part,), weights=replace(weights, chunks=(chunk,)))
    program = lower_layer(step, any_core=False)
    tiles = {values["tile"]: values for op, values in walk(program) if isinstance(op, Call)}
    for wanted in schedule.steps():
        values = tiles[wanted.index]
        assert values.get("x_slot", 0) == wanted.x_slot
        assert values.get("w_slot", 0) == wanted.w_slot
        assert values.get("y_slot", 0) == wanted.y_slot


@EVERY_NET
def test_the_estimator_does_the_same_in_the_same_order(net: str) -> None:
    """Copies and calls of the program are the events of the part's timeline, one by one."""
    for step, later in layers_of(net):
        program = lower_layer(step, any_core=False, later=later)
        for number, timeline in enumerate(step.timelines):
            done = []
            for operation, values in walk(program, number):
                if isinstance(operation, Call):
                    done.append(("compute", values["tile"]))
                elif isinstance(operation, Copy):
                    way = "load" if operation.to_l1 else "store"
                    name = f"{way} {operation.operand}"
                    if operation.operand == AHEAD:
                        assert later is not None
                        name = f"load w of layer {later.index}"
                    done.append((name, values["tile"]))
            assert done == [(event.name, event.step) for event in timeline.events]


def test_a_part_with_one_tile_along_the_innermost_axis_loads_its_input_once() -> None:
    """Where another axis steps it finds the same input, while other parts load another one."""
    step = next(step for step, _ in tiled() if step.layer.op.kind == "MaxPool")
    part = step.parts[0]
    field = [n for n in part.schedule.order.axes if len(getattr(part.schedule, n)) > 1][-1]
    short = {field: getattr(part.schedule, field)[:1]}
    axis = dict(zip(("c_out", "h", "w", "c_in"), AXES, strict=True))[field]
    always = []
    for last in (part, replace(part, schedule=replace(part.schedule, **short))):
        one = replace(step, parts=(part, last))
        program = lower_layer(one, any_core=False, later=None)
        [function] = layer_functions((one,), (program,))
        always.append(Values("dory", one, function).changes_always((axis,)))
    assert always == [True, False]
