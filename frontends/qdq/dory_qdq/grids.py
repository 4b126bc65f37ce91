"""Dimensions of the file that are parts of axes, or several of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from dory_qdq.values import Grid, Shape

#: Numbers of the dimensions of a grid that a dimension of the file consists of.
Groups = list[list[int]]


def refined(grid: Grid, shape: Shape) -> tuple[Grid, Groups] | None:
    """Return a grid of which each dimension of a shape takes some, and which those are.

    None where a dimension begins inside of one of the grid's, at no multiple of its parts.
    """
    of_grid = [1, *_products([grid.sizes[n] for n in grid.order])]
    of_shape = [1, *_products(shape)]
    cuts = sorted({*of_grid, *of_shape})
    if of_grid[-1] != of_shape[-1] or any(after % before for before, after in pairwise(cuts)):
        return None
    parts = [after // before for before, after in pairwise(cuts)]
    number = {n: of_grid[place : place + 2] for place, n in enumerate(grid.order)}
    sizes: list[int] = []
    place_of: dict[int, int] = {}
    for n in range(len(grid.sizes)):
        first, last = (cuts.index(cut) for cut in number[n])
        for part in range(first, last):
            place_of[part] = len(sizes)
            sizes.append(parts[part])
    order = tuple(place_of[part] for part in range(len(parts)))
    groups = [
        list(order[cuts.index(first) : cuts.index(last)]) for first, last in pairwise(of_shape)
    ]
    return Grid(tuple(sizes), order), groups


def _products(sizes: Sequence[int]) -> list[int]:
    return [prod(sizes[: n + 1]) for n in range(len(sizes))]
