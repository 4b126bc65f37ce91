"""Parts of a layer load the first constants of the next part.

The previous part starts the load into a copy of the buffer that it does not use any more. For that
the constants have to be in L2 one part earlier: of those that come from L3, only those are loaded
so for which the cores would not wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dory_core.hardware.memories import MemoryHierarchy
from dory_core.plan import LayerStep
from dory_core.planning.decision import Decision, Joined, Residency
from dory_core.planning.evaluate import Candidate
from dory_core.planning.problem import Problem
from dory_core.schedule.loops import l1_buffers


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield the decision with joined parts whose constants are there in time."""
    hierarchy, decision = problem.ctx.memory, candidate.decision
    if not decision.streamed:
        return
    parts = [len(step.parts) for step in candidate.steps]
    doubled = with_two_copies(candidate.residency, parts, problem.budgets.bytes[1])
    every = can_be_joined(candidate.steps, doubled, hierarchy)
    for joined in (in_time(every, candidate), every):
        if joined:
            residency = only_of(joined, doubled, candidate.residency)
            yield replace(decision, residency=residency, joined=joined)


def in_time(joined: Joined, candidate: Candidate) -> Joined:
    """Return the joined parts whose constants are in L2 before the previous part begins."""
    found = {}
    for n, parts in joined.items():
        runs, timelines = candidate.program.runs_of(n), candidate.steps[n].timelines
        slacks = {k: candidate.slack.get(block) for k in parts if (block := runs[k].weights)}
        left = frozenset(
            k for k in parts if (slacks.get(k) or 0.0) >= timelines[k - 1].estimate.cycles
        )
        if left:
            found[n] = left
    return found


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

    Args:
        residency: The layers.
        parts: Number of parts of each layer; only those of several parts change.
        budget_bytes: Bytes of L1.
    """
    tiled = list(residency.tiled)
    for n, (one, stay) in enumerate(zip(tiled, residency.layers, strict=True)):
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
