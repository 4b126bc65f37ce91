"""Resident tensors: they lie in L1 between layers, and are neither loaded nor stored.

A tensor can be resident when the layer that makes it has all of it in one tile, or whole rows of it
in each tile. The layers that read it next and have it in L1 as a whole find it there; it is also
stored where others read it, or it leaves the network. A layer of several tiles may be computed in
one, or in tiles of other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dory_core.planning.decision import Decision, Residency
from dory_core.planning.evaluate import Candidate
from dory_core.planning.layouts import LayoutPlan
from dory_core.planning.problem import Problem
from dory_core.planning.residents import ResidentPlanner, ResidentTensor
from dory_core.planning.steps import schedules_of
from dory_core.schedule.loops import Schedule
from dory_core.tiling.parts import split_is_whole
from dory_core.tiling.tiled import TiledLayer

NAME = "l1-residency"


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield the decision with resident tensors that save estimated cycles."""
    if problem.ctx.memory.resident_l1:
        yield with_residents(problem, candidate.decision, candidate.peak)


def with_residents(problem: Problem, decision: Decision, peak: int) -> Decision:
    """Return the decision with resident tensors.

    Args:
        problem: The network.
        decision: The decision, whose tiles and residents are chosen again.
        peak: Bytes of L2 within which constants are fetched early.
    """
    plain = decision.in_parts()
    arena = peak if decision.arena_bytes else 0
    return replace(plain, residency=_planned(problem, plain), arena_bytes=arena)


def in_other_parts(problem: Problem, candidate: Candidate, decision: Decision) -> Decision:
    """Return a decision that cuts layers in other parts than a candidate.

    It has resident tensors where the candidate has some.
    """
    if candidate.decision.residency is None:
        return decision.in_parts()
    return with_residents(problem, decision, decision.arena_bytes)


def _planned(problem: Problem, decision: Decision) -> Residency:
    network, flow = problem.network, problem.network.flow
    fused = [n for n, split in enumerate(decision.splits) if split.takes_turns]
    in_chains = {name for n in fused for name in (*flow.reads[n], flow.writes[n])}
    elsewhere = decision.in_l3 | decision.spilled | network.views.groups.keys() | in_chains
    tiled = problem.residency(decision).tiled

    def others(n: int) -> Sequence[TiledLayer]:
        return problem.tiling.layers[n].tilings[1:] if split_is_whole(decision.splits[n]) else ()

    def parts(n: int, one: TiledLayer) -> tuple[Schedule, ...]:
        return schedules_of(network.layers[n], one, network.parts_of(n, decision.splits[n]))

    planner = ResidentPlanner(
        network.layers,
        tiled,
        flow,
        problem.ctx.memory,
        problem.budgets.bytes[1],
        others,
        parts,
    )
    for kept in _candidates(tiled, flow):
        if kept.name not in elsewhere:
            planner.try_to_keep(kept)
    return planner.result()


def _candidates(tiled: Sequence[TiledLayer], flow: LayoutPlan) -> list[ResidentTensor]:
    """Return the tensors that may be resident, the largest ones first: they save most transfers.

    Of equals those of the shortest live ranges are first, which stand in the way of the fewest
    others. A tensor is there once for each number of layers that may find it.
    """
    elsewhere = {source for pairs in flow.before for source, _ in pairs} | set(flow.sinks)
    readers_of: dict[str, list[int]] = {name: [] for name in flow.writes}
    for n, reads in enumerate(flow.reads):
        for name in dict.fromkeys(reads):
            readers_of.setdefault(name, []).append(n)
    found: list[ResidentTensor] = []
    for maker, name in enumerate(flow.writes):
        readers = readers_of[name]
        for count, reader in enumerate(readers, 1):
            in_place = any(one.in_place for one in tiled[maker : reader + 1])
            if in_place or flow.reads[reader].count(name) > 1:
                break
            stored = name in elsewhere or count < len(readers)
            found.append(ResidentTensor(name, maker, tuple(readers[:count]), stored))
    sizes = flow.forms
    return sorted(
        found,
        key=lambda kept: (-sizes[kept.name].size_bytes, kept.last - kept.maker, kept.maker),
    )
