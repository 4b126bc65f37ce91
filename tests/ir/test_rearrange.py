"""Dimensions in another order: equal to numpy, in few layers."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from dory_core.importing import ranges, rearrange
from dory_core.ir import ops
from dory_core.ir.tensor import Tensor
from dory_core.testing import run_reference


def layers_of(sizes: tuple[int, ...], order: tuple[int, ...]) -> list[ops.Operator]:
    """Return the layers for a vector of these dimensions, and compare them with numpy."""
    total = int(np.prod(sizes))
    source = Tensor("x", total, 1, 1, 0, (1 << 16) - 1, 16, False)
    layers: list[ops.Operator] = []
    tensors = {"x": source}
    result = rearrange.rearranged(layers, tensors, "moved", "x", sizes, order, "t9")
    assert result is not None
    if layers:
        assert layers[-1].tensor == "t9"
        graph = ranges.infer_types("net", (source,), tuple(layers), (result,))
        values = np.arange(total).reshape(total, 1, 1)
        found = run_reference(graph, {"x": values})[result].transpose(1, 2, 0)
        wanted = np.arange(total).reshape(sizes).transpose(order)
        assert np.array_equal(found.reshape(-1), wanted.reshape(-1))
    return layers


@pytest.mark.parametrize("sizes", [(2, 3, 4, 5), (3, 1, 2, 2), (17, 19, 2, 18), (5, 20, 18, 3)])
def test_every_order_of_four_dimensions(sizes: tuple[int, ...]) -> None:
    for order in permutations(range(4)):
        layers_of(sizes, order)


@pytest.mark.parametrize("seed", range(12))
def test_orders_of_up_to_six_dimensions(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(3, 7))
    sizes = tuple(int(n) for n in random.integers(1, 5, count))
    layers_of(sizes, tuple(int(n) for n in random.permutation(count)))


def kinds(sizes: tuple[int, ...], order: tuple[int, ...]) -> list[str]:
    return [layer.kind for layer in layers_of(sizes, order) if layer.kind != "Reshape"]


def test_a_channel_shuffle_is_one_transposition() -> None:
    assert kinds((6, 6, 2, 5), (0, 1, 3, 2)) == ["Transpose"]


def test_pixels_of_two_by_two_are_slices_and_a_concat() -> None:
    assert kinds((6, 7, 2, 2, 5), (0, 2, 1, 3, 4)) == ["Slice", "Slice", "Concat"]
    assert kinds((6, 2, 7, 2, 5), (0, 2, 1, 3, 4)) == ["Slice", "Slice", "Concat"]


def test_what_stays_in_order_costs_nothing() -> None:
    assert layers_of((4, 1, 3, 2), (0, 2, 1, 3)) == []


def test_too_many_dimensions_are_refused() -> None:
    tensors = {"x": Tensor("x", 1 << 7, 1, 1, 0, 255, 8, False)}
    found = rearrange.rearranged([], tensors, "moved", "x", (2,) * 7, (6, 5, 4, 3, 2, 1, 0))
    assert found is None
