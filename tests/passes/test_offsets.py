"""Signed bytes stored as unsigned ones: the same values, and better kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dory_core.ir import Graph, Layer, Pad, Tensor, reference
from dory_core.ir.features import FEATURES
from dory_core.ir.packing import pack, unpack
from dory_core.ir.parse import parse_graph
from dory_core.ir.ranges import infer_types
from dory_core.ir.text import graph_text
from dory_core.kernels.kernel import Kernel
from dory_core.passes.offsets import choose_offsets, with_offsets
from tests.passes.test_storage import Picky

NETWORK = """\
network bytes
input input: i8 (4, 9, 8) [-128, 127] scale 0.5 zero -128
layer_00 = Conv(input) 3x3 pads 1,1,1,1 of -128 w8
    weights (6, 4, 3, 3) = random(1, -127, 127)
    bias (6) = random(2, -9000, 9000)
    (acc * 77 + 4096 | 4095) / 2^13 clip [-128, 127]
layer_01 = Conv(layer_00) 3x3 stride 2x1 pads 0,1,1,2 of -128 w8 groups 6
    weights (6, 1, 3, 3) = random(3, -127, 127)
    (acc * [70, 60, 50, 40, 30, 20] + 4096) / 2^13 clip [-128, 127]
layer_02 = MaxPool(layer_01) 2x2 pads 0,0,1,1
layer_03 = Conv(layer_02) 1x1 w8
    weights (6, 6, 1, 1) = random(4, -127, 127)
    (acc * 99 + 4096) / 2^13 clip [-128, 127]
layer_04 = Add(layer_02, layer_03)
    x: (acc * 300 + 512 | 511) / 2^10
    (acc * 500 + 512 | 511) / 2^10 clip [-128, 127]
layer_05 = AvgPool(layer_04) 2x3 pads 1,0,0,1 of -128
    (acc + 3 | 2) / 6 clip [-128, 127]
layer_06 = AvgPool(layer_05) 3x3 pads 1,1,1,1 inside origin 0
    acc clip [-100, 120]
layer_07 = Linear(layer_06) w8
    weights (5, WIDTH) = random(5, -127, 127)
    bias (5) = 5 -6 700 -8000 9
    (acc * 9 + 4096 | 4095) / 2^13 clip [-128, 127]
output layer_07
"""


def network() -> Graph:
    text = NETWORK.split("layer_07")[0] + "output layer_06\n"
    width = parse_graph(text).tensors["layer_06"].elements
    return parse_graph(NETWORK.replace("WIDTH", str(width)))


def inner(graph: Graph) -> list[str]:
    return [name for name in graph.tensors if name not in ("input", "layer_07")]


SETS = [
    ["layer_00"],
    ["layer_01", "layer_02"],
    ["layer_03"],
    ["layer_04"],
    ["layer_05"],
    ["layer_06"],
    ["layer_00", "layer_03", "layer_05"],
]


@pytest.mark.parametrize("names", [*SETS, None], ids=str)
def test_values_stay_the_same(names: list[str] | None) -> None:
    graph = network()
    names = inner(graph) if names is None else names
    moved = with_offsets(graph, names)
    for name in names:
        tensor = moved.tensors[name]
        assert (tensor.type_name, tensor.offset, tensor.lo >= 0) == ("u8", 128, True)
    for seed in range(3):
        inputs = reference.random_inputs(graph, seed)
        before, after = reference.run(graph, inputs), reference.run(moved, inputs)
        assert all(np.array_equal(before[name], after[name]) for name in graph.tensors)


MOVED = """\
network movers
input input: i8 (4, 6, 5) [-128, 127]
layer_00 = Conv(input) 1x1 w8
    weights (4, 4, 1, 1) = random(1, -127, 127)
    (acc * 77 + 4096 | 4095) / 2^13 clip [-128, 127]
LAYER
layer_02 = Conv(layer_01) 3x3 pads 1,1,1,1 of -128 w8
    weights (2, CHANNELS, 3, 3) = random(2, -127, 127)
    (acc * 9 + 4096) / 2^13 clip [-128, 127]
output layer_02
"""


def test_movers_carry_the_offset_along() -> None:
    graph = parse_graph(
        MOVED.replace("LAYER", "layer_01 = MaxPool(layer_00) 1x1").replace("CHANNELS", "4")
    )
    pad = Pad(
        index=1,
        name="pad",
        inputs=("layer_00",),
        output="layer_01",
        before=(0, 1, 0),
        after=(0, 0, 2),
        value=-128,
    )
    layers = (graph.ops[0], pad, graph.ops[2])
    inputs = (graph.tensors["input"],)
    graph = infer_types("movers", inputs, layers, graph.outputs)
    moved = choose_offsets(graph, kernels_that_take(pads_with_zero))
    assert offsets(moved) == ["layer_00", "layer_01"]
    assert moved.ops[1] == replace(pad, value=0)
    values = reference.random_inputs(graph)
    before, after = reference.run(graph, values), reference.run(moved, values)
    assert all(np.array_equal(before[name], after[name]) for name in graph.tensors)


def test_ranges_scales_and_text_survive() -> None:
    moved = with_offsets(network(), ["layer_00", "layer_05"])
    assert parse_graph(graph_text(moved, constants=True)) == moved
    assert moved.tensors["input"].scale == 0.5


def test_vectors_have_the_values_of_the_file() -> None:
    tensor = Tensor("t", 2, 1, 2, 0, 255, 8, False, offset=128)
    values = np.array([[[-128, 127], [0, 5]]])
    assert pack(values, tensor) == bytes([0, 255, 128, 133])
    assert np.array_equal(unpack(pack(values, tensor), tensor), values)


class Knowing(Picky):
    """Knows all features."""

    features = FEATURES


def kernels_that_take(takes: object) -> object:
    kernels: tuple[Kernel, ...] = (Knowing("own", takes), Knowing("portable"))
    return lambda layer: kernels


def pads_with_zero(layer: Layer) -> bool:
    window = getattr(layer.op, "window", None)
    return window is None or not any(window.pads) or window.pad_value == 0


def offsets(graph: Graph) -> list[str]:
    return [name for name, tensor in graph.tensors.items() if tensor.offset]


def test_what_is_padded_is_moved_where_kernels_want_zeros() -> None:
    graph = choose_offsets(network(), kernels_that_take(pads_with_zero))
    assert offsets(graph) == ["layer_00", "layer_04"]
    assert graph.tensors["input"].offset == 0  # the interface has the type of the file


def test_nothing_is_moved_where_kernels_take_the_padding() -> None:
    graph = network()
    assert choose_offsets(graph, kernels_that_take(lambda layer: True)) is graph
    assert choose_offsets(graph, kernels_that_take(lambda layer: False)) is graph


def test_all_is_moved_where_kernels_want_one_kind_of_bytes() -> None:
    def unsigned(layer: Layer) -> bool:
        inside = [t for t in (*layer.inputs, layer.output) if t.name not in ("input", "layer_07")]
        same = all(not t.signed for t in inside) or all(t.signed for t in inside)
        return pads_with_zero(layer) and same

    graph = choose_offsets(network(), kernels_that_take(unsigned))
    assert offsets(graph) == inner(graph)


def test_padding_with_another_value_is_left_to_kernels() -> None:
    graph = network()
    ops = [
        replace(op, window=replace(op.window, pad_value=-3)) if op.index in (0, 1, 5) else op
        for op in graph.ops
    ]
    graph = replace(graph, ops=tuple(ops))
    assert choose_offsets(graph, kernels_that_take(pads_with_zero)) is graph
