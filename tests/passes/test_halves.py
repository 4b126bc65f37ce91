"""Which sums are stored as two bytes: those whose layers all have kernels for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dory_core.ir import Graph, Layer, Window, requant
from dory_core.ir.features import FEATURES, Feature
from dory_core.ir.geometry import input_granule, output_granule
from dory_core.ir.parse import parse_graph
from dory_core.ir.text import graph_text
from dory_core.kernels.binding import rejection_of
from dory_core.kernels.kernel import Kernel, Rejection
from dory_core.kernels.portable import portable_kernels
from dory_core.passes.halves import choose_halves
from dory_core.testing.graphs import GraphBuilder

POINT = Window(kernel=(1, 1))


class Known(Kernel):
    """A kernel with some features that takes the layers of some indices."""

    def __init__(self, features: frozenset[Feature], *layers: int) -> None:
        self.name = "known"
        self.features = features
        self.layers = layers

    def accepts(self, layer: Layer) -> Rejection | None:
        taken = not self.layers or layer.op.index in self.layers
        return None if taken else Rejection("not to its taste")

    cycles = symbol = call = headers = sources = None


ANY, PLAIN = Known(FEATURES), Known(FEATURES - {Feature.HALVES})


def network(channels: int = 8, factor: int = 1, outputs: tuple[str, ...] = ()) -> Graph:
    """Layer 2 is a sum of bytes, which layers 3 and 4 read."""
    builder = GraphBuilder((8, 5, 6))
    first = builder.conv(channels, POINT)
    second = builder.conv(channels, POINT, source="input")
    operands = (requant(factor), None) if factor > 1 else (None, None)
    total = builder.add(first, second, operands=operands, requants=())
    builder.conv(4, POINT, source=total)
    last = builder.conv(4, POINT, source=total)
    return builder.graph((*outputs, last))


def halved(graph: Graph, *kernels: Kernel) -> list[str]:
    found = choose_halves(graph, lambda layer: kernels)
    return [name for name, tensor in found.tensors.items() if tensor.halves]


def test_a_sum_of_bytes_is_stored_in_halves_where_kernels_take_them() -> None:
    graph = network()
    found = choose_halves(graph, lambda layer: (ANY,))
    assert halved(graph, ANY) == ["layer_02"]
    one = found.tensors["layer_02"]
    assert (one.type_name, one.bits, one.size_bytes) == ("u8x2", 16, 5 * 6 * 8 * 2)
    assert replace(one, halves=False) == graph.tensors["layer_02"]
    assert (found.ops, found.ranges) == (graph.ops, graph.ranges)


@pytest.mark.parametrize("layer", [2, 3, 4])
def test_one_layer_without_a_kernel_for_halves_is_enough_against_them(layer: int) -> None:
    rest = Known(FEATURES, *({0, 1, 2, 3, 4} - {layer}))
    assert halved(network(), rest, PLAIN) == []


def test_portable_kernels_take_no_halves() -> None:
    assert halved(network(), *portable_kernels(8)) == []
    found = choose_halves(network(), lambda layer: (ANY,))
    for layer in found.layers[2:]:
        for kernel in portable_kernels(8):
            rejection = rejection_of(kernel, layer)
            assert rejection is not None
            assert rejection.other_kind or "two halves" in rejection.reason


def test_no_layer_falls_to_a_kernel_of_lower_preference() -> None:
    assert halved(network(), PLAIN, ANY) == []
    assert halved(network(), PLAIN) == []


def test_larger_sums_and_other_channels_keep_their_storage() -> None:
    assert halved(network(factor=2), ANY) == []
    assert halved(network(channels=6), ANY) == []


def test_inputs_and_outputs_of_the_network_keep_their_storage() -> None:
    assert halved(network(outputs=("layer_02",)), ANY) == []
    builder = GraphBuilder((8, 5, 6), values=(0, 510))
    builder.conv(4, POINT)
    assert halved(builder.graph(), ANY) == []


def test_channels_of_halves_move_in_fours() -> None:
    found = choose_halves(network(), lambda layer: (ANY,))
    layers = {layer.op.index: layer for layer in found.layers}
    assert output_granule(layers[2]) == 4
    assert input_granule(layers[3]) == 4
    assert output_granule(layers[3]) == 1


def test_text_says_how_a_tensor_is_stored() -> None:
    found = choose_halves(network(), lambda layer: (ANY,))
    text = graph_text(found, constants=True)
    assert "layer_02 = Add(layer_00, layer_01) -> u8x2 (8, 5, 6) [0, 510]" in text
    assert parse_graph(text) == found
