"""Networks on an accelerator with layouts of its own and on cores that compute in place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dory_core.errors import DoesNotFit
from dory_core.ir import Graph, Layer, Window, requant
from dory_core.ir.layout import Layout
from dory_core.kernels import portable_kernels
from dory_core.kernels.kernel import Kernel, Traits
from dory_core.plan import Plan
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import I8, GraphBuilder
from dory_core.testing.sanitizers import require_sanitizer
from tests.toy.array import (
    BLOCKS,
    PADDED,
    PLANES,
    WEIGHT_BYTES,
    ArrayAdd,
    ArrayConv,
    array_chip,
    array_first,
)
from tests.toy.chip import NAME, ToyChip

SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
HALF = Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
POOL = Window(kernel=(2, 2), strides=(2, 2))
SUM = requant(1, 0, 2, 0, 255)


def build(graph: Graph, chip: ToyChip, directory: Path, **budgets: int) -> Plan:
    return build_app(
        graph,
        NAME,
        directory,
        plugins=chip.plugins(),
        budgets={int(name[1:]): size for name, size in budgets.items()},
        seeds=(0, 1),
    )


def kernels(plan: Plan) -> list[str]:
    return [step.kernel.name for step in plan.steps]


def changes(plan: Plan) -> list[list[str]]:
    """The conversions before each layer, and at the end."""
    groups = [*(step.conversions for step in plan.steps), plan.final_conversions]
    return [
        [f"{c.tensor.name}: {c.source.layout.name} to {c.target.layout.name}" for c in group]
        for group in groups
    ]


def mixed() -> Graph:
    """The cores in the middle, an Add on the array whose operands come from both."""
    b = GraphBuilder((3, 12, 13), name="mixed")
    b.conv(16, SAME)
    left = b.conv(20, SAME, bias=True)
    pooled = b.max_pool(POOL, source=left)
    right = b.conv(20, Window(kernel=(1, 1)), source=pooled)
    b.add(pooled, right, operands=(None, None), requants=(SUM,))
    b.conv(20, SAME, groups=20)
    b.linear(10, output=(0, 255))
    b.linear(10)
    return b.graph()


def test_tensors_are_converted_where_producer_and_consumer_differ_and_nowhere_else(
    tmp_path: Path,
) -> None:
    plan = build(mixed(), array_chip(), tmp_path / "app")
    assert kernels(plan) == [
        "array_conv",
        "array_conv",
        "dory_portable_maxpool",
        "array_conv",
        "array_add",
        "array_conv",
        "dory_portable_linear",
        "dory_portable_linear",
    ]
    assert changes(plan) == [
        ["input: HWC to planes"],
        [],
        ["layer_01: planes to HWC"],
        ["layer_02: HWC to planes"],
        [],  # the copy made for layer 3 serves the Add as well
        [],
        ["layer_05: planes to HWC"],
        [],
        [],
    ]
    assert_exact(tmp_path / "app", plugins=array_chip().plugins())


def branches() -> Graph:
    """Four consumers of one tensor, two on each engine, and outputs of both."""
    b = GraphBuilder((16, 9, 16), name="branches", values=I8)
    stem = b.conv(16, SAME, output=I8)
    one = b.conv(16, SAME, source=stem, output=I8)
    two = b.max_pool(Window(kernel=(3, 3), pads=(1, 1, 1, 1)), source=stem)
    three = b.conv(16, SAME, source=stem, groups=16, output=I8)
    four = b.avg_pool(Window(kernel=(3, 3), pads=(1, 1, 1, 1)), source=stem, output=I8)
    low = b.add(one, three, operands=(None, None), requants=(requant(1, 0, 2, -128, 127),))
    high = b.add(two, four, requants=(requant(1, 0, 512, -128, 127),))
    return b.graph([low, high, stem])


@pytest.mark.parametrize("cores", [1, 3])
def test_one_conversion_serves_all_consumers_and_outputs_are_hwc(
    cores: int, tmp_path: Path
) -> None:
    chip = array_chip(cores=cores)
    plan = build(branches(), chip, tmp_path / "app")
    texts = [text for group in changes(plan) for text in group]
    assert sorted(texts) == [
        "input: HWC to planes",
        "layer_00: planes to HWC",  # for both pools and the output
        "layer_05: planes to HWC",
    ]
    assert changes(plan)[-1] == ["layer_05: planes to HWC"]
    assert all(place.layout.is_hwc for place in (*plan.inputs, *plan.outputs))
    assert_exact(tmp_path / "app", plugins=chip.plugins())


@pytest.mark.sample(2)
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(sanitizer: str, tmp_path: Path) -> None:
    require_sanitizer(sanitizer)
    chip = array_chip(cores=2)
    build(branches(), chip, tmp_path / "app")
    assert_exact(tmp_path / "app", plugins=chip.plugins(), sanitize=sanitizer, repeat=1)


def strict(layer: Layer) -> tuple[Kernel, ...]:
    return array_first(layer, reads_padding=True)


@pytest.mark.parametrize("width", [13, 16])
def test_padding_is_cleaned_for_who_reads_it(width: int, tmp_path: Path) -> None:
    b = GraphBuilder((16, 6, width), name="chain")
    b.conv(16, SAME)
    b.conv(16, SAME)
    b.conv(16, Window(kernel=(1, 1)))
    chip = array_chip(strict)
    plan = build(b.graph(), chip, tmp_path / "app")
    assert set(kernels(plan)) == {"array_conv"}
    cleaned = ["layer_00: planes to planes"] if width % 16 else []
    assert changes(plan)[1:3] == [cleaned, []]
    assert_exact(tmp_path / "app", plugins=chip.plugins())


def blocky(layout: Layout) -> ToyChip:
    def kernels(layer: Layer) -> Sequence[Kernel]:
        return (
            ArrayConv(name="array_conv", layout=layout),
            ArrayAdd(name="array_add", layout=layout, fetches=""),
            *portable_kernels(in_place=True),
        )

    return array_chip(kernels)


@pytest.mark.sample(4)
@pytest.mark.parametrize("layout", [PLANES, BLOCKS, PADDED], ids=lambda layout: layout.name)
@pytest.mark.parametrize("l1", [6 * 1024, 1536])
def test_tiles_of_rows_and_channels_are_exact_in_every_layout(
    layout: Layout, l1: int, tmp_path: Path
) -> None:
    chip = blocky(layout)
    b = GraphBuilder((20, 11, 10), name="tiles")
    first = b.conv(20, HALF, groups=20)
    second = b.conv(24, Window(kernel=(1, 1)))
    third = b.conv(24, SAME, groups=24)
    b.add(second, third, operands=(None, None), requants=(SUM,))
    graph = b.graph([first, "layer_03"])
    plan = build(graph, chip, tmp_path / "app", l1=l1)
    assert all(step.kernel.name.startswith("array") for step in plan.steps)
    assert l1 > 2000 or max(step.schedule.count for step in plan.steps) > 2
    for step in plan.steps:
        assert len(step.schedule.w) == 1
        assert all(span.start % layout.channel_multiple == 0 for span in step.schedule.c_out)
    assert_exact(tmp_path / "app", plugins=chip.plugins())


def test_a_fully_connected_layer_reads_a_vector_with_padding(tmp_path: Path) -> None:
    b = GraphBuilder((20, 2, 3), name="vector")
    b.linear(40, output=(0, 255))
    b.linear(10, output=(0, 255))
    plan = build(b.graph(), array_chip(), tmp_path / "app")
    assert kernels(plan) == ["array_linear"] * 2
    assert plan.steps[0].schedule.counts[0] > 1  # 16 channels at a time fit the weight memory
    assert changes(plan) == [["input: HWC to vector"], [], ["layer_01: vector to HWC"]]
    assert_exact(tmp_path / "app", plugins=array_chip().plugins())


def test_constants_of_a_tile_fit_the_memory_that_the_kernel_fills(tmp_path: Path) -> None:
    b = GraphBuilder((16, 8, 8), name="weights")
    b.conv(64, SAME)
    plan = build(b.graph(), array_chip(), tmp_path / "app")
    [step] = plan.steps
    assert step.weights is not None
    sizes = [tile.size for chunk in step.weights.chunks for row in chunk.tiles for tile in row]
    assert len(sizes) == 4
    assert max(sizes) == 16 * (16 + 16 * 9)
    assert step.block("w") is None
    use = next(level for level in plan.levels if level.name == "L1 weights of the array")
    assert (use.used, use.budget) == (max(sizes), WEIGHT_BYTES)
    assert plan.levels[0].budget == 6 * 1024
    assert_exact(tmp_path / "app", plugins=array_chip().plugins())


def test_constants_beyond_that_memory_send_the_layer_elsewhere_or_are_refused_with_numbers(
    tmp_path: Path,
) -> None:
    b = GraphBuilder((16, 8, 8), name="weights")
    b.conv(64, SAME)
    small = array_chip(weight_bytes=2048)
    plan = build(b.graph(), small, tmp_path / "app")
    [step] = plan.steps
    assert step.kernel.name == "dory_portable_conv"
    assert (
        "the constants of a tile, 2560 B or more, lie in weights of the array of 2048 B"
        in step.rejections[0].reason
    )
    alone = array_chip(lambda layer: array_first(layer)[:1], weight_bytes=2048)
    with pytest.raises(DoesNotFit, match="2560 B or more, lie in weights of the array of 2048 B"):
        build(b.graph(), alone, tmp_path / "other")


def test_a_role_without_a_memory_is_a_mistake_of_the_plugin(tmp_path: Path) -> None:
    chip = array_chip(lambda layer: [ArrayConv(name="lost", fetches="nowhere")])
    b = GraphBuilder((16, 8, 8), name="weights")
    b.conv(64, SAME)
    with pytest.raises(ValueError, match="kernel lost fetches its constants into a memory for now"):
        build(b.graph(), chip, tmp_path / "app")


def test_constants_that_are_read_where_they_are_linked_need_no_memory(tmp_path: Path) -> None:
    chip = array_chip(lambda layer: [ArrayConv(name="lines", fetches=Traits.LINKED)])
    b = GraphBuilder((16, 8, 8), name="weights")
    b.conv(16, SAME)
    plan = build(b.graph(), chip, tmp_path / "app")
    [step] = plan.steps
    assert step.kernel.name == "lines" and "w" not in {buffer.name for buffer in step.l1}
    source = (tmp_path / "app/src/dory_layer_00.c").read_text()
    assert "read where they are" in source
    assert_exact(tmp_path / "app", plugins=chip.plugins())


def test_conversions_cost_cycles_and_memory(tmp_path: Path) -> None:
    plan = build(mixed(), array_chip(), tmp_path / "app")
    first = plan.steps[0].conversions[0]
    assert PLANES.size_bytes(first.tensor) == 16 * 12 * 16
    assert first.cycles == 3 * first.tensor.elements + 16 * 12 * 16
    back = plan.steps[2].conversions[0]  # no padding: nothing is zeroed
    assert back.cycles == 3 * back.tensor.elements
    assert sum(c.cycles for c in plan.conversions) == plan.cycles - sum(
        step.estimate.cycles for step in plan.steps
    )
    blocks = {block.id.text: block for block in plan.levels[1].blocks}
    copy = blocks["layer_02 as planes"]
    assert (copy.size, copy.first, copy.last) == (32 * 6 * 16, 3, 4)
    assert blocks["layer_01"].size == 32 * 12 * 16
    events = [e for e in plan.timeline.events if e.name.startswith("convert")]
    assert [e.name for e in events] == [
        f"convert to {c.target.layout.name}" for c in plan.conversions
    ]


def test_plan_json_tells_layouts_conversions_and_engines(tmp_path: Path) -> None:
    build(mixed(), array_chip(), tmp_path / "app")
    plan = json.loads((tmp_path / "app/plan.json").read_text())
    layers = plan["layers"]
    assert [layer["engine"] for layer in layers[:3]] == ["array", "array", "cores"]
    assert layers[0]["output"]["layout"]["name"] == "planes"
    assert layers[2]["conversions"][0]["target"]["layout"]["name"] == "HWC"
    assert layers[0]["weights"]["fetched"] == "array weights"
    assert plan["memory"]["L1 weights of the array"]["budget"] == WEIGHT_BYTES


def test_a_layer_alone_gets_and_gives_hwc(tmp_path: Path) -> None:
    from dory_core.passes.extract import extract_layer

    for index in (1, 2, 4):
        plan = build(extract_layer(mixed(), index), array_chip(), tmp_path / str(index))
        assert plan.outputs[0].layout.is_hwc
        assert_exact(tmp_path / str(index), plugins=array_chip().plugins(), dma=("random",))


def test_tiled_and_in_place_kernels_of_the_cores_mix(tmp_path: Path) -> None:
    """No accelerator: convolutions are tiled, everything else works in L2."""

    def kernels(layer: Layer) -> Sequence[Kernel]:
        return [k if "conv" in k.name else replace(k, in_place=True) for k in portable_kernels(2)]

    chip = array_chip(kernels, cores=2, dma_alignment=1)
    plan = build(mixed(), chip, tmp_path / "app")
    assert [step.in_place for step in plan.steps[:4]] == [False, False, True, False]
    assert not plan.conversions
    assert_exact(tmp_path / "app", plugins=chip.plugins())


def test_layers_of_an_accelerator_are_not_streamed(tmp_path: Path) -> None:
    with pytest.raises(DoesNotFit, match=r"mixed needs .* B of L2, 4096 B are available"):
        build(mixed(), array_chip(), tmp_path / "app", l2=4096)
