"""Parts of a layer that follow one another: what one of them leaves in L1 for the next.

A part finds its inputs where the part before has loaded the same ones. Its first constants may be
on their way when it begins: the part before starts their load into a copy of the buffer that it
does not use any more. For that they have to be in L2 one part earlier. Of constants that come from
the level below, those alone are loaded so for which the cores would not wait.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from dory_core.hardware.memories import MemoryHierarchy
from dory_core.kernels.kernel import OPERANDS
from dory_core.plan import LayerStep, PartPlan
from dory_core.planning.residence import Residency
from dory_core.planning.sequence import PartSequence, Run
from dory_core.schedule.costs import LayerCosts, first_weights
from dory_core.schedule.loops import Schedule, l1_buffers
from dory_core.schedule.timeline import AheadLoad, PartTimeline, part_timeline

#: By layer, the numbers of the parts whose first constants the part before can load.
Joined = Mapping[int, frozenset[int]]


def same_inputs(schedules: Sequence[Schedule], runs: Sequence[Run]) -> list[bool]:
    """Return for each part of a layer whether the part before has the same inputs in L1.

    That is so where both have them in one tile.
    """
    one_tile = all(s.counts[1:] == (1, 1, 1) and not s.is_channelwise for s in schedules)
    found = [False]
    for before, run in pairwise(runs):
        same = run.inputs == before.inputs
        found.append(one_tile and same and run.part.stripe_span == before.part.stripe_span)
    return found


def joined_parts(
    parts: Sequence[PartPlan], same: Sequence[bool], joined: Collection[int]
) -> tuple[PartPlan, ...]:
    """Return the parts of a layer with what each leaves for the next.

    same: for each part, whether the part before has its inputs. joined: numbers of the parts whose
    first constants the part before loads.
    """
    found, copy = [], 0
    for number, part in enumerate(parts):
        schedule, w_copy = part.schedule, copy if number in joined else 0
        loads = [step.index for step in schedule.steps() if step.load_w]
        copy = (w_copy + len(loads)) % schedule.buffering.w
        ahead = loads[-1] if number + 1 in joined else None
        found.append(replace(part, finds_inputs=same[number], w_copy=w_copy, ahead=ahead))
    return tuple(found)


def joined_timelines(
    costs: LayerCosts,
    resident: Collection[str],
    parts: Sequence[PartPlan],
    arrives: float | None,
    load: AheadLoad | None,
) -> tuple[PartTimeline, ...]:
    """Return the timeline of each part of a layer; equal parts share one.

    Args:
        costs: The costs of the layer.
        resident: Tensors that lie in L1 and are not moved.
        parts: The parts of the layer.
        arrives: Of the first part, see ``part_timeline``.
        load: The load for a later layer that the last part starts.
    """
    known: dict[tuple[Schedule, bool, float | None, AheadLoad | None], PartTimeline] = {}
    found = []
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        starts = load if following is None else None
        if part.ahead is not None and following is not None:
            charge = first_weights(costs, following.schedule)
            starts = AheadLoad(costs.layer.op.index, part.ahead, charge)
        key = (part.schedule, part.finds_inputs, arrives, starts)
        if key not in known:
            there = {*resident, *OPERANDS} if part.finds_inputs else resident
            known[key] = part_timeline(costs, part.schedule, there, arrives, starts)
        found.append(known[key])
        arrives = found[-1].left if part.ahead is not None else None
    return tuple(found)


def can_be_joined(
    steps: Sequence[LayerStep], residency: Residency, hierarchy: MemoryHierarchy
) -> Joined:
    """Return the parts whose first constants the part before could load."""
    if hierarchy.link(1).blocking or hierarchy.constants_link.blocking:
        return {}  # nothing overlaps
    found = {}
    for n, (step, one) in enumerate(zip(steps, residency.tiled, strict=True)):
        carriage = step.carriages.get("w")
        by_dma = carriage is not None and not carriage.by_cores and step.block("w") is not None
        if step.has_parts_in_a_row and by_dma and one.schedule.buffering.w > 1:
            found[n] = frozenset(range(1, len(step.parts)))
    return found


def with_two_copies(residency: Residency, parts: Sequence[int], budget_bytes: int) -> Residency:
    """Return the layers with two copies of the buffer of constants where L1 has room for them.

    parts: how many each layer has; only those of several parts change. budget_bytes: of L1.
    """
    tiled = list(residency.tiled)
    for n, (one, stay) in enumerate(zip(tiled, residency.stays, strict=True)):
        copies = one.schedule.buffering
        if parts[n] == 1 or stay.offsets or one.in_place or one.view or copies.w > 1:
            continue
        more = replace(copies, w=2)
        buffers = l1_buffers(one.layer, one.bound, one.tiling.tile, more)
        if sum(int(buffer.total) for buffer in buffers) <= budget_bytes:
            tiled[n] = replace(one, schedule=replace(one.schedule, buffering=more))
    return replace(residency, tiled=tuple(tiled))


def only_of(joined: Joined, changed: Residency, residency: Residency) -> Residency:
    """Return the layers, changed where parts are joined."""
    pairs = zip(residency.tiled, changed.tiled, strict=True)
    tiled = tuple(new if n in joined else old for n, (old, new) in enumerate(pairs))
    return replace(residency, tiled=tiled)


def unless_waiting(joined: Joined, program: PartSequence, waits: Mapping[str, float]) -> Joined:
    """Return the joined parts for whose constants nobody waits. waits: cycles by block."""
    found = {}
    for n, parts in joined.items():
        runs = program.runs_of(n)
        left = frozenset(k for k in parts if not waits.get(runs[k].weights or ""))
        if left:
            found[n] = left
    return found


def fetched_earlier(program: PartSequence, joined: Joined) -> PartSequence:
    """Return a network that waits for fetched constants before the part that loads them."""
    use = {fetch.block: fetch.use for fetch in program.fetches}
    for n, parts in joined.items():
        for position in (program.first[n] + part for part in parts):
            block = program.runs[position].weights
            if block is not None:
                use[block] = min(use[block], position - 1)
    fetches = [fetch._replace(use=use[fetch.block]) for fetch in program.fetches]
    return replace(program, fetches=fetches)
