"""The best tile of a tiling problem, proven optimal by enumeration, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dory_core.errors import DoesNotFit
from dory_core.kernels.call import OPERANDS
from dory_core.schedule.loops import Buffering
from dory_core.tiling.enumeration import Sum, best_values, is_small
from dory_core.tiling.problem import (
    SINGLE,
    Formulation,
    TilingProblem,
    doubled_weight,
    make_tiling,
)

OPTIMAL = "proven optimal for the objective and constraints, largest tile among equals"
OPTIMAL_TRIED = "best of the evenly splitting tiles, the largest tile among equals"
#: Sums stay inside int64 with a margin.
SAFE_MAGNITUDE = 1 << 61


def proof(formulation: Formulation) -> str:
    """Return the proof of the tiles that :func:`solve` returns."""
    return OPTIMAL if is_small(formulation.variables) else OPTIMAL_TRIED


def solve(
    formulation: Formulation, budget_bytes: int, copies: Sequence[Buffering] = (SINGLE,)
) -> dict[Buffering, dict[str, int]]:
    """Return the values of the tile with the highest objective for each buffering that fits.

    Among equals the lexicographically largest (c_out, h, w, c_in) is taken.

    Args:
        formulation: The tiling problems of the layer.
        budget_bytes: The budget of L1.
        copies: The bufferings.
    """
    objective = [(t.value, doubled_weight(t)) for t in formulation.terms]
    if _magnitude(objective) >= SAFE_MAGNITUDE:
        raise OverflowError("the objective of a tiling problem exceeds integers of 64 bits")
    sizes = [Sum([(buffer.bytes, 1)]) for buffer in formulation.buffers]
    numbers = [[one.of(buffer.name) for buffer in formulation.buffers] for one in copies]
    found = _best(formulation, objective, sizes, numbers, budget_bytes)
    return {one: v for one, v in zip(copies, found, strict=True) if v is not None}


def _best(
    formulation: Formulation,
    objective: list[tuple[Any, int]],
    sizes: Sequence[Sum] = (),
    copies: Sequence[Sequence[int]] = ((),),
    budget: int = 0,
) -> list[dict[str, int] | None]:
    """Return the values with the highest objective for each number of copies of the buffers."""
    if formulation.variables:
        found = best_values(
            formulation.variables, Sum(objective), formulation.limits, sizes, copies, budget
        )
        return [None if one is None else one[1] for one in found]
    legal = all(
        (lo is None or total.const >= lo) and (hi is None or total.const <= hi)
        for total, lo, hi in formulation.limits
    )
    used = [sum(n * s.const for n, s in zip(one, sizes, strict=True)) for one in copies]
    return [{} if legal and size <= budget else None for size in used]


def _magnitude(terms: list[tuple[Any, int]]) -> int:
    total = 0
    for value, factor in terms:
        lo, hi = value.bounds if hasattr(value, "bounds") else (int(value), int(value))
        total += abs(factor) * max(abs(lo), abs(hi))
    return total


@dataclass(frozen=True, slots=True)
class Smallest:
    """The legal tile that needs the least memory.

    Attributes:
        bytes: Of all its buffers.
        dominant: Name of its largest buffer.
        dominant_bytes: Size of that buffer.
    """

    bytes: int
    dominant: str
    dominant_bytes: int


def smallest_tile(problem: TilingProblem) -> Smallest | None:
    """Return the least memory of any legal tile, None when the constraints exclude every tile."""
    (values,) = _best(problem.formulation, [(b.bytes, -b.copies) for b in problem.buffers])
    if values is None:
        return None
    tiling = make_tiling(problem, values, "")
    largest = max(tiling.buffers, key=lambda b: int(b.total))
    return Smallest(tiling.used_bytes, largest.name, int(largest.total))


_BUFFER_NAMES = {
    "x": "input tile",
    "x2": "tile of the second input",
    **{name: f"tile of input {n}" for n, name in enumerate(OPERANDS[2:], 3)},
    "w": "weights of the tile",
    "y": "output tile",
    "psum": "partial sums",
    "scratch": "kernel's scratch memory",
}


def does_not_fit(problem: TilingProblem) -> DoesNotFit:
    """Return the error that explains why no tile fits."""
    layer, kernel = problem.formulation.layer.op, problem.formulation.kernel
    smallest = smallest_tile(problem)
    if smallest is None:
        reasons = "; ".join(dict.fromkeys(c.reason for c in problem.formulation.constraints))
        return DoesNotFit(
            f"{layer.kind} '{layer.name}': no tile obeys the constraints of {kernel.name}: "
            f"{reasons}",
            "another kernel or another layer shape is needed; more memory does not help",
        )
    return DoesNotFit(
        f"{layer.kind} '{layer.name}' does not fit L1: the smallest legal tile of "
        f"{kernel.name} needs {smallest.bytes} bytes, {problem.budget_bytes} are available; "
        f"the largest buffer is the {_BUFFER_NAMES.get(smallest.dominant, smallest.dominant)} "
        f"({smallest.dominant}, {smallest.dominant_bytes} bytes)",
        f"raise the L1 budget to {smallest.bytes} bytes or more, or make the layer smaller",
        smallest.bytes,
    )
