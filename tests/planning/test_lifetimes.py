from __future__ import annotations

import pytest

from dory_core.errors import DoryError
from dory_core.plan.blocks import fullest_step, live_at, requests
from tests.planning.samples import network, wanted

SIZES = {"input": 10, "a": 20, "b": 30, "c": 40, "d": 50}


def spans(graph, order):
    return {r.id.text: (r.first, r.last) for r in requests(graph, order)}


def test_chain_keeps_a_tensor_until_its_consumer():
    graph = network(SIZES, ("a", "input"), ("b", "a"), ("c", "b"), ("d", "c"), outputs=("d",))
    assert spans(graph, range(4)) == {
        "input": (-1, 0),
        "a": (0, 1),
        "b": (1, 2),
        "c": (2, 3),
        "d": (3, 3),
    }
    assert requests(graph, range(4))[1] == wanted("a", 20, 0, 1, "activations")


def test_residual_lives_until_the_add_and_input_may_be_the_residual():
    graph = network(SIZES, ("a", "input"), ("b", "a"), ("c", "b", "a"), ("d", "c", "input"),
                    outputs=("d",))  # fmt: skip
    assert spans(graph, range(4))["a"] == (0, 2)
    assert spans(graph, range(4))["input"] == (-1, 3)


def test_network_output_in_the_middle_lives_to_the_last_step():
    graph = network(SIZES, ("a", "input"), ("b", "a"), ("c", "b"), ("d", "c"), outputs=("a", "d"))
    assert spans(graph, range(4))["a"] == (0, 3)


def test_result_that_nobody_reads_lives_for_its_own_step():
    graph = network(SIZES, ("a", "input"), ("b", "input"), ("c", "b"), ("d", "c"), outputs=("d",))
    assert spans(graph, range(4))["a"] == (0, 0)


def test_other_execution_order_gives_other_lifetimes():
    graph = network(SIZES, ("a", "input"), ("b", "a"), ("c", "a"), ("d", "c", "b"), outputs=("d",))
    assert spans(graph, (0, 1, 2, 3)) == {
        "input": (-1, 0),
        "a": (0, 2),
        "b": (1, 3),
        "c": (2, 3),
        "d": (3, 3),
    }
    assert spans(graph, (0, 2, 1, 3))["c"] == (1, 3)
    assert spans(graph, (0, 2, 1, 3))["b"] == (2, 3)


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ((0, 1), "does not run each"),
        ((0, 1, 1, 3), "does not run each"),
        ((1, 0, 2, 3), "before its input 'a'"),
    ],
)
def test_wrong_order_is_a_bug(order, reason):
    graph = network(SIZES, ("a", "input"), ("b", "a"), ("c", "b"), ("d", "c"), outputs=("d",))
    with pytest.raises(DoryError, match=reason) as caught:
        requests(graph, order)
    assert caught.value.exit_code == 1


def test_fullest_step_and_its_blocks():
    blocks = (
        wanted("x", 5, -1, 1),
        wanted("y", 9, 1, 2),
        wanted("z", 3, 2, 3),
    )
    assert fullest_step(blocks) == (1, 14)
    assert fullest_step(blocks, 8) == (1, 24)
    assert [r.id.text for r in live_at(blocks, 1)] == ["y", "x"]


def test_request_rejects_empty_blocks_and_reversed_lifetimes():
    with pytest.raises(ValueError, match="block x has 0 bytes"):
        wanted("x", 0, 0, 1)
    with pytest.raises(ValueError, match="ends at 1, before step 2"):
        wanted("x", 1, 2, 1)
    with pytest.raises(ValueError, match="ends at 1, before step 2"):
        wanted("x", 1, 0, 1).needed(2, 1)
