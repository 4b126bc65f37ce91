"""Reshapes, slices and concatenations that cost nothing: their tensors share a block."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dory_core.checks.contents import verify_contents
from dory_core.errors import DoryError
from dory_core.ir import Graph, Window
from dory_core.plan import Plan
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import I8, U8, GraphBuilder
from tests.planning.symbolic import check_plan
from tests.planning.test_streamed_layouts import in_place
from tests.toy.chip import NAME, ToyChip
from tests.toy.limited import limited, streaming

SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
POINT = Window(kernel=(1, 1))
STREAMING = streaming({}, {}, 8 << 10, 64 << 10)


def built(graph: Graph, directory: Path, chip: ToyChip = STREAMING, l2: int = 64 << 10) -> Plan:
    plugins = chip.plugins()
    plan = build_app(graph, NAME, directory, plugins=plugins, budgets={2: l2}, seeds=(0, 1))
    check_plan(plan)
    assert_exact(directory, plugins=plugins)
    return plan


def views(plan: Plan) -> list[str]:
    found = [step for step in plan.steps if step.is_view]
    assert all(step.estimate.cycles == 0 and not step.l1 for step in found)
    return [step.layer.op.kind for step in found]


def two_halves() -> GraphBuilder:
    """Rows of two layers, one behind the other, read by a third and by one of its own."""
    b = GraphBuilder((8, 12, 10), name="halves")
    left = b.conv(8, SAME)
    right = b.conv(8, SAME)
    both = b.concat(left, right, axis=1)
    b.conv(4, SAME, source=both)
    b.conv(4, POINT, source=left)
    return b


def outputs_of(b: GraphBuilder, *numbers: int) -> Graph:
    return b.graph([f"layer_{n:02d}" for n in numbers])


@pytest.mark.parametrize(
    "chip", [limited({}), STREAMING, in_place()], ids=["tiled", "streaming", "in_place"]
)
def test_concatenated_rows_are_written_into_one_block(chip: ToyChip, tmp_path: Path) -> None:
    plan = built(outputs_of(two_halves(), 3, 4), tmp_path / "app", chip)
    assert views(plan) == ["Concat"]
    blocks = {block.id.text: block for block in plan.levels[1].blocks}
    whole, left, right = (blocks[f"layer_{n:02d}"] for n in (2, 0, 1))
    assert (left.offset, right.offset) == (whole.offset, whole.offset + left.size)
    assert not (tmp_path / "app/src/dory_layer_02.c").exists()
    assert "dory_layer_02" not in (tmp_path / "app/src/network.h").read_text()


def test_views_of_views_share_one_block(tmp_path: Path) -> None:
    b = GraphBuilder((8, 8, 8), name="nested")
    first = b.conv(8, SAME)
    top = b.slice((0, 0, 0), (8, 4, 8), source=first)
    low = b.slice((0, 4, 0), (8, 4, 8), source=first)
    one = b.conv(8, SAME, source=top)
    two = b.conv(8, SAME, source=low)
    flat = b.reshape((8, 1, 64), source=b.concat(two, one, axis=1))
    both = b.reshape((8, 16, 8), source=b.concat(flat, flat_of(b, first), axis=2))
    b.conv(8, SAME, source=both)
    plan = built(b.graph(), tmp_path / "app")
    kinds = views(plan)
    assert kinds.count("Slice") == 2 and kinds.count("Reshape") >= 2 and "Concat" in kinds


def flat_of(b: GraphBuilder, source: str) -> str:
    return b.reshape((8, 1, 64), source=b.conv(8, POINT, source=source))


def test_a_reshape_before_a_linear_layer_and_at_the_output_costs_nothing(tmp_path: Path) -> None:
    b = GraphBuilder((4, 6, 6), name="flat")
    b.conv(8, SAME)
    b.reshape((288, 1, 1))
    b.linear(16, output=U8)
    b.reshape((4, 2, 2))
    plan = built(b.graph(), tmp_path / "app")
    assert views(plan) == ["Reshape", "Reshape"]


def test_a_network_of_views_alone_hands_out_its_input(tmp_path: Path) -> None:
    b = GraphBuilder((8, 6, 4), name="alone")
    b.reshape((8, 4, 6))
    b.slice((0, 2, 0), (8, 2, 6))
    assert views(built(b.graph(), tmp_path / "app")) == ["Reshape", "Slice"]


@pytest.mark.parametrize(
    ("begin", "size", "step"),
    [
        ((0, 0, 2), (8, 8, 4), (1, 1, 1)),
        ((4, 0, 0), (4, 8, 8), (1, 1, 1)),
        ((0, 7, 0), (8, 8, 8), (1, -1, 1)),
        ((0, 0, 0), (8, 4, 8), (1, 2, 1)),
    ],
)
def test_slices_that_are_no_range_of_bytes_are_copied(
    begin: tuple[int, int, int],
    size: tuple[int, int, int],
    step: tuple[int, int, int],
    tmp_path: Path,
) -> None:
    b = GraphBuilder((8, 8, 8), name="copied")
    whole = b.conv(8, SAME)
    b.slice(begin, size, step=step)
    b.conv(8, POINT)
    b.conv(4, POINT, source=whole)  # channels that nobody read would not be stored
    plan = built(outputs_of(b, 2, 3), tmp_path / "app")
    assert views(plan) == []


def test_columns_of_some_rows_are_copied(tmp_path: Path) -> None:
    """From the first row and column on: rows follow in memory, but not what is left of each."""
    b = GraphBuilder((8, 6, 6), name="corner")
    whole = b.conv(8, SAME)
    b.slice((0, 0, 0), (8, 4, 3))
    b.conv(8, POINT)
    b.conv(4, POINT, source=whole)
    plan = built(outputs_of(b, 2, 3), tmp_path / "app")
    assert views(plan) == []


def test_columns_and_channels_are_views_only_where_they_are_ranges_of_bytes() -> None:
    b = GraphBuilder((8, 1, 6), name="ranges")
    b.concat("input", b.conv(8, POINT), axis=2)
    b.concat("input", "layer_00", axis=0)
    b.slice((0, 0, 3), (8, 1, 2), source="layer_00")
    b.reshape((48, 1, 1), source="layer_00")
    b.concat("layer_04", "layer_04", axis=0)
    offsets = [layer.byte_offsets for layer in outputs_of(b, 1, 2, 3, 5).layers]
    assert offsets == [None, (0, 48), None, (24,), (0,), (0, 48)]


def test_rows_of_signed_and_unsigned_bytes_are_widened_and_copied(tmp_path: Path) -> None:
    b = GraphBuilder((8, 6, 6), name="signs")
    signed = b.conv(8, SAME, output=I8)
    joined = b.concat(signed, b.conv(8, SAME, output=U8, source=signed), axis=1)
    b.conv(4, POINT, source=joined)
    graph = b.graph()
    assert graph.tensors[joined].bits == 16
    assert views(built(graph, tmp_path / "app")) == []


def test_a_tensor_twice_in_a_concatenation_is_copied(tmp_path: Path) -> None:
    b = GraphBuilder((8, 6, 6), name="twice")
    source = b.conv(8, SAME)
    b.concat(source, source, axis=1)
    b.conv(4, POINT)
    assert views(built(b.graph(), tmp_path / "app")) == []


def test_places_that_no_transfer_may_start_from_are_copied(tmp_path: Path) -> None:
    b = GraphBuilder((3, 6, 5), name="odd")
    b.conv(3, SAME)
    b.slice((0, 1, 0), (3, 4, 5))
    b.conv(4, SAME)
    assert views(built(b.graph(), tmp_path / "app", limited({"alignment_bytes": 4}))) == []


def test_views_and_streamed_tensors_combine(tmp_path: Path) -> None:
    b = two_halves()
    b.conv(24, SAME, source="layer_03")
    b.conv(24, SAME)
    b.conv(8, SAME)
    plan = built(outputs_of(b, 4, 7), tmp_path / "app", l2=8 << 10)
    assert plan.transfers and views(plan) == ["Concat"]
    assert any(t.place.level == 3 for s in plan.steps for t in (*s.inputs, s.output))


def test_a_copy_is_made_where_one_block_for_all_does_not_fit(tmp_path: Path) -> None:
    """The first half waits long: its block would be twice as large all the time."""
    b = GraphBuilder((8, 12, 12), name="waits")
    early = b.conv(8, SAME)
    b.conv(16, SAME)
    b.conv(8, SAME)
    late = b.conv(8, SAME)
    b.concat(early, late, axis=1)
    b.max_pool(Window(kernel=(2, 2), strides=(2, 2)))
    chip = limited({})
    free = built(b.graph(), tmp_path / "free", chip)
    assert views(free) == ["Concat"]
    least = free.levels[1].used - 8
    assert views(built(b.graph(), tmp_path / "less", chip, least)) == []


def test_the_check_finds_a_view_whose_bytes_lie_elsewhere(tmp_path: Path) -> None:
    plan = built(outputs_of(two_halves(), 3, 4), tmp_path / "app")
    steps = list(plan.steps)
    n = next(n for n, step in enumerate(steps) if step.is_view)
    place = steps[n].output.place
    wrong = replace(steps[n].output, place=replace(place, offset=place.offset + 8))
    steps[n] = replace(steps[n], output=wrong)
    with pytest.raises(DoryError, match="names layer_02, whose bytes lie elsewhere"):
        verify_contents(plan.program, steps)
