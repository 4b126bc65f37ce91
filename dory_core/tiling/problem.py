"""The tiling problem of one layer and kernel: variables, constraints, memory and objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import Any

from dory_core.expr import Apply, Expr, Number, Var, evaluate, to_text
from dory_core.ir import Layer
from dory_core.ir.geometry import (
    Tile,
    evaluate_tile,
    extent,
    input_granule,
    is_channelwise,
    make_tile,
    with_border,
)
from dory_core.kernels.bound_kernel import BoundKernel
from dory_core.kernels.kernel import Constraint, Kernel, Term
from dory_core.schedule.boxes import tile_granule
from dory_core.schedule.loops import Buffering, L1Buffer, l1_buffers
from dory_core.schedule.tiling import ExplainedTerm, Tiling
from dory_core.tiling.enumeration import Limit, Sum

# Constraints on the tile in addition to the kernel's own.
Conditions = Callable[[Tile], Sequence[Constraint]]

# Terms of one tile, whose sizes are expressions and whose ``last`` is the border tile.
Terms = Callable[[Tile], Sequence[Term]]

# Order of the tile sizes in the tie-break: the lexicographically largest tile wins.
AXES = ("c_out", "h", "w", "c_in")

SINGLE = Buffering(1, 1, 1)


@dataclass(frozen=True, slots=True)
class Formulation:
    """The tiling problems of one layer and kernel, without budget and buffering.

    Attributes:
        layer: The layer, or the largest part of one.
        bound: The kernel.
        tile: Sizes as expressions (plain integers along axes that cannot be tiled), with border
            tile.
        variables: The sizes that are searched, in the order of AXES.
        buffers: Their sizes in L1, each with one copy.
        constraints: The conditions on a tile.
        terms: The objective.
        limits: The constraints as limits of sums.
        double_buffers: Whether a buffer may have two copies.
    """

    layer: Layer
    bound: BoundKernel
    tile: Tile
    variables: tuple[Var, ...]
    buffers: tuple[L1Buffer, ...]
    constraints: tuple[Constraint, ...]
    terms: tuple[Term, ...]
    limits: tuple[Limit, ...]
    double_buffers: bool = True

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.bound.kernel

    def with_copies(self, buffering: Buffering) -> tuple[L1Buffer, ...]:
        """Return the buffers with the copies of a buffering."""
        return tuple(replace(b, copies=buffering.of(b.name)) for b in self.buffers)

    @property
    def has_weights(self) -> bool:
        """True when the kernel has constants that must be loaded."""
        return any(b.name == "w" for b in self.buffers)

    def concrete(self, values: dict[str, int]) -> Tile:
        """Return the tile with the given values of the variables, as integers."""
        return evaluate_tile(self.tile, lambda size: int(evaluate(size, values)))


@dataclass(frozen=True, slots=True)
class TilingProblem:
    """The search for the best tile of a formulation.

    Attributes:
        formulation: Buffers, conditions and terms as expressions of the tile's sizes.
        budget_bytes: Bytes of L1.
        buffering: Copies of each buffer.
    """

    formulation: Formulation
    budget_bytes: int
    buffering: Buffering = SINGLE

    @property
    def buffers(self) -> tuple[L1Buffer, ...]:
        """The buffers in L1 as expressions, with their copies."""
        return self.formulation.with_copies(self.buffering)

    @property
    def bytes_used(self) -> Number:
        """Bytes of all buffers, a number or an expression."""
        return sum(b.total for b in self.buffers)


def formulate(
    layer: Layer,
    bound: BoundKernel,
    terms: Terms | None = None,
    conditions: Conditions | None = None,
    double_buffers: bool = True,
) -> Formulation:
    """Return the tiling problems of a layer on a kernel.

    Args:
        layer: The layer, or the largest part of one.
        bound: The kernel.
        terms: The objective terms of a tile.
        conditions: The constraints on a tile in addition to the kernel's own.
        double_buffers: Whether a buffer may have two copies.
    """
    traits, full = bound.traits, extent(layer)
    c_out = _axis("c_out", full.c_out, tile_granule(layer, traits))
    c_in: Number = full.c_in
    w: Number = full.w
    if traits.is_hwc:
        w = _axis("w", full.w, 1)
        if not is_channelwise(layer) and traits.accumulates:
            c_in = _even_parts("c_in", full.c_in, input_granule(layer))
    sizes = (c_out, _axis("h", full.h, 1), w, c_in)
    tile = with_border(layer, make_tile(layer, *sizes))
    constraints = bound.constraints(tile)
    if conditions is not None:
        constraints += tuple(conditions(tile))
    chosen = tuple(terms(tile)) if terms is not None else ()
    return Formulation(
        layer,
        bound,
        tile,
        tuple(s for s in sizes if isinstance(s, Var)),
        l1_buffers(layer, bound, tile, SINGLE),
        constraints,
        chosen,
        tuple(_limit(c.condition) for c in constraints),
        double_buffers,
    )


def _even_parts(name: str, size: int, granule: int) -> Number:
    """Return the variable of an axis that is only split into parts as equal as possible.

    Every input-channel tile adds a pass over the partial sums, so only the number of tiles counts:
    of the sizes with the same number the smallest one, in whole words of 4 elements, needs the
    least memory.
    """
    step = lcm(granule, 4)
    parts = (-(-size // n) for n in range(1, size + 1))
    values = sorted({min(-(-part // step) * step, size) for part in parts})
    return Var(name, values[0], size, values) if len(values) > 1 else size


def doubled_weight(term: Term) -> int:
    """Return twice the weight of ``term``, an integer."""
    return int(term.weight * 2)


def _axis(name: str, size: int, granule: int) -> Number:
    """Return the variable of an axis: multiples of ``granule`` and the full size."""
    values = [*range(granule, size, granule), size]
    return Var(name, values[0], size, values) if len(values) > 1 else size


_RANGES: dict[str, tuple[int | None, int | None]] = {
    "<": (None, -1),
    "<=": (None, 0),
    ">": (1, None),
    ">=": (0, None),
    "==": (0, 0),
}


def _limit(condition: Any) -> Limit:
    """Return the condition "not zero" as limits of a sum."""
    if isinstance(condition, Apply) and condition.kind in _RANGES:
        left, right = condition.args
        return (Sum([(left, 1), (right, -1)]), *_RANGES[condition.kind])
    if isinstance(condition, Expr) and condition.bounds[0] < 0:
        condition = condition != 0
    return (Sum([(condition if isinstance(condition, Expr) else bool(condition), 1)]), 1, None)


def make_tiling(problem: TilingProblem, values: dict[str, int], proof: str) -> Tiling:
    """Return the Tiling for the given values of the variables."""
    formulation = problem.formulation
    buffers = tuple(replace(b, bytes=int(evaluate(b.bytes, values))) for b in problem.buffers)
    return Tiling(
        formulation.concrete(values),
        problem.buffering,
        tuple(b for b in buffers if b.bytes),
        problem.budget_bytes,
        tuple(
            ExplainedTerm(t.name, t.weight, int(evaluate(t.value, values)), to_text(t.value))
            for t in formulation.terms
        ),
        proof,
    )
