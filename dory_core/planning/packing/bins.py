"""Packing into several memories of one level: no block straddles two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dory_core.errors import DoesNotFit
from dory_core.plan.block_ids import BlockId
from dory_core.plan.blocks import (
    Bin,
    Packing,
    Request,
    align_up,
    fullest_step,
    live_at,
    owners,
    packing,
    with_slices,
)
from dory_core.planning.packing.exact import SOLVER_EFFORT, PlaceInBin, solve
from dory_core.planning.packing.heuristics import gap, lowest_place, neighbours, orders
from dory_core.planning.packing.one_memory import check_ids, plan_memory


def pack_bins(
    requests: Sequence[Request], bins: Sequence[Bin], effort: float = SOLVER_EFFORT
) -> dict[str, Packing]:
    """Return one packing per bin by its name, so that every block lies in one of them.

    Args:
        requests: The blocks, with their sizes in bytes and live ranges. Slices lie in their blocks.
        bins: In order of preference; a single one gives the plan of :func:`plan_memory`.
        effort: See :func:`optimal_packing`.
    """
    check_ids(requests)
    packings = _pack_owners(owners(requests), bins, effort)
    return {name: with_slices(packed, requests) for name, packed in packings.items()}


def _pack_owners(
    requests: Sequence[Request], bins: Sequence[Bin], effort: float
) -> dict[str, Packing]:
    for r in requests:
        _check_room(r, bins)
    if len(bins) == 1:
        packed = plan_memory(requests, bins[0].alignment).chosen
        if packed.peak_bytes > bins[0].usable_bytes:
            raise _does_not_fit(requests, bins, f"packed, they take {packed.peak_bytes}")
        return {bins[0].name: packed}
    smallest = min((b.alignment for b in bins), default=1)
    if fullest_step(requests, smallest)[1] > sum(b.usable_bytes for b in bins):
        raise _does_not_fit(requests, bins, "")
    places, method = _greedy(requests, bins), "best fit"
    if places is None:
        places, proven = solve(requests, bins, effort)
        method = "solver"
    if places is None:
        why = (
            "no placement keeps every block within one memory"
            if proven
            else "no placement was found within the effort"
        )
        raise _does_not_fit(requests, bins, why)
    return {b.name: _sunk(requests, b, places, method) for b in bins}


_HINT = "Give the level more memory, or let layers be tiled from the level below."


def _check_room(r: Request, bins: Sequence[Bin]) -> None:
    """Raise DoesNotFit when no empty bin takes the block."""
    if any(b.takes(r) for b in bins):
        return
    block = f"block '{r.id}' ({r.role}, {r.size_bytes} bytes, steps {r.first} to {r.last})"
    right_role = [b for b in bins if b.holds is None or r.role in b.holds]
    if not right_role:
        raise DoesNotFit(f"no memory of the level takes {r.role}: {block}", _HINT)
    raise DoesNotFit(f"{block} exceeds every memory of its role: {_sizes(right_role)}", _HINT)


def _sizes(bins: Sequence[Bin]) -> str:
    return ", ".join(f"{b.name} {b.size_bytes}" for b in bins)


def _does_not_fit(requests: Sequence[Request], bins: Sequence[Bin], why: str) -> DoesNotFit:
    step, total = fullest_step(requests)
    live = ", ".join(f"{r.id} {r.size_bytes}" for r in live_at(requests, step))
    reason = f"; {why}" if why else ""
    return DoesNotFit(
        f"step {step} needs {total} bytes at once ({live}) and the memories have "
        f"{sum(b.size_bytes for b in bins)} ({_sizes(bins)}){reason}",
        _HINT,
    )


def _sunk(
    requests: Sequence[Request], b: Bin, places: Mapping[BlockId, PlaceInBin], method: str
) -> Packing:
    """Return the blocks in a bin, each block as low as its order allows, which never raises one."""
    inside = [r for r in requests if places[r.id].bin == b.name]
    by_offset = sorted(inside, key=lambda r: (places[r.id].offset, r.id))
    return packing(inside, lowest_place(by_offset, b.alignment), b.alignment, method)


def _greedy(requests: Sequence[Request], bins: Sequence[Bin]) -> dict[BlockId, PlaceInBin] | None:
    """Place every block in the first bin with room for it, in several orders; None if none fits."""
    numbers, near = neighbours(requests)
    for order in orders(requests):
        for tight in (False, True):
            spans = {b.name: dict[int, tuple[int, int]]() for b in bins}
            for r in order:
                number = numbers[r.id]
                for b in (b for b in bins if b.takes(r)):
                    there, size = spans[b.name], align_up(r.size_bytes, b.alignment)
                    offset = gap(sorted(there[n] for n in near[number] if n in there), size, tight)
                    if offset + size <= b.usable_bytes:
                        there[number] = (offset, offset + size)
                        break
                else:
                    break  # no bin has room
            else:
                return {
                    r.id: PlaceInBin(name, there[numbers[r.id]][0])
                    for r in requests
                    for name, there in spans.items()
                    if numbers[r.id] in there
                }
    return None
