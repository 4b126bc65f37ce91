"""Links below L2: every stripe, chunk and output crosses them in whole units."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dory_core.ir import Graph, Window
from dory_core.plan import Plan
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.cases import network_cases
from dory_core.testing.graphs import I8, GraphBuilder
from tests.planning.random_graphs import random_graph
from tests.toy.chip import NAME, ToyChip
from tests.toy.limited import LIMITS, streaming

CASES = {case.name: case for case in network_cases()}


def chip(unit: int, l2_bytes: int, below: int | None = None, max_bytes: int = 0) -> ToyChip:
    """Return a chip with three levels. unit: of the DMA of L1; below: of that of L3."""
    return streaming(
        {"alignment_bytes": unit, "max_bytes": max_bytes},
        {"alignment_bytes": below or unit, "max_bytes": max_bytes},
        4096,
        l2_bytes,
    )


def built(graph: Graph, toy: ToyChip, directory: Path) -> Plan:
    plan = build_app(graph, NAME, directory, plugins=toy.plugins(), seeds=(0, 1))
    unit = toy.links[1].alignment_bytes
    for t in plan.transfers:
        assert (t.l2_offset % unit, t.l3_offset % unit, t.size % unit) == (0, 0, 0)
    assert_exact(directory, plugins=toy.plugins())
    return plan


@pytest.mark.sample(24)
@pytest.mark.parametrize(
    ("unit", "below", "max_bytes"), [(4, 4, 0), (1, 8, 0), (8, 16, 0), (4, 8, 512)]
)
@pytest.mark.parametrize(
    ("name", "l2_bytes"),
    [("residual", 5), ("mobile", 4), ("branches", 5), ("temporal", 4), ("residual_from_input", 5)],
)
def test_streamed_networks_are_exact(
    name: str, l2_bytes: int, unit: int, below: int, max_bytes: int, tmp_path: Path
) -> None:
    toy = chip(unit, l2_bytes * 1024, below, max_bytes)
    plan = built(CASES[name].build(), toy, tmp_path / "app")
    assert plan.transfers
    if max_bytes:
        assert max(t.size for t in plan.transfers) <= max_bytes


def several_outputs(height: int, width: int) -> Graph:
    """Outputs of odd sizes in 8, 8 and 32 bits; a small one of 32 bits last."""
    builder = GraphBuilder((3, height, width), name="outputs")
    window = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    first = builder.conv(5, window)
    second = builder.conv(7, window, output=I8)
    third = builder.conv(3, Window(kernel=(1, 1)), source=first, output=None)
    pooled = builder.max_pool(Window(kernel=(2, 2), strides=(2, 2)), source=second)
    return builder.graph([first, second, third, pooled])


@pytest.mark.sample(9)
@pytest.mark.parametrize("unit", [1, 4, 8])
@pytest.mark.parametrize(
    ("height", "width", "l2_bytes", "level"),
    [(9, 11, 64 * 1024, 2), (41, 33, 10 * 1024, 3), (113, 9, 7 * 1024, 3)],
)
def test_several_outputs_of_odd_sizes_are_exact(
    height: int, width: int, l2_bytes: int, level: int, unit: int, tmp_path: Path
) -> None:
    plan = built(several_outputs(height, width), chip(unit, l2_bytes), tmp_path / "app")
    assert Counter(p.tensor.type_name for p in plan.outputs) == {"u8": 1, "i8": 2, "i32": 1}
    assert any(p.size_bytes % 2 for p in plan.outputs)
    assert {p.level for p in plan.outputs} == {level}
    header = (tmp_path / "app/src/network.h").read_text()
    assert ("DORY_NETWORK_OUTPUT_PARTS" in header) == (level == 3 and unit > 1)


@pytest.mark.sample(2)
@pytest.mark.parametrize("unit", [4, 8])
def test_two_inputs_of_odd_sizes_in_l3_are_exact(unit: int, tmp_path: Path) -> None:
    builder = GraphBuilder((3, 33, 31), name="inputs")
    other = builder.extra_input()
    first = builder.conv(3, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    builder.add(first, other)
    plan = built(builder.graph(), chip(unit, 6 * 1024), tmp_path / "app")
    assert {p.level for p in plan.inputs} == {3}
    assert "DORY_NETWORK_INPUT_PARTS" in (tmp_path / "app/src/network.h").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "below", "l1_bytes", "l2_bytes"), [(1006, 1, 1024, 14336), (1011, 8, 2048, 14336)]
)
def test_random_networks_are_exact(
    seed: int, below: int, l1_bytes: int, l2_bytes: int, tmp_path: Path
) -> None:
    """One whose network.c leaves all to the layers, one with a table of constants of all parts."""
    graph = random_graph(seed, mixed=bool(seed % 2))
    toy = streaming(LIMITS["vendor"], {"alignment_bytes": below}, l1_bytes, l2_bytes)
    built(graph, toy, tmp_path / "app")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("columns", "channels", "below"), [(511, 4, 1), (512, 4, 8), (505, 3, 8), (507, 3, 8)]
)
def test_rolling_buffers_move_in_whole_units_but_for_their_ends(
    columns: int, channels: int, below: int, tmp_path: Path
) -> None:
    b = GraphBuilder((9, 1, columns), seed=3, name="pixels")
    row = Window(kernel=(1, 3), pads=(0, 1, 0, 1))
    for count, window in ((channels, Window(kernel=(1, 1))), (channels, row), (12, row)):
        b.conv(count, window)
    b.conv(channels, Window(kernel=(1, 1)))
    toy = streaming({"alignment_bytes": 8}, {"alignment_bytes": below}, 8 * 1024, 2900, cores=4)
    plan = build_app(
        b.graph(),
        NAME,
        tmp_path,
        settings={"moves": "-l1-residency"},
        plugins=toy.plugins(),
        seeds=(0, 1),
    )
    assert any(step.output.place.passing for step in plan.steps)
    assert_exact(tmp_path, plugins=toy.plugins())
