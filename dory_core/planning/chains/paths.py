"""Which layers form fused chains: a shortest path over the layers of a network.

The points between layers are nodes. An edge is one layer by itself, or a chain of consecutive
layers in stripes of some rows. It has estimated cycles, and bytes of L2 that are live while it
runs: those of whole tensors, of the rolling buffers of all others, and of constants and stripes
that pass through L2 where the network is streamed. Edges that need more than L2 has do not exist.
The cheapest path is the fastest execution that fits; the path whose largest edge is least is the
execution with the least RAM.

Depth-first execution is that of Alwani et al., "Fused-Layer CNN Accelerators", MICRO 2016.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import NamedTuple

from dory_core.errors import DoesNotFit, NotSupported
from dory_core.plan.blocks import align_up
from dory_core.planning.chains.block import RollingRows
from dory_core.planning.chains.live_bytes import ChainBytes
from dory_core.planning.decision import Decision
from dory_core.planning.problem import Problem
from dory_core.tiling.outer import Split, stripe_axis, stripe_total, stripes_of

#: Most layers of a chain: the search takes as long as the square of it.
_LONGEST = 32
#: The same where there is RAM below L2: longer ones gain nothing there.
_LONGEST_STREAMED = 8


class Rows(NamedTuple):
    """All rolling buffers of a chain.

    Attributes:
        of: What is live of them.
        bytes: Bytes that they need; while they have no places, those that are live at once.
    """

    of: RollingRows
    bytes: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Layers in a fused chain, or one layer by itself.

    Attributes:
        first, last: Numbers of its layers.
        splits: Those of its layers; empty for a layer by itself.
        bytes: Bytes of L2 that it needs; while its rolling buffers have no places, those
            that are live at once.
        cycles: Estimate; no more than that while the parts of its layers have no tiles.
        rolling: Names and bytes of its rolling buffers; all other tensors are whole.
        rows: All rolling buffers, while they have no places.
        moved_cycles: Cycles in which rows move within L2.
        link_cycles: Cycles of the link below L2.
        waits: Cycles that the cores wait for it in any case.
        is_costed: Whether the parts of its layers have tiles.
    """

    first: int
    last: int
    splits: tuple[Split, ...]
    bytes: int
    cycles: float
    rolling: tuple[tuple[str, int], ...] = ()
    rows: Rows | None = None
    moved_cycles: float = 0.0
    link_cycles: float = 0.0
    waits: float = 0.0
    is_costed: bool = False

    @property
    def apart(self) -> Chain:
        """The chain with the bytes of rolling buffers none of which lies in another one."""
        if self.rows is None:
            return self
        rows = sum(size for _, size in self.rolling)
        return replace(self, bytes=self.bytes - self.rows.bytes + rows, rows=None)

    def taking(self, cycles: float) -> Chain:
        """Return the chain, whose layers take some cycles."""
        most = max(cycles + self.moved_cycles, self.link_cycles) + self.waits
        return replace(self, cycles=most)


class Chains:
    """The chains of a network.

    Attributes:
        problem: The network.
        start: The decision that chains are added to.
        single: Cycles of each layer by itself.
        room: Bytes of L2 that a chain may need.
    """

    def __init__(
        self,
        problem: Problem,
        start: Decision,
        single: Sequence[float] | None = None,
        room: int | None = None,
    ) -> None:
        """Prepare the search.

        Args:
            problem: The network.
            start: The decision that chains are added to.
            single: Cycles of each layer by itself; None for the estimates of the best tiles.
            room: Bytes of L2 that a chain may need; None for any number.
        """
        self.problem = problem
        self.start = start
        self.single = single or [float(one.estimate.cycles) for one in problem.tiled]
        self.room = 1 << 62 if room is None else room
        self._network = problem.network
        self._unit = problem.alignment
        self._rows = [stripe_total(layer) for layer in problem.network.layers]
        self._cost = cache(self._find_cost)

    def cheapest(self, edges: list[Chain], room: int) -> tuple[Chain, ...] | None:
        """Return the chains of the fastest execution within some bytes of L2.

        Parts of a layer take no fewer cycles than the layer as a whole. So only chains need tiles
        that would be the fastest if their parts took as few: they get theirs in ``edges``, and
        places of their rolling buffers, which take no fewer bytes than what is live at once.

        Args:
            edges: All chains, and all layers by themselves.
            room: Bytes of L2.
        """
        near = [at for at, one in enumerate(edges) if one.bytes <= room]
        while True:
            path = _cheapest(edges, near, len(self.single))
            unknown = [at for at in path or () if not edges[at].is_costed]
            if not unknown:
                return None if path is None else tuple(edges[at] for at in path)
            for at in unknown:
                edges[at] = self.placed(edges[at])
                if edges[at].bytes <= room:
                    edges[at] = self._costed(edges[at])
            if any(edges[at].bytes > room for at in unknown):
                near = [at for at in near if edges[at].bytes <= room]

    def _costed(self, chain: Chain) -> Chain:
        """Return a chain with the cycles of its parts; no path has one without tiles."""
        if not chain.splits:
            return replace(chain, is_costed=True)
        costs = map(self._cost, range(chain.first, chain.last + 1), chain.splits)
        known = [inf if cost is None else cost for cost in costs]
        return replace(chain.taking(sum(known)), is_costed=True)

    def placed(self, chain: Chain) -> Chain:
        """Return a chain with the bytes of its rolling buffers in their places."""
        if chain.rows is None:
            return chain
        names = sorted(name for name, size in chain.rolling if size)
        block = chain.rows.of.together(tuple(names))
        if block is None:
            return chain.apart
        return replace(chain, bytes=chain.bytes - chain.rows.bytes + block.size_bytes, rows=None)

    @property
    def all(self) -> list[Chain]:
        """All layers by themselves, and all fused chains that may be of use."""
        found = sorted([*self.singles(), *self.fused()], key=lambda one: (one.last, one.first))
        return [one for one in found if self.passes(one)] if self._network.by_rows else found

    def singles(self) -> Iterator[Chain]:
        """Yield each layer by itself. That of a streamed network fits: it is in parts."""
        for n, cycles in enumerate(self.single):
            live = 0 if self.start.streamed else self._live(n)
            yield Chain(n, n, (), live, cycles)

    def fused(self) -> Iterator[Chain]:
        """Yield fused chains that need less than their layers by themselves.

        What passes by rows has chains in any case, of one layer too.
        """
        longest = _LONGEST_STREAMED if self.problem.streams else _LONGEST
        for last in range(len(self._rows)):
            first = last
            while last - first < longest - 1 and first > 0 and self.may_join(first - 1, last):
                first -= 1
            by_rows = self._by_rows(last, last)
            if (first == last and not by_rows) or not self.may_join(last, last):
                continue
            made = self._network.flow.writes[first:last]
            if self.start.streamed and self.start.in_l3.isdisjoint(made):
                continue
            totals, known = self._rows[first : last + 1], set[tuple[int, ...]]()
            for height in _heights(max(totals)):
                most = tuple(max(1, round(height * total / max(totals))) for total in totals)
                if most not in known:
                    known.add(most)
                    yield from self._ending(first, last, most)

    def may_join(self, n: int, last: int) -> bool:
        """Return True when a layer may be part of a chain that ends with another one."""
        layer, network = self._network.layers[n], self._network
        if self.problem.tiled[n].view or network.flow.before[n] or network.cuts[n].stripes < 2:
            return False
        if self.is_read_half_made(n, last):
            return False
        return stripe_axis(layer) is not None and stripe_axis(layer) == stripe_axis(
            network.layers[last]
        )

    def is_read_half_made(self, n: int, last: int) -> bool:
        """Return True when a chain reads rows of a layer's output that lies in L2 as a whole.

        What is whole is read when it is complete.
        """
        made = self._network.flow.writes[n]
        if made in self.start.in_l3 or self._network.rolls(made, n, last):
            return False
        return self._network.has_reader_by_rows(made, last)

    def _ending(self, first: int, last: int, most: Sequence[int]) -> Iterator[Chain]:
        """Yield the chains with the same last layer and the same stripes.

        In which order the parts of a layer and of those after it run does not depend on where the
        chain begins.

        Args:
            first: The first layer of the longest chain.
            last: The last layer.
            most: Most rows of a stripe of each layer.
        """
        outputs = self._network.flow.writes[first : last + 1]
        aligned = self.problem.ctx.memory.link(1).alignment_bytes > 1
        granular = {
            name
            for n, name in enumerate(outputs, first)
            if aligned or (name in self.start.in_l3 and not self._network.rolls(name, n, last))
        }
        starts = self._network.turns(first, most, granular)
        splits = tuple(map(self._split, range(first, last + 1), starts))
        shared = self._network.shared(first, splits)
        wholes = {name: self.block_bytes(name) for name in self._network.sizes}
        all_rows = self._network.rolling_rows(first, splits)
        live = ChainBytes(self.problem, self.start, wholes, all_rows)
        cycles, rows_moved, largest, helps = 0.0, 0, 0, False
        for n in range(last, first - 1, -1):
            made = self._network.flow.writes[n]
            live.add(n, splits[n - first])
            cycles += self._least_cycles(n, len(starts[n - first]))
            largest = max(largest, self._live(n))
            if self._network.rolls(made, n, last):
                rows = shared[n - first]
                live.roll(made, rows.size_bytes)
                rows_moved += rows.moved_bytes
                if rows.taken >= 0:
                    live.share(outputs[rows.taken])
                    rows_moved -= shared[rows.taken].moved_bytes
                helps = helps or made in self.start.in_l3
            for name in self._network.taken_from(n):
                if self._network.rolls(name, n, last):
                    live.roll(name, self._network.taken_buffer(first, splits, name).size_bytes)
            needed = live.bytes
            useful = n < last and (helps if self.start.streamed else needed < largest)
            if (useful or self._by_rows(n, last)) and needed <= self.room:
                moves, link = rows_moved * self.problem.moving.row_cycles, live.moved_cycles
                waits = link / len(splits[-1].starts) if self.start.streamed else 0.0
                rolling = tuple(live.rolling.items())
                own = Rows(all_rows, live.rows)
                found = Chain(
                    n, last, splits[n - first :], needed, 0.0, rolling, own, moves, link, waits
                )
                yield found.taking(cycles)

    def _split(self, n: int, starts: tuple[int, ...]) -> Split:
        """Return the split of a layer of a chain into stripes."""
        return self._network.cuts[n].whole._replace(stripes=len(starts), starts=starts)

    def _find_cost(self, n: int, split: Split) -> float | None:
        """Return the cycles of a layer in stripes; None where a stripe has no tiles."""
        if split.stripes == 1:
            return float(self.problem.tiled[n].estimate.cycles)
        try:
            cycles = self.problem.tiling.rough_cycles(n, split)
        except (DoesNotFit, NotSupported):
            return None
        largest = max(s.size for s in stripes_of(self._network.layers[n], split))
        return cycles * self._rows[n] / largest

    def _least_cycles(self, n: int, parts: int) -> float:
        """Return cycles that a layer takes at least in some parts: each enters its function."""
        one = self.problem.tiled[n]
        misses = one.costs.misses
        first, further = misses[0].cycles, misses[-1].cycles
        more = (parts - 1) * (one.costs.hierarchy.layer_cycles + first)
        return one.estimate.cycles + max(0.0, more - (one.schedule.count - 1) * further)

    def _live(self, n: int) -> int:
        """Return the bytes of whole tensors while a layer runs."""
        return sum(map(self.block_bytes, self._network.alive[n]))

    def block_bytes(self, name: str) -> int:
        """Return the bytes of the block of a whole tensor; 0 for a slice of another block."""
        if name in self._network.views.places or name in self._network.by_rows:
            return 0
        return align_up(self._network.sizes[name], self._unit)

    def _by_rows(self, first: int, last: int) -> bool:
        """Return True when layers make or read what passes by rows."""
        return any(self._network.touches(name, first, last) for name in self._network.by_rows)

    def passes(self, chain: Chain) -> bool:
        """Return True when what a chain makes or reads by rows passes so.

        No more than half of it may be in L2 at once, or the least.
        """
        network, rolling = self._network, dict(chain.rolling)
        for name in network.by_rows:
            if not network.touches(name, chain.first, chain.last):
                continue
            if name not in rolling:
                return False
            if 2 * rolling[name] > network.sizes[name] and self._largest(chain) > 1:
                return False
        return True

    def _largest(self, chain: Chain) -> int:
        """Return the most rows of a stripe of a chain."""
        layers = self._network.layers[chain.first : chain.last + 1]
        pairs = zip(layers, chain.splits, strict=True)
        return max(stripe.size for layer, split in pairs for stripe in stripes_of(layer, split))

    def decision(self, path: Iterable[Chain]) -> Decision:
        """Return the decision with the chains of a path.

        Args:
            path: All layers, in chains or by themselves.
        """
        splits, fused = list(self.start.splits), set[str]()
        for chain in path:
            for place, split in enumerate(chain.splits):
                n, count = chain.first + place, len(chain.splits)
                splits[n] = split._replace(place=place, chain=count)
                if self._network.rolls(self._network.flow.writes[n], n, chain.last):
                    fused.add(self._network.flow.writes[n])
        fused |= set(self._network.by_rows)
        return replace(
            self.start,
            splits=tuple(splits),
            in_l3=self.start.in_l3 - fused,
            spilled=self.start.spilled - fused,
            fused=frozenset(fused),
        )


def _heights(most: int) -> Iterator[int]:
    """Yield rows of a stripe of the highest tensor: those of ever more equal stripes."""
    stripes, height = 2, most
    while height > 1:
        height = -(-most // stripes)
        yield height
        stripes += max(1, stripes // 3)


def _cheapest(edges: Sequence[Chain], near: Iterable[int], layers: int) -> list[int] | None:
    """Return the numbers of the chains of the fastest execution; None where there is none.

    Args:
        edges: All chains, and all layers by themselves, those with the same last layer together.
        near: Numbers of those that may be taken, in order.
        layers: Number of layers.
    """
    best: list[tuple[float, int]] = [(0.0, 0)] + [(inf, 0)] * layers
    taken: list[int | None] = [None] * (layers + 1)
    for at in near:
        chain = edges[at]
        cycles, count = best[chain.first]
        found = (cycles + chain.cycles, count + 1)
        if chain.cycles < inf and found < best[chain.last + 1]:
            best[chain.last + 1], taken[chain.last + 1] = found, at
    path, end = list[int](), layers
    while end > 0:
        at_end = taken[end]
        if at_end is None:
            return None
        path.append(at_end)
        end = edges[at_end].first
    return path[::-1]
