"""Graphs saved and loaded again, and their text form."""

from pathlib import Path

import numpy as np
import pytest

from dory_core.driver.application import read_graph
from dory_core.driver.compiler import GRAPH_FILE
from dory_core.errors import UsageError
from dory_core.ir import Add, Array, Conv, Graph, Linear, Tensor, Window, requant
from dory_core.ir.ranges import infer_types
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


def saved(directory: Path, text: str) -> Path:
    """Return an application's directory that holds ``text`` as its network."""
    path = directory / GRAPH_FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return directory


def test_round_trip_is_equal_in_every_field(graph: Graph, tmp_path: Path) -> None:
    loaded = read_graph(saved(tmp_path, graph_text(graph, constants=True)))
    assert loaded == graph
    assert (loaded.name, loaded.notes) == (graph.name, graph.notes)
    assert [layer.name for layer in loaded.ops] == ["stem", "add", "fc"]


def test_equal_graphs_give_equal_text(graph: Graph, tmp_path: Path) -> None:
    text = graph_text(graph, constants=True)
    assert graph_text(read_graph(saved(tmp_path, text)), constants=True) == text


def test_changed_weights_are_no_equal_graph(graph: Graph, tmp_path: Path) -> None:
    text = graph_text(graph, constants=True)
    assert read_graph(saved(tmp_path, text.replace("= -9 -8", "= -8 -9"))) != graph


@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        ("network net\n", "PK\x03\n", "line 1: 'PK"),
        ("(layer_01)", "(layer_07)", "computes the input 'layer_07'"),
        ("output layer_02", "output layer_03", "no output that"),
        ("output layer_02\n", "", "no output that"),
        ("= -9 -8", "= hex i24 -9 -8", "invalid literal"),
    ],
)
def test_damaged_files_are_usage_errors(
    graph: Graph, tmp_path: Path, line: str, wrong: str, message: str
) -> None:
    text = graph_text(graph, constants=True)
    assert line in text
    with pytest.raises(UsageError, match=message):
        read_graph(saved(tmp_path, text.replace(line, wrong)))


def test_a_file_that_is_missing_or_empty_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is missing"):
        read_graph(tmp_path)
    with pytest.raises(UsageError, match="no layers"):
        read_graph(saved(tmp_path, ""))


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
