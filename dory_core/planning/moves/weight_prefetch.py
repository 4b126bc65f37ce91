"""Weight prefetch: constants are loaded into L1 while the previous layer computes.

The first block of a layer's constants depends on no other layer. Its load can start once the
previous layer has issued its own transfers, where L1 has room next to the buffers of that layer.
Layer by layer a beam search decides which layers load for the next one, and where all buffers lie;
it goes on with the decisions of the fewest estimated cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice

from dory_core.hardware.copies import CORES
from dory_core.hardware.links import WORD_BYTES
from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate
from dory_core.planning.l1_places import L1Places
from dory_core.planning.packing.heuristics import Offsets
from dory_core.planning.problem import Problem
from dory_core.schedule.costs import LayerCosts, first_weights
from dory_core.schedule.timeline import AheadLoad, loaded_estimate
from dory_core.tiling.parts import split_is_whole
from dory_core.tiling.tiled import TiledLayer

NAME = "weight-prefetch"

#: Decisions that are looked at further at each layer, the fastest ones.
_BEAM = 8
#: Loads for a layer that are tried in each of them, the fastest ones.
_LOADS = 2


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield the decision with weight prefetch where that saves estimated cycles."""
    hierarchy = problem.ctx.memory
    if hierarchy.link(1).blocking or hierarchy.constants_link.blocking:
        return  # nothing overlaps
    search = _Search(problem, candidate)
    found = search.best()
    if found.loads:
        residency = search.places.with_places(found.places, found.starters)
        yield replace(candidate.decision, residency=residency, prefetches=found.loads)


@dataclass(frozen=True, slots=True)
class _State:
    """The prefetches for all layers up to one.

    Attributes:
        places: Offsets of all blocks of L1.
        cycles: Of the layers before it.
        arrives: Cycles until its first constants are there, None: it loads them.
        loads: By the layer that starts the load: the layer that it is for, and the load.
    """

    places: Offsets
    cycles: int = 0
    arrives: float | None = None
    loads: Mapping[int, tuple[int, AheadLoad]] = field(default_factory=dict)

    @property
    def starters(self) -> dict[int, int]:
        """The layers that start loads, by the layers that these are for."""
        return {n: starter for starter, (n, _) in self.loads.items()}

    @property
    def length(self) -> float:
        """Cycles of the layers before, until its constants are there."""
        return self.cycles + (self.arrives or 0.0)


class _Search:
    """The beam search over the layers of a network."""

    def __init__(self, problem: Problem, candidate: Candidate) -> None:
        """Find the layers that may load constants for the next one, and their costs."""
        decision = candidate.decision
        self.residency = problem.residency(decision)
        self.tiled = self.residency.tiled
        self.places = L1Places(
            self.residency, problem.network.flow, problem.ctx.memory, problem.budgets.bytes[1]
        )
        self.whole = [
            split_is_whole(split) and not split.takes_turns and not one.in_place
            for split, one in zip(decision.splits, self.tiled, strict=True)
        ]
        self.running = [n for n, one in enumerate(self.tiled) if not one.view]
        self.costs: dict[int, LayerCosts] = {}
        before: TiledLayer | None = None
        for n in self.running:
            one = self.tiled[n]
            if self.whole[n]:
                self.costs[n] = one.costs_after(before).in_loops(one.schedule)
            before = one
        self.fetches = {fetch.block: fetch for fetch in candidate.program.fetches}
        self.loaded = {
            before: n
            for before, n in zip(self.running, self.running[1:], strict=False)
            if self.whole[before] and self._can_be_loaded(problem, candidate, n, before)
        }
        self.cycles = cache(self._cycles)
        self.possible = cache(self._possible)

    def best(self) -> _State:
        """Return the best decisions about all layers."""
        states = [_State(self.places.start)]
        for n in self.running:
            found = [self._run(state, n, None) for state in states]
            for state in states if n in self.loaded else ():
                found += self._with_load(state, n)
            known: dict[object, _State] = {}
            for state in sorted(found, key=lambda state: state.length):
                known.setdefault(state.loads.get(n), state)
            states = list(known.values())[:_BEAM]
        return states[0]

    def _can_be_loaded(self, problem: Problem, candidate: Candidate, n: int, before: int) -> bool:
        """Return True when the constants of a layer may be loaded while another one computes."""
        if not self.whole[n] or not self.places.first_bytes(n):
            return False
        carriages = self.costs[n].carriages
        if carriages is None or carriages["w"].by == CORES:
            return False
        decision = candidate.decision
        fetched = decision.streamed and problem.fetched(n, self.tiled[n], decision.splits[n])
        return not fetched or self._there_in_time(candidate, n, before)

    def _there_in_time(self, candidate: Candidate, n: int, before: int) -> bool:
        """Return True when fetched constants of a layer are in L2 before another one begins."""
        program = candidate.program
        block, begin = program.runs_of(n)[0].weights, program.first[before]
        if block is None or (fetch := self.fetches[block]).start >= begin:
            return False
        # What is waited for later without prefetch has to be there as much earlier.
        needed = candidate.steps[before].estimate.cycles if fetch.use > begin else 0.0
        return candidate.slack[block] >= needed

    def _run(self, state: _State, n: int, load: AheadLoad | None) -> _State:
        """Return a state after a layer, which starts a load for the next one or none."""
        cycles, arrives = self.cycles(n, state.arrives, load)
        loads = state.loads if load is None else {**state.loads, n: (self.loaded[n], load)}
        left = None if load is None else arrives
        return _State(state.places, state.cycles + cycles, left, loads)

    def _with_load(self, state: _State, n: int) -> Iterator[_State]:
        """Yield the states after a layer that loads constants of the next one.

        Both layers together are faster so, and L1 has room for the constants.
        """
        following = self.loaded[n]
        least = self._run(self._run(state, n, None), following, None).cycles
        found = list[tuple[int, _State]]()
        for load in self.possible(n):
            one = self._run(state, n, load)
            both = self._run(one, following, None).cycles
            if both < least:
                found.append((both, one))
        if not found:
            return
        places = self.places.placed(state.places, following, found[0][1].starters)
        if places is not None:
            for _, one in sorted(found, key=lambda pair: pair[0])[:_LOADS]:
                yield replace(one, places=places)

    def _cycles(self, n: int, arrives: float | None, load: AheadLoad | None) -> tuple[int, float]:
        """Return the cycles of a layer, and for how many more the link is busy after it."""
        if not self.whole[n]:
            return 0, 0.0  # the same in all states
        unmoved = self.residency.layers[n].unmoved
        return loaded_estimate(self.costs[n], self.tiled[n].schedule, unmoved, arrives, load)

    def _possible(self, n: int) -> tuple[AheadLoad, ...]:
        """Return the loads that a layer may start for the next one.

        Those by words are over with the kernel that they start before, even where the memory
        answers late.
        """
        following = self.tiled[self.loaded[n]]
        costs = self.costs[self.loaded[n]]
        link, burst = costs.constants_link, first_weights(costs, following.schedule)
        found = list[AheadLoad]()
        for tile in _tiles_to_start_at(self.tiled[n].schedule.count):
            load = AheadLoad(following.layer.op.index, tile, burst)
            found.append(load)
            if link.words_per_cycle == 0 or burst.bytes % WORD_BYTES:
                continue
            late = burst.by_words(link, link.least_words_per_cycle)
            if late.cycles <= self._kernel_cycles(n, tile):
                charge = burst.by_words(link, link.words_per_cycle)
                found.append(replace(load, charge=charge, by_words=True))
        return tuple(found)

    def _kernel_cycles(self, n: int, tile: int) -> float:
        """Return the cycles of the kernel on a tile, misses of instructions included.

        Its code is counted as missing at the first tile, whatever has run before.
        """
        costs, schedule = self.costs[n].after(0), self.tiled[n].schedule
        step = next(islice(schedule.steps(), tile, None))
        misses = costs.misses[min(tile, len(costs.misses) - 1)].cycles
        return misses + costs.compute(schedule, step)


def _tiles_to_start_at(count: int) -> tuple[int, ...]:
    """Return the tiles with which a layer of some tiles may start a load for the next one."""
    tiles = {0, count // 4, count // 2, max(count - 2, 0), count - 1}
    return tuple(sorted(tiles, reverse=True))
