"""Packing into several memories of one level: no block straddles two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from dory_core.blocks import (
    Packing,
    Request,
    align_up,
    fullest_step,
    live_at,
    owners,
    packing,
    with_slices,
)
from dory_core.errors import DoesNotFit
from dory_core.planning.heuristics import Arena, lowest_place, neighbours, orders
from dory_core.planning.packing import SOLVER_EFFORT, check_names, plan_memory


class Bin(NamedTuple):
    """A memory to pack into. holds: roles that it takes, None for every role."""

    name: str
    size_bytes: int
    alignment: int
    holds: frozenset[str] | None = None

    def takes(self, request: Request) -> bool:
        """Return True when the block may lie here and is not larger than the memory."""
        return (self.holds is None or request.role in self.holds) and (
            align_up(request.size_bytes, self.alignment) <= self.usable_bytes
        )

    @property
    def usable_bytes(self) -> int:
        """Size rounded down to the alignment."""
        return self.size_bytes // self.alignment * self.alignment


@dataclass(frozen=True, slots=True)
class BinPlan:
    """Blocks of several memories: one Packing per bin, by the name of the bin."""

    packings: Mapping[str, Packing]

    def __post_init__(self) -> None:
        object.__setattr__(self, "packings", MappingProxyType(dict(self.packings)))


def pack_bins(
    requests: Sequence[Request],
    bins: Sequence[Bin | tuple[str, int, int]],
    effort: float = SOLVER_EFFORT,
) -> BinPlan:
    """Return a placement of every block in one of ``bins``, which are in order of preference.

    A bin is (name, size_bytes, alignment) or a :class:`Bin` with roles. One bin gives the plan of
    :func:`plan_memory`. effort: see :func:`optimal_packing`.

    Slices lie in their blocks. Raises DoesNotFit, naming the fullest step, its live blocks and
    their sizes.
    """
    check_names(requests)
    plan = _pack_owners(owners(requests), bins, effort)
    return BinPlan({name: with_slices(p, requests) for name, p in plan.packings.items()})


def _pack_owners(
    requests: Sequence[Request], bins: Sequence[Bin | tuple[str, int, int]], effort: float
) -> BinPlan:
    memories = tuple(Bin(*b) for b in bins)
    for r in requests:
        _check_room(r, memories)
    if len(memories) == 1:
        packed = plan_memory(requests, memories[0].alignment).chosen
        if packed.peak_bytes > memories[0].usable_bytes:
            raise _does_not_fit(requests, memories, f"packed, they take {packed.peak_bytes}")
        return BinPlan({memories[0].name: packed})
    smallest = min((b.alignment for b in memories), default=1)
    if fullest_step(requests, smallest)[1] > sum(b.usable_bytes for b in memories):
        raise _does_not_fit(requests, memories, "")
    places = _greedy(requests, memories)
    if places is not None:
        return _plan(requests, memories, places, "best fit")
    places, proven = _solve(requests, memories, effort)
    if places is None:
        why = (
            "no placement keeps every block within one memory"
            if proven
            else "no placement was found within the effort"
        )
        raise _does_not_fit(requests, memories, why)
    return _plan(requests, memories, places, "solver")


_HINT = "Give the level more memory, or let layers be tiled from the level below."


def _check_room(r: Request, bins: Sequence[Bin]) -> None:
    """Raise DoesNotFit when no empty bin takes the block."""
    if any(b.takes(r) for b in bins):
        return
    block = f"block '{r.name}' ({r.role}, {r.size_bytes} bytes, steps {r.first} to {r.last})"
    right_role = [b for b in bins if b.holds is None or r.role in b.holds]
    if not right_role:
        raise DoesNotFit(f"no memory of the level takes {r.role}: {block}", _HINT)
    raise DoesNotFit(f"{block} exceeds every memory of its role: {_sizes(right_role)}", _HINT)


def _sizes(bins: Sequence[Bin]) -> str:
    return ", ".join(f"{b.name} {b.size_bytes}" for b in bins)


def _does_not_fit(requests: Sequence[Request], bins: Sequence[Bin], why: str) -> DoesNotFit:
    step, total = fullest_step(requests)
    live = ", ".join(f"{r.name} {r.size_bytes}" for r in live_at(requests, step))
    reason = f"; {why}" if why else ""
    return DoesNotFit(
        f"step {step} needs {total} bytes at once ({live}) and the memories have "
        f"{sum(b.size_bytes for b in bins)} ({_sizes(bins)}){reason}",
        _HINT,
    )


class _Place(NamedTuple):
    bin: str
    offset: int


def _plan(
    requests: Sequence[Request],
    bins: Sequence[Bin],
    places: Mapping[str, _Place],
    method: str,
) -> BinPlan:
    packings = {}
    for b in bins:
        inside = [r for r in requests if places[r.name].bin == b.name]
        inside_by_offset = sorted(inside, key=lambda r: (places[r.name].offset, r.name))
        sunk = lowest_place(inside_by_offset, b.alignment)  # never raises a block
        packings[b.name] = packing(inside, sunk, b.alignment, method)
    return BinPlan(packings)


def _greedy(requests: Sequence[Request], bins: Sequence[Bin]) -> dict[str, _Place] | None:
    """Place every block in the first bin with room for it, in several orders; None if none fits."""
    near = neighbours(requests)
    for order in orders(requests):
        for tight in (False, True):
            arenas = {b.name: Arena(b.alignment, near) for b in bins}
            if all(
                any(
                    b.takes(r) and arenas[b.name].place(r, tight=tight, limit=b.usable_bytes)
                    for b in bins
                )
                for r in order
            ):
                return {
                    block: _Place(name, offset)
                    for name, arena in arenas.items()
                    for block, offset in arena.offsets.items()
                }
    return None


def _solve(
    requests: Sequence[Request], bins: Sequence[Bin], effort: float
) -> tuple[dict[str, _Place] | None, bool]:
    """Find a placement with CP-SAT. Returns (places or None, proven infeasible when None)."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    chosen: dict[str, list[tuple[Bin, cp_model.IntVar, cp_model.IntVar]]] = {
        r.name: [] for r in requests
    }
    for b in bins:
        rows, columns = [], []
        for r in (r for r in requests if b.takes(r)):
            size = align_up(r.size_bytes, b.alignment) // b.alignment
            inside = model.new_bool_var(f"{r.name} in {b.name}")
            offset = model.new_int_var(0, b.usable_bytes // b.alignment - size, r.name)
            model.add(offset == 0).only_enforce_if(~inside)
            life = r.last - r.first + 1
            rows.append(model.new_optional_fixed_size_interval_var(offset, size, inside, r.name))
            columns.append(
                model.new_optional_fixed_size_interval_var(r.first, life, inside, r.name)
            )
            chosen[r.name].append((b, inside, offset))
        model.add_no_overlap_2d(columns, rows)
    for options in chosen.values():
        model.add_exactly_one(inside for _, inside, _ in options)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = effort
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, status == cp_model.INFEASIBLE
    return {
        name: _Place(b.name, solver.value(offset) * b.alignment)
        for name, options in chosen.items()
        for b, inside, offset in options
        if solver.value(inside)
    }, True
