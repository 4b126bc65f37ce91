"""Text of the Graphs of real networks, read back."""

from __future__ import annotations

import pytest

from dory_core.driver.pipeline import Source, parse
from dory_core.ir.parse import parse_graph
from dory_core.ir.text import graph_text
from dory_core.plugins.manager import load_plugins
from tests.nets import net, net_params


@pytest.mark.parametrize("name", net_params())
def test_real_networks_come_back_from_their_text(name: str) -> None:
    one = net(name)
    source = Source(one.onnx, one.frontend, one.input_bits, one.input_signed)
    graph = parse(source, load_plugins())
    again = parse_graph(graph_text(graph, constants=True))
    assert again == graph
    assert (again.name, again.notes) == (graph.name, graph.notes)
    assert [op.name for op in again.ops] == [op.name for op in graph.ops]
