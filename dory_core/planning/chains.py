"""Which layers form fused chains: a shortest path over the layers of a network.

The points between layers are nodes. An edge is one layer by itself, or a chain of consecutive
layers in stripes of some rows. It has estimated cycles, and bytes of L2 that are live while it
runs: those of whole tensors, and of the rolling buffers of all others. Edges that need more than L2
has do not exist. The cheapest path is the fastest execution that fits; the path whose largest edge
is least is the execution with the least RAM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from dory_core.errors import DoesNotFit, NotSupported
from dory_core.plan.blocks import align_up
from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import evaluate
from dory_core.planning.problem import Problem
from dory_core.tiling.outer import Split, stripe_axis, stripe_total

#: Most layers of a chain: the search takes as long as the square of it.
_LONGEST = 32
#: Paths that are tried where the blocks of the fastest one find no places.
_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Chain:
    """Layers in a fused chain, or one layer by itself.

    Attributes:
        first, last: Numbers of its layers.
        rows: Output rows of a stripe of each layer; empty for a layer by itself.
        bytes: Bytes of L2 that are live while it runs.
        cycles: Estimate.
    """

    first: int
    last: int
    rows: tuple[int, ...]
    bytes: int
    cycles: float


class Chains:
    """The chains of a network that keeps all tensors and constants in L2."""

    def __init__(self, problem: Problem, alone: Sequence[float] | None = None) -> None:
        """Prepare the search.

        Args:
            problem: The network.
            alone: Cycles of each layer by itself; None for the estimates of the best tiles.
        """
        self.problem = problem
        self.network = problem.network
        self.alone = alone or [float(one.estimate.cycles) for one in problem.tiled]
        self.rows = [stripe_total(layer) for layer in problem.network.layers]
        self._cost = cache(self._find_cost)

    def singles(self) -> Iterator[Chain]:
        """Yield each layer by itself."""
        for n, cycles in enumerate(self.alone):
            live = (self._bytes(name) for name in self.network.alive[n])
            yield Chain(n, n, (), sum(live), cycles)

    def fused(self) -> Iterator[Chain]:
        """Yield fused chains that need less than their layers by themselves."""
        single = [one.bytes for one in self.singles()]
        for last in range(1, len(self.network.layers)):
            first = last
            while first > 0 and last - first < _LONGEST - 1 and self._may_join(first - 1, last):
                first -= 1
            if first == last or not self._may_join(last, last):
                continue
            known = set[tuple[int, ...]]()
            most = max(self.rows[first : last + 1])
            for height in _heights(most):
                rows = tuple(
                    max(1, round(height * total / most)) for total in self.rows[first : last + 1]
                )
                if rows not in known:
                    known.add(rows)
                    yield from self._ending(first, last, rows, single)

    def _may_join(self, n: int, last: int) -> bool:
        """Return whether a layer may be part of a chain that ends with another one."""
        layer, one = self.network.layers[n], self.problem.tiled[n]
        if one.view or self.network.flow.before[n] or stripe_axis(layer) is None:
            return False
        return self.network.cuts[n].stripes > 1 and stripe_axis(layer) == stripe_axis(
            self.network.layers[last]
        )

    def _ending(
        self, first: int, last: int, rows: Sequence[int], single: Sequence[int]
    ) -> Iterator[Chain]:
        """Yield the chains with the same last layer and the same stripes.

        In which order the parts of a layer and of those after it run does not depend on where the
        chain begins.

        Args:
            first: The first layer of the longest chain.
            last: The last layer.
            rows: Rows of a stripe of each layer.
            single: Bytes that each layer needs by itself.
        """
        network, flow = self.network, self.network.flow
        splits = tuple(self.split(n, rows[n - first]) for n in range(first, last + 1))
        whole, held, cycles, most = set[str](), 0, 0.0, 0
        total = 0
        for n in range(last, first - 1, -1):
            cost = self._cost(n, rows[n - first])
            if cost is None:
                return
            cycles += cost
            most = max(most, single[n])
            for name in network.alive[n]:
                if name not in whole:
                    whole.add(name)
                    total += self._bytes(name)
            made = flow.writes[n]
            if network.rolls(made, n, last):
                buffer = network.buffer(first, splits, n)
                total -= self._bytes(made)
                held += align_up(buffer.size_bytes, self.problem.alignment)
                moved = sum(move.size for move in buffer.moves.values())
                cycles += moved * self.problem.move_cycles
            if n < last and total + held < most:
                yield Chain(n, last, tuple(rows[n - first :]), total + held, cycles)

    def split(self, n: int, rows: int, place: int = 0, chain: int = 1, slack: int = 0) -> Split:
        """Return the split of a layer of a chain."""
        return self.network.cuts[n].whole._replace(
            stripes=-(-self.rows[n] // rows), rows=rows, place=place, chain=chain, slack=slack
        )

    def _find_cost(self, n: int, rows: int) -> float | None:
        """Return the cycles of a layer in stripes; None where a stripe has no tiles."""
        total = self.rows[n]
        if rows >= total:
            return float(self.problem.tiled[n].estimate.cycles)
        try:
            part = self.problem.part(n, self.split(n, rows))
        except (DoesNotFit, NotSupported):
            return None
        return part.estimate.cycles * total / rows

    def _bytes(self, name: str) -> int:
        """Return the bytes of the block of a whole tensor; 0 for a slice of another block."""
        if name in self.network.views.places:
            return 0
        return align_up(self.network.sizes[name], self.problem.alignment)

    def decision(self, start: Decision, path: Iterable[Chain], slack: int = 0) -> Decision:
        """Return a decision with the chains of a path.

        Args:
            start: The decision without them.
            path: All layers, in chains or by themselves.
            slack: Stripes for which buffers have room beyond the least.
        """
        splits, fused = list(start.splits), set[str]()
        for chain in path:
            for place, rows in enumerate(chain.rows):
                n = chain.first + place
                splits[n] = self.split(n, rows, place, len(chain.rows), slack)
                if self.network.rolls(self.network.flow.writes[n], n, chain.last):
                    fused.add(self.network.flow.writes[n])
        return replace(start, splits=tuple(splits), fused=frozenset(fused))


def in_chains(problem: Problem, room: int) -> Decision | None:
    """Return the fastest execution in fused chains that fits home; None where none fits.

    Args:
        problem: A network that does not fit layer by layer.
        room: Bytes of home for blocks and linked constants.
    """
    chains = Chains(problem)
    edges, layers = [*chains.singles(), *chains.fused()], len(chains.alone)
    whole = Decision(tuple(cuts.whole for cuts in problem.network.cuts))
    limit = room - problem.static_bytes(whole, problem.residency(whole))
    for _ in range(_ATTEMPTS):
        path = cheapest(edges, layers, limit)
        if path is None:
            return None
        found = evaluate(problem, chains.decision(whole, path))
        if found.home_bytes <= room and not found.straddles:
            return found.decision
        # Blocks that fit in sum found no places: paths of this size and above are of no use.
        limit = max(chain.bytes for chain in path) - 1
    return None


def _heights(most: int) -> Iterator[int]:
    """Yield rows of a stripe of the highest tensor: powers of two."""
    height = 1
    while height < most:
        yield height
        height *= 2


def cheapest(chains: Iterable[Chain], layers: int, room: int) -> tuple[Chain, ...] | None:
    """Return the chains of the fastest execution within some bytes of L2; None where none fits.

    Args:
        chains: All chains, and all layers by themselves.
        layers: Number of layers.
        room: Bytes of L2.
    """
    best: list[tuple[float, int]] = [(0.0, 0)] + [(float("inf"), 0)] * layers
    taken: list[Chain | None] = [None] * (layers + 1)
    for chain in sorted(chains, key=lambda one: (one.last, one.first)):
        if chain.bytes > room:
            continue
        cycles, count = best[chain.first]
        found = (cycles + chain.cycles, count + 1)
        if found < best[chain.last + 1]:
            best[chain.last + 1], taken[chain.last + 1] = found, chain
    return _path(taken, layers)


def least_bytes(chains: Iterable[Chain], layers: int) -> int:
    """Return the bytes of L2 of the execution that needs least."""
    least = [0] + [1 << 62] * layers
    for chain in sorted(chains, key=lambda one: (one.last, one.first)):
        needed = max(least[chain.first], chain.bytes)
        least[chain.last + 1] = min(least[chain.last + 1], needed)
    return least[layers]


def _path(taken: Sequence[Chain | None], layers: int) -> tuple[Chain, ...] | None:
    path, end = list[Chain](), layers
    while end > 0:
        chain = taken[end]
        if chain is None:
            return None
        path.append(chain)
        end = chain.first
    return tuple(reversed(path))
