"""Streamed networks whose kernels have layouts, work in place or fetch their constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dory_core.hardware.memories import Memory
from dory_core.ir import Graph, Layer, Window, requant
from dory_core.ir.layout import Layout
from dory_core.kernels import portable_kernels
from dory_core.kernels.kernel import Kernel
from dory_core.plan import Plan
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from tests.planning.symbolic import check_plan
from tests.planning.test_random_layouts import random_chip, random_network
from tests.toy.array import BLOCKS, PADDED, PLANES, ArrayConv, array_chip
from tests.toy.chip import NAME, SCRATCHPAD, SRAM, ToyChip
from tests.toy.limited import EXT

SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
HALF = Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
POINT = Window(kernel=(1, 1))
SUM = requant(1, 0, 2, 0, 255)


def with_ram(chip: ToyChip, unit: int = 4) -> ToyChip:
    """Return a chip with a memory below its L2. unit: of the DMA that reaches it."""
    links = (*chip.links, replace(EXT, alignment_bytes=unit))
    return replace(chip, memories=(*chip.memories, Memory("RAM", 1 << 20)), links=links)


def array(layout: Layout, reads_padding: bool = False, l1_bytes: int = 8 * 1024) -> ToyChip:
    """Return a chip whose array computes convolutions in a layout; cores do the rest in place."""
    conv = ArrayConv(name="array_conv", layout=layout, reads_padding=reads_padding)

    def kernels(layer: Layer) -> Sequence[Kernel]:
        return (conv, *portable_kernels(in_place=True, engine="cores"))

    return with_ram(array_chip(kernels, l1_bytes=l1_bytes))


def in_place(cores: int = 1) -> ToyChip:
    """Return a chip whose kernels work on tensors in L2."""
    chip = ToyChip(portable_kernels(cores, in_place=True), cores, (SCRATCHPAD, SRAM))
    return with_ram(chip)


def built(graph: Graph, chip: ToyChip, directory: Path, l2_bytes: int) -> Plan:
    plan = build_app(
        graph, NAME, directory, plugins=chip.plugins(), budgets={2: l2_bytes}, seeds=(0, 1)
    )
    assert plan.levels[1].used <= l2_bytes and plan.transfers
    check_plan(plan)
    assert_exact(directory, plugins=chip.plugins())
    return plan


def below(plan: Plan) -> set[str]:
    """Tensors that lie in L3 and pass through L2 in stripes."""
    operands = (t for step in plan.steps for t in (*step.inputs, step.output))
    return {t.place.tensor.name for t in operands if t.place.level == 3}


def tall(channels: int = 16) -> Graph:
    """A residual of tensors of 40 rows, then a layer with a stride."""
    b = GraphBuilder((channels, 40, 13), name="tall")
    first = b.conv(channels, SAME)
    b.conv(channels, SAME, source=first)
    second = b.conv(channels, POINT)
    b.add(first, second, operands=(None, None), requants=(SUM,))
    b.conv(8, HALF)
    return b.graph()


@pytest.mark.sample(2)
@pytest.mark.parametrize("cores", [1, 4])
def test_layers_in_place_are_computed_in_stripes(cores: int, tmp_path: Path) -> None:
    plan = built(tall(), in_place(cores), tmp_path / "app", 12 * 1024)
    assert all(step.in_place for step in plan.steps)
    assert len(below(plan)) >= 2
    assert sum(len(step.parts) > 1 for step in plan.steps) >= 3


def test_columns_of_layers_in_place_are_computed_in_stripes(tmp_path: Path) -> None:
    b = GraphBuilder((8, 1, 250), name="columns")
    b.conv(16, Window(kernel=(1, 5), pads=(0, 2, 0, 2)))
    b.conv(16, Window(kernel=(1, 3), strides=(1, 2), pads=(0, 1, 0, 0), dilations=(1, 2)))
    plan = built(b.graph(), in_place(), tmp_path / "app", 3 * 1024)
    assert max(len(step.parts) for step in plan.steps) > 2


def test_constants_of_a_linear_layer_in_place_come_in_chunks(tmp_path: Path) -> None:
    b = GraphBuilder((64, 1, 1), name="linear")
    b.linear(200, output=(0, 255))
    b.linear(40)
    plan = built(b.graph(), in_place(), tmp_path / "app", 6 * 1024)
    assert plan.steps[0].weights is not None and len(plan.steps[0].weights.chunks) > 1


def test_groups_of_channels_in_place_read_whole_rows(tmp_path: Path) -> None:
    """The only output needs three of four columns of each row; a part is a group of channels."""
    b = GraphBuilder((16, 3, 4), name="groups")
    b.conv(64, Window(kernel=(3, 3), strides=(2, 2)))
    b.conv(64, POINT)
    plan = built(b.graph(), in_place(), tmp_path / "app", 6 * 1024)
    assert plan.steps[0].weights is not None and len(plan.steps[0].weights.chunks) > 1


def test_a_wide_input_in_place_keeps_its_pitch_in_stripes(tmp_path: Path) -> None:
    """The last column is read by no window; the stripes have it all the same."""
    b = GraphBuilder((8, 41, 22), name="pitch")
    b.conv(8, Window(kernel=(3, 3), strides=(2, 2), pads=(1, 0, 1, 0)))
    b.max_pool(Window(kernel=(2, 2), strides=(2, 2)))
    plan = built(b.graph(), in_place(), tmp_path / "app", 3 * 1024)
    assert len(plan.steps[0].parts) > 1


@pytest.mark.slow
def test_padded_rows_of_a_layout_pass_through_l2_in_stripes(tmp_path: Path) -> None:
    b = GraphBuilder((16, 48, 12), name="padded")
    b.conv(16, SAME)
    b.conv(20, SAME)
    b.conv(20, SAME)
    b.conv(16, SAME)
    plan = built(b.graph(), array(PADDED), tmp_path / "app", 24 * 1024)
    layouts = {
        t.place.layout.name
        for step in plan.steps
        for t in (*step.inputs, step.output)
        if t.place.level == 3
    }
    assert "padded" in layouts
    assert any(len(step.parts) > 1 and step.kernel.engine == "array" for step in plan.steps)


@pytest.mark.parametrize("layout", [BLOCKS, PLANES], ids=lambda layout: layout.name)
def test_constants_for_blocks_of_channels_come_in_chunks(layout: Layout, tmp_path: Path) -> None:
    """The output of a group of channels is a range of blocks; stripes of them there are none."""
    b = GraphBuilder((16, 6, 16), name="wide")
    b.conv(96, SAME)
    b.conv(16, POINT)
    plan = built(b.graph(), array(layout), tmp_path / "app", 21 * 1024)
    assert all(step.kernel.fetches for step in plan.steps)
    chunks = [len(step.weights.chunks) for step in plan.steps if step.weights is not None]
    assert max(chunks) > 1
    assert all(len(step.parts) in (1, n) for step, n in zip(plan.steps, chunks, strict=True))


def test_tensors_of_engine_and_cores_are_spilled_and_converted(tmp_path: Path) -> None:
    plan = built(tall(), array(BLOCKS), tmp_path / "app", 43 * 1024)
    assert {step.in_place for step in plan.steps} == {True, False}
    assert plan.conversions


@pytest.mark.sample(3)
@pytest.mark.parametrize(("seed", "share"), [(2, 0.8), (3, 0.8), (4, 0.8), (6, 0.5)])
def test_random_networks_on_mixed_engines_are_exact(
    seed: int, share: float, tmp_path: Path
) -> None:
    graph, chip = random_network(seed), with_ram(random_chip(seed))
    whole = build_app(graph, NAME, tmp_path / "whole", plugins=chip.plugins())
    built(graph, chip, tmp_path / "app", int(whole.levels[1].used * share) // 16 * 16)
