"""Passes of the core, text in, text out."""

from __future__ import annotations

import re

import pytest

from dory_core.errors import UsageError
from dory_core.ir import Graph, Layer
from dory_core.ir.parse import parse_graph
from dory_core.ir.text import graph_text
from dory_core.kernels import portable_kernels
from dory_core.kernels.kernel import Kernel
from dory_core.passes.extract import extract_layer
from dory_core.passes.order import numbered_order, order_branches
from dory_core.passes.storage import choose_storage

# The long branch makes its largest tensor first; the short one waits.
BRANCHES = """\
network branches
input input: u8 (4, 16, 16) [0, 255]
layer_00 = Conv(input) 1x1 w8 -> u8 (32, 16, 16) [0, 255]  # short
    weights (32, 4, 1, 1) = 1
    acc * 1 + 1 / 2^2 clip [0, 255]
layer_01 = Conv(input) 1x1 w8 -> u8 (64, 16, 16) [0, 255]  # wide
    weights (64, 4, 1, 1) = 1
    acc clip [0, 255]
layer_02 = Conv(layer_01) 1x1 w8 -> u8 (32, 16, 16) [0, 255]  # narrow
    weights (32, 64, 1, 1) = 1
    acc clip [0, 255]
layer_03 = Add(layer_00, layer_02) -> u8 (32, 16, 16) [0, 255]  # sum
    acc / 2^1 clip [0, 255]
output layer_03
"""

NARROW = """\
network narrow
input input: u2 (3, 4, 4) [0, 3]
layer_00 = Conv(input) 1x1 w8 -> u4 (5, 4, 4) [0, 15]  # first
    weights (5, 3, 1, 1) = 1
    acc clip [0, 15]
layer_01 = Conv(layer_00) 1x1 w8 -> u16 (5, 4, 4) [0, 300]  # second
    weights (5, 5, 1, 1) = 1
    acc * 100 clip [0, 300]
output layer_01
"""


def outputs(graph: Graph) -> list[str]:
    """Return the tensors in the order in which their lines stand in the text."""
    return re.findall(r"^(\w+) = ", graph_text(graph), re.MULTILINE)


def test_the_branch_with_the_largest_tensor_goes_first() -> None:
    graph = parse_graph(BRANCHES)
    ordered = order_branches(graph)
    assert outputs(ordered) == ["layer_01", "layer_02", "layer_00", "layer_03"]
    blocks, moved = (sorted(re.split(r"\n(?=\w)", graph_text(g))) for g in (graph, ordered))
    assert blocks == moved, "nothing but the order differs"
    assert numbered_order(ordered) == graph
    assert order_branches(ordered) is ordered


def test_storage_takes_the_widths_of_the_target() -> None:
    graph = parse_graph(NARROW)
    taken = {
        widths: re.findall(r" ([ui]\d+) \(", graph_text(stored(graph, widths)))
        for widths in ((2, 4, 8, 16, 32), (4, 8, 16, 32), (8, 16, 32), (8, 32))
    }
    assert taken == {
        (2, 4, 8, 16, 32): ["u2", "u4", "u16"],
        (4, 8, 16, 32): ["u4", "u4", "u16"],
        (8, 16, 32): ["u8", "u8", "u16"],
        (8, 32): ["u8", "u8", "u32"],
    }
    text = graph_text(graph, constants=True)
    only_bits = re.sub(r" [ui]\d+ \(", " (", text)
    assert re.sub(r" [ui]\d+ \(", " (", graph_text(stored(graph, (8, 32)), True)) == only_bits


def stored(graph: Graph, widths: tuple[int, ...]) -> Graph:
    kernels = portable_kernels()

    def candidates(layer: Layer) -> tuple[Kernel, ...]:
        return tuple(kernels)

    return choose_storage(graph, widths, candidates)


def test_a_layer_alone_keeps_its_text() -> None:
    graph = parse_graph(BRANCHES)
    alone = graph_text(extract_layer(graph, 3), constants=True)
    block = re.search(r"^layer_03.*?(?=^output)", graph_text(graph, True), re.M | re.S)
    assert block is not None and block[0] in alone
    assert alone.splitlines()[0] == "network branches_layer_03"
    assert [line for line in alone.splitlines() if line.startswith("input")] == [
        "input layer_00: u8 (32, 16, 16) [0, 255]",
        "input layer_02: u8 (32, 16, 16) [0, 255]",
    ]
    with pytest.raises(UsageError, match="has no layer 4"):
        extract_layer(graph, 4)
