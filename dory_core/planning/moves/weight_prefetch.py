"""Weight prefetch: constants are loaded into L1 while the previous layer computes.

The first block of a layer's constants depends on no other layer. Its load can start once the
previous layer has issued its own transfers, where L1 has room next to the buffers of that layer.
The block takes room in two layers, so the places of the blocks of neighbours differ: they are
chosen together, as the shortest path through the layers, whose length is the estimated cycles.
Resident tensors lie either as low as possible or at the end of L1; the better one is taken for all
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dory_core.hardware.copies import CORES
from dory_core.hardware.memories import MemoryHierarchy
from dory_core.plan.blocks import align_up, level_alignment
from dory_core.planning.decision import Decision, L1Residence, Residency
from dory_core.planning.evaluate import Candidate
from dory_core.planning.packing.heuristics import gap
from dory_core.planning.problem import Problem
from dory_core.schedule.costs import first_weights
from dory_core.schedule.loops import L1_ALIGNMENT, l1_buffers
from dory_core.schedule.timeline import AheadLoad, loaded_estimate
from dory_core.tiling.parts import split_is_whole
from dory_core.tiling.tiled import TiledLayer

NAME = "weight-prefetch"

#: Ways through the layers so far that are looked at further, the cheapest ones.
_WAYS = 8

Span = tuple[int, int]
#: By the layer that starts a load: the layer that it is for, and the load.
Prefetches = dict[int, tuple[int, AheadLoad]]
#: Returns the estimated cycles of layers, the layers in the tiles to be used, and what each one
#: loads for the next.
Search = Callable[[list["PrefetchLayer"]], tuple[int, list["PrefetchLayer"], list["Found"]]]


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield the decision with weight prefetch where that saves estimated cycles."""
    decision = with_prefetches(problem, candidate.decision, there_in_time(candidate), as_tiled)
    if decision.prefetches:
        yield decision


def there_in_time(candidate: Candidate) -> frozenset[int]:
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


def as_tiled(layers: list[PrefetchLayer]) -> tuple[int, list[PrefetchLayer], list[Found]]:
    """Return the best weight prefetch of layers in their own tiles."""
    cycles, found = cheapest_path(layers)
    return cycles, layers, found


def with_prefetches(
    problem: Problem, decision: Decision, there: Collection[int], search: Search
) -> Decision:
    """Return the decision with weight prefetch.

    Args:
        problem: The network.
        decision: The decision, whose weight prefetch is planned again.
        there: Layers whose fetched constants are in L2 before the layer before them begins.
        search: Finds what each layer of a row loads for the next one.
    """
    hierarchy, network = problem.ctx.memory, problem.network
    residency = decision.unplaced or problem.residency(decision)
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
    found = [_plan(way, writes, whole, late, hierarchy, budget, search) for way in ways]
    _, placed, loads = min(found, key=lambda way: way[0])
    return replace(decision, residency=placed, unplaced=residency, prefetches=loads)


def _plan(
    residency: Residency,
    writes: Sequence[str],
    whole: Collection[int],
    late: Collection[int],
    hierarchy: MemoryHierarchy,
    budget_bytes: int,
    search: Search,
) -> tuple[int, Residency, Prefetches]:
    """Return the cycles of all rows of layers, with the places of their buffers and their loads."""
    total = 0
    loads: Prefetches = {}
    stays, tiled = list(residency.layers), list(residency.tiled)
    unit = max(L1_ALIGNMENT, level_alignment(hierarchy, 1))
    kept = {
        name: buffer_bytes(one, unit)["y"]
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
        cycles, layers, found_ones = search(layers)
        total += cycles
        for one, layer, behind in zip(found_ones, layers, [*layers[1:], None], strict=True):
            tiled[layer.n], stays[layer.n] = layer.tiled, layer.stay
            if one.offsets is not None:
                stays[layer.n] = replace(layer.stay, offsets=one.offsets)
            if one.load is not None and behind is not None:
                loads[layer.n] = (behind.n, one.load)
    found = replace(residency, tiled=tuple(tiled), layers=tuple(stays))
    return total, found, loads


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


class PrefetchLayer:
    """A layer: its buffers in L1, which of them may move, and its cycles."""

    def __init__(
        self,
        n: int,
        tiled: TiledLayer,
        stay: L1Residence,
        there: bool,
        kept: Mapping[str, int],
        hierarchy: MemoryHierarchy,
        budget_bytes: int,
    ) -> None:
        """Find the buffers of a layer, and those that may move.

        Args:
            n: Number of the layer.
            tiled: The layer in its tiles.
            stay: Which of its tensors stay in L1, and where.
            there: Whether its constants are in L2 before the layer before it begins.
            kept: Bytes of all tensors that stay in L1 anywhere, by name.
            hierarchy: The memories and links of the target.
            budget_bytes: Bytes of L1.
        """
        self.n = n
        self.tiled = tiled
        self.stay = stay
        self.kept = kept
        self.others = (there, kept, hierarchy, budget_bytes)
        self.unit = max(L1_ALIGNMENT, level_alignment(hierarchy, 1))
        self.room = budget_bytes // self.unit * self.unit
        schedule = tiled.schedule
        self.sizes = buffer_bytes(tiled, self.unit)
        self.first_bytes = self.sizes.get("w", 0) // schedule.buffering.w
        self.offsets = dict(stay.offsets) or _in_order(self.sizes)
        self.stays = {*stay.found, *(["y"] if stay.leaves else [])}
        self.fixed = [(self.offsets[b], self.offsets[b] + self.sizes[b]) for b in self.stays]
        self.fixed += [(at, at + kept[name]) for name, at in stay.beside.items()]
        self.costs = tiled.costs.in_loops(schedule)
        self._known: dict[tuple[float | None, AheadLoad | None], tuple[int, float]] = {}
        self._places: dict[tuple[int | None, Span | None], Mapping[str, int] | None] = {}
        self.can_be_loaded = there and self.first_bytes > 0 and self._by_dma()

    def _by_dma(self) -> bool:
        carriages = self.costs.carriages
        return carriages is not None and carriages["w"].by != CORES

    def cycles(self, arrives: float | None, ahead: AheadLoad | None) -> tuple[int, float]:
        """Return the layer's cycles, and for how many more the link is busy after it."""
        key = (arrives, ahead)
        if key not in self._known:
            self._known[key] = loaded_estimate(
                self.costs, self.tiled.schedule, self.stay.unmoved, arrives, ahead
            )
        return self._known[key]

    def placed(self, weights: int | None, taken: Span | None) -> Mapping[str, int] | None:
        """Return places of the buffers; None when there are none.

        Args:
            weights: Where the constants lie, None for anywhere.
            taken: Bytes that a load for the next layer takes.
        """
        key = (weights, taken)
        if key not in self._places:
            self._places[key] = self._placed(weights, taken)
        return self._places[key]

    def _placed(self, weights: int | None, taken: Span | None) -> dict[str, int] | None:
        busy = [*self.fixed, *([taken] if taken is not None else [])]
        found = {name: self.offsets[name] for name in self.stays}
        if weights is not None:
            found["w"] = weights
            busy.append((weights, weights + self.sizes["w"]))
        if any(end > self.room or start < 0 for start, end in busy) or _meet(busy):
            return None
        rest = {name: size for name, size in self.sizes.items() if name not in found}
        as_before = [(self.offsets[name], self.offsets[name] + size) for name, size in rest.items()]
        if not _meet([*busy, *as_before]):
            return found | {name: self.offsets[name] for name in rest}
        for name, size in sorted(rest.items(), key=lambda item: -item[1]):
            start = gap(sorted(busy), size, tight=True)
            if start + size > self.room:
                return None
            found[name] = start
            busy.append((start, start + size))
        return found

    def end(self, offsets: Mapping[str, int] | None) -> int:
        """Return where its last buffer ends. offsets: places of the buffers, None as before."""
        places = self.offsets if offsets is None else offsets
        return max((places[name] + size for name, size in self.sizes.items()), default=0)

    def places_behind(self, before: PrefetchLayer, weights: int | None) -> list[int]:
        """Return where the constants may lie; ``weights``: those of the layer before.

        Every tight place begins or ends at a border of something, or at an end of the memory.
        """
        size, first = self.sizes["w"], self.first_bytes
        borders = [*self.fixed, *before.fixed]
        if weights is not None:
            borders.append((weights, weights + before.sizes["w"]))
        both = sum(before.sizes.values()) + align_up(first, self.unit)
        top = max(both, sum(self.sizes.values()))
        starts = {0, self.room - size, top - size, top - first}
        for start, end in borders:
            starts |= {end, start - size, start - first}
        legal = (s // self.unit * self.unit for s in starts)
        return sorted({s for s in legal if 0 <= s <= self.room - size})

    def tiles_to_start_at(self) -> tuple[int, ...]:
        """Return the tiles with which the layer may start a load for the next one."""
        count = self.tiled.schedule.count
        tiles = {0, count // 4, count // 2, max(count - 2, 0), count - 1}
        return tuple(sorted(tiles, reverse=True))


def buffer_bytes(tiled: TiledLayer, unit: int) -> dict[str, int]:
    """Return the bytes of the buffers of a layer."""
    copies, tile = tiled.schedule.buffering, tiled.tiling.tile
    buffers = l1_buffers(tiled.layer, tiled.bound, tile, copies)
    return {buffer.name: align_up(int(buffer.total), unit) for buffer in buffers}


def _in_order(sizes: Mapping[str, int]) -> dict[str, int]:
    found, end = {}, 0
    for name, size in sizes.items():
        found[name] = end
        end += size
    return found


def _meet(spans: Sequence[Span]) -> bool:
    """Return True when two of some ranges of bytes overlap."""
    rising = sorted(spans)
    return any(one[1] > two[0] for one, two in pairwise(rising))


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
class Found:
    """What a layer loads for the next one, and the places of its buffers.

    Attributes:
        load: The load of the next layer's first block of constants, None for none.
        offsets: Bytes from the start of L1 by buffer; None where the buffers stay where they were.
    """

    load: AheadLoad | None
    offsets: Mapping[str, int] | None


def cheapest_path(layers: Sequence[PrefetchLayer]) -> tuple[int, list[Found]]:
    """Return the cycles of the cheapest way, and what each layer does on it."""
    ways = [_Way(0)]
    for one, following in zip(layers, [*layers[1:], None], strict=True):
        ways = _cheapest_ways(_steps(ways, one, following))
    found: list[Found] = []
    best = way = min(ways, key=lambda way: (way.cycles, way.top))
    while way.before is not None:
        found.append(Found(way.load, way.offsets))
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
    for way in ways:
        alone = one.placed(way.weights, None) if way.weights is not None else None
        cycles, _ = one.cycles(way.arrives, None)
        top = max(way.top, one.end(alone))
        yield _Way(way.cycles + cycles, before=way, offsets=alone, top=top)
        if following is None or not following.can_be_loaded:
            continue
        ahead = _cheapest(way, one, following)
        if ahead is None:
            continue
        load, cycles, arrives = ahead
        for place in following.places_behind(one, way.weights):
            taken = (place, place + align_up(following.first_bytes, one.unit))
            offsets = one.placed(way.weights, taken)
            if offsets is not None and following.placed(place, None) is not None:
                top = max(way.top, one.end(offsets), taken[1])
                yield _Way(way.cycles + cycles, arrives, place, way, load, offsets, top)


def _cheapest(
    way: _Way, one: PrefetchLayer, following: PrefetchLayer
) -> tuple[AheadLoad, int, float] | None:
    """Return with which tile a layer best loads for the following one, and what that costs.

    The costs are its cycles, and for how many more the link is busy then. None when both layers are
    not faster by it.
    """
    charge = first_weights(following.costs, following.tiled.schedule)
    best = None
    least = one.cycles(way.arrives, None)[0] + following.cycles(None, None)[0]
    for tile in one.tiles_to_start_at():
        load = AheadLoad(following.tiled.layer.op.index, tile, charge)
        cycles, arrives = one.cycles(way.arrives, load)
        both = cycles + following.cycles(arrives, None)[0]
        if both < least:
            best, least = (load, cycles, arrives), both
    return best
