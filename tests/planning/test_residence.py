"""Tensors that stay in L1 between layers: at alternating ends, proven, and in the simulation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dory_core.checks.contents import verify_contents
from dory_core.errors import DoryError, VerificationFailed
from dory_core.ir import Graph, Layer, Window, requant
from dory_core.kernels import portable_kernels
from dory_core.kernels.kernel import Kernel
from dory_core.plan import Form, LayerStep, OperandPlan, Plan, lower
from dory_core.schedule.loops import Buffering
from dory_core.simulate.build import MARKS_FOLDER
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.sanitizers import require_sanitizer
from dory_core.tiling.tiler import IN_ONE_TILE
from tests.planning.networks import changed_plan
from tests.toy.array import BLOCKS, ArrayConv, array_chip
from tests.toy.chip import NAME, ToyChip, three_levels

pytestmark = pytest.mark.usefixtures("tiles_of_the_objective")

SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
POINT = Window(kernel=(1, 1))
POOL = Window(kernel=(2, 2), strides=(2, 2))
SUM = requant(1, 0, 2, 0, 255)


def large(l1_bytes: int = 24 * 1024, **more: Any) -> ToyChip:
    """Return a chip whose tensors stay in L1; more: fields of ``array_chip``."""
    return array_chip(resident_l1=True, l1_bytes=l1_bytes, **more)


LARGE = large()
#: Tensors lie as they are in L2; some of them stay in L1.
ROWS = replace(three_levels(), resident_l1=True)


def build(graph: Graph, chip: ToyChip, directory: Path) -> Plan:
    return build_app(graph, NAME, directory, plugins=chip.plugins(), seeds=(0, 1))


def chain() -> Graph:
    """Five layers of the array in a row, then the cores, then an Add with one resident operand."""
    b = GraphBuilder((16, 9, 12), name="chain")
    b.conv(16, SAME)
    b.conv(16, POINT)
    b.conv(16, SAME, groups=16)
    b.conv(32, POINT)
    pooled = b.max_pool(POOL)
    point = b.conv(32, POINT)
    b.add(pooled, point, operands=(None, None), requants=(SUM,))
    b.conv(32, SAME, groups=32)
    return b.graph()


def forms(plan: Plan) -> list[tuple[list[str], str]]:
    return [([t.form for t in step.inputs], step.output.form) for step in plan.steps]


def offset(step: LayerStep, name: str) -> int:
    block = step.block(name)
    assert block is not None
    return block.offsets[0]


def test_consecutive_layers_keep_their_tensors_in_l1(tmp_path: Path) -> None:
    plan = build(chain(), LARGE, tmp_path / "app")
    assert forms(plan) == [
        (["blocks"], Form.RESIDENT),
        ([Form.RESIDENT], Form.RESIDENT),
        ([Form.RESIDENT], Form.RESIDENT),
        ([Form.RESIDENT], "blocks"),
        (["in place"], "in place"),
        (["blocks"], Form.RESIDENT),
        (["blocks", Form.RESIDENT], Form.RESIDENT),
        ([Form.RESIDENT], "blocks"),
    ]
    steps = plan.steps
    for before, after in pairwise(steps[:4]):
        assert offset(before, "y") == offset(after, "x") == after.inputs[0].place.offset
        assert after.inputs[0].place.level == 1
    assert offset(steps[6], "x2") == offset(steps[5], "y")
    assert_exact(tmp_path / "app", plugins=LARGE.plugins())


def test_resident_tensors_take_no_room_of_l2_and_no_transfers(tmp_path: Path) -> None:
    plan = build(chain(), LARGE, tmp_path / "app")
    other = build(chain(), replace(LARGE, resident_l1=False), tmp_path / "other")
    names = {block.id.text for block in plan.levels[1].blocks}
    assert names.isdisjoint({"layer_00", "layer_01", "layer_02", "layer_05", "layer_06"})
    assert {block.id.text for block in other.levels[1].blocks} > names
    assert [step.traffic.transfers for step in plan.steps[:3]] == [1, 0, 0]
    assert plan.cycles < other.cycles
    assert plan.arena_used <= other.arena_used
    assert not any(t.form == Form.RESIDENT for step in other.steps for t in step.inputs)
    assert_exact(tmp_path / "other", plugins=LARGE.plugins(), dma=("random",))


def test_many_tensors_stay_in_l1_at_once(tmp_path: Path) -> None:
    b = GraphBuilder((16, 3, 3), name="branches")
    b.conv(16, POINT)
    first = b.last
    branches = [b.conv(16, POINT, source=first) for _ in range(7)]
    total = branches[0]
    for branch in branches[1:]:
        total = b.add(total, branch, operands=(None, None), requants=(SUM,))
    plan = build(b.graph(), LARGE, tmp_path / "app")
    assert [output for _, output in forms(plan)[1:8]].count(Form.RESIDENT) > 4
    assert_exact(tmp_path / "app", plugins=LARGE.plugins(), dma=("late",))


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_sanitizers_find_nothing_with_several_cores(sanitizer: str, tmp_path: Path) -> None:
    require_sanitizer(sanitizer)
    chip = replace(LARGE, cores=3)
    build(chain(), chip, tmp_path / "app")
    assert_exact(tmp_path / "app", plugins=chip.plugins(), sanitize=sanitizer, repeat=1)


def test_a_consumer_with_several_tiles_of_channels_finds_its_whole_input(tmp_path: Path) -> None:
    b = GraphBuilder((16, 9, 12), name="wide")
    b.conv(16, POINT)
    b.conv(64, SAME)
    plan = build(b.graph(), LARGE, tmp_path / "app")
    assert plan.steps[1].schedule.counts[0] > 1
    assert forms(plan) == [(["blocks"], Form.RESIDENT), ([Form.RESIDENT], "blocks")]
    assert_exact(tmp_path / "app", plugins=LARGE.plugins())


def branched() -> Graph:
    b = GraphBuilder((16, 6, 16), name="branched")
    stem = b.conv(16, POINT)
    left = b.conv(16, POINT, source=stem)
    b.add(stem, left, operands=(None, None), requants=(SUM,))
    return b.graph()


def output_too() -> Graph:
    b = GraphBuilder((16, 6, 16), name="output_too")
    first = b.conv(16, POINT)
    second = b.conv(16, POINT)
    return b.graph([first, second])


def twice() -> Graph:
    b = GraphBuilder((16, 6, 16), name="twice")
    first = b.conv(16, POINT)
    b.add(first, first, operands=(None, None), requants=(SUM,))
    return b.graph()


def skipped_rows() -> Graph:
    b = GraphBuilder((16, 6, 16), name="skipped")
    b.conv(16, POINT)
    b.conv(16, Window(kernel=(1, 1), strides=(2, 2)))
    return b.graph()


def over_two() -> Graph:
    """The first tensor lies beside a layer that has nothing to do with it."""
    b = GraphBuilder((16, 6, 16), name="over_two")
    stem = b.conv(16, POINT)
    b.conv(16, POINT)
    left = b.conv(16, SAME)
    b.add(stem, left, operands=(None, None), requants=(SUM,))
    return b.graph()


def kept(plan: Plan) -> dict[str, int]:
    """Return the tensors that stay in L1, and for how many layers."""
    names = [place.tensor.name for step in plan.steps for place in step.kept]
    return {name: names.count(name) for name in names}


@pytest.mark.parametrize(
    ("network", "stays", "stored"),
    [
        (branched, {"layer_00": 2, "layer_01": 1}, set()),
        (over_two, {"layer_00": 3, "layer_01": 1, "layer_02": 1}, set()),
        (output_too, {"layer_00": 1}, {"layer_00"}),
        (twice, {}, {"layer_00"}),
        (skipped_rows, {}, {"layer_00"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_read_as_a_whole_stays_and_is_stored_where_others_read_it(
    network: Callable[[], Graph], stays: dict[str, int], stored: set[str], tmp_path: Path
) -> None:
    plan = build(network(), LARGE, tmp_path / "app")
    assert kept(plan) == stays
    inside = {s.output.place.tensor.name for s in plan.steps[:-1] if s.output.form != Form.RESIDENT}
    assert inside == stored
    assert {block.id.text for block in plan.levels[1].blocks} >= stored
    assert_exact(tmp_path / "app", plugins=LARGE.plugins())


@pytest.mark.parametrize(
    ("l1", "stays"),
    [
        (5600, {"layer_00": 1, "layer_01": 1, "layer_02": 1}),
        (6200, {"layer_00": 3, "layer_01": 1, "layer_02": 1}),
    ],
)
def test_layers_in_one_tile_let_tensors_stay_and_the_longest_stay_needs_room_beside_the_others(
    l1: int, stays: dict[str, int], tmp_path: Path
) -> None:
    chip = large(l1)
    b = GraphBuilder((16, 6, 16), name="room")
    stem = b.conv(16, POINT)
    b.conv(32, POINT)
    left = b.conv(16, POINT)
    b.add(stem, left, operands=(None, None), requants=(SUM,))
    plan = build(b.graph(), chip, tmp_path / "app")
    other = build(b.graph(), replace(chip, resident_l1=False), tmp_path / "other")
    assert [step.schedule.count for step in other.steps[1:]] == [2, 2, 2]
    assert [step.schedule.count for step in plan.steps[1:]] == [1, 1, 1]
    assert all(step.tiling.proof == IN_ONE_TILE for step in plan.steps[1:])
    assert kept(plan) == stays
    assert plan.cycles < other.cycles
    assert_exact(tmp_path / "app", plugins=chip.plugins())


def test_a_tensor_that_changes_its_layout_does_not_stay(tmp_path: Path) -> None:
    b = GraphBuilder((16, 2, 2), name="changes")
    b.conv(16, POINT)
    b.linear(16, output=(0, 255))
    b.linear(16, output=(0, 255))
    plan = build(b.graph(), LARGE, tmp_path / "app")
    assert [step.kernel.engine for step in plan.steps] == ["array"] * 3
    array, cores, last = (
        (["blocks"], "blocks"),
        (["rows"], Form.RESIDENT),
        ([Form.RESIDENT], "rows"),
    )
    assert forms(plan) == [array, cores, last]
    assert_exact(tmp_path / "app", plugins=LARGE.plugins())


def test_hwc_tensors_of_tiled_kernels_of_the_cores_stay_too(tmp_path: Path) -> None:
    def kernels(layer: Layer) -> Sequence[Kernel]:
        return portable_kernels(3)

    chip = large(kernels=kernels, cores=3, dma_alignment=1, blocking=True)
    b = GraphBuilder((6, 8, 10), name="hwc")
    b.conv(10, SAME, bias=True)
    b.max_pool(POOL)
    b.conv(12, SAME)
    b.linear(10)
    plan = build(b.graph(), chip, tmp_path / "app")
    assert [output for _, output in forms(plan)] == [Form.RESIDENT] * 3 + ["rows"]
    assert [block for step in plan.steps for block in step.l1 if block.name == "w"]
    assert_exact(tmp_path / "app", plugins=chip.plugins())


@pytest.mark.sample(6)
@pytest.mark.parametrize("l1", range(4 * 1024, 9 * 1024, 512))
def test_every_size_of_l1_gives_an_exact_network(l1: int, tmp_path: Path) -> None:
    chip = large(l1)
    plan = build(chain(), chip, tmp_path / "app")
    assert all(step.l1_bytes <= l1 for step in plan.steps)
    assert_exact(tmp_path / "app", plugins=chip.plugins(), dma=("random",), repeat=1)


@pytest.mark.sample(3)
@pytest.mark.parametrize("pixels", [1, 2, 3])
def test_tensors_smaller_than_the_alignment_of_l1_do_not_overlap(
    pixels: int, tmp_path: Path
) -> None:
    """Both of a layer's tensors have 8 bytes for a pixel, and nothing else lies in L1."""
    blocks = (ArrayConv(name="array_conv", layout=BLOCKS),)
    chip = replace(LARGE, kernels=lambda layer: blocks)
    b = GraphBuilder((8, 1, pixels), name="small")
    for _ in range(4):
        b.conv(8, POINT)
    plan = build(b.graph(), chip, tmp_path / "app")
    assert [output for _, output in forms(plan)] == [Form.RESIDENT] * 3 + ["blocks"]
    assert_exact(tmp_path / "app", plugins=chip.plugins())


# -- the independent check, and seeded faults ---------------------------------------------------


def verify(plan: Plan, steps: Sequence[LayerStep] | None = None, **changes: Any) -> None:
    plan = changed_plan(plan, steps=tuple(steps or plan.steps), **changes)
    verify_contents(plan.program, plan.steps)


def changed(plan: Plan, position: int, **fields: object) -> list[LayerStep]:
    steps = list(plan.steps)
    steps[position] = replace(steps[position], **fields)  # type: ignore[arg-type]
    return steps


def moved(transfer: OperandPlan, **place: int) -> OperandPlan:
    return replace(transfer, place=replace(transfer.place, **place))


def test_the_check_finds_a_missing_conversion(tmp_path: Path) -> None:
    plan = build(chain(), LARGE, tmp_path / "app")
    verify(plan)
    for position, step in enumerate(plan.steps):
        if step.conversions:
            with pytest.raises(DoryError, match=r"reads .* where it does not lie"):
                verify(plan, changed(plan, position, conversions=()))
    with pytest.raises(DoryError, match="the end reads layer_07"):
        verify(plan, final_conversions=())


def test_the_check_finds_a_layout_that_is_not_what_the_kernel_reads(tmp_path: Path) -> None:
    plan = build(chain(), LARGE, tmp_path / "app")
    transfer = plan.steps[1].inputs[0]
    strict = replace(transfer, layout=replace(transfer.layout, clean=True))
    with pytest.raises(DoryError, match="as planes, it lies there as planes with junk"):
        verify(plan, changed(plan, 1, inputs=(strict,)))


def test_the_check_finds_wrong_places_in_l1_and_l2(tmp_path: Path) -> None:
    plan = build(chain(), LARGE, tmp_path / "app")
    second, third = plan.steps[1], plan.steps[2]
    with pytest.raises(DoryError, match=r"layer 1 .* where it does not lie"):
        verify(plan, changed(plan, 1, inputs=(moved(second.inputs[0], offset=16),)))
    with pytest.raises(DoryError, match="buffers x and y of L1 overlap"):
        blocks = tuple(replace(block, offsets=(0,)) for block in third.l1)
        verify(plan, changed(plan, 2, l1=blocks))
    with pytest.raises(DoryError, match="does not have layer_01 in L1 where it lies"):
        verify(plan, changed(plan, 1, output=moved(second.output, offset=0)))
    pool = plan.steps[4]
    with pytest.raises(DoryError, match="writes layer_04 over layer_03, which it reads"):
        [part], at = pool.parts, pool.inputs[0].place.offset
        wrong = {"output": moved(pool.output, offset=at), "parts": (replace(part, output=at),)}
        verify(plan, changed(plan, 4, **wrong))


def test_a_layer_between_ends_what_lies_in_l1(tmp_path: Path) -> None:
    plan = build(chain(), LARGE, tmp_path / "app")
    steps = list(plan.steps)
    steps.insert(1, steps[0])
    steps[1], steps[2] = steps[2], steps[1]  # layer 1, then layer 0 again, then layer 2
    steps = [
        replace(step, parts=(replace(step.parts[0], position=position),))
        for position, step in enumerate(steps)
    ]
    levels = tuple(replace(level, blocks=()) for level in plan.levels)  # whose input is still there
    with pytest.raises(DoryError, match=r"layer 2 .* where it does not lie"):
        verify(plan, steps, levels=levels)


def test_the_check_finds_what_does_not_stay(tmp_path: Path) -> None:
    plan = build(over_two(), LARGE, tmp_path / "app")
    between = plan.steps[2]
    (stem,) = between.beside
    wrong = stem.offset + 16
    with pytest.raises(DoryError, match=f"layer 2 .* reads layer_00 at {wrong} of l1, where"):
        verify(plan, changed(plan, 2, kept=(replace(stem, offset=wrong),)))
    with pytest.raises(DoryError, match=r"layer 3 .* reads layer_00 at .* where it does not lie"):
        verify(plan, changed(plan, 2, kept=tuple(p for p in between.kept if p != stem)))
    with pytest.raises(DoryError, match=r"layer 2 .* keeps layer_00 .* where it does not lie"):
        over = tuple(replace(b, offsets=(stem.offset,)) if b.name == "y" else b for b in between.l1)
        wrong_part = replace(between.parts[0], output=stem.offset)
        output = moved(between.output, offset=stem.offset)
        verify(plan, changed(plan, 2, l1=over, output=output, parts=(wrong_part,)))


def test_the_simulation_finds_what_is_not_kept(tmp_path: Path) -> None:
    plan = build(over_two(), LARGE, tmp_path / "app")
    (stem,) = plan.steps[2].beside
    source = tmp_path / "app" / MARKS_FOLDER / "dory_layer_02.c"
    text = source.read_text()
    text, marks = re.subn(
        rf"(DORY_FINDS\(l1(?: \+ L1_KEPT)?), {stem.size_bytes}\)", r"\1, 0)", text
    )
    assert marks == 1
    source.write_text(text)
    with pytest.raises((AssertionError, VerificationFailed), match="nothing wrote"):
        assert_exact(tmp_path / "app", plugins=LARGE.plugins(), dma=("early",))


FAULTS: dict[str, tuple[str, str, str, str | None]] = {
    "keep": (f"{MARKS_FOLDER}/dory_layer_01.c", "L1_X, 2304));", "L1_X, 0));", "nothing wrote"),
    "place": ("src/dory_layer_02.c", "L1_Y = 4608", "L1_Y = 4624", "does not|nothing wrote"),
    "conversion": (
        "src/network.c",
        "dory_convert_layout(l2",
        "if (0) dory_convert_layout(l2",
        None,
    ),
    "layout": ("src/network.c", "{1, 16, 16, 4}", "{1, 16, 16, 2}", None),
    "rows": ("src/dory_layer_00.c", ", 2304))", ", 2288))", "nothing wrote"),
    "store": ("src/dory_layer_03.c", "DORY_STORE_ROW(l2, l1", "DORY_STORE_ROW(l2, l1 + 2304", None),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_seeded_faults_of_the_generated_code_are_found(fault: str, tmp_path: Path) -> None:
    build(chain(), LARGE, tmp_path / "app")
    path, right, wrong, message = FAULTS[fault]
    source = tmp_path / "app" / path
    text = source.read_text()
    assert right in text, text
    source.write_text(text.replace(right, wrong))
    with pytest.raises((AssertionError, VerificationFailed), match=message):
        assert_exact(tmp_path / "app", plugins=LARGE.plugins(), dma=("early",))


# -- tiles of whole rows ------------------------------------------------------------------------


def in_rows(directory: Path) -> Plan:
    """Return a plan whose first layer makes the rows of a tensor that stays in L1."""
    b = GraphBuilder((8, 24, 20), name="rows")
    b.conv(16, POINT)
    b.conv(8, SAME)
    plan = build_app(
        b.graph(), NAME, directory, plugins=ROWS.plugins(), budgets={1: 11_000}, seeds=(0, 1)
    )
    assert [step.output.form for step in plan.steps] == [Form.RESIDENT, Form.ROWS]
    assert all(step.schedule.counts[1] > 1 for step in plan.steps)
    return plan


def test_tiles_of_rows_are_parts_of_a_tensor_in_l1(tmp_path: Path) -> None:
    plan = in_rows(tmp_path / "app")
    assert all("whole rows" in step.tiling.proof for step in plan.steps)
    block = plan.steps[0].block("y")
    assert block is not None and block.bytes == 16 * 24 * 20 and len(block.offsets) == 1
    assert_exact(tmp_path / "app", plugins=ROWS.plugins())


def test_rows_have_one_copy_where_the_cores_wait_for_each_transfer(tmp_path: Path) -> None:
    first, *others = ROWS.links
    chip = replace(ROWS, links=(replace(first, blocking=True), *others))
    b = GraphBuilder((8, 24, 20), name="rows")
    b.conv(16, POINT)
    b.conv(8, SAME)
    plan = build_app(b.graph(), NAME, tmp_path / "app", plugins=chip.plugins(), budgets={1: 11_000})
    assert "whole rows" in plan.steps[0].tiling.proof
    assert all(step.schedule.buffering == Buffering() for step in plan.steps)
    assert_exact(tmp_path / "app", plugins=chip.plugins())


def test_the_checks_find_rows_that_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the tiles of a plan, and of the addresses that are made of it."""
    plan = in_rows(tmp_path / "app")
    verify(plan)
    [part] = plan.steps[0].parts
    few = replace(part, schedule=replace(part.schedule, h=part.schedule.h[:-1]))
    with pytest.raises(DoryError, match="layer 0 "):
        verify(plan, changed(plan, 0, parts=(few,)))
    box = lower.operand_box

    def early(step: LayerStep, tiles: Any, name: str) -> Any:
        found = box(step, tiles, name)
        first = tiles.axes["h"].variable == 0
        return found if name != "y" else replace(found, offset=found.offset - 320 * (1 - first))

    monkeypatch.setattr(lower, "operand_box", early)
    with pytest.raises(DoryError, match=r"layer 0 .* writes layer_00 at .* of L1, after"):
        verify(plan)


@pytest.mark.parametrize(
    ("layer", "right", "wrong"),
    [(0, "L1_Y + h * 2560", "L1_Y + h * 2240"), (1, "L1_X + x_row[h] * 320", "L1_X + h * 320")],
)
def test_wrong_rows_of_generated_code_are_found(
    layer: int, right: str, wrong: str, tmp_path: Path
) -> None:
    """Tiles write or read rows that are others' as well."""
    in_rows(tmp_path / "app")
    source = tmp_path / "app" / "src" / f"dory_layer_{layer:02d}.c"
    text = source.read_text()
    assert text.count(right) == 1, text
    source.write_text(text.replace(right, wrong))
    with pytest.raises((AssertionError, VerificationFailed)):
        assert_exact(tmp_path / "app", plugins=ROWS.plugins(), dma=("early",))
