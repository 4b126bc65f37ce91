"""Means of fewer elements at the border: what counts in each window, one window at a time."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import pytest
from dory_onnx.means import border_mean
from dory_onnx.model import Node

KERNELS = ((3, 3), (2, 3), (3, 2))


def counted(extent: int, kernel: int, stride: int, pads: tuple[int, int], ceil: bool, all_: bool):  # type: ignore[no-untyped-def]
    """Yield how many elements count in each window along an axis, as PyTorch counts them."""
    before, behind = pads
    padded = before + extent + behind
    start = 0
    while start + kernel <= padded or (
        ceil and start + kernel < padded + stride and start < before + extent
    ):
        inside = (before <= at < before + extent for at in range(start, start + kernel))
        yield min(start + kernel, padded) - start if all_ else sum(inside)
        start += stride


def forms() -> Iterator[tuple[int, int, bool, tuple[int, int, int, int]]]:
    for include, stride, ceil in product((0, 1), (1, 2), (False, True)):
        for pads in product((0, 1), (0, 1), (0, 1), (0, 1)):
            yield include, stride, ceil, pads


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("size", [(5, 6), (4, 7)])
def test_elements_of_a_mean_at_the_border(kernel: tuple[int, int], size: tuple[int, int]) -> None:
    """Pads of each side on its own, with and without count_include_pad and ceil_mode."""
    uneven = 0
    for include, stride, ceil, pads in forms():
        given = {"kernel_shape": list(kernel), "strides": [stride] * 2, "pads": list(pads)}
        given |= {"count_include_pad": include, "ceil_mode": int(ceil)}
        node = Node(0, "AveragePool", "mean", ("x",), ("y",), given)
        found = border_mean(node, (1, 3, *size))
        sides = ((pads[0], pads[2]), (pads[1], pads[3]))
        rows, columns = (
            list(counted(extent, k, stride, side, ceil, bool(include)))
            for extent, k, side in zip(size, kernel, sides, strict=True)
        )
        expected = [[r * c for c in columns] for r in rows]
        if found is None:
            assert {n for row in expected for n in row} == {kernel[0] * kernel[1]}, given
            continue
        factors = found.factors.values[0].tolist()
        assert [[Fraction(found.divisor, f) for f in row] for row in factors] == expected, given
        uneven += bool(include) and pads[:2] != pads[2:]
    assert uneven > 4
