"""Constants that are loaded while the layer before computes: where, when, proven and simulated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import dory_core.plan.lower
from dory_core.checks.contents import verify_contents
from dory_core.errors import DoryError, VerificationFailed
from dory_core.hardware.caches import InstructionCache
from dory_core.hardware.code_sizes import CodeSizes
from dory_core.ir import Graph, Layer
from dory_core.ir.geometry import Tile
from dory_core.kernels.kernel import Kernel, Term
from dory_core.plan import Ahead, LayerStep, Plan
from dory_core.plan.ahead import load_for_later
from dory_core.plan.network import lower, lower_network
from dory_core.plan.operations import Copy, Operation
from dory_core.planning.l1_places import L1Places
from dory_core.plugins.manager import Plugins
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from tests.planning.networks import win
from tests.planning.symbolic import check_plan
from tests.toy.chip import DMA, NAME, SCRATCHPAD, SRAM, ToyChip

pytestmark = pytest.mark.usefixtures("tiles_of_the_objective")

SAME = win(3, pads=1)
CHIP = ToyChip(cores=4, memories=(replace(SCRATCHPAD, size_bytes=48 * 1024), SRAM))


def chain() -> Graph:
    """Return layers with constants, some in several tiles, and a pool without any."""
    b = GraphBuilder((16, 12, 12), name="chain")
    b.conv(32, SAME)
    b.conv(32, win(1))
    b.max_pool(win(2, stride=2))
    b.conv(24, win(1))
    b.linear(10)
    return b.graph()


def built(
    directory: Path,
    chip: ToyChip = CHIP,
    graph: Graph | None = None,
    l1: int = 0,
    moves: str = "",
) -> Plan:
    budgets = {1: l1} if l1 else {}
    return build_app(
        graph or chain(),
        NAME,
        directory,
        plugins=chip.plugins(),
        budgets=budgets,
        settings={"moves": moves},
    )


def taken(plan: Plan, step: LayerStep) -> tuple[int, int]:
    """Return the bytes of L1 that a layer's load for a later one takes."""
    assert step.ahead is not None
    block = plan.steps[step.ahead.step].block("w")
    assert block is not None
    return block.offsets[0], block.offsets[0] + block.bytes


@pytest.mark.parametrize("l1", [0, 13_000, 9_000])
def test_constants_come_while_the_layer_before_computes(l1: int, tmp_path: Path) -> None:
    plan = built(tmp_path / "app", l1=l1)
    loads = [step for step in plan.steps if step.ahead is not None]
    assert loads
    later = {step.ahead.step for step in loads if step.ahead}
    assert [n for n, step in enumerate(plan.steps) if step.loaded_ahead] == sorted(later)
    for step in loads:
        start, end = taken(plan, step)
        assert end <= plan.levels[0].budget
        for block in step.l1:
            assert end <= block.offsets[0] or block.offsets[-1] + block.bytes <= start
    assert_exact(tmp_path / "app", plugins=CHIP.plugins())


def test_the_second_copy_of_prefetched_constants_may_lie_apart(tmp_path: Path) -> None:
    """The first one is live in two layers, the second one in one."""
    chip = replace(CHIP, links=(replace(DMA, bytes_per_cycle=1.0),))
    plan = built(tmp_path / "app", chip, l1=5000)
    apart = [w for step in plan.steps if (w := step.block("w")) is not None and w.step != w.bytes]
    assert apart and all(w.step > w.bytes for w in apart)
    check_plan(plan)
    assert_exact(tmp_path / "app", plugins=chip.plugins())


def test_the_estimate_is_lower_than_that_of_the_layers_alone(tmp_path: Path) -> None:
    blocking = replace(CHIP, links=(replace(DMA, blocking=True),))
    alone = built(tmp_path / "alone", blocking)
    assert not any(step.ahead or step.loaded_ahead for step in alone.steps)
    plan = built(tmp_path / "app")
    one, two = plan.steps[0], plan.steps[1]
    assert one.ahead is not None
    assert plan.cycles == sum(step.estimate.cycles for step in plan.steps)
    names = [event.name for event in one.timelines[0].events]
    assert names.count(f"load w of layer {two.index}") == 1
    assert "load w" not in [event.name for event in two.timelines[0].events][:2]


def test_the_link_is_busy_for_as_long_as_the_load_takes(tmp_path: Path) -> None:
    plan = built(tmp_path / "app")
    events = [e for e in plan.timeline.events if e.lane == "L2-L1"]
    assert all(a.end <= b.start for a, b in pairwise(sorted(events, key=lambda e: e.start)))


def verify(plan: Plan, number: int, *others: LayerStep, **changes: Any) -> None:
    """Check the contents of a plan with a changed step, and with others in place of its own."""
    changed = {one.index: one for one in (*others, replace(plan.steps[number], **changes))}
    steps = [changed.get(step.index, step) for step in plan.steps]
    operations = lower_network(steps, plan.transfers, plan.inputs, plan.outputs)
    verify_contents(lower(steps, operations, plan.any_core), steps)


def test_the_check_of_contents_finds_wrong_loads(tmp_path: Path) -> None:
    plan = built(tmp_path / "app")
    first = plan.steps[0]
    assert first.ahead is not None
    verify(plan, 0)
    with pytest.raises(DoryError, match="nor has a layer before it"):
        verify(plan, 0, ahead=None)
    third = moved_weights(plan.steps[3], taken(plan, first)[0])
    with pytest.raises(DoryError, match="other constants than those"):
        verify(plan, 0, third, ahead=Ahead(3, first.ahead.tile))
    y = first.block("y")
    assert y is not None
    with pytest.raises(DoryError, match=r"layer 0 .* over what it has in L1"):
        verify(plan, 0, moved_weights(plan.steps[first.ahead.step], y.offsets[0]))


def moved_weights(step: LayerStep, offset: int) -> LayerStep:
    """Return a layer with one copy of the buffer of its constants, at another place."""
    l1 = (replace(b, offsets=(offset,)) if b.name == "w" else b for b in step.l1)
    return replace(step, l1=tuple(l1))


WRONG = {
    "no wait": (
        1,
        r"dory_dma_wait\(w_ticket\);",
        "(void)w_ticket;",
        "waited for",
    ),
    "other place": (0, r"(\*ahead = .*ROW\(l1)", r"\1 + 8", "nothing wrote"),
    "other constants": (
        0,
        r"(\*ahead = .*)dory_weights_01",
        r"\1dory_weights_00",
        "Conv_1|layer 1|layer_01",
    ),
    "too few bytes": (0, r"(\*ahead = .*, )(\d+)\)\)", r"\g<1>\2 - 8))", "nothing wrote"),
    "no mark": (0, r"DORY_AHEAD", "", "never waited for"),
}


#: A chip whose instructions wait for bursts, as they do not wait for loads by words.
WORDS = replace(
    CHIP,
    memories=(CHIP.memories[0], replace(SRAM, code=CodeSizes(*[0] * 13, kernel=1920))),
    links=(replace(DMA, words_per_cycle=0.9, least_words_per_cycle=0.5),),
    instructions=InstructionCache(1024, 16, 4, 64, 0.5, 2.0, 4.0, 50.0, words_wait=0.1),
)


def test_loads_by_words_are_rows_of_words(tmp_path: Path) -> None:
    plan = built(tmp_path / "app", WORDS)
    later = [step.ahead.step for step in plan.steps if step.ahead and step.ahead.by_words]
    sources = [path.read_text() for path in sorted((tmp_path / "app" / "src").glob("dory_layer*"))]
    rows = re.findall(r"AHEAD\(\w+\(DORY_LOAD_ROWS\([^;]*,\s+4,\s+(\d+),\s+4\)", "".join(sources))
    blocks = [plan.steps[n].weights for n in later]
    assert rows and [4 * int(n) for n in rows] == [
        block.chunks[0].tiles[0][0].size for block in blocks if block is not None
    ]
    assert_exact(tmp_path / "app", plugins=WORDS.plugins())


def test_loads_by_words_are_hidden_where_the_memory_answers_late(tmp_path: Path) -> None:
    late = replace(WORDS, links=(replace(WORDS.links[0], least_words_per_cycle=0.00001),))
    for chip, by_words in ((WORDS, True), (late, False)):
        plan = built(tmp_path / str(by_words), chip)
        loads = [step.ahead for step in plan.steps if step.ahead is not None]
        assert any(load.by_words for load in loads) == by_words


def test_rows_of_a_load_that_are_apart_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = built(tmp_path / "app", WORDS)
    verify(plan, 0)

    def apart(*layers: LayerStep | None) -> Iterator[Operation]:
        for one in load_for_later(*layers):
            assert isinstance(one, Copy)
            yield replace(one, l2_strides=(8, 0))

    monkeypatch.setattr(dory_core.plan.lower, "load_for_later", apart)
    with pytest.raises(DoryError, match="in rows that are not next to each other"):
        verify(plan, 0)


WRONG_WORDS = {
    "a row too few": (2, r"(\*ahead = .*, 4, )(\d+)(, 4\))", r"\g<1>\2 - 1\3", "nothing wrote"),
    "rows apart": (2, r"(\*ahead = .*, 4, \d+, )4\)", r"\g<1>8)", "does not lie inside"),
}


@pytest.mark.parametrize("what", WRONG_WORDS)
def test_seeded_faults_of_loads_by_words_are_found(what: str, tmp_path: Path) -> None:
    built(tmp_path / "app", WORDS)
    assert_fault_is_found(tmp_path / "app", WRONG_WORDS[what], WORDS.plugins())


def assert_fault_is_found(app: Path, fault: tuple[int, str, str, str], plugins: Plugins) -> None:
    """Change one place of an application, and check that its run fails.

    Args:
        app: The application.
        fault: The layer, the pattern of its code, what replaces that, and the error's pattern.
        plugins: Those that it was made with.
    """
    layer, pattern, new, message = fault
    source = app / "src" / f"dory_layer_{layer:02d}.c"
    text, made = re.subn(pattern, new, source.read_text())
    assert made == 1, source.read_text()
    source.write_text(text)
    with pytest.raises((AssertionError, VerificationFailed), match=message):
        assert_exact(app, plugins=plugins, dma=("late",))


@pytest.mark.parametrize("what", WRONG)
def test_seeded_faults_of_the_generated_code_are_found(what: str, tmp_path: Path) -> None:
    built(tmp_path / "app")
    assert_fault_is_found(tmp_path / "app", WRONG[what], CHIP.plugins())


def test_a_load_to_a_place_that_is_not_free_yet_is_found(tmp_path: Path) -> None:
    """It goes to where the layer has its output."""
    plan = built(tmp_path / "app")
    first = plan.steps[0]
    source = tmp_path / "app" / "src" / "dory_layer_00.c"
    text = source.read_text()
    y = first.block("y")
    assert y is not None
    text, made = re.subn(r"(\*ahead = .*ROW\(l1)[^,]*,", rf"\1 + {y.offsets[0]},", text)
    assert made == 1
    source.write_text(text)
    with pytest.raises((AssertionError, VerificationFailed), match="not yet waited for"):
        assert_exact(tmp_path / "app", plugins=CHIP.plugins(), dma=("early",))


LOAD = re.compile(r"    \*ahead = (DORY_AHEAD\(dory_dma_start\(.*\)\));\n")
START = "  dory_barrier(); /* core 0 has completed"


def test_a_load_before_the_barrier_of_its_layer_is_found(tmp_path: Path) -> None:
    """The other cores may still compute the layer before, which has its output there."""
    built(tmp_path / "app")
    source = tmp_path / "app" / "src" / "dory_layer_03.c"
    text = source.read_text()
    [load] = LOAD.finditer(text)
    text = text.replace(load.group(), "")
    assert text.count(START) == 1
    source.write_text(text.replace(START, f"  if (core == 0) {{\n{load.group()}  }}\n{START}"))
    for mode in ("early", "late", "random"):
        with pytest.raises((AssertionError, VerificationFailed), match="before the barrier"):
            assert_exact(tmp_path / "app", plugins=CHIP.plugins(), dma=(mode,))


# In the layer before the one that loads.
EARLIER = {
    "before its input comes": r"(?<=before this layer \*/\n  if \(core == 0\) \{\n)",
    "when its input is there": r"(?=  \}\n  dory_barrier\(\); /\* the operands)",
    "before it computes": r"(?=  dory_barrier\(\); /\* the operands)",
}


@pytest.mark.parametrize("where", EARLIER)
def test_a_load_one_layer_too_early_is_found(where: str, tmp_path: Path) -> None:
    """It goes to bytes that the layer before still writes."""
    plan = built(tmp_path / "app")
    start, end = taken(plan, plan.steps[3])
    y = plan.steps[2].block("y")
    assert y is not None and start < y.offsets[0] + y.bytes and y.offsets[0] < end
    later, earlier = (tmp_path / "app/src" / f"dory_layer_{n:02d}.c" for n in (3, 2))
    text = later.read_text()
    [load] = LOAD.finditer(text)
    text = text.replace(load.group(), "    *ahead = early;\n")
    later.write_text(text.replace("\nvoid ", "\nextern dory_ticket_t early;\n\nvoid "))
    call = load[1].replace("L1_NEXT_W", f"{start}u")
    started = f"    if (core == 0) early = {call};\n"
    text, made = re.subn(EARLIER[where], lambda _: started, earlier.read_text())
    assert made == 1, text
    declared = "\nextern dory_ticket_t early;\ndory_ticket_t early;\n\nvoid "
    earlier.write_text(text.replace("\nvoid ", declared))
    for mode in ("early", "late", "random"):
        with pytest.raises((AssertionError, VerificationFailed), match=r"layer 2 .* not yet"):
            assert_exact(tmp_path / "app", plugins=CHIP.plugins(), dma=(mode,))


def small_tail(**costs: Any) -> tuple[ToyChip, Graph]:
    """Return a chip and layers that get few pixels and more and more constants."""
    link = replace(DMA, bytes_per_cycle=costs.pop("bytes_per_cycle"))
    chip = replace(CHIP, resident_l1=True, links=(link,), terms=whole_inputs, **costs)
    b = GraphBuilder((24, 4, 4), seed=7)
    b.max_pool(win(2, stride=2))
    for channels in (24, 64, 72, 8):
        b.conv(channels, win(1))
    return chip, b.graph()


def whole_inputs(layer: Layer, kernel: Kernel, tile: Tile, cores: int) -> list[Term]:
    return [Term("WHOLE_INPUTS", 1e6, tile.c_in), Term("OUTPUTS", 1, tile.c_out * tile.h * tile.w)]


def test_tensors_that_stay_move_where_that_makes_room_for_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chip, graph = small_tail(bytes_per_cycle=0.1)
    plan = built(tmp_path / "app", chip, graph, l1=7500)
    assert all(step.loaded_ahead for step in plan.steps[1:4])
    check_plan(plan)
    assert_exact(tmp_path / "app", plugins=chip.plugins())
    fit = L1Places._fit

    def stays(self: L1Places, *blocks: Any, residents: bool) -> Any:
        return None if residents else fit(self, *blocks, residents=residents)

    monkeypatch.setattr(L1Places, "_fit", stays)
    low = built(tmp_path / "low", chip, graph, l1=7500)
    assert plan.cycles < low.cycles
