"""Which storage a target gives to tensors of few bits, and that no kernel is lost to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dory_core.hardware.memories import STORAGE_BITS, MemoryHierarchy
from dory_core.ir import Graph, Layer, Window, storage_for
from dory_core.kernels.binding import rejection_of
from dory_core.kernels.kernel import Kernel, Rejection, Traits
from dory_core.passes import storage
from dory_core.passes.storage import choose_storage
from dory_core.testing.graphs import GraphBuilder

U2, U4, I4, U8 = (0, 3), (0, 15), (-8, 7), (0, 255)


class Picky(Kernel):
    """Accepts what ``takes`` says of a layer."""

    def __init__(self, name, takes=lambda layer: True, planar=False) -> None:
        self.name = name
        self.takes = takes
        self.planar = planar

    def accepts(self, layer: Layer) -> Rejection | None:
        return None if self.takes(layer) else Rejection("not to its taste")

    def traits(self, layer: Layer) -> Traits:
        return Traits(planar=self.planar)

    cycles = symbol = call = headers = sources = None


def network(*outputs: tuple[int, int], values: tuple[int, int] = U4) -> Graph:
    """1x1 convolutions with the given ranges of outputs, one behind the other."""
    builder = GraphBuilder((6, 5, 4), values=values)
    for output in outputs:
        builder.conv(6, Window(kernel=(1, 1)), output=output)
    return builder.graph()


def bits(graph: Graph) -> list[int]:
    return [tensor.bits for tensor in graph.tensors.values()]


def chosen(graph: Graph, *kernels: Kernel, widths=STORAGE_BITS) -> list[int]:
    return bits(choose_storage(graph, widths, lambda layer: kernels))


ANY = Picky("any")


def in_bytes(layer: Layer) -> bool:
    return all(t.bits >= 8 for t in (*layer.inputs, layer.output))


@pytest.mark.parametrize(
    ("values", "storage"),
    [
        ((0, 3), (2, False)),
        ((-2, 1), (2, True)),
        ((0, 4), (4, False)),
        ((-3, 1), (4, True)),
        ((0, 15), (4, False)),
        ((-8, 7), (4, True)),
        ((0, 16), (8, False)),
        ((-9, 0), (8, True)),
        ((0, 127), (8, False)),
        ((0, 256), (16, False)),
    ],
)
def test_narrowest_storage_that_holds_all_values(values, storage) -> None:
    assert storage_for(*values) == storage


def test_kernels_that_take_everything_get_the_narrowest_storage() -> None:
    assert chosen(network(U2, U8, I4), ANY) == [4, 2, 8, 4]


def test_target_without_narrow_widths_has_whole_bytes() -> None:
    graph = network(U2, U8, I4)
    assert chosen(graph, ANY, widths=(8, 16, 32)) == [8, 8, 8, 8]
    assert bits(graph) == [4, 2, 8, 4]


def test_narrowest_width_of_the_target_is_taken() -> None:
    assert chosen(network(U2, U8), ANY, widths=(4, 32)) == [4, 4, 32]


def test_kernel_for_bytes_keeps_its_layers() -> None:
    assert chosen(network(U2, U4), Picky("bytes", in_bytes), ANY) == [8, 8, 8]


def test_kernel_that_takes_narrow_inputs_only_keeps_its_layers() -> None:
    narrow_x = Picky("narrow_x", lambda layer: layer.output.bits >= 8)
    assert chosen(network(U2, U4), narrow_x, ANY) == [4, 8, 8]


def test_only_the_neighbours_of_a_layer_for_bytes_are_widened() -> None:
    second = Picky("second", lambda layer: layer.op.index != 1 or in_bytes(layer))
    assert chosen(network(U2, U4, U4), second, ANY) == [4, 8, 8, 4]


def test_wide_only_as_far_as_it_must_be() -> None:
    no_2 = Picky("no_2", lambda layer: min(t.bits for t in (*layer.inputs, layer.output)) > 2)
    assert chosen(network(U2, U4, values=U2), no_2, ANY) == [4, 4, 4]


def test_widened_tensor_that_costs_a_neighbour_its_kernel_is_widened_further() -> None:
    """The second layer makes the tensor between them 4 bits wide, which the first cannot write."""

    def takes(layer: Layer) -> bool:
        if layer.op.index == 0:
            return layer.output.bits in (2, 8)
        return layer.inputs[0].bits > 2

    assert chosen(network(U2, U4), Picky("uneven", takes), ANY) == [4, 8, 4]


def test_layer_of_equal_cost_in_bytes_is_widened_where_it_is_smallest() -> None:
    builder = GraphBuilder((40, 5, 4), values=U4)
    builder.conv(2, Window(kernel=(1, 1)), output=U4)
    one = Picky("one", lambda layer: layer.inputs[0].bits + layer.output.bits >= 12)
    assert chosen(builder.graph(), one, ANY) == [4, 8]


def test_kernel_for_narrow_storage_alone_is_welcome() -> None:
    narrow = Picky("narrow", lambda layer: layer.inputs[0].bits < 8)
    assert chosen(network(U2, U8), narrow, ANY) == [4, 2, 8]


def test_graph_without_narrow_tensors_is_left_alone() -> None:
    graph = network(U8, values=U8)

    def nobody_is_asked(layer):
        raise AssertionError(layer)

    assert choose_storage(graph, STORAGE_BITS, nobody_is_asked) is graph


def test_values_and_arithmetic_stay() -> None:
    graph = network(U2, U8, I4)
    wide = choose_storage(graph, (8, 16, 32), lambda layer: [ANY])
    assert wide.ops == graph.ops and wide.ranges == graph.ranges
    for name, tensor in graph.tensors.items():
        assert wide.tensors[name] == replace(tensor, bits=8)


def test_chw_kernel_is_refused_for_channels_that_share_bytes() -> None:
    chw = Picky("chw", planar=True)
    (layer,) = network(U8).layers
    rejection = rejection_of(chw, layer)
    assert rejection is not None
    assert "CHW" in rejection.reason and "input share them (4 bits each)" in rejection.reason
    assert rejection_of(chw, replace(layer, inputs=(replace(layer.inputs[0], bits=8),))) is None
    assert rejection_of(Picky("hwc"), layer) is None
    assert chosen(network(U2), chw, ANY) == [8, 2]


@pytest.mark.parametrize("widths", [(), (8, 16), (8, 4, 32), (2, 3, 32), (32, 64)])
def test_hierarchy_refuses_widths_that_are_none(widths) -> None:
    with pytest.raises(ValueError, match="storage_bits"):
        MemoryHierarchy((), (), storage_bits=widths)


def test_candidates_may_be_others_for_packed_tensors() -> None:
    """A kernel of bytes and its form for packed tensors have one place in the list."""
    of_bytes, packed = Picky("bytes", in_bytes), Picky("packed", lambda layer: False)

    def candidates(layer: Layer) -> tuple[Kernel, ...]:
        return (of_bytes if in_bytes(layer) else packed, ANY)

    graph = network(U4, U4)
    assert bits(choose_storage(graph, STORAGE_BITS, candidates)) == [8, 8, 8]


def test_all_but_the_ends_become_bytes() -> None:
    """Inputs and outputs are as the caller has them."""
    graph = network(U4, U4, U4)
    assert bits(graph) == [4, 4, 4, 4]
    assert bits(storage.in_bytes(graph, STORAGE_BITS)) == [4, 8, 8, 4]
    assert bits(storage.in_bytes(graph, (4, 16, 32))) == [4, 16, 16, 4]
    wide = network(U8, values=U8)
    assert storage.in_bytes(wide, STORAGE_BITS) is wide


@pytest.mark.parametrize("is_output", [False, True])
def test_both_ends_of_state_are_stored_alike(is_output: bool) -> None:
    """Also where what is left is an output, which stays as the caller has it."""
    b = GraphBuilder((6, 5, 4), values=U4)
    old = b.state((6, 5, 4), U4)
    new = b.conv(6, Window(kernel=(1, 1)), source=old, output=U4)
    last = new if is_output else b.conv(6, Window(kernel=(1, 1)), output=U4)
    graph = b.graph((last,), {old: new})
    tensors = storage.in_bytes(graph, STORAGE_BITS).tensors
    assert tensors[old].bits == tensors[new].bits == (4 if is_output else 8)
