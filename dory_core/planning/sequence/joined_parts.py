"""Parts of a layer that follow one another: what one of them leaves in L1 for the next.

A part finds its inputs where the part before has loaded the same ones. Its first constants may be
in flight when it begins: the part before starts their load into a copy of the buffer that it does
not use any more. For that they have to be in L2 one part earlier. Of constants that come from the
level below, only those are loaded so for which the cores would not wait.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from dory_core.kernels.call import OPERANDS
from dory_core.plan import PartPlan
from dory_core.planning.decision import Joined
from dory_core.planning.sequence.part_sequence import PartSequence, Run
from dory_core.schedule.costs import LayerCosts, first_weights
from dory_core.schedule.loops import Schedule
from dory_core.schedule.timeline import AheadLoad, PartTimeline, part_timeline


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

    Args:
        parts: The parts, in order.
        same: For each part, whether the part before has its inputs.
        joined: Numbers of the parts whose first constants the part before loads.
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
