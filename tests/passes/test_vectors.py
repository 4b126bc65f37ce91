"""Which convolutions become fully connected layers, and that no value changes."""

from __future__ import annotations

import numpy as np
import pytest

from dory_core.ir import Graph, Window
from dory_core.ir.features import FEATURES
from dory_core.ir.text import graph_text
from dory_core.kernels.kernel import Kernel, Rejection
from dory_core.kernels.portable import portable_kernels
from dory_core.passes.vectors import connect_vectors
from dory_core.testing import random_inputs, run_reference
from dory_core.testing.graphs import GraphBuilder


class Convolutions(Kernel):
    """A kernel of convolutions, without fully connected layers."""

    name, features = "convolutions", FEATURES

    def accepts(self, layer: object) -> Rejection | None:
        return None if layer.op.kind == "Conv" else Rejection("no convolution")  # type: ignore[attr-defined]

    cycles = symbol = call = headers = sources = None  # type: ignore[assignment]


def connected(graph: Graph, *better: Kernel) -> Graph:
    return connect_vectors(graph, lambda layer: (*better, *portable_kernels(8)))


def network(size: tuple[int, int], window: Window) -> Graph:
    b = GraphBuilder((5, *size), seed=3)
    b.conv(7, window, bias=True)
    b.conv(4, Window(kernel=(1, 1)))
    return b.graph()


@pytest.mark.parametrize("size", [(1, 1), (3, 4), (1, 6)])
def test_outputs_are_those_of_the_convolutions(size: tuple[int, int]) -> None:
    graph = network(size, Window(kernel=size))
    found = connected(graph)
    assert [op.kind for op in found.ops] == ["Linear", "Linear"]
    assert [op.tensor for op in found.ops] == [op.tensor for op in graph.ops]
    for seed in (1, 2):
        values = random_inputs(graph, seed)
        expected, outputs = (run_reference(g, values) for g in (graph, found))
        for name in expected:
            np.testing.assert_array_equal(outputs[name], expected[name])


@pytest.mark.parametrize(
    ("size", "window"),
    [((4, 4), Window(kernel=(3, 3))), ((3, 3), Window(kernel=(3, 3), pads=(0, 0, 0, 1)))],
    ids=["several windows", "padding"],
)
def test_other_convolutions_stay(size: tuple[int, int], window: Window) -> None:
    graph = network(size, window)
    assert connected(graph).ops[0] is graph.ops[0]


def test_a_layer_that_only_portable_c_would_compute_stays() -> None:
    graph = network((1, 1), Window(kernel=(1, 1)))
    assert graph_text(connected(graph, Convolutions())) == graph_text(graph)
