"""Networks of the real quantiser: every layer equals its golden, every element."""

import pytest
from dory_quantlab.dialect import parse

from dory_core.api import Graph, ops
from tests.nets import assert_equals_golden, import_net, net_names, net_params


def imported(name: str) -> Graph:
    return import_net(name, parse)


@pytest.mark.parametrize("name", net_params("quantlab_"))
def test_every_layer_equals_its_golden(name: str) -> None:
    assert_equals_golden(name, imported(name))


def test_all_networks_of_the_collection_are_there() -> None:
    if net_names():
        assert len(net_names("quantlab_")) == 9


def test_old_file_without_out_signed_says_what_was_assumed() -> None:
    graph = imported("quantlab_Dronet")
    assumed = [note for note in graph.notes if "out_signed" in note]
    assert len(assumed) == 3
    assert all("assumed unsigned, like its operands" in note for note in assumed)
    assert any(note.startswith("host post-processing left out: Gather") for note in graph.notes)


def test_signed_bottlenecks_are_signed_and_files_with_out_signed_need_no_assumption() -> None:
    graph = imported("quantlab_mv2_035_96")
    adds = [layer for layer in graph.ops if layer.kind == "Add"]
    assert len(adds) == 6
    for layer in adds:
        tensor = graph.tensors[layer.output]
        assert (tensor.type_name, tensor.lo, tensor.hi) == ("i8", -128, 127)
    assert graph.notes == ()


def test_weight_bits_and_ranges_of_a_mixed_network() -> None:
    graph = imported("quantlab_mixed_conv")
    weighted = [layer for layer in graph.ops if isinstance(layer, ops.Conv | ops.Linear)]
    assert [layer.weight_bits for layer in weighted] == [8, 4, 8, 2, 4, 4]
    assert sorted({tensor.hi for tensor in graph.tensors.values()})[:3] == [3, 15, 255]


def test_causal_padding_of_a_1d_network_is_on_the_left() -> None:
    graph = imported("quantlab_tcn1d_pad")
    windows = [layer.window for layer in graph.ops if isinstance(layer, ops.Conv)]
    assert len(windows) == 5
    assert all(w.pads[1] > 0 and w.pads[::2] == (0, 0) and w.pads[3] == 0 for w in windows)
    assert any(w.dilations[1] > 1 for w in windows)
