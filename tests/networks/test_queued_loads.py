"""Loads of the next tile that start before those of this one are waited for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dory_core.ir import Window
from dory_core.plan import Plan
from dory_core.plan.operations import Barrier, Call, Copy, LayerProgram, Loop, Operation
from dory_core.plugins import Plugins
from dory_core.simulate.run import DMA_MODES
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.sanitizers import require_sanitizer
from tests.networks.faults import Application, Fault, outcome, replaced, without
from tests.planning.symbolic import check_plan
from tests.program.walk import value, walk
from tests.toy.chip import DMA, NAME, ToyChip
from tests.toy.network import AROUND, POINT

#: Tiles wait for the link.
SLOW = ToyChip(
    cores=4, links=(replace(DMA, bytes_per_cycle=0.1, setup_cycles=60, issue_cycles=40),)
)
L1 = 2600
# Tiles along several axes with two copies of inputs and constants, and along one axis.
DEPTHWISE, POOL = 0, 2


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return SLOW.plugins()


@pytest.fixture(scope="module")
def app(plugins: Plugins, tmp_path_factory: pytest.TempPathFactory) -> Application:
    directory = tmp_path_factory.mktemp("queued") / "app"
    net = GraphBuilder((96, 12, 12), seed=7)
    net.conv(96, AROUND, groups=96)
    net.conv(16, POINT)
    net.max_pool(Window(kernel=(12, 12)))
    net.linear(400)
    plan = build_app(net.graph(), NAME, directory, plugins=plugins, budgets={1: L1})
    return Application(directory, plan)


def test_queued_loads_are_exact(app: Application, plugins: Plugins) -> None:
    steps = app.plan.steps
    copies = [step.schedule.buffering for step in steps]
    assert all(copies[n].queued for n in (DEPTHWISE, POOL))
    assert (copies[DEPTHWISE].x, copies[DEPTHWISE].w) == (2, 2)
    assert min(steps[DEPTHWISE].schedule.counts[:3]) > 1
    assert max(steps[POOL].schedule.counts[1:]) == 1
    check_plan(app.plan)
    assert_exact(app.directory, plugins=plugins)


@pytest.mark.sanitizer
def test_queued_loads_have_no_race(app: Application, plugins: Plugins) -> None:
    require_sanitizer("thread")
    assert_exact(app.directory, plugins=plugins, dma=("early",), sanitize="thread", repeat=1)


# -- a copy of a buffer is loaded when all cores have left it ------------------------------------


def overtaken(plan: Plan) -> Iterator[str]:
    """Yield the tiles whose loads overwrite what a core may still read: no barrier is between."""
    for step, program in zip(plan.steps, plan.program.layers, strict=True):
        reading: set[tuple[str, int]] = set()
        for operation, values in walk(program):
            if isinstance(operation, Call):
                for name in ("x", "w"):
                    reading |= {(name, values.get(f"{name}_slot", 0))}
            elif isinstance(operation, Barrier):
                reading.clear()
            elif isinstance(operation, Copy) and operation.operand in ("x", "w"):
                block = step.block(operation.operand)
                assert block is not None
                slot = block.offsets.index(value(operation.l1.offset, values))
                if (operation.operand, slot) in reading:
                    yield f"layer {step.index}, tile {values['tile']}"


def with_program(plan: Plan, number: int, program: LayerProgram) -> Plan:
    layers = list(plan.program.layers)
    layers[number] = program
    return replace(plan, program=replace(plan.program, layers=tuple(layers)))


def without_last_barrier(program: LayerProgram) -> LayerProgram:
    """Return a program whose loop has no barrier behind the kernel."""
    operations: list[Operation] = list(program.operations)
    at = next(n for n, one in enumerate(operations) if isinstance(one, Loop))
    loop = operations[at]
    assert isinstance(loop, Loop)
    last = max(n for n, one in enumerate(loop.body) if isinstance(one, Barrier))
    operations[at] = replace(loop, body=(*loop.body[:last], *loop.body[last + 1 :]))
    return replace(program, operations=tuple(operations))


def test_a_barrier_stands_between_the_last_reading_of_a_copy_and_its_load(app: Application) -> None:
    assert not list(overtaken(app.plan))
    program = without_last_barrier(app.plan.program.layers[DEPTHWISE])
    assert list(overtaken(with_program(app.plan, DEPTHWISE, program)))


# -- faults of the generated code are found ------------------------------------------------------

FAULTS: dict[str, Fault] = {
    "waits_for_the_next_input": (
        DEPTHWISE,
        replaced(r"dory_dma_wait\(x_ticket\[n % 2\]\)", "dory_dma_wait(x_ticket[(n + 1) % 2])"),
        r"tile \d+: (tile reads byte \d+ of L1 while|wait for)",
    ),
    "waits_for_the_next_constants": (
        DEPTHWISE,
        replaced(r"DORY_WAIT\(w_ticket\[w_slot\]\)", "DORY_WAIT(w_ticket[w_slot ^ 1u])"),
        r"tile \d+: tile reads byte \d+ of L1 while",
    ),
    "next_input_goes_where_the_current_one_is": (
        POOL,
        replaced(r"\(\(o \+ 1\) % 2\) \* L1_X_STEP", "(o % 2) * L1_X_STEP"),
        r"layer 2 .*(transfer writes byte \d+ of L1|tile reads byte \d+ of L1 while)",
    ),
    "a_ticket_is_overwritten": (
        POOL,
        replaced(r"x_ticket\[\(o \+ 1\) % 2\] =", "x_ticket[o % 2] ="),
        r"layer 2 ",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_queues_are_found_in_every_dma_mode(
    fault: str, app: Application, plugins: Plugins, tmp_path: Path
) -> None:
    layer, edit, words = FAULTS[fault]
    directory = app.with_text(layer, edit(app.text(layer)), tmp_path / "app")
    for dma in DMA_MODES:
        message = outcome(directory, plugins, dma)
        assert f"layer {layer} '" in message, f"dma {dma}: {message}"
        assert re.search(words, message), f"dma {dma}: {message}"


@pytest.mark.sanitizer
def test_a_missing_barrier_behind_the_kernel_is_a_race(
    app: Application, plugins: Plugins, tmp_path: Path
) -> None:
    require_sanitizer("thread")
    text = without("dory_barrier();", 2)(app.text(DEPTHWISE))
    directory = app.with_text(DEPTHWISE, text, tmp_path / "app")
    message = outcome(directory, plugins, "early", "thread", repeat=20)
    assert f"layer {DEPTHWISE} '" in message, message
