"""Dimensions in another order: layers of three axes each for any number of dimensions.

The order of ``k`` dimensions in memory changes by exchanges of neighbouring blocks of dimensions,
``p a b s`` to ``p b a s``, and by reversals of all. Each is one Transpose where three axes suffice;
otherwise the smaller of ``a`` and ``b`` counts the Slices that a Concat puts together again. A
search over all orders finds the cheapest sequence.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from dory_core.ir import ops
from dory_core.ir.ranges import append_layer
from dory_core.ir.tensor import Shape, Tensor

__all__ = ["MOST_BLOCKS", "blocks_of", "rearranged"]

#: Dimensions beyond this, of those that go different ways, are not searched.
MOST_BLOCKS = 6
_MOST_PARTS = 16
#: What a pass over all elements costs.
_COPY, _TRANSPOSE, _PART = 1.0, 2.0, 1 / 64


@dataclass(frozen=True, slots=True)
class _Step:
    """An exchange of ``a`` and ``b`` between ``p`` and ``s``, which are products of sizes.

    whole: it is the reversal of p, a and b instead.
    """

    p: int
    a: int
    b: int
    s: int
    whole: bool = False

    @property
    def cost(self) -> float | None:
        """Passes over all elements; None where it is impossible."""
        if self.whole or self.s == 1:
            return _TRANSPOSE
        parts = min(self.a, self.b)
        if parts <= _MOST_PARTS:
            return (_COPY if self.p == 1 else 2 * _COPY) + parts * _PART
        return _TRANSPOSE if self.p == 1 else None


def blocks_of(sizes: Sequence[int], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return sizes and order of the blocks of dimensions that stay together.

    Args:
        sizes: In the order of memory.
        order: Which of them the result has, the slowest one first.
    """
    wide = [n for n, size in enumerate(sizes) if size > 1]
    rank = {n: at for at, n in enumerate(wide)}
    groups: list[list[int]] = []
    for n in (rank[n] for n in order if sizes[n] > 1):
        if groups and groups[-1][-1] == n - 1:
            groups[-1].append(n)
        else:
            groups.append([n])
    ranked = sorted(groups)
    totals = [prod(sizes[wide[n]] for n in group) for group in ranked]
    return totals, [ranked.index(group) for group in groups]


def rearranged(
    layers: list[ops.Operator],
    tensors: dict[str, Tensor],
    label: str,
    name: str,
    sizes: Sequence[int],
    order: Sequence[int],
    tensor: str = "",
) -> str | None:
    """Append the layers that give the dimensions of a tensor another order.

    Args:
        layers: Layers of the network; the new ones are appended.
        tensors: Tensors by name; those of the new layers are added.
        label: Name of the new layers.
        name: The tensor.
        sizes: Dimensions of its elements as they lie in memory.
        order: Which of ``sizes`` the result has, the slowest one first.
        tensor: The value of the file that the result is.

    Returns:
        The result, in some shape of three axes; None where there are too many dimensions.
    """
    totals, wanted = blocks_of(sizes, order)
    steps = _cheapest(totals, wanted) if len(totals) <= MOST_BLOCKS else None
    if steps is None:
        return None

    def append(kind: type[ops.Operator], inputs: Sequence[str], file: str, **fields: Any) -> str:
        return append_layer(layers, tensors, kind, label, inputs, file, **fields)

    def shaped(shape: Shape) -> str:
        if tensors[name].shape == shape:
            return name
        return append(ops.Reshape, (name,), "", shape=shape)

    for number, step in enumerate(steps):
        file = tensor if number == len(steps) - 1 else ""
        p, a, b, s = step.p, step.a, step.b, step.s
        if step.whole:
            name = append(ops.Transpose, (shaped((b, p, a)),), file, perm=(1, 0, 2))
        elif s == 1:
            name = append(ops.Transpose, (shaped((b, p, a)),), file, perm=(2, 1, 0))
        elif min(a, b) > _MOST_PARTS:
            name = append(ops.Transpose, (shaped((s, a, b)),), file, perm=(0, 2, 1))
        else:
            along = a <= b  # columns become channels, else channels columns
            source = shaped((s, p, a * b) if along else (b * s, p, a))
            size = (s, p, max(a, b))
            begins = [(0, 0, n * b) if along else (n * s, 0, 0) for n in range(min(a, b))]
            parts = [append(ops.Slice, (source,), "", begin=begin, size=size) for begin in begins]
            name = append(ops.Concat, parts, file, axis=0 if along else 2)
    return name


def _cheapest(sizes: Sequence[int], wanted: Sequence[int]) -> list[_Step] | None:
    """Return the steps from the order of memory to another one with the least cost."""
    start = tuple(range(len(sizes)))
    open_: list[tuple[float, int, tuple[int, ...], list[_Step]]] = [(0.0, 0, start, [])]
    closed = set()
    count = 0
    while open_:
        cost, _, order, steps = heapq.heappop(open_)
        if order == tuple(wanted):
            return steps
        if order in closed:
            continue
        closed.add(order)
        for step, after in _exchanges(sizes, order):
            if step.cost is not None and after not in closed:
                count += 1
                heapq.heappush(open_, (cost + step.cost, count, after, [*steps, step]))
    return None


def _exchanges(
    sizes: Sequence[int], order: tuple[int, ...]
) -> Iterator[tuple[_Step, tuple[int, ...]]]:
    """Yield the steps from an order, with the order after each."""

    def total(first: int, last: int) -> int:
        return prod(sizes[n] for n in order[first:last])

    count = len(order)
    for i in range(count - 1):
        for j in range(i + 1, count):
            for k in range(j + 1, count + 1):
                after = (*order[:i], *order[j:k], *order[i:j], *order[k:])
                yield _Step(total(0, i), total(i, j), total(j, k), total(k, count)), after
    for i in range(1, count - 1):
        for j in range(i + 1, count):
            step = _Step(total(0, i), total(i, j), total(j, count), 1, whole=True)
            yield step, (*order[j:], *order[i:j], *order[:i])
