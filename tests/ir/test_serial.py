"""Graphs saved and loaded again, and their text form."""

from pathlib import Path

import numpy as np
import pytest

from dory_core.errors import UsageError
from dory_core.ir import Add, Array, Conv, Graph, Linear, Tensor, Window, requant
from dory_core.ir.ranges import infer_types
from dory_core.ir.serial import graph_bytes, graph_from_dict, graph_to_dict, load_graph
from dory_core.ir.text import graph_text


@pytest.fixture
def graph() -> Graph:
    conv = Conv(
        index=0,
        name="stem",
        inputs=("input",),
        output="layer_00",
        weights=Array(np.arange(-9, 9).reshape(2, 1, 3, 3)),
        window=Window(kernel=(3, 3), strides=(1, 2), pads=(1, 0, 1, 2)),
        bias=Array([-1000, 70000]),
        groups=2,
        requants=(requant([3, -5], [1, 2**40], 2**30 - 1, -128, 127),),
    )
    add = Add(
        index=1,
        name="add",
        inputs=("layer_00", "layer_00"),
        output="layer_01",
        operand_requants=(requant(3), None),
        requants=(requant(1, 0, 4),),
    )
    linear = Linear(
        index=2,
        name="fc",
        inputs=("layer_01",),
        output="layer_02",
        weights=Array(np.ones((1, 16), int)),
        weight_bits=2,
    )
    source = Tensor("input", 2, 4, 3, 0, 255, 8, False)
    return infer_types("net", (source,), (conv, add, linear), ("layer_02",), ("a note",))


def test_round_trip_is_equal_in_every_field(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "graph.npz").write_bytes(graph_bytes(graph))
    loaded = load_graph(tmp_path / "graph.npz")
    assert loaded == graph
    assert (loaded.name, loaded.notes) == (graph.name, graph.notes)
    assert [layer.name for layer in loaded.ops] == ["stem", "add", "fc"]


def test_equal_graphs_give_equal_bytes(graph: Graph, tmp_path: Path) -> None:
    content = graph_bytes(graph)
    (tmp_path / "a").write_bytes(content)
    assert graph_bytes(load_graph(tmp_path / "a")) == content


def test_changed_weights_are_no_equal_graph(graph: Graph) -> None:
    document, arrays = graph_to_dict(graph)
    arrays["array_000"] = arrays["array_000"][::-1]
    assert graph_from_dict(document, arrays) != graph


def test_damaged_files_are_usage_errors(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load_graph(tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(UsageError, match="not a saved graph"):
        load_graph(tmp_path / "text.npz")
    np.savez(tmp_path / "other.npz", x=np.zeros(1))
    with pytest.raises(UsageError, match="not a saved graph"):
        load_graph(tmp_path / "other.npz")
    document, arrays = graph_to_dict(graph)
    with pytest.raises(UsageError, match="version 99"):
        graph_from_dict({**document, "version": 99}, arrays)


def test_text_form(graph: Graph) -> None:
    assert graph_text(graph) == (
        "network net\n"
        "note a note\n"
        "input input: u8 (2, 4, 3) [0, 255]\n"
        "layer_00 = Conv(input) 3x3 stride 1x2 pads 1,0,1,2 w8 groups 2 bias [-1000, 70000]"
        " -> i8 (2, 4, 2) [-128, 127]  # stem\n"
        "    acc [-12475, 79180]\n"
        "    (acc * [-5..3] + [1..1099511627776]) / 1073741823 clip [-128, 127]\n"
        "    64 bit, values [-37424, 1099511277776]\n"
        "layer_01 = Add(layer_00, layer_00) -> i8 (2, 4, 2) [-128, 127]  # add\n"
        "    acc [-512, 508]\n"
        "    x: acc * 3\n"
        "    acc / 2^2\n"
        "    32 bit, values [-512, 508]\n"
        "layer_02 = Linear(layer_01) w2 -> i32 (1, 1, 1) [-2048, 2032]  # fc\n"
        "    acc [-2048, 2032]\n"
        "output layer_02\n"
    )
