"""Which pools are computed in the convolutions before them, and that no value changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dory_core.errors import NotSupported
from dory_core.ir import Array, Graph, Layer, PooledConv, Window, reference, requant
from dory_core.ir.features import FEATURES
from dory_core.ir.parse import parse_graph
from dory_core.ir.ranges import infer_layer
from dory_core.ir.text import graph_text
from dory_core.kernels.kernel import Kernel, Rejection
from dory_core.kernels.portable import portable_kernels
from dory_core.passes.pools import join_pools
from dory_core.testing.graphs import GraphBuilder

HALF = Window(kernel=(2, 2), strides=(2, 2))
FIRST = Window(kernel=(5, 5), strides=(2, 2), pads=(2, 2, 2, 2))


class Joint(Kernel):
    """A kernel of convolutions with their pools."""

    name, features = "joint", FEATURES

    def accepts(self, layer: Layer) -> Rejection | None:
        return None if isinstance(layer.op, PooledConv) else Rejection("no pool")

    cycles = symbol = call = headers = sources = None


def joined(graph: Graph) -> Graph:
    return join_pools(graph, lambda layer: (*portable_kernels(8), Joint()))


def network(window: Window = FIRST, pool: Window = HALF, size: tuple[int, int] = (23, 38)) -> Graph:
    b = GraphBuilder((3, *size), seed=5)
    b.conv(7, window)
    b.max_pool(pool)
    b.conv(4, Window(kernel=(1, 1)))
    return b.graph()


@pytest.mark.parametrize("pool", [HALF, Window(kernel=(3, 1), strides=(3, 1))], ids=["2x2", "3x1"])
@pytest.mark.parametrize(
    "window", [FIRST, Window(kernel=(3, 2), strides=(1, 3))], ids=["5x5", "3x2"]
)
@pytest.mark.parametrize("size", [(23, 38), (20, 31), (21, 24)])
def test_outputs_are_those_of_both_layers(
    window: Window, pool: Window, size: tuple[int, int]
) -> None:
    graph = network(window, pool, size)
    found = joined(graph)
    assert [(op.index, op.kind) for op in found.ops] == [(1, "PooledConv"), (2, "Conv")]
    assert found.tensors.keys() == graph.tensors.keys() - {"layer_00"}
    inputs = reference.random_inputs(graph, 3)
    both, one = reference.run(graph, inputs), reference.run(found, inputs)
    for name in ("layer_01", "layer_02"):
        assert np.array_equal(both[name], one[name])
    assert parse_graph(graph_text(found, constants=True)) == found
    [layer, _] = found.layers
    output, proven = infer_layer(layer.op, found.tensors)
    assert (output.shape, proven) == (layer.output.shape, layer.ranges)
    assert layer.macs == graph.layers[0].macs * layer.output.elements * pool.taps // (
        graph.tensors["layer_00"].elements
    )


def test_no_layer_is_joined_without_a_kernel_for_both() -> None:
    graph = network()
    assert join_pools(graph, lambda layer: portable_kernels(8)) is graph


def _with_step(step: object) -> Graph:
    graph = network()
    conv = replace(graph.ops[0], requants=(step,))
    return replace(graph, ops=(conv, *graph.ops[1:]))


def _two_readers() -> Graph:
    b = GraphBuilder((3, 12, 12))
    first = b.conv(7, Window(kernel=(3, 3)))
    pool = b.max_pool(HALF)
    return b.graph((pool, b.conv(4, Window(kernel=(1, 1)), source=first)))


def _output_of_network() -> Graph:
    graph = network()
    return replace(graph, outputs=(*graph.outputs, "layer_00"))


OTHERS: dict[str, Callable[[], Graph]] = {
    "blocks overlap": lambda: network(pool=Window(kernel=(3, 3), strides=(2, 2))),
    "gaps between blocks": lambda: network(pool=Window(kernel=(1, 1), strides=(2, 2))),
    "padding": lambda: network(pool=replace(HALF, pads=(1, 1, 0, 0))),
    "dilation": lambda: network(replace(FIRST, kernel=(3, 3), dilations=(2, 2))),
    "another reader": _two_readers,
    "an output of the network": _output_of_network,
    "falls": lambda: _with_step(requant([3, 3, 3, -3, 3, 3, 3], 0, 1 << 9, 0, 255)),
    "jumps down": lambda: _with_step(requant(3, 0, 1 << 9, 0, 255, add_negative=1)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_pools_stay_layers(name: str) -> None:
    graph = OTHERS[name]()
    assert joined(graph) is graph


def test_steps_that_round_away_from_zero_rise() -> None:
    graph = _with_step(requant(3, 256, 1 << 9, 0, 255, add_negative=255))
    assert len(joined(graph).ops) == 2


def test_windows_that_are_no_block_of_filters_are_refused() -> None:
    [op, _] = joined(network()).ops
    tensors = {"input": network().tensors["input"]}
    for window in (replace(op.window, kernel=(9, 7)), replace(op.window, strides=(4, 2))):
        with pytest.raises(NotSupported, match="is none of 2 x 2 filters"):
            infer_layer(replace(op, window=window), tensors)
    with pytest.raises(NotSupported, match="do not fit an input of 3 channels"):
        infer_layer(replace(op, weights=Array(op.weights.values[:, :2])), tensors)
