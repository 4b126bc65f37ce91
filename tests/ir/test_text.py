"""Text of a Graph read back: equal for networks of any kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dory_core.ir import (
    Array,
    AvgPool,
    Conv,
    FileForm,
    Graph,
    Requant,
    Tensor,
    mean_requant,
    requant,
)
from dory_core.ir.parse import parse_graph
from dory_core.ir.ranges import infer_types
from dory_core.ir.text import array_text, graph_text
from dory_core.testing.graphs import GraphBuilder
from tests.planning.random_graphs import random_graph

SMALL = """\
network small
note made by hand
input input: u8 (2, 4, 3) [0, 255]
layer_00 = Conv(input) 3x3 stride 1x2 pads 1,0,1,2 w8 groups 2
    weights (2, 1, 3, 3) = random(1, -128, 127)
    bias (2) = -1000 70000
    (acc * [3, -5] + [1, 1099511627776]) / 1073741823 clip [-128, 127]
layer_01 = Add(layer_00, layer_00)
    x: acc * 3
    acc / 2^2
layer_02 = Linear(layer_01) w2
    weights (1, 16) = 1
output layer_02
"""


ZEROS = """\
network zeros
reference somebody's kernels
input input: i8 (2, 4, 3) [-128, 127] scale 0.0078125 zero -128
layer_00 = Conv(input) 3x3 pads 1,1,1,1 of -128 w8 groups 2
    tensor "model/conv; -> 3"
    weights (2, 1, 3, 3) = random(1, -128, 127)
    (acc * [3, 5] + [7, 8] | [-1, 0]) / 2^9 clip [-128, 127]
layer_01 = AvgPool(layer_00) 3x3 pads 0,1,2,1 inside origin 0
    tensor 17
    acc clip [-100, 100]
layer_02 = AvgPool(layer_01) 2x2
    (acc + 2 | 1 below -8) / 2^2 clip [-128, 127]
output layer_02
"""


def same(a: Graph, b: Graph) -> None:
    assert a == b
    assert (a.name, a.notes, a.reference) == (b.name, b.notes, b.reference)
    assert [(op.name, op.tensor) for op in a.ops] == [(op.name, op.tensor) for op in b.ops]


def test_state_is_read_back_with_its_initial_values() -> None:
    b = GraphBuilder((4, 3, 5))
    old, table = b.state((4, 3, 5), (0, 255), 7), b.state((4, 3, 5))
    total = b.add("input", old, requants=(requant(1, 0, 90, 0, 255),))
    graph = b.graph((total,), {old: total, table: total})
    values = Array(np.arange(60).reshape(4, 3, 5))
    states = (graph.states[0], replace(graph.states[1], initial=values))
    graph = replace(graph, states=states)
    text = graph_text(graph, constants=True)
    assert "state state_0: u8 (4, 3, 5) [0, 255] from layer_00" in text
    assert parse_graph(text) == graph
    assert graph_text(parse_graph(text), constants=True) == text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("state s: u8 (4, 3, 5) [0, 255] from input", "no layer computes 'input'"),
        ("state s: u8 (4, 3, 4) [0, 255] from layer_00", "in different forms"),
        ("state s: u8 (4, 3, 5) [0, 1] from layer_00", "a value is left"),
        ("state s: u8 (4, 3, 5) [1, 255] from layer_00", "initial values"),
        ("state input: u8 (4, 3, 5) [0, 255] from layer_00", "an input or output, too"),
    ],
)
def test_state_that_cannot_be_is_refused(line: str, reason: str) -> None:
    text = f"""network net
input input: u8 (4, 3, 5) [0, 255]
{line}
layer_00 = MaxPool(input) 1x1
output layer_00
"""
    if "[1, 255]" in line:
        text = text.replace("[0, 255]", "[1, 255]", 1)
    with pytest.raises(ValueError, match=reason):
        parse_graph(text)


def test_what_is_left_out_follows_from_the_rest() -> None:
    graph = parse_graph(SMALL)
    inputs = tuple(graph.tensors[name] for name in graph.inputs)
    same(graph, infer_types("small", inputs, graph.ops, graph.outputs, graph.notes))
    assert [op.kind for op in graph.ops] == ["Conv", "Add", "Linear"]
    conv = graph.ops[0]
    assert isinstance(conv, Conv)
    assert conv.window.pads == (1, 0, 1, 2) and conv.window.strides == (1, 2)
    assert conv.bias == Array([-1000, 70000])
    same(parse_graph(graph_text(graph, constants=True)), graph)


def test_zero_points_and_two_addends_come_back() -> None:
    graph = parse_graph(ZEROS)
    conv, inside, mean = graph.ops
    assert graph.reference == "somebody's kernels"
    assert [op.tensor for op in graph.ops] == ["model/conv; -> 3", "17", ""]
    assert isinstance(conv, Conv) and conv.window.pad_value == -128
    assert conv.requants == (Requant((3, 5), (7, 8), 512, -128, 127, (-1, 0)),)
    assert isinstance(inside, AvgPool) and not inside.counts_padding
    assert mean.requants == (replace(mean_requant(4, -128, 127), turn=-8),)
    tensor = graph.tensors["input"]
    assert (tensor.scale, tensor.zero_point, tensor.offset) == (0.0078125, -128, 0)
    assert graph.tensors["layer_01"].lo == -100
    moved = {n: replace(t, scale=1e-9 / 3, offset=128) for n, t in graph.tensors.items()}
    same(parse_graph(graph_text(graph, constants=True)), graph)
    graph = replace(graph, tensors=moved)
    same(parse_graph(graph_text(graph, constants=True)), graph)


@pytest.mark.parametrize("seed", range(40))
def test_random_networks_come_back(seed: int) -> None:
    graph = random_graph(seed, mixed=seed % 2 == 1)
    text = graph_text(graph, constants=True)
    same(parse_graph(text), graph)
    assert graph_text(parse_graph(text), constants=True) == text


def test_forms_of_tensors_in_the_file_come_back() -> None:
    forms = {
        "input": FileForm((0, 1, 2), "a real input", ties_even=True),
        "layer_00": FileForm((2, 0, 1), apart=1),
    }
    graph = replace(parse_graph(SMALL), forms=forms)
    assert parse_graph(graph_text(graph, constants=True)).forms == forms
    with pytest.raises(ValueError, match="'CCW' is no order"):
        parse_graph(graph_text(graph, constants=True).replace("order WCH", "order CCW"))


def test_order_and_odd_names_are_kept() -> None:
    graph = parse_graph(SMALL)
    odd = {"input": "an input: 1", "layer_00": 'x "y", (z)', "layer_02": "out = 3"}
    tensors = {odd.get(n, n): replace(t, name=odd.get(n, n)) for n, t in graph.tensors.items()}
    ops = tuple(
        replace(
            op,
            name="",
            inputs=tuple(odd.get(n, n) for n in op.inputs),
            output=odd.get(op.output, op.output),
        )
        for op in graph.ops
    )
    renamed = replace(
        graph, inputs=("an input: 1",), outputs=("out = 3",), ops=ops, tensors=tensors
    )
    assert parse_graph(graph_text(renamed, constants=True)) == renamed


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([[7, 7], [7, 7]], "(2, 2) = 7"),
        ([1, -2, 3], "(3) = 1 -2 3"),
        (np.arange(-40, 40), "(80) = hex i8 d8d9"),
        (np.arange(300), "(300) = hex i16 00000100"),
    ],
)
def test_constants_are_numbers_or_bytes(values: list[int], text: str) -> None:
    assert array_text(Array(values)).startswith(text)


@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        ("    bias (2) = -1000 70000", "    bias (2) = 1 2 3", "line 6: 3 values"),
        ("    x: acc * 3", "    x: acc times 3", "line 9: 'x: acc times 3'"),
        ("    acc / 2^2", "    acc * [1..3]", "constants are left out"),
        ("pads 1,0,1,2", "padding 1", "line 4: 'padding 1 w8 groups 2'"),
        ("Linear(", "Dense(", "line 11: Dense"),
        ("    weights (1, 16) = 1\n", "", "line 11: Linear without"),
        ("u8 (2, 4, 3) [0, 255]", "u8 2x4x3", "line 3: 'u8 2x4x3' is no type"),
        ("output layer_02", "result layer_02", "line 13"),
    ],
)
def test_what_is_not_understood_is_named_with_its_line(line: str, wrong: str, message: str) -> None:
    with pytest.raises(ValueError, match="line") as caught:
        parse_graph(SMALL.replace(line, wrong))
    assert message in str(caught.value)


def test_text_without_constants_is_for_reading_only() -> None:
    graph = parse_graph(SMALL)
    assert isinstance(graph.tensors["input"], Tensor)
    with pytest.raises(ValueError, match=r"line \d+"):
        parse_graph(graph_text(graph))
