"""The tile with the fewest estimated cycles.

A lower bound of the cycles of every tile (``schedule.bounds``) is evaluated over the whole tile
space at once. Timelines are then walked in the order of the bounds until a bound reaches the best
timeline, which is proven best: this minimises the estimate that is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from dory_core.expr import Number, Var, ceil_div, evaluate
from dory_core.ir import Layer
from dory_core.ir.geometry import axis_spans, extent, is_channelwise
from dory_core.schedule.bounds import (
    CopyCycles,
    Pieces,
    copy_cycles,
    cores_cycles,
    likely_cycles,
    link_cycles,
)
from dory_core.schedule.costs import LayerCosts
from dory_core.schedule.loops import Buffering
from dory_core.tiling.enumeration import even_sizes
from dory_core.tiling.problem import AXES, Formulation, TilingProblem
from dory_core.tiling.variants import Variant, bufferings, cheapest

# Steps of timelines that are walked for one layer before the search stops without a proof.
WALKED_STEPS = 60_000

# Tiles that are looked at; of a larger space only the common sizes.
LARGEST_SPACE = 1 << 18

#: What is proven about a tile, shown to users; and the tiles that it is about.
FASTEST = "no tile has fewer estimated cycles"
FASTEST_TRIED = "fastest of the evenly splitting tiles tried"
TRIED = {FASTEST: "no tile", FASTEST_TRIED: "no evenly splitting tile"}


def tile_space(variables: Sequence[Var]) -> dict[str, Any]:
    """Return all values of the variables as arrays, in descending lexicographic order."""
    domains = [variable.domain[::-1] for variable in variables]
    grids = np.meshgrid(*domains, indexing="ij")
    return {v.name: grid.ravel() for v, grid in zip(variables, grids, strict=True)}


def fastest(
    formulation: Formulation,
    budget_bytes: int,
    costs: LayerCosts,
    known: Variant,
    rival: int | None = None,
) -> tuple[Variant, str]:
    """Return the variant with the fewest estimated cycles, and what is proven about it.

    Args:
        formulation: The tiling problems of the layer.
        budget_bytes: The budget of L1.
        costs: The costs of the layer.
        known: A variant; a worse one is never returned.
        rival: Cycles of another kernel; the search ends where no tile undercuts them.
    """
    best = known
    walked = 0
    variables, proof = formulation.variables, FASTEST
    if prod(len(v.domain) for v in variables) > LARGEST_SPACE:
        variables = tuple(even_sizes(v) for v in variables)
        proof = FASTEST_TRIED
    space = _legal(formulation, variables, budget_bytes)
    if space is None:
        return best, proof
    bounds, sizes = _bounds(formulation, costs, space)
    for position in np.argsort(bounds, kind="stable"):
        bound = bounds[position]
        if bound >= _limit(best, rival):
            break
        values = {name: int(array[position]) for name, array in space.items()}
        if walked > WALKED_STEPS:
            return best, (
                f"the search stopped early: {TRIED[proof]} is estimated below {int(bound)} cycles, "
                f"this one needs {best.estimate.cycles}"
            )
        legal = _most_copies(formulation, [int(s[position]) for s in sizes], budget_bytes)
        walked += len(legal) * int(_steps(formulation, values))
        best = cheapest(formulation, ((b, values) for b in legal), costs, best) or best
    return best, proof


def _limit(best: Variant, rival: int | None) -> int:
    return best.estimate.cycles if rival is None else min(best.estimate.cycles, rival)


def _most_copies(formulation: Formulation, sizes: Sequence[int], budget: int) -> list[Buffering]:
    """Return the bufferings that fit and have no room for another copy.

    Args:
        formulation: The tiling problems of the layer.
        sizes: Bytes of one copy of each buffer of the formulation.
        budget: The budget of L1.
    """
    legal: list[Buffering] = []
    for buffering in reversed(bufferings(formulation)):  # most copies first
        copies = (buffering.of(b.name) for b in formulation.buffers)
        if sum(n * size for n, size in zip(copies, sizes, strict=True)) > budget:
            continue
        if not any(buffering.within(more) for more in legal):
            legal.append(buffering)
    return legal


def _steps(formulation: Formulation, values: dict[str, int]) -> Any:
    full, tile = extent(formulation.layer), formulation.concrete(values)
    count = ceil_div(full.c_out, tile.c_out) * ceil_div(full.h, tile.h) * ceil_div(full.w, tile.w)
    if is_channelwise(formulation.layer):
        return count
    return count * ceil_div(full.c_in, tile.c_in)


def promising(
    formulation: Formulation, budget_bytes: int, costs: LayerCosts, count: int
) -> list[tuple[Buffering, dict[str, int]]]:
    """Return evenly splitting tiles that are likely fast, with bufferings, the fastest first.

    Each tile has its likely fastest buffering, of equals that with the fewest copies.

    Args:
        formulation: The tiling problems of the layer.
        budget_bytes: The budget of L1.
        costs: The costs of the layer.
        count: How many are returned at most.
    """
    space = _legal(formulation, [even_sizes(v) for v in formulation.variables], budget_bytes)
    if space is None:
        return []
    compute, counts, once = _cycles(formulation, costs, space, blocks=0)
    shape = next(iter(space.values())).shape

    def cycles(buffering: Buffering) -> Any:
        used = evaluate(TilingProblem(formulation, budget_bytes, buffering).bytes_used, space)
        likely = likely_cycles(costs, counts, once, compute, buffering)
        return np.broadcast_to(np.where(used <= budget_bytes, likely, np.inf), shape)

    copies = bufferings(formulation)
    likely = np.stack([cycles(buffering) for buffering in copies])
    chosen = likely.argmin(axis=0)
    best = np.argsort(likely.min(axis=0), kind="stable")[:count]
    return [
        (copies[chosen[n]], {name: int(values[n]) for name, values in space.items()}) for n in best
    ]


def _legal(
    formulation: Formulation, variables: Sequence[Var], budget: int
) -> dict[str, Any] | None:
    """Return the values of the tiles that fit with one copy of each buffer, None without any."""
    if not variables:
        return None
    space = tile_space(variables)
    used = evaluate(TilingProblem(formulation, budget).bytes_used, space)
    keep = np.broadcast_to(used <= budget, next(iter(space.values())).shape)
    for constraint in formulation.constraints:
        keep = keep & (np.asarray(evaluate(constraint.condition, space)) != 0)
    return {name: values[keep] for name, values in space.items()} if keep.any() else None


def _bounds(
    formulation: Formulation, costs: LayerCosts, space: dict[str, Any]
) -> tuple[Any, list[Any]]:
    """Return lower bounds of the cycles of tiles, and the bytes of one copy of each buffer."""
    compute, counts, once = _cycles(formulation, costs, space, blocks=1)
    shape = next(iter(space.values())).shape
    bounds = np.broadcast_to(np.maximum(compute, link_cycles(costs, counts, once)), shape)
    return bounds, [np.broadcast_to(evaluate(b.bytes, space), shape) for b in formulation.buffers]


def _pieces(formulation: Formulation) -> list[Pieces]:
    """Return the tiles along each axis: full ones, and at most one border tile."""
    full, tile, last = extent(formulation.layer), formulation.tile, formulation.tile.last
    assert last is not None

    def of(total: int, *sizes: Number) -> Pieces:
        size = sizes[0]
        return (*sizes[:2], total // size), (*sizes[2:], total % size != 0)

    inputs = [(0, 0, 1)] if is_channelwise(formulation.layer) else None
    return [
        of(full.c_out, tile.c_out, tile.c_in, last.c_out, last.c_in),
        of(full.h, tile.h, tile.x_h, last.h, last.x_h),
        of(full.w, tile.w, tile.x_w, last.w, last.x_w),
        inputs or of(full.c_in, tile.c_in, 0, last.c_in, 0),
    ]


def _cycles(
    formulation: Formulation, costs: LayerCosts, space: dict[str, Any], blocks: int
) -> tuple[Any, list[Any], CopyCycles]:
    """Return the cycles of the cores, the number of tiles along AXES, and the cycles of copies.

    blocks: how many tiles of output channels count without their constants, because the last one
    may have few.
    """
    layer, tile = formulation.layer, formulation.tile
    full = extent(layer)
    counts = [evaluate(ceil_div(getattr(full, name), getattr(tile, name)), space) for name in AXES]
    rows = sum_of_input(layer, 0, evaluate(tile.h, space))
    columns = sum_of_input(layer, 1, evaluate(tile.w, space))
    constants = None
    if formulation.has_weights:
        block = evaluate(formulation.bound.weight_bytes(tile), space)
        constants = (counts[0] - blocks) * counts[3] * block
    compute = evaluate(cores_cycles(costs, _pieces(formulation)), space)
    return compute, counts, copy_cycles(costs, counts, rows, columns, constants)


def sum_of_input(layer: Layer, axis: int, size: Any) -> Any:
    """Return the input rows (axis 0) or columns (1) that all tiles of ``size`` read together."""
    total = layer.output.height if axis == 0 else layer.output.width
    table = [0] * (total + 1)
    for value in np.unique(size).tolist():
        table[value] = sum(span.x_size for span in axis_spans(layer, axis, value))
    return np.asarray(table, dtype=np.int64)[size]
