"""The exact packing: blocks are rectangles, lifetime x bytes, in one memory or in several."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from dory_core.plan.block_ids import BlockId
from dory_core.plan.blocks import Bin, Request, align_up

# Solver effort in deterministic units, which do not depend on the machine: the same input always
# gives the same packing. A quarter proves 50 dense random blocks and ends 300 within a second.
SOLVER_EFFORT = 0.25


class PlaceInBin(NamedTuple):
    """Where a block lies.

    Attributes:
        bin: Name of the memory.
        offset: Bytes from its start.
    """

    bin: str
    offset: int


def solve(
    requests: Sequence[Request],
    bins: Sequence[Bin],
    effort: float,
    start: Mapping[BlockId, int] | None = None,
    least_bytes: int = 0,
    fixed: Mapping[BlockId, int] = MappingProxyType({}),
) -> tuple[dict[BlockId, PlaceInBin] | None, bool]:
    """Return (a place of every block or None, whether that is proven), found by CP-SAT.

    Args:
        requests: The blocks, with their sizes in bytes and live ranges.
        bins: The memories to pack into.
        effort: Limit of the solver in deterministic units.
        start: Offsets in the only bin that are known, and need all of it: then the peak is made the
            smallest, from ``least_bytes`` on, and None says that nothing better was found.
        least_bytes: A peak that no packing goes below.
        fixed: Offsets of blocks that stay where they are, in the only bin.
    """
    cp_model = _solver()
    model = cp_model.CpModel()
    peak = None
    if start is not None:
        (only,) = bins
        highest = only.usable_bytes // only.alignment
        peak = model.new_int_var(least_bytes // only.alignment, highest, "peak")
    chosen: dict[BlockId, list[tuple[Bin, Any, Any]]] = {r.id: [] for r in requests}
    for b in bins:
        rows, columns = [], []
        for r in (r for r in requests if b.takes(r)):
            size, life = align_up(r.size_bytes, b.alignment) // b.alignment, r.last - r.first + 1
            inside = model.new_bool_var(f"{r.id} in {b.name}") if len(bins) > 1 else None
            lowest, uppermost = 0, b.usable_bytes // b.alignment - size
            if r.id in fixed:
                lowest = uppermost = fixed[r.id] // b.alignment
            offset = model.new_int_var(lowest, uppermost, r.id.text)
            chosen[r.id].append((b, inside, offset))
            if inside is None:
                rows.append(model.new_fixed_size_interval_var(offset, size, r.id.text))
                columns.append(model.new_fixed_size_interval_var(r.first, life, r.id.text))
            else:
                model.add(offset == 0).only_enforce_if(~inside)
                for intervals, at, length in ((rows, offset, size), (columns, r.first, life)):
                    intervals.append(
                        model.new_optional_fixed_size_interval_var(at, length, inside, r.id.text)
                    )
            if peak is not None and start is not None:
                model.add(offset + size <= peak)
                model.add_hint(offset, start[r.id] // b.alignment)
        model.add_no_overlap_2d(columns, rows)
    for options in chosen.values() if len(bins) > 1 else ():
        model.add_exactly_one(inside for _, inside, _ in options if inside is not None)
    if peak is not None:
        model.minimize(peak)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = effort
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, status == cp_model.INFEASIBLE
    proven = status == cp_model.OPTIMAL
    if peak is not None and solver.value(peak) >= highest:
        return None, proven
    return {
        block: PlaceInBin(b.name, solver.value(offset) * b.alignment)
        for block, options in chosen.items()
        for b, inside, offset in options
        if inside is None or solver.value(inside)
    }, proven


def _solver() -> Any:
    """Return the module of CP-SAT.

    TensorFlow exports the symbols of its own abseil and protobuf. Where it is imported first, the
    libraries of ortools would call those and crash; RTLD_DEEPBIND makes them prefer their own.
    """
    if "tensorflow" not in sys.modules or not hasattr(os, "RTLD_DEEPBIND"):
        from ortools.sat.python import cp_model

        return cp_model
    usual = sys.getdlopenflags()
    sys.setdlopenflags(usual | os.RTLD_DEEPBIND)
    try:
        from ortools.sat.python import cp_model
    finally:
        sys.setdlopenflags(usual)
    return cp_model
