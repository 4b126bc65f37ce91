"""Weight prefetch: constants are loaded into L1 while the previous layer computes.

The first block of a layer's constants depends on no other layer. Its load can start once the
previous layer has issued its own transfers, where L1 has room next to the buffers of that layer.
The block takes room in two layers, so the places of the blocks of neighbours differ: they are
chosen together, as the shortest path through the layers, whose length is the estimated cycles.
Resident tensors lie either as low as possible or at the end of L1; the better one is taken for all
of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dory_core.hardware.links import WORD_BYTES
from dory_core.hardware.memories import MemoryHierarchy
from dory_core.plan.blocks import align_up, level_alignment
from dory_core.planning.decision import Decision, Residency
from dory_core.planning.evaluate import Candidate
from dory_core.planning.prefetch_layers import PrefetchLayer, buffer_bytes
from dory_core.planning.problem import Problem
from dory_core.schedule.costs import first_weights
from dory_core.schedule.loops import L1_ALIGNMENT
from dory_core.schedule.timeline import AheadLoad
from dory_core.tiling.parts import split_is_whole

NAME = "weight-prefetch"

#: Ways through the layers so far that are looked at further, the cheapest ones.
_WAYS = 8

#: By the layer that starts a load: the layer that it is for, and the load.
Prefetches = dict[int, tuple[int, AheadLoad]]


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield the decision with weight prefetch where that saves estimated cycles."""
    decision = _with_prefetches(problem, candidate.decision, _there_in_time(candidate))
    if decision.prefetches:
        yield decision


def _there_in_time(candidate: Candidate) -> frozenset[int]:
    """Return the layers whose fetched constants are in L2 before the layer before them begins."""
    program, steps = candidate.program, candidate.steps
    fetches = {fetch.block: fetch for fetch in program.fetches}
    found = set[int]()
    for before, n in pairwise(n for n, step in enumerate(steps) if not step.is_view):
        block, begin = program.runs_of(n)[0].weights, program.first[before]
        if block is None or (fetch := fetches[block]).start >= begin:
            continue
        waits_later = fetch.use > begin
        needed = steps[before].estimate.cycles if waits_later else 0.0
        if candidate.slack[block] >= needed:
            found.add(n)
    return frozenset(found)


def _with_prefetches(problem: Problem, decision: Decision, there: Collection[int]) -> Decision:
    """Return the decision with weight prefetch.

    Args:
        problem: The network.
        decision: The decision, without weight prefetch.
        there: Layers whose fetched constants are in L2 before the layer before them begins.
    """
    hierarchy, network = problem.ctx.memory, problem.network
    residency = problem.residency(decision)
    alone = replace(residency, on_top=())
    if hierarchy.link(1).blocking or hierarchy.constants_link.blocking:
        return decision  # nothing overlaps
    whole, late = [], []
    for n, (split, one) in enumerate(zip(decision.splits, residency.tiled, strict=True)):
        if not split.takes_turns and split_is_whole(split):
            whole.append(n)
            if decision.streamed and n not in there and problem.fetched(n, one, split):
                late.append(n)
    ways = [alone]
    if residency.on_top:
        ways.append(replace(alone, layers=residency.on_top))
    writes, budget = network.flow.writes, problem.budgets.bytes[1]
    found = [_plan(way, writes, whole, late, hierarchy, budget) for way in ways]
    _, placed, loads = min(found, key=lambda way: way[0])
    return replace(decision, residency=placed, prefetches=loads)


def _plan(
    residency: Residency,
    writes: Sequence[str],
    whole: Collection[int],
    late: Collection[int],
    hierarchy: MemoryHierarchy,
    budget_bytes: int,
) -> tuple[int, Residency, Prefetches]:
    """Return the cycles of all rows of layers, with the places of their buffers and their loads."""
    total = 0
    loads: Prefetches = {}
    stays = list(residency.layers)
    unit = max(L1_ALIGNMENT, level_alignment(hierarchy, 1))
    kept = {
        name: buffer_bytes(one, stay, unit)["y"]
        for name, one, stay in zip(writes, residency.tiled, stays, strict=True)
        if stay.leaves
    }
    for run in _runs(residency, whole):
        layers = [
            PrefetchLayer(
                n, residency.tiled[n], stays[n], n not in late, kept, hierarchy, budget_bytes
            )
            for n in run
        ]
        cycles, found = _cheapest_path(layers)
        total += cycles
        for one, layer, behind in zip(found, layers, [*layers[1:], None], strict=True):
            if one.offsets is not None:
                stays[layer.n] = replace(layer.stay, offsets=one.offsets)
            if one.load is not None and behind is not None:
                loads[layer.n] = (behind.n, one.load)
    return total, replace(residency, layers=tuple(stays)), loads


def _runs(residency: Residency, whole: Collection[int]) -> Iterator[list[int]]:
    """Yield the longest rows of layers of which each may load for the next one."""
    run: list[int] = []
    for n, one in enumerate(residency.tiled):
        if one.view:
            continue  # nothing runs
        if n in whole and not one.in_place:
            run.append(n)
            continue
        if run:
            yield run
        run = []
    if run:
        yield run


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to compute the layers up to one.

    Attributes:
        cycles: Of the layers before it.
        arrives: Cycles until its first constants are there, None: it loads them.
        weights: Where its constants lie in L1 when they are loaded ahead.
        before: The way to the layer before.
        load: What that layer starts.
        offsets: Where its buffers lie; None: where they were.
        top: Bytes of L1 from its start that the layers before it use.
    """

    cycles: int
    arrives: float | None = None
    weights: int | None = None
    before: _Way | None = None
    load: AheadLoad | None = None
    offsets: Mapping[str, int] | None = None
    top: int = 0

    @property
    def length(self) -> float:
        return self.cycles + (self.arrives or 0.0)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a layer loads for the next one, and the places of its buffers.

    Attributes:
        load: The load of the next layer's first block of constants, None for none.
        offsets: Bytes from the start of L1 by buffer; None where the buffers stay where they were.
    """

    load: AheadLoad | None
    offsets: Mapping[str, int] | None


def _cheapest_path(layers: Sequence[PrefetchLayer]) -> tuple[int, list[_Found]]:
    """Return the cycles of the cheapest way, and what each layer does on it."""
    ways = [_Way(0)]
    for one, following in zip(layers, [*layers[1:], None], strict=True):
        ways = _cheapest_ways(_steps(ways, one, following))
    found: list[_Found] = []
    best = way = min(ways, key=lambda way: (way.cycles, way.top))
    while way.before is not None:
        found.append(_Found(way.load, way.offsets))
        way = way.before
    return best.cycles, found[::-1]


def _cheapest_ways(ways: Iterable[_Way]) -> list[_Way]:
    """Return the cheapest ways, of those with the constants at one place the first such one."""
    found: dict[int | None, _Way] = {}
    for way in ways:
        other = found.get(way.weights)
        if other is None or (way.length, way.top) < (other.length, other.top):
            found[way.weights] = way
    return sorted(found.values(), key=lambda way: way.length)[:_WAYS]


def _steps(
    ways: Sequence[_Way], one: PrefetchLayer, following: PrefetchLayer | None
) -> Iterator[_Way]:
    """Yield the ways through a layer to the following one."""
    loads: list[AheadLoad] = []
    if following is not None and following.can_be_loaded:
        loads = list(_loads(one, following))
    for way in ways:
        alone = one.placed(way.weights, None) if way.weights is not None else None
        cycles, _ = one.cycles(way.arrives, None)
        top = max(way.top, one.end(alone))
        yield _Way(way.cycles + cycles, before=way, offsets=alone, top=top)
        if following is None or not loads:
            continue
        ahead = _cheapest(way, one, following, loads)
        if ahead is None:
            continue
        load, cycles, arrives = ahead
        for place in following.places_behind(one, way.weights):
            taken = (place, place + align_up(following.first_bytes, one.unit))
            offsets = one.placed(way.weights, taken)
            if offsets is not None and following.placed(place, None) is not None:
                top = max(way.top, one.end(offsets), taken[1])
                yield _Way(way.cycles + cycles, arrives, place, way, load, offsets, top)


def _loads(one: PrefetchLayer, following: PrefetchLayer) -> Iterator[AheadLoad]:
    """Yield the loads that a layer may start for the following one.

    Those by words are over with the kernel that they start before, even where the memory answers
    late.
    """
    link = following.costs.constants_link
    burst = first_weights(following.costs, following.tiled.schedule)
    for tile in one.tiles_to_start_at():
        load = AheadLoad(following.tiled.layer.op.index, tile, burst)
        yield load
        if link.words_per_cycle == 0 or burst.bytes % WORD_BYTES:
            continue
        late = burst.by_words(link, link.least_words_per_cycle)
        if late.cycles <= one.kernel_cycles(tile):
            charge = burst.by_words(link, link.words_per_cycle)
            yield replace(load, charge=charge, by_words=True)


def _cheapest(
    way: _Way, one: PrefetchLayer, following: PrefetchLayer, loads: Sequence[AheadLoad]
) -> tuple[AheadLoad, int, float] | None:
    """Return how and with which tile a layer best loads for the following one, and what that costs.

    The costs are its cycles, and for how many more the link is busy then. None when both layers are
    not faster by it. Of two loads that start at a tile the shorter one is the first where that
    takes no more cycles: code that starts the second one may have to wait for the first.
    """
    best = None
    least = one.cycles(way.arrives, None)[0] + following.cycles(None, None)[0]
    for load in loads:
        cycles, arrives = one.cycles(way.arrives, load)
        both = cycles + following.cycles(arrives, None)[0]
        if both < least:
            best, least = (load, cycles, arrives), both
    last = one.tiled.schedule.count - 1
    if best is None or best[0].tile == last or best[0].charge.bytes >= one.next_bytes:
        return best
    load = replace(best[0], first=True)
    cycles, arrives = one.cycles(way.arrives, load)
    both = cycles + following.cycles(arrives, None)[0]
    return best if both > least else (load, cycles, arrives)
