"""Fused chains: tensors between their layers never leave L2 and never lie there whole.

Where tensors are too large for L2, a chain computes its last output one stripe after the other.
Each layer computes the rows that the next layer reads. Rows that two stripes share are computed
twice, which costs less than a transfer to the next level and back. This is depth-first execution,
as in Alwani et al., "Fused-Layer CNN Accelerators", MICRO 2016.

A shortest path cuts rows of layers into chains and single layers. The cost of a chain is the cycles
of its cores or those of the link, whichever are more. The timeline of the whole network decides
whether the chains are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from dory_core.errors import DoesNotFit
from dory_core.hardware.memories import Link
from dory_core.plan.blocks import align_up, fullest_step, owners
from dory_core.planning.cutting import moved_groups, with_in_l2
from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import Candidate, early_arena
from dory_core.planning.heuristics import best_fit, peak_of
from dory_core.planning.moves.l1_residency import in_other_parts
from dory_core.planning.network_parts import NetworkParts
from dory_core.planning.packing import plan_memory
from dory_core.planning.problem import Problem
from dory_core.planning.sequence import PartSequence, build_sequence
from dory_core.tiling.outer import Split, stripe_axis
from dory_core.tiling.tiled import TiledLayer

#: Parts of L2 for which chains are searched: stripes that leave room may let more tensors stay.
_ROOMS = (1.0, 15 / 16)
#: Most layers of a chain: the search takes as long as the square of it.
_LONGEST = 8
#: How often stripes are made smaller when a chain does not fit.
_ATTEMPTS = 12
#: What a part costs beside its share of the layer, in set-ups of a transfer of the link below.
_SETUPS_PER_PART = 2


@dataclass(frozen=True, slots=True)
class _Streamed:
    """A network that is streamed in parts, one layer after the other.

    Attributes:
        problem: The network.
        candidate: How it is streamed so far.
        room: Bytes of L2.
        fixed: Tensors that lie in L2 as a whole.
        link: The link between L3 and L2.
    """

    problem: Problem
    candidate: Candidate
    room: int
    fixed: frozenset[str]
    link: Link

    @property
    def network(self) -> NetworkParts:
        """The layers and how they may be cut."""
        return self.problem.network

    @property
    def tiled(self) -> Sequence[TiledLayer]:
        """The layers as a whole."""
        return self.problem.tiled

    @property
    def alignment(self) -> int:
        """Blocks of home start on multiples of it."""
        return self.problem.alignment

    def build(self, decision: Decision) -> PartSequence:
        """Return the sequence of a decision in the tiles of the candidate."""
        tiled = self.candidate.residency.tiled

        def chunks(n: int) -> tuple[int, ...]:
            return self.problem.fetched(n, tiled[n], decision.splits[n])

        return build_sequence(self.network, decision, chunks)


@dataclass(frozen=True, slots=True)
class _Chain:
    """Layers first to last in stripes; of one layer alone 0. cost: estimated cycles."""

    first: int
    last: int
    stripes: int
    cost: float


def propose(problem: Problem, candidate: Candidate) -> Iterator[Decision]:
    """Yield the decision with fused chains where tensors between layers are in L3, and all fits."""
    decision, link = candidate.decision, problem.link
    if not decision.in_l3 or link is None:
        return
    fixed = frozenset(problem.network.fixed | set(problem.network.flow.sinks))
    streamed = _Streamed(problem, candidate, problem.room, fixed, link)
    rows = tuple(_rows(streamed, decision))
    pairs = zip(candidate.steps, candidate.timeline.stalls, strict=False)
    alone = [step.estimate.cycles + waits for step, waits in pairs]
    found: list[Decision] = []
    for fraction in _ROOMS:
        smaller = replace(streamed, room=int(problem.room * fraction))
        cheapest = (chain for row in rows for chain in _cheapest(smaller, decision, row, alone))
        chained = _that_fits(streamed, decision, [chain for chain in cheapest if chain.stripes])
        if chained is not None and chained not in found:
            found.append(chained)
            yield from _within(problem, candidate, chained)


def _within(problem: Problem, candidate: Candidate, found: Decision) -> Iterator[Decision]:
    """Yield a decision with fused chains in the tiles of its parts, where it fits L2."""
    chunks = problem.chunks()
    try:
        program = build_sequence(
            problem.network, found, lambda n: chunks(n, found.splits[n], found.splits[n])
        )
    except DoesNotFit:
        return  # a part with the rows that it has in common with another one
    memory = plan_memory(tuple(program.requests.values()), problem.alignment)
    if memory.chosen.peak_bytes > problem.room:
        return
    for arena in dict.fromkeys((early_arena(problem, memory, problem.room), 0)):
        yield in_other_parts(problem, candidate, replace(found, arena_bytes=arena))


def _that_fits(problem: _Streamed, decision: Decision, chains: list[_Chain]) -> Decision | None:
    """Return the decision with chains in the largest stripes that fit; None where none fit."""
    for _ in range(_ATTEMPTS):
        if not chains:
            return None
        trial = _with_chains(problem, decision, chains)
        over = _overfull(problem, trial)
        if over is None:
            return _back_in_l2(problem, trial)
        finer = [one for chain in chains if (one := _finer(problem, chain, over)) is not None]
        if finer == chains:
            return None
        chains = finer
    return None


def _rows(problem: _Streamed, decision: Decision) -> Iterator[range]:
    """Yield the longest rows of layers that may pass their outputs on, if some are in L3."""
    first, end = 0, len(problem.tiled)
    while first < end:
        last = first
        while last + 1 < end and _may_pass(problem, last):
            last += 1
        names = problem.network.flow.writes[first:last]
        if not decision.in_l3.isdisjoint(names):
            yield range(first, last + 1)
        first = last + 1


def _may_pass(problem: _Streamed, n: int) -> bool:
    """Return whether the output of a layer may pass to the next one in stripes."""
    network, layers, flow = problem.network, problem.network.layers, problem.network.flow
    name, following = flow.writes[n], n + 1
    pair = (problem.tiled[n], problem.tiled[following])
    if name in problem.fixed or network.readers[name] != [following] or flow.before[following]:
        return False
    if any(one.in_place or one.view for one in pair) or flow.reads[following].count(name) != 1:
        return False
    axis = stripe_axis(layers[n])
    if axis is None or stripe_axis(layers[following]) != axis:
        return False
    if min(network.cuts[n].stripes, network.cuts[following].stripes) < 2:
        return False
    operand = flow.reads[following].index(name)
    return not layers[following].whole_axes(operand)[axis + 1]


# -- which chains ---------------------------------------------------------------------------------


def _cheapest(
    problem: _Streamed, decision: Decision, row: range, alone: Sequence[float]
) -> list[_Chain]:
    """Return the cheapest way to cut a row of layers into chains and single layers.

    Args:
        problem: The network.
        decision: Its splits, and which tensors are in L3.
        row: Consecutive layers that may form chains.
        alone: Cycles of each layer of the network outside a chain, with its waits for L3.
    """
    ways: list[tuple[float, list[_Chain]]] = [(0.0, [])]  # up to each layer
    for last in row:
        cost, before = ways[-1]
        best, chains = cost + alone[last], [*before, _Chain(last, last, 0, alone[last])]
        computed = problem.tiled[last].estimate.cycles
        for first in range(last - 1, max(row.start, last - _LONGEST + 1) - 1, -1):
            cost, before = ways[first - row.start]
            computed += problem.tiled[first].estimate.cycles
            if cost + computed >= best:
                continue  # it computes each row once at least
            chain = _chain(problem, decision, first, last)
            if chain is not None and cost + chain.cost < best:
                best, chains = cost + chain.cost, [*before, chain]
        ways.append((best, chains))
    return ways[-1][1]


def _chain(problem: _Streamed, decision: Decision, first: int, last: int) -> _Chain | None:
    """Return a chain of layers with the fewest stripes that fit; None where none do."""
    flow, below = problem.network.flow, decision.in_l3
    brought = _cycles_below(problem, below.intersection(flow.reads[first]))
    stored = _cycles_below(problem, below.intersection((flow.writes[last],)))
    if below.isdisjoint(flow.writes[first:last]):
        return None
    low = _fewest_stripes(problem, decision, first, last)
    if low is None:
        return None
    cycles = [
        problem.tiled[n].estimate.cycles
        * _repeated(problem, n, _split(problem, n, first, last, low))
        for n in range(first, last + 1)
    ]
    computed = sum(cycles)
    parts = low * (last - first + 1) * _SETUPS_PER_PART * problem.link.setup_cycles
    # A stripe is on its way while the other layers compute.
    waits = max(0, brought - (computed - cycles[0])) + max(0, stored - (computed - cycles[-1]))
    others = {name for n in range(first + 1, last + 1) for name in flow.reads[n]}
    others -= {*flow.writes[first:last]}
    moved = brought + stored + _cycles_below(problem, below & others)
    return _Chain(first, last, low, max(computed + parts + waits, moved))


def _fewest_stripes(problem: _Streamed, decision: Decision, first: int, last: int) -> int | None:
    """Return the fewest stripes with which a chain of layers about fits; None where none do."""

    def fits(stripes: int) -> bool:
        return _needed(problem, decision, first, last, stripes) <= problem.room

    low, high, most = 2, 2, problem.network.cuts[last].stripes
    while not fits(high):
        if high == most:
            return None
        low, high = high + 1, min(2 * high, most)
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _cycles_below(problem: _Streamed, names: Iterable[str]) -> float:
    """Return the cycles of the link for some tensors."""
    sizes = (problem.network.flow.forms[name].size_bytes for name in names)
    return sum(sizes) / problem.link.bytes_per_cycle


def _repeated(problem: _Streamed, n: int, split: Split) -> float:
    """Return how often a layer that is cut so computes each row on average."""
    spans = [part.stripe_span for part in problem.network.parts_of(n, split)]
    return sum(span.size for span in spans) / max(span.start + span.size for span in spans)


def _split(problem: _Streamed, n: int, first: int, last: int, stripes: int) -> Split:
    whole = problem.network.cuts[n].whole
    return whole._replace(stripes=stripes, place=n - first, chain=last - first + 1)


def _needed(problem: _Streamed, decision: Decision, first: int, last: int, stripes: int) -> int:
    """Return about the bytes of L2 that a chain of layers needs."""
    network, flow, unit = problem.network, problem.network.flow, problem.alignment
    layers = range(first, last + 1)
    splits = [_split(problem, n, first, last, stripes) for n in layers]
    inside = set(flow.writes[first:last])

    def largest(n: int, operand: int | None) -> int:
        sizes = (size for _, size in network.ranges_of(n, operand, splits[n - first]))
        return align_up(max(sizes) + network.unit, unit)

    alive = {name for n in layers for name in network.alive[n]}
    total = sum(align_up(problem.problem.constants[n], unit) for n in layers)
    for name in alive - inside - decision.in_l3 - network.views.places.keys():
        total += align_up(flow.forms[name].size_bytes, unit)
    made = [0]
    for n in layers:
        total += sum(
            largest(n, k) for k, t in enumerate(flow.reads[n]) if t in decision.in_l3 - inside
        )
        if flow.writes[n] in inside:
            made.append(largest(n, None))
        elif flow.writes[n] in decision.in_l3:
            total += largest(n, None)
    return total + max(sum(pair) for pair in pairwise([*made, 0]))


# -- decisions ------------------------------------------------------------------------------------


def _with_chains(problem: _Streamed, decision: Decision, chains: Sequence[_Chain]) -> Decision:
    """Return the decision with chains."""
    splits = list(decision.splits)
    passing = set[str]()
    for chain in chains:
        for n in range(chain.first, chain.last + 1):
            splits[n] = _split(problem, n, chain.first, chain.last, chain.stripes)
        passing.update(problem.network.flow.writes[chain.first : chain.last])
    return replace(
        decision,
        splits=tuple(splits),
        in_l3=decision.in_l3 - passing,
        spilled=decision.spilled - passing,
        fused=frozenset(passing),
    )


def _overfull(problem: _Streamed, decision: Decision, exactly: bool = True) -> int | None:
    """Return a layer where the blocks of a decision have no place; None where they have one.

    exactly: search the best packing where others do not fit.
    """
    program, unit = problem.build(decision), problem.alignment
    requests = owners(requested := tuple(program.requests.values()))
    step, size = fullest_step(requests, unit)
    if size <= problem.room:
        # Any packing that fits will do.
        offsets = best_fit(requests, unit, problem.room)
        if peak_of(requests, offsets, unit) <= problem.room:
            return None
        if exactly and plan_memory(requested, unit).chosen.peak_bytes <= problem.room:
            return None
    return program.runs[max(step, 0)].layer if step < program.end else len(problem.tiled) - 1


def _finer(problem: _Streamed, chain: _Chain, layer: int) -> _Chain | None:
    """Return a chain with smaller stripes where it has a layer, or is next to it; None where there
    are none."""
    if not chain.first - 1 <= layer <= chain.last + 1:
        return chain
    most = problem.network.cuts[chain.last].stripes
    if chain.stripes == most:
        return None
    return replace(chain, stripes=min(most, chain.stripes + max(1, chain.stripes // 4)))


def _back_in_l2(problem: _Streamed, decision: Decision) -> Decision:
    """Return the decision with what L2 has room for again, the largest tensors first."""
    for names in moved_groups(problem.network, decision):
        trial = with_in_l2(problem.problem, decision, names)
        if _overfull(problem, trial, exactly=False) is None:
            decision = trial
    return decision
