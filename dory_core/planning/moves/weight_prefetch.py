"""Constants that are loaded ahead: into L1 while the layer before computes.

The first block of a layer's constants depends on no other layer. Its load can start as soon as the
layer before needs the link no more than it has it, where L1 has room beside that layer's buffers.
So the place of such a block is taken in two layers, and the places of the block in one layer and in
the next differ: this module chooses them all at once, as the shortest path through the layers whose
length is the estimated cycles. Tensors that stay in L1 have two places, as low as possible and at
its end, of which the better one is taken for all of them.
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
from dory_core.planning.heuristics import gap
from dory_core.planning.problem import Problem
from dory_core.schedule.costs import first_weights
from dory_core.schedule.loops import L1_ALIGNMENT, l1_buffers
from dory_core.schedule.timeline import AheadLoad, loaded_estimate
from dory_core.tiling.parts import split_is_whole
from dory_core.tiling.tiled import TiledLayer

NAME = "weight-prefetch"

#: Ways through the layers so far that are looked at further, the cheapest ones.
_WAYS = 8
#: Of layers with more tiles, only the last ones may start the load for the next layer.
_MANY_TILES = 64

#: A wait for constants is long when it takes more than such a fraction of all cycles.
LONG_WAIT = 100

#: Sizes of L1 within which smaller tiles of a layer are looked for.
_TRIES = 3

Span = tuple[int, int]
#: Returns a layer in the best tiles within some bytes of L1, None when nothing fits.
Smaller = Callable[[TiledLayer, int], TiledLayer | None]


@dataclass(frozen=True, slots=True)
class LoadsAhead:
    """residency: with the places of all buffers. loads: by the layer that starts one, the layer
    that it is for and the load."""

    residency: Residency
    loads: Mapping[int, tuple[int, AheadLoad]]


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield the decision with weight prefetch where that saves estimated cycles."""
    decision = with_prefetches(problem, candidate.decision, None)
    if decision.prefetches:
        yield decision


def with_prefetches(problem: Problem, decision: Decision, smaller: Smaller | None) -> Decision:
    """Return the decision with weight prefetch. smaller: makes smaller tiles, which leave more
    room for it."""
    hierarchy, network = problem.ctx.memory, problem.network
    residency = decision.unplaced or problem.residency(decision)
    alone = replace(residency, on_top=())
    if hierarchy.link(1).blocking or hierarchy.constants_link.blocking:
        return decision  # nothing overlaps
    linked = [
        n
        for n, (split, one) in enumerate(zip(decision.splits, residency.tiled, strict=True))
        if split_is_whole(split) and not (decision.streamed and problem.fetched(n, one, split))
    ]
    ways = [alone]
    if residency.on_top:
        ways.append(replace(alone, layers=residency.on_top))
    writes, budget = network.flow.writes, problem.budgets.bytes[1]
    found = [_plan(way, writes, linked, hierarchy, budget, smaller) for way in ways]
    best = min(found, key=lambda way: way[0])[1]
    return replace(decision, residency=best.residency, unplaced=residency, prefetches=best.loads)


def _plan(
    residency: Residency,
    writes: Sequence[str],
    linked: Collection[int],
    hierarchy: MemoryHierarchy,
    budget_bytes: int,
    smaller: Smaller | None,
) -> tuple[int, LoadsAhead]:
    """Return the cycles of all runs of layers, and what they load ahead; see ``plan_ahead``."""
    total = 0
    loads: dict[int, tuple[int, AheadLoad]] = {}
    stays, tiled = list(residency.layers), list(residency.tiled)
    unit = max(L1_ALIGNMENT, level_alignment(hierarchy, 1))
    kept = {
        name: _sizes(one, unit)["y"]
        for name, one, stay in zip(writes, residency.tiled, stays, strict=True)
        if stay.leaves
    }
    for run in _runs(residency, linked):
        layers = [
            _Layer(n, residency.tiled[n], stays[n], kept, hierarchy, budget_bytes) for n in run
        ]
        cycles, layers, found_ones = _cut_smaller(layers, smaller)
        total += cycles
        for one, layer, behind in zip(found_ones, layers, [*layers[1:], None], strict=True):
            tiled[layer.n], stays[layer.n] = layer.tiled, layer.stay
            if one.offsets is not None:
                stays[layer.n] = replace(layer.stay, offsets=one.offsets)
            if one.load is not None and behind is not None:
                loads[layer.n] = (behind.n, one.load)
    found = replace(residency, tiled=tuple(tiled), layers=tuple(stays))
    return total, LoadsAhead(found, loads)


def _cut_smaller(
    layers: list[_Layer], smaller: Smaller | None
) -> tuple[int, list[_Layer], list[_Found]]:
    """Return the cycles, the layers and what each loads ahead, in smaller tiles where all are
    faster by it.

    Only layers are tried beside which a load found no room: that for the next layer, or their own.
    Layers in one tile are tried when they wait long for their own.
    """
    cycles, best = _best(layers)
    if smaller is None:
        return cycles, layers, best
    for k in range(len(layers)):
        following = layers[k + 1] if k + 1 < len(layers) else None
        behind = following is not None and following.can_be_loaded and best[k].load is None
        own = k > 0 and layers[k].can_be_loaded and best[k - 1].load is None
        if layers[k].tiled.schedule.count == 1:
            own = own and layers[k].first_cycles * LONG_WAIT > cycles
            behind = False
        if not (behind or own):
            continue
        for one in layers[k].in_smaller_tiles(smaller, following):
            others = [*layers[:k], one, *layers[k + 1 :]]
            less, found = _best(others)
            if less < cycles:
                cycles, best, layers = less, found, others
    return cycles, layers, best


def _runs(residency: Residency, linked: Collection[int]) -> Iterator[list[int]]:
    """Yield the longest rows of layers of which each may load for the next one."""
    run: list[int] = []
    for n, one in enumerate(residency.tiled):
        if one.view:
            continue  # nothing runs
        if n in linked and not one.in_place:
            run.append(n)
            continue
        if run:
            yield run
        run = []
    if run:
        yield run


class _Layer:
    """A layer: its buffers in L1, which of them may move, and its cycles."""

    def __init__(
        self,
        n: int,
        tiled: TiledLayer,
        stay: L1Residence,
        kept: Mapping[str, int],
        hierarchy: MemoryHierarchy,
        budget_bytes: int,
    ) -> None:
        """kept: bytes of the tensors that stay in L1 anywhere."""
        self.n = n
        self.tiled = tiled
        self.stay = stay
        self._others = (kept, hierarchy, budget_bytes)
        self.unit = max(L1_ALIGNMENT, level_alignment(hierarchy, 1))
        self.room = budget_bytes // self.unit * self.unit
        schedule = tiled.schedule
        self.sizes = _sizes(tiled, self.unit)
        self.first_bytes = self.sizes.get("w", 0) // schedule.buffering.w
        self.offsets = dict(stay.offsets) or _in_order(self.sizes)
        self.stays = {*stay.found, *(["y"] if stay.leaves else [])}
        self.fixed = [(self.offsets[b], self.offsets[b] + self.sizes[b]) for b in self.stays]
        self.fixed += [(at, at + kept[name]) for name, at in stay.beside.items()]
        self.costs = tiled.costs.in_loops(schedule)
        self._known: dict[tuple[float | None, AheadLoad | None], tuple[int, float]] = {}
        self.can_be_loaded = self.first_bytes > 0 and self._by_dma()

    def _by_dma(self) -> bool:
        carriages = self.costs.carriages
        return carriages is not None and carriages["w"].by != CORES

    @property
    def constants_bytes(self) -> int:
        """Bytes of all blocks of constants."""
        o, i = self.tiled.schedule.c_out, self.tiled.schedule.c_in
        return sum(self.costs.moves.weights(a.size, b.size).bytes for a in o for b in i)

    @property
    def first_cycles(self) -> float:
        """Cycles of the load of the first block of constants."""
        return first_weights(self.costs, self.tiled.schedule).cycles

    def in_smaller_tiles(self, smaller: Smaller, following: _Layer | None) -> Iterator[_Layer]:
        """Yield the layer in smaller tiles: within what the first constants of the following layer
        leave of L1, then within less. Their constants take no more bytes."""
        first = self if following is None or not following.can_be_loaded else following
        taken = sum(self._others[0][name] for name in self.stay.beside)
        room = self.room - taken - align_up(first.first_bytes, self.unit)
        if self.tiled.schedule.count == 1:
            room = min(room, self.tiled.l1_bytes - 1)
        for _ in range(_TRIES):
            tiled = smaller(self.tiled, room)
            if tiled is None:
                return
            room = tiled.l1_bytes - 1
            one = self._with_tiles(tiled)
            if one is not None and one.constants_bytes <= self.constants_bytes:
                yield one

    def _with_tiles(self, tiled: TiledLayer) -> _Layer | None:
        """Return the layer with other tiles; None where what stays in L1 does not allow them."""
        schedule, stay = tiled.schedule, self.stay
        if stay.leaves or (stay.found and (schedule.counts[1:] != (1, 1, 1) or self._apart)):
            return None
        if stay.found:
            once = replace(schedule.buffering, x=1)
            tiled = replace(tiled, schedule=replace(schedule, buffering=once))
        if stay.offsets:
            sizes = _sizes(tiled, self.unit)
            stay = replace(stay, offsets={b: stay.offsets.get(b, 0) for b in sizes})
            offsets = _Layer(self.n, tiled, stay, *self._others).placed(None, None)
            if offsets is None:
                return None
            stay = replace(stay, offsets=offsets)
        return _Layer(self.n, tiled, stay, *self._others)

    @property
    def _apart(self) -> bool:
        """Whether the layer keeps channels apart, so that tiles read other inputs."""
        return self.tiled.schedule.is_channelwise

    def cycles(self, arrives: float | None, ahead: AheadLoad | None) -> tuple[int, float]:
        """Return the layer's cycles, and for how many more the link is busy behind it."""
        key = (arrives, ahead)
        if key not in self._known:
            self._known[key] = loaded_estimate(
                self.costs, self.tiled.schedule, self.stay.unmoved, arrives, ahead
            )
        return self._known[key]

    def placed(self, weights: int | None, taken: Span | None) -> dict[str, int] | None:
        """Return places of the buffers; None when there are none.

        weights: where the constants lie, None for anywhere. taken: bytes that a load for the next
        layer takes.
        """
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

    def places_behind(self, before: _Layer, weights: int | None) -> list[int]:
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
        tiles = {count - 1, max(count - 2, 0)}
        if count <= _MANY_TILES:
            tiles |= {0, count // 4, count // 2}
        return tuple(sorted(tiles, reverse=True))


def _sizes(tiled: TiledLayer, unit: int) -> dict[str, int]:
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
    """Return whether two of some ranges of bytes overlap."""
    rising = sorted(spans)
    return any(one[1] > two[0] for one, two in pairwise(rising))


@dataclass(frozen=True, slots=True)
class _Way:
    """The layers up to one. cycles: of those before it. arrives: see part_timeline. weights: where
    its constants lie when they are loaded ahead. before: the way to the layer before, which starts
    ``load`` and has its buffers at ``offsets`` (None: where they were)."""

    cycles: int
    arrives: float | None = None
    weights: int | None = None
    before: _Way | None = None
    load: AheadLoad | None = None
    offsets: Mapping[str, int] | None = None

    @property
    def length(self) -> float:
        return self.cycles + (self.arrives or 0.0)


@dataclass(frozen=True, slots=True)
class _Found:
    load: AheadLoad | None
    offsets: Mapping[str, int] | None


def _best(layers: Sequence[_Layer]) -> tuple[int, list[_Found]]:
    """Return the cycles of the cheapest way, what each layer loads ahead on it and where its
    buffers lie."""
    ways = [_Way(0)]
    for one, following in zip(layers, [*layers[1:], None], strict=True):
        ways = _cheapest_ways(_steps(ways, one, following))
    found: list[_Found] = []
    best = way = min(ways, key=lambda way: way.cycles)
    while way.before is not None:
        found.append(_Found(way.load, way.offsets))
        way = way.before
    return best.cycles, found[::-1]


def _cheapest_ways(ways: Iterable[_Way]) -> list[_Way]:
    """Return the cheapest ways, of those with the constants at one place the first such one."""
    found: dict[int | None, _Way] = {}
    for way in ways:
        other = found.get(way.weights)
        if other is None or way.length < other.length:
            found[way.weights] = way
    return sorted(found.values(), key=lambda way: way.length)[:_WAYS]


def _steps(ways: Sequence[_Way], one: _Layer, following: _Layer | None) -> Iterator[_Way]:
    """Yield the ways through a layer to the following one."""
    for way in ways:
        alone = one.placed(way.weights, None) if way.weights is not None else None
        cycles, _ = one.cycles(way.arrives, None)
        yield _Way(way.cycles + cycles, before=way, offsets=alone)
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
                yield _Way(way.cycles + cycles, arrives, place, way, load, offsets)


def _cheapest(way: _Way, one: _Layer, following: _Layer) -> tuple[AheadLoad, int, float] | None:
    """Return with which tile a layer best loads for the following one, its cycles and for how many
    more the link is busy then; None when both layers are not faster by it."""
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
