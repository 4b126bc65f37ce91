"""State between inferences: where it lies, what is copied, and that sequences are exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dory_core.checks.contents import verify_contents
from dory_core.codegen.state import kept_lines
from dory_core.driver import pipeline
from dory_core.driver.application import read_plan, run_application
from dory_core.driver.pipeline import IMPORTED
from dory_core.driver.setup import setup_for
from dory_core.errors import DoryError, VerificationFailed
from dory_core.ir import Array, Graph, Window, requant
from dory_core.ir.reference import random_inputs, run, run_sequence
from dory_core.plan import Plan, StatePlan
from dory_core.plan.moving import Moving
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.cases import network_cases
from dory_core.testing.graphs import I8, U8, GraphBuilder
from tests.planning.computed import Wrong
from tests.planning.networks import changed_plan
from tests.planning.symbolic import check_plan
from tests.toy.array import array_chip
from tests.toy.chip import NAME, ToyChip
from tests.toy.limited import limited, streaming

POINT = Window(kernel=(1, 1))
SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
SEQUENCE = (0, 1, 2, 3, 4)


def three_states() -> Graph:
    return next(case for case in network_cases() if case.name == "state").build()


def built(
    graph: Graph, directory: Path, chip: ToyChip | None = None, l2: int | None = None
) -> Plan:
    """Plan and write a network with a sequence of inferences; every one of them is exact."""
    plugins = (chip or limited({}, cores=3)).plugins()
    budgets = {} if l2 is None else {2: l2}
    plan = build_app(graph, NAME, directory, plugins=plugins, budgets=budgets, seeds=SEQUENCE)
    check_plan(plan)
    assert_exact(directory, plugins=plugins)
    return plan


def test_state_goes_from_one_inference_to_the_next() -> None:
    graph = three_states()
    inputs = [random_inputs(graph, seed) for seed in SEQUENCE]
    found = list(run_sequence(graph, inputs))
    for state in graph.states:
        assert np.array_equal(found[0][state.read], state.initial.values)
        for before, behind in pairwise(found):
            assert np.array_equal(behind[state.read], before[state.written])
    alone = run(graph, inputs[-1])
    assert not np.array_equal(alone[graph.outputs[0]], found[-1][graph.outputs[0]])


def test_what_is_read_late_is_copied_and_what_is_dead_is_written_in_place(tmp_path: Path) -> None:
    plan = built(three_states(), tmp_path / "app")
    how = {state.name: (state.copied, state.overlaps) for state in plan.states}
    # The last rows of a tensor move within its block; a sum is read while it is written.
    assert how == {"state_0": (True, True), "state_1": (True, False), "state_2": (False, False)}
    assert [state.overlaps for state in plan.states] == [False, False, True]


@pytest.mark.parametrize(
    "name",
    [
        "streaming",
        "layouts",
        pytest.param("resident", marks=pytest.mark.slow),
        pytest.param("one core", marks=pytest.mark.slow),
    ],
)
def test_every_way_to_run_a_network_keeps_its_state(name: str, tmp_path: Path) -> None:
    chips = {
        "resident": (limited({}, cores=3), None),
        "streaming": (streaming({}, {"alignment_bytes": 8}, 4096, 8 << 10), 2600),
        "layouts": (array_chip(l1_bytes=6 << 10), None),
        "one core": (limited({}), None),
    }
    plan = built(three_states(), tmp_path / "app", *chips[name])
    assert bool(plan.transfers) == (name == "streaming")


def planned() -> Plan:
    plugins = limited({}, cores=3).plugins()
    plan: Plan = pipeline.run(three_states(), setup_for(plugins, NAME), after=IMPORTED)
    return plan


def test_several_cores_let_the_dma_move_state_in_pieces_that_l1_holds() -> None:
    plan = planned()
    [moved] = [state for state in plan.states if state.overlaps]
    assert (moved.place.offset, moved.left.offset, moved.place.size_bytes) == (0, 144, 288)
    near = replace(plan, levels=(replace(plan.levels[0], used=128), *plan.levels[1:]))
    towards_the_start = ["l2, l2 + 144, 128", "l2 + 128, l2 + 272, 128", "l2 + 256, l2 + 400, 32"]
    assert moves(near, moved) == towards_the_start
    back = replace(moved, place=moved.left, left=moved.place)
    towards_the_end = ["l2 + 400, l2 + 256, 32", "l2 + 272, l2 + 128, 128", "l2 + 144, l2, 128"]
    assert moves(near, back) == towards_the_end


def moves(plan: Plan, state: StatePlan) -> list[str]:
    """Return the arguments of the moves of a state by the DMA: target, source and bytes."""
    lines = list(kept_lines(replace(plan, states=(state,))))
    assert (lines[0], lines[-1]) == ("if (dory_core_id() == 0) {", "}")
    head, tail = "  move_bytes(io->l1, ", ");"
    assert all(line.startswith(head) and line.endswith(tail) for line in lines[1:-1])
    return [line.removeprefix(head).removesuffix(tail) for line in lines[1:-1]]


def test_cores_move_state_where_the_dma_has_limits_or_there_is_one_core() -> None:
    plan = planned()
    [moved] = [state for state in plan.states if state.overlaps]
    plan = replace(plan, states=(moved,))
    bound = replace(plan, dma=replace(plan.dma, alignment_bytes=8))
    call = "memmove(l2, l2 + 144, 288);"
    assert list(kept_lines(bound)) == ["if (dory_core_id() == 0) {", f"  {call}", "}"]
    assert list(kept_lines(replace(plan, cores=1))) == [call]


def test_moves_of_state_are_estimated() -> None:
    plan = planned()
    copied = [state.place.size_bytes for state in plan.states if state.copied]
    events = [event for event in plan.timeline.events if event.name == "keep state"]
    moving = Moving(plan.dma, plan.cores)
    assert moving.by_dma
    assert [e.end - e.start for e in events] == [2 * plan.dma.cycles(size) for size in copied]
    assert events[-1].end == plan.timeline.cycles
    assert Moving(plan.dma, cores=1).state_cycles(100) == 100 * (plan.dma.core_cycles_per_byte or 1)


def test_no_other_block_lies_where_state_lives() -> None:
    plan = planned()
    blocks = next(level.blocks for level in plan.levels if level.name == "L2")
    first, last = min(b.first for b in blocks), max(b.last for b in blocks)
    for state in plan.states:
        start, end = state.place.offset, state.place.offset + state.place.size_bytes
        here = [b for b in blocks if b.offset < end and start < b.end]
        assert all((b.first, b.last) == (first, last) for b in here)


FAULTS: dict[str, Callable[[Plan], Plan]] = {
    "state is found elsewhere": lambda plan: _moved(plan, "place", 0),
    "another tensor is copied": lambda plan: _moved(plan, "left", 1),
    "a copy overwrites what the next one reads": lambda plan: changed_plan(
        plan,
        states=tuple(
            replace(s, place=replace(s.place, offset=plan.states[-1].left.offset)) if n == 0 else s
            for n, s in enumerate(plan.states)
        ),
    ),
}


def _moved(plan: Plan, field: str, number: int) -> Plan:
    states = list(plan.states)
    place = getattr(states[number], field)
    states[number] = replace(states[number], **{field: replace(place, offset=place.offset + 8)})
    return changed_plan(plan, states=tuple(states))


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_state_are_found_in_the_plan(fault: str) -> None:
    wrong = FAULTS[fault](planned())
    with pytest.raises(DoryError, match="memory plan is wrong"):
        verify_contents(wrong.program, wrong.steps)
    with pytest.raises(Wrong):
        check_plan(wrong)


EDITS = {
    "nothing is moved at the end": (
        "move_bytes(io->l1, l2, l2 + 144, 288)",
        "move_bytes(io->l1, l2, l2 + 144, 280)",
    ),
    "reset does nothing": ("state_is_set = 0;", "state_is_set = 1;"),
    "every inference begins anew": ("    state_is_set = 1;", "    state_is_set = 0;"),
}


@pytest.mark.parametrize("fault", EDITS)
def test_faults_of_generated_code_are_found_by_a_run(fault: str, tmp_path: Path) -> None:
    plugins = limited({}, cores=3).plugins()
    build_app(three_states(), NAME, tmp_path / "app", plugins=plugins, seeds=SEQUENCE)
    source = tmp_path / "app/src/network.c"
    before, after = EDITS[fault]
    text = source.read_text()
    assert before in text
    source.write_text(text.replace(before, after))
    try:
        result = run_application(tmp_path / "app", plugins=plugins, repeat=2, runner="host")
    except VerificationFailed as error:
        assert "state" in error.message
    else:
        assert not result.exact


def test_initial_values_that_differ_are_a_table_of_constants(tmp_path: Path) -> None:
    graph = three_states()
    values = np.random.default_rng(3).integers(0, 256, graph.states[1].initial.shape)
    states = list(graph.states)
    states[1] = replace(states[1], initial=Array(values))
    uniform = planned()
    plan = built(replace(graph, states=tuple(states)), tmp_path / "app")
    size = values.size
    assert sum(plan.static_bytes.values()) == sum(uniform.static_bytes.values()) + size
    assert plan.arena_bytes[2] == uniform.arena_bytes[2] - size
    assert "static const uint8_t initial_" in (tmp_path / "app/src/network.c").read_text()


def test_output_that_is_state_is_handed_out_before_it_is_copied(tmp_path: Path) -> None:
    b = GraphBuilder((4, 3, 5), I8, name="accumulator")
    old = b.state((4, 3, 5), I8, -7)
    total = b.add("input", old, operands=(None, None), requants=(requant(1, 0, 2, *I8),))
    plan = built(b.graph((total,), {old: total}), tmp_path / "app")
    assert [state.copied for state in plan.states] == [True]


def test_state_that_follows_another_one_is_a_delay_of_two(tmp_path: Path) -> None:
    """The older state is left as what the newer one was: a layer that only names it anew."""
    b = GraphBuilder((4, 2, 3), U8, name="delay")
    new, old = b.state((4, 2, 3), U8, 1), b.state((4, 2, 3), U8, 2)
    shifted = b.reshape((4, 2, 3), source=new)
    fresh = b.conv(4, POINT)
    out = b.add(fresh, old, requants=(requant(1, 0, 100, 0, 255),))
    graph = b.graph((out,), {new: fresh, old: shifted})
    built(graph, tmp_path / "app")
    tensors = list(run_sequence(graph, [random_inputs(graph, seed) for seed in SEQUENCE]))
    assert np.array_equal(tensors[3][old], tensors[1][fresh])


def test_plan_json_and_header_name_the_state(tmp_path: Path) -> None:
    plugins = limited({}, cores=3).plugins()
    plan = build_app(three_states(), NAME, tmp_path / "app", plugins=plugins)
    states = read_plan(tmp_path / "app")["network"]["states"]
    assert [(one["name"], one["copied"], one["bytes"]) for one in states] == [
        (state.name, state.copied, state.place.size_bytes) for state in plan.states
    ]
    header = (tmp_path / "app/inc/dory_network.h").read_text()
    assert "void dory_network_reset(void);" in header
    size = sum(state.place.size_bytes for state in plan.states)
    assert f"#define DORY_STATE_BYTES {size}u" in header


def test_network_without_state_has_no_reset(tmp_path: Path) -> None:
    b = GraphBuilder((4, 3, 5))
    b.conv(4, SAME)
    build_app(b.graph(), NAME, tmp_path / "app", plugins=limited({}).plugins())
    assert "reset" not in (tmp_path / "app/inc/dory_network.h").read_text()
    assert not (tmp_path / "app/vectors/resets.bin").exists()


@pytest.mark.parametrize("most", [15, 255])
def test_both_tensors_of_a_state_get_the_wider_storage(most: int, tmp_path: Path) -> None:
    """What is left has four bits, what is read has four or eight."""
    b = GraphBuilder((4, 3, 5), name="narrow")
    old = b.state((4, 3, 5), (0, most), 9)
    left = b.conv(4, POINT, output=(0, 15))
    out = b.add(left, old, requants=(requant(1, 0, 90, 0, 255),))
    plan = built(b.graph((out,), {old: left}), tmp_path / "app")
    (state,) = plan.states
    assert state.place.tensor.bits == state.left.tensor.bits


def test_inputs_of_one_run_follow_one_another(tmp_path: Path) -> None:
    plugins, graph = limited({}, cores=3).plugins(), three_states()
    build_app(graph, NAME, tmp_path / "app", plugins=plugins)
    (name,) = graph.inputs
    np.save(tmp_path / "x.npy", random_inputs(graph, 5)[name].transpose(1, 2, 0))
    twice = [tmp_path / "x.npy"] * 2
    dump = tmp_path / "dump"
    result = run_application(
        tmp_path / "app", plugins=plugins, inputs=twice, runner="host", dump=dump
    )
    assert result.exact and len(result.runs) == 2
    last = f"layer_{graph.ops[-1].index:02d}.npy"
    first, second = (np.load(dump / f"run_{n:02d}" / last) for n in (0, 1))
    assert not np.array_equal(first, second)
