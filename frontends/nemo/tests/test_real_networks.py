"""Networks of the real quantiser: every layer equals its golden, every element."""

import pytest
from dory_nemo.dialect import parse

from dory_core.api import Graph
from tests.nets import assert_equals_golden, import_net, net_names, net_params


def imported(name: str) -> Graph:
    return import_net(name, parse)


@pytest.mark.parametrize("name", net_params("nemo_"))
def test_every_layer_equals_its_golden(name: str) -> None:
    assert_equals_golden(name, imported(name))


def test_all_networks_of_the_collection_are_there() -> None:
    if net_names():
        assert len(net_names("nemo_")) == 13


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("nemo_NAS_Frontnet", "Gather, Unsqueeze"),
        ("nemo_TCN_T", "LogSoftmax"),
        ("nemo_dronet_complete", "Gather, Sigmoid"),
    ],
)
def test_float_heads_are_left_out_and_said_so(name: str, operators: str) -> None:
    graph = imported(name)
    assert len(graph.notes) == 1
    assert graph.notes[0].startswith(f"host post-processing left out: {operators} (behind")
    assert graph.outputs == (graph.ops[-1].output,)


def test_unclipped_residual_is_stored_in_16_bits() -> None:
    graph = imported("nemo_proxylessnas_pulp_dronet")
    assert graph.ops[12].kind == "Add"
    assert graph.tensors["layer_12"].bits == 16
    assert graph.tensors["layer_12"].hi >= 358


def test_old_divisors_stay_two_to_the_k_minus_one() -> None:
    graph = imported("nemo_PenguiNet_32")
    divisors = {step.div for layer in graph.ops for step in layer.requants}
    assert 2**23 - 1 in divisors
    assert all(divisor % 2 for divisor in divisors)


def test_causal_padding_of_a_1d_network_is_on_the_left() -> None:
    graph = imported("nemo_TCN_T")
    window = graph.ops[0].window  # type: ignore[attr-defined]
    assert (window.kernel, window.pads) == ((1, 11), (0, 10, 0, 0))
    assert graph.tensors["layer_00"].shape == (2, 1, 140)
