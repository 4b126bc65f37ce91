"""Random networks with branches on random mixes of engines, layouts and sizes of L1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dory_core.ir import Graph, Layer, Window, requant
from dory_core.kernels import portable_kernels
from dory_core.kernels.kernel import Kernel
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import I8, U8, GraphBuilder
from tests.toy.array import (
    BLOCKS,
    PADDED,
    PLANES,
    ArrayAdd,
    ArrayConv,
    ArrayLinear,
    array_chip,
)
from tests.toy.chip import NAME, ToyChip

#: 60: kernels that fetch their constants share a function.
FAST = (*range(6), 60)
SLOW = [seed for seed in range(6, 80) if seed not in FAST]


def window(rng: np.random.Generator) -> Window:
    kernel = int(rng.choice([1, 3]))
    pads = kernel // 2
    stride = int(rng.choice([1, 1, 2]))
    return Window(kernel=(kernel, kernel), strides=(stride, stride), pads=(pads,) * 4)


def random_network(seed: int) -> Graph:
    """A tensor of each shape may be read by several layers; Adds join what has equal shapes."""
    rng = np.random.default_rng(seed)
    values = U8 if rng.integers(2) else I8
    channels, height, width = (int(rng.integers(2, high)) for high in (24, 10, 20))
    b = GraphBuilder((channels, height, width), name=f"random_{seed}", values=values, seed=seed)
    known = [b.conv(int(rng.integers(4, 24)), window(rng), output=values)]
    for _ in range(int(rng.integers(4, 9))):
        source = known[int(rng.integers(max(0, len(known) - 3), len(known)))]
        shape = b.shape_of(source)
        alike = [name for name in known if b.shape_of(name) == shape]
        kind = rng.choice(["conv", "point", "depthwise", "pool", "add"])
        if kind == "add" and len(alike) > 1:
            first, second = rng.choice(alike, 2, replace=False)
            clip = requant(1, 0, 2, *values)
            known.append(b.add(first, second, operands=(None, None), requants=(clip,)))
        elif kind == "pool" and min(shape[1:]) > 2:
            known.append(b.max_pool(Window(kernel=(2, 2), strides=(2, 2)), source=source))
        elif kind == "depthwise":
            same = Window(kernel=(3, 3), pads=(1, 1, 1, 1))
            known.append(b.conv(shape[0], same, source=source, groups=shape[0], output=values))
        elif kind == "point":
            one = Window(kernel=(1, 1))
            known.append(b.conv(shape[0], one, source=source, output=values))
        else:
            to = int(rng.integers(4, 24))
            known.append(b.conv(to, window(rng), source=source, bias=True, output=values))
    if rng.integers(2):
        known.append(b.linear(int(rng.integers(2, 40)), output=values))
    unread = [name for name in known if not b.graph().consumers(name)]
    return b.graph([*unread, *known[:1]] if rng.integers(2) else unread)


def random_chip(seed: int) -> ToyChip:
    rng = np.random.default_rng(seed + 1000)
    layout = [PLANES, BLOCKS, PADDED][int(rng.integers(3))]
    reads_padding = bool(rng.integers(2)) and layout.width_multiple > 1
    array: list[Kernel] = [
        ArrayConv(name="array_conv", layout=layout, reads_padding=reads_padding),
        ArrayAdd(name="array_add", layout=layout, fetches=""),
        ArrayLinear(name="array_linear"),
    ]
    offered = [kernel for kernel in array if rng.integers(4)]

    def kernels(layer: Layer) -> Sequence[Kernel]:
        return (*offered, *portable_kernels(in_place=True, engine="cores"))

    return array_chip(
        kernels,
        cores=int(rng.choice([1, 2])),
        l1_bytes=int(rng.integers(3, 40)) * 512,
        resident_l1=bool(rng.integers(4)),
        blocking=bool(rng.integers(2)),
    )


def check(seed: int, directory: Path, objective: str = "heuristic") -> None:
    chip = random_chip(seed)
    graph = random_network(seed)
    plan = build_app(
        graph, NAME, directory, plugins=chip.plugins(), seeds=(0, 1), objective=objective
    )
    assert all(place.layout.is_hwc for place in (*plan.inputs, *plan.outputs))
    mode = ("early", "late", "random")[seed % 3]
    assert_exact(directory, plugins=chip.plugins(), dma=(mode,), repeat=2)


@pytest.mark.sample(9)
@pytest.mark.parametrize("seed", FAST)
def test_random_networks_are_exact(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path / "app")


@pytest.mark.parametrize("seed", FAST[:2])
def test_random_networks_of_the_latency_objective_are_exact(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path / "app", objective="latency")


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW)
def test_many_random_networks_are_exact(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path / "app", objective=("heuristic", "latency")[seed % 2])


def test_the_random_networks_meet_what_they_are_for() -> None:
    """Over all seeds: several consumers, several outputs, Adds, and each kind of chip."""
    graphs = [random_network(seed) for seed in FAST]
    assert any(len(g.consumers(name)) > 1 for g in graphs for name in g.tensors)
    assert any(len(g.outputs) > 1 for g in graphs)
    assert any(layer.kind == "Add" for g in graphs for layer in g.ops)
    chips = [random_chip(seed) for seed in FAST]
    assert {chip.resident_l1 for chip in chips} == {True, False}
