"""Kernels of layers that run in parts, and names of instances."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gap8_layers import SPACE, kernels_for

from dory_core.api import Graph, Kernel, Layer, ops
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.random_layers import KINDS, RandomLayers

POINT = ops.Window(kernel=(1, 1))


def _gathered_along_a_row() -> Graph:
    """Rows of the whole image are longer than those of its stripes."""
    b = GraphBuilder((1, 1, 377))
    b.conv(32, ops.Window(kernel=(1, 3), strides=(1, 2), pads=(0, 1, 0, 1)))
    return b.graph()


def test_stripes_of_gathered_columns_have_the_scratch_of_the_whole_layer(tmp_path: Path) -> None:
    plan = build_app(_gathered_along_a_row(), "gap8", tmp_path, budgets={2: 2000})
    [step] = plan.steps
    assert "gather" in step.kernel.symbol and len(step.parts) > 1
    assert_exact(tmp_path, dma=("early",), repeat=1)


def test_gather_kernels_with_other_batches_have_other_names(tmp_path: Path) -> None:
    """Of three outputs no block is gathered ahead, of four outputs some are."""
    b = GraphBuilder((3, 8, 8))
    b.conv(3, POINT, output=(0, 255))
    b.conv(4, POINT, output=(0, 255))
    plan = build_app(b.graph(), "gap8", tmp_path)
    symbols = [step.kernel.symbol for step in plan.steps]
    assert all("gather_1x1_c3" in symbol for symbol in symbols)
    assert len(set(symbols)) == 2
    assert_exact(tmp_path, dma=("early",), repeat=1)


def _packed(l1: int | None, tmp_path: Path) -> list[str]:
    b = GraphBuilder((4, 40, 8))
    window = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    b.conv(32, window, output=(0, 3), weights=(-2, 1))
    budgets = {2: 3000} | ({1: l1} if l1 else {})
    plan = build_app(b.graph(), "gap8", tmp_path, budgets=budgets)
    assert_exact(tmp_path, dma=("early",), repeat=1)
    return [step.kernel.name for step in plan.steps]


@pytest.mark.parametrize("l1", [None, 2900])
def test_packed_layers_in_parts_have_the_objective_of_the_kernel_inside(
    l1: int | None, tmp_path: Path
) -> None:
    assert _packed(l1, tmp_path) == ["dory_gap8_held_unpacked"]


def _code(kernel: Kernel, layer: Layer) -> str:
    """Return what a kernel's own files say, which its name must tell apart."""
    symbol = kernel.symbol(layer)
    own = [f for f in kernel.sources(layer) if symbol in f.path]
    assert own
    return json.dumps([f.content for f in own])


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "grouped"])
def test_instances_with_one_name_are_the_same_code(kind: str) -> None:
    random, found = RandomLayers(SPACE, 5), dict[str, str]()
    for _ in range(60):
        layer = random.layer(kind)
        for kernel in kernels_for(kind):
            if kernel.accepts(layer) is None:
                code = _code(kernel, layer)
                assert found.setdefault(kernel.symbol(layer), code) == code
    assert found


def test_instances_for_fewer_cores_have_names_of_their_own() -> None:
    layer = RandomLayers(SPACE, 1).layer("add")
    names = [
        {k.symbol(layer) for k in kernels_for("add", cores) if k.accepts(layer) is None}
        for cores in (4, 8)
    ]
    codes = [
        {_code(k, layer) for k in kernels_for("add", cores) if k.accepts(layer) is None}
        for cores in (4, 8)
    ]
    assert len(names[0] | names[1]) == len(codes[0] | codes[1])
