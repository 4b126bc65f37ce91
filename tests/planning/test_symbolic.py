"""The symbolic execution of operations: sound plans pass, a fault in any layer is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import setup_for
from dory_core.errors import DoesNotFit
from dory_core.expr import Expr
from dory_core.plan import Plan
from dory_core.plan.operations import (
    Barrier,
    Call,
    Copy,
    LayerProgram,
    Loop,
    Mark,
    MarkKind,
    Of,
    Operation,
    Wait,
    When,
    all_operations,
)
from dory_core.testing.cases import network_cases
from dory_core.testing.graphs import GraphBuilder
from tests.planning.computed import Wrong
from tests.planning.networks import plan_graph, win
from tests.planning.random_graphs import random_graph
from tests.planning.symbolic import check_plan
from tests.toy.array import array_chip
from tests.toy.chip import NAME, ToyChip, three_levels
from tests.toy.limited import LIMITS, limited, streaming

#: Returns what an operation becomes; None keeps it.
Edit = Callable[[Any], list[Operation] | None]


def plan_of(builder: GraphBuilder, chip: ToyChip, l1: int) -> Plan:
    return run(builder.graph(), setup_for(chip.plugins(), NAME, budgets={1: l1}), after=IMPORTED)


@pytest.mark.sample(17)
@pytest.mark.parametrize("limits", [{}, *(LIMITS[n] for n in ("vendor", "no DMA"))], ids=str)
@pytest.mark.parametrize("case", network_cases(), ids=str)
def test_resident_plans_compute_the_network(case: Any, limits: dict[str, Any]) -> None:
    for cores in (1, 3):
        chip = limited(limits, cores=cores, l1_bytes=4096)
        check_plan(run(case.build(), setup_for(chip.plugins(), NAME), after=IMPORTED))


@pytest.mark.sample(7)
@pytest.mark.parametrize("l1_bytes", [6 * 1024, 24 * 1024])
@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("case", network_cases(), ids=str)
def test_plans_with_layouts_compute_the_network(case: Any, resident: bool, l1_bytes: int) -> None:
    chip = array_chip(l1_bytes=l1_bytes, resident_l1=resident)
    check_plan(run(case.build(), setup_for(chip.plugins(), NAME), after=IMPORTED))


@pytest.mark.sample(2)
@pytest.mark.parametrize("l2", [3000, 3072])
def test_columns_behind_the_last_window_need_not_be_there(l2: int) -> None:
    """A layer in groups whose stride leaves the end of its input unread, which L2 does not get."""
    net = GraphBuilder((16, 1, 21))
    net.conv(16, win(1))
    net.conv(111, win((5, 1), (1, 3), (2, 0, 2, 0)))
    net.conv(16, win(1))
    chip = streaming(LIMITS["words"], {"alignment_bytes": 8}, 4096, l2)
    for graph in (net.graph(), random_graph(1019, mixed=True)):
        try:
            plan = run(graph, setup_for(chip.plugins(), NAME), after=IMPORTED)
        except DoesNotFit:
            continue
        check_plan(plan)


def edited(program: LayerProgram, edit: Edit, once: bool = True) -> LayerProgram | None:
    """Return a program with the first operation changed that an edit is for, or with all; None when
    there is none."""
    done = False

    def walk(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
        nonlocal done
        found: list[Operation] = []
        for operation in operations:
            other = edit(operation) if not (done and once) else None
            if other is not None:
                done = True
                found += other
            elif isinstance(operation, (Loop, When)):
                found.append(replace(operation, body=walk(operation.body)))
            else:
                found.append(operation)
        return tuple(found)

    operations = walk(program.operations)
    return replace(program, operations=operations) if done else None


def moved(copy: Copy, side: str, by: int) -> list[Operation]:
    address = getattr(copy, side)
    return [replace(copy, **{side: replace(address, offset=address.offset + by)})]


def told(call: Call, name: str, by: int) -> list[Operation]:
    value = call.arguments[name]
    assert isinstance(value, (int, Expr))
    return [replace(call, arguments={**call.arguments, name: value + by})]


def for_copies(operand: str, change: Callable[[Copy], list[Operation]]) -> Edit:
    return lambda op: change(op) if isinstance(op, Copy) and op.operand == operand else None


def for_calls(change: Callable[[Call], list[Operation]]) -> Edit:
    return lambda op: change(op) if isinstance(op, Call) else None


FAULTS: dict[str, Edit] = {
    "no wait for the input": lambda op: [] if isinstance(op, Wait) and op.operand == "x" else None,
    "no wait for the constants": lambda op: (
        [] if isinstance(op, Wait) and op.operand == "w" else None
    ),
    "no wait for the output": lambda op: [] if isinstance(op, Wait) and op.operand == "y" else None,
    "input from beside its place": for_copies("x", lambda copy: moved(copy, "l2", 1)),
    "input to beside its place": for_copies("x", lambda copy: moved(copy, "l1", 8)),
    "constants from beside their place": for_copies("w", lambda copy: moved(copy, "l2", 4)),
    "output to beside its place": for_copies("y", lambda copy: moved(copy, "l2", 1)),
    "output from beside its place": for_copies("y", lambda copy: moved(copy, "l1", 8)),
    "output without its last row": for_copies(
        "y", lambda copy: [replace(copy, shape=(copy.shape[0] - 1, *copy.shape[1:]))]
    ),
    "no store": for_copies("y", lambda _: []),
    "no load": for_copies("x", lambda _: []),
    "the next tile is loaded as the current one": for_copies(
        "x", lambda copy: [replace(copy, of=Of.CURRENT)] if copy.of is Of.NEXT else [copy]
    ),
    "padding above that is not there": for_calls(lambda call: told(call, "pad_top", 1)),
    "padding to the right that is not there": for_calls(lambda call: told(call, "pad_right", 1)),
    "a row too many": for_calls(lambda call: told(call, "y_h", 1)),
    "another input": for_calls(
        lambda call: [replace(call, arguments={**call.arguments, "x": call.arguments["y"]})]
    ),
    "sums that are not finished": for_calls(lambda call: told(call, "last", -1)),
    "no call": for_calls(lambda _: []),
}
#: Faults that not every way of moving data can have.
RARE = {"the next tile is loaded as the current one"}
#: The fault of which no single one is found where a layer has a copy of its output for each tile:
#: the wait in the loop is for none then.
OF_COPIES = "no wait for the output"


def planned() -> list[Plan]:
    net = GraphBuilder((48, 7, 6), seed=3)
    net.conv(24, win(3, pads=1))
    net.conv(24, win(3, pads=1), groups=24)
    net.max_pool(win(2, stride=2))
    net.conv(12, win(1))
    return [plan_of(net, ToyChip(cores=cores, any_core=True), 2200) for cores in (1, 4)]


PLANS = planned()


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_operations_are_found(name: str) -> None:
    tried = 0
    for plan in PLANS:
        for number, program in enumerate(plan.program.layers):
            schedule = plan.steps[number].schedule
            each_has_one = name == OF_COPIES and 1 < schedule.count <= schedule.buffering.y
            once = name not in RARE and not each_has_one
            wrong = edited(program, FAULTS[name], once=once)
            if wrong is None or (name in RARE and not has_next(program)):
                continue
            layers = list(plan.program.layers)
            layers[number] = wrong
            faulty = replace(plan, program=replace(plan.program, layers=tuple(layers)))
            tried += 1
            with pytest.raises(Wrong):
                check_plan(faulty)
    assert tried


def has_next(program: LayerProgram) -> bool:
    copies = (op for op in all_operations(program) if isinstance(op, Copy))
    return any(copy.operand == "x" and copy.of is Of.NEXT for copy in copies)


def test_what_a_layer_does_not_keep_in_l1_is_lost() -> None:
    net = GraphBuilder((8, 12, 12), seed=4)
    first = net.conv(8, win(3, pads=1))
    second = net.conv(8, win(3, pads=1))
    net.add(first, second)
    plan = plan_graph(net.graph(), three_levels().plugins(), 100_000)
    check_plan(plan)
    found = 0
    for number, program in enumerate(plan.program.layers):
        wrong = edited(
            program, lambda op: [] if isinstance(op, Mark) and op.kind is MarkKind.KEEP else None
        )
        if wrong is not None:
            found += 1
            layers = list(plan.program.layers)
            layers[number] = wrong
            with pytest.raises(Wrong):
                check_plan(replace(plan, program=replace(plan.program, layers=tuple(layers))))
    assert found


def test_cores_that_copy_meet_before_the_kernel_reads() -> None:
    net = GraphBuilder((4, 9, 9), seed=5)
    net.conv(8, win(3, pads=1))
    plan = plan_of(net, limited(LIMITS["no DMA"], cores=3), 4096)
    check_plan(plan)
    [program] = plan.program.layers
    call = next(n for n, op in enumerate(program.operations) if isinstance(op, Call))
    operations = [
        op for n, op in enumerate(program.operations) if n > call or not isinstance(op, Barrier)
    ]
    wrong = replace(program, operations=tuple(operations))
    with pytest.raises(Wrong):
        check_plan(replace(plan, program=replace(plan.program, layers=(wrong,))))
