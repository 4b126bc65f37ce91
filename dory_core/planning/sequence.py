"""The execution of a network as a sequence of parts, and which blocks each one needs and when.

Every network is one: a network that fits has one part per layer and fetches nothing.

Positions count the parts of all layers in order; position -1 is the moment before the first part
and the one behind the last is the end. What happens at a position before its part runs, in order:

1. waits for transfers started earlier,
2. stores to L3 are started, those that block are waited for,
3. fetches from L3 are started, those that block are waited for.

Fetches are started one position ahead of their use here; ``prefetch`` moves them further.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate, groupby
from typing import NamedTuple

from dory_core.blocks import WEIGHTS, Request, align_up
from dory_core.ir import Graph
from dory_core.planning.layouts import LayoutPlan
from dory_core.tiling.outer import Part, Split, input_range, output_range, parts


@dataclass(frozen=True, slots=True)
class Decision:
    """What of a network is streamed or lies in L3.

    splits: per layer position. in_l3: tensors that live in L3 and pass through L2 in stripes.
    spilled: tensors that leave L2 between their early and their late readers. nearer: tensors that
    stay in L1 and need no block of L2.
    """

    splits: tuple[Split, ...]
    in_l3: frozenset[str] = frozenset()
    spilled: frozenset[str] = frozenset()
    nearer: frozenset[str] = frozenset()


class Fetch(NamedTuple):
    """Bytes of L3 that a block of L2 is filled with before its first use.

    block: name of the block. source: tensor, or ``weights``. layer, chunk: for constants.
    offset, size: byte range within the source. ready: earliest position of the start.
    """

    block: str
    source: str
    offset: int
    size: int
    start: int
    use: int
    ready: int = -1
    layer: int = -1
    chunk: int = -1


class Store(NamedTuple):
    """Bytes of a block of L2 that go to L3. wait: position at which the block is free again."""

    block: str
    tensor: str
    block_offset: int
    offset: int
    size: int
    start: int
    wait: int


class Run(NamedTuple):
    """A part with the blocks that hold its data, and byte offsets of its data in them."""

    layer: int
    part: Part
    inputs: tuple[tuple[str, int], ...]
    output: tuple[str, int]
    weights: str | None
    report: tuple[str, int, int] | None


@dataclass(slots=True)
class PartSequence:
    """Runs by position, requests for L2 by name, transfers, and the lifetimes of tensors in L3.

    stripes: blocks of stripes, and their layer. first, last: positions of each layer's parts.
    """

    runs: list[Run] = field(default_factory=list)
    requests: dict[str, Request] = field(default_factory=dict)
    fetches: list[Fetch] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    l3_requests: list[Request] = field(default_factory=list)
    stripes: dict[str, int] = field(default_factory=dict)
    first: Sequence[int] = ()
    last: Sequence[int] = ()

    @property
    def end(self) -> int:
        """The position behind the last part."""
        return self.last[-1] + 1

    def layer_at(self, position: int) -> int:
        """Return the layer that runs at a position, the nearest one at the ends."""
        return max(0, bisect_right(self.first, position) - 1)


# Returns the bytes of a layer's groups of constants that are fetched; empty for none.
ChunkFunction = Callable[[int], Sequence[int]]


def _no_chunks(n: int) -> Sequence[int]:
    """Fetch nothing: all constants are linked."""
    return ()


class Sequencer:
    """Makes the sequences of one network, of all layers or of some of them.

    flow: the forms in which tensors lie in memory; each is a block. unit: the link between L3 and
    L2 moves multiples of so many bytes, from and to multiples of it.
    """

    def __init__(self, graph: Graph, flow: LayoutPlan, unit: int = 1) -> None:
        self.unit = unit
        self.name = graph.name
        self.layers = graph.layers
        self.flow = flow
        self.outputs = frozenset(flow.outputs)
        self.makers = dict.fromkeys(flow.inputs, -1)  # -1: there from the start
        self.converted: set[str] = set()
        self.readers: dict[str, list[int]] = {name: [] for name in flow.forms}
        end = len(self.layers) - 1
        for n in range(end + 2):
            at = min(n, end)
            for source, target in flow.before[n]:
                self.readers[source].append(at)
                self.makers[target] = at
                self.converted.add(target)
            if n <= end:
                for name in dict.fromkeys(flow.reads[n]):
                    self.readers[name].append(n)
                self.makers[flow.writes[n]] = n
        # Names of the tensors that some part of each layer finds in memory.
        self.alive: list[list[str]] = [[] for _ in self.layers]
        for name in flow.forms:
            for n in self.layers_of(name):
                self.alive[n].append(name)
        self._counted: tuple[Sequence[Split | None], list[int]] = (
            [None] * len(self.layers),
            [0] * len(self.layers),
        )
        self._positions: tuple[list[int], list[int]] = ([], [])
        self.parts_of = cache(self._find_parts)
        self.ranges_of = cache(self._find_ranges)

    def layers_of(self, name: str) -> range:
        """Return the layers from the one that makes a tensor to the last one that needs it."""
        last = len(self.layers) - 1 if name in self.outputs else max(self.readers[name], default=-1)
        return range(max(self.makers[name], 0), max(self.makers[name], last, 0) + 1)

    def _find_parts(self, n: int, split: Split) -> tuple[Part, ...]:
        return tuple(parts(self.layers[n], split))

    def _find_ranges(
        self, n: int, operand: int | None, split: Split
    ) -> tuple[tuple[int, int], ...]:
        """Return (first byte, bytes) of what each part reads of an operand; None: writes."""
        layer, todo = self.layers[n], self.parts_of(n, split)
        if operand is None:
            return tuple(output_range(layer, part.stripe_span) for part in todo)
        return tuple(input_range(layer, operand, part.stripe_span) for part in todo)

    def positions(self, decision: Decision) -> tuple[list[int], list[int]]:
        """Return the first and the last position of each layer."""
        # Nearly always all but a few layers are cut as they were the last time.
        before, counts = self._counted
        if decision.splits is not before:
            for n, split in enumerate(decision.splits):
                if split is not before[n]:
                    counts[n] = len(self.parts_of(n, split))
            self._counted = (decision.splits, counts)
            ends = list(accumulate(counts, initial=0))
            self._positions = (ends[:-1], [end - 1 for end in ends[1:]])
        return self._positions

    def build(
        self, decision: Decision, chunks: ChunkFunction = _no_chunks, layers: range | None = None
    ) -> PartSequence:
        """Return the sequence of ``decision``.

        layers: where what is needed at once is wanted of these alone; the sequence is true in them
        but for two positions at their ends, and ``runs`` has their parts only.
        """
        return _Builder(self, decision, chunks).build(layers)

    def gap(self, decision: Decision, name: str) -> tuple[int, int] | None:
        """Return the widest gap between the readers of a tensor; see :func:`widest_gap`."""
        first, last = self.positions(decision)
        readers = [(r, first[r], last[r]) for r in self.readers[name]]
        return widest_gap(self.made(decision, name), readers)

    def made(self, decision: Decision, name: str) -> int:
        """Return the position behind which a tensor is complete."""
        n = self.makers[name]
        if n < 0:
            return -1
        first, last = self.positions(decision)
        return first[n] if name in self.converted else last[n]


class _Builder:
    def __init__(self, network: Sequencer, decision: Decision, chunks: ChunkFunction) -> None:
        self.network = network
        self.decision = decision
        self.chunks = chunks
        self.layers = network.layers
        self.late: dict[str, int] = {}  # first layer that reads the second block
        self.stores: dict[str, list[int]] = {}  # numbers of the stores of each tensor

    def build(self, layers: range | None) -> PartSequence:
        network = self.network
        first, last = network.positions(self.decision)
        self.program = PartSequence(first=first, last=last)
        self.end = last[-1] + 1
        if layers is None:
            layers, names = range(len(self.layers)), list(network.flow.forms)
        else:
            names = list(dict.fromkeys(name for n in layers for name in network.alive[n]))
        for name in names:
            self._place_tensor(name)
        for n in layers:
            self._add_layer(n)
        return self.program

    def _place_tensor(self, name: str) -> None:
        """Give a whole tensor its block, or its two blocks when it is spilled between."""
        decision, program, network = self.decision, self.program, self.network
        if name in decision.nearer:
            return
        size = network.flow.forms[name].size_bytes
        n, made = network.makers[name], network.made(decision, name)
        start = program.first[n] if n >= 0 else -1
        last = max([made, *(program.last[n] for n in network.readers[name])])
        if name in decision.in_l3:
            end = self.end if name in network.outputs else last
            program.l3_requests.append(Request(name, size, start, end))
            return
        if name in network.outputs:
            last = self.end - 1
        gap = network.gap(decision, name) if name in decision.spilled else None
        if gap is None:
            program.requests[name] = Request(name, size, start, last)
            return
        before, late = gap
        wait = min(made + 2, program.first[late])
        program.requests[name] = Request(name, size, start, max(before, wait - 1))
        self._store(Store(name, name, 0, 0, size, made + 1, wait))
        use = program.first[late]
        back = f"{name}.back"
        begin = max(use - 1, wait)
        program.requests[back] = Request(back, size, begin, last)
        program.fetches.append(Fetch(back, name, 0, size, begin, use, ready=wait))
        program.l3_requests.append(Request(name, size, made + 1, use))
        self.late[name] = late

    def _store(self, store: Store) -> None:
        self.stores.setdefault(store.tensor, []).append(len(self.program.stores))
        self.program.stores.append(store)

    def _whole_block(self, name: str, layer: int) -> str:
        late = self.late.get(name)
        return f"{name}.back" if late is not None and layer >= late else name

    # -- layers -------------------------------------------------------------------------------

    def _add_layer(self, n: int) -> None:
        program = self.program
        todo = self.network.parts_of(n, self.decision.splits[n])
        base = program.first[n]
        reads = enumerate(self.network.flow.reads[n])
        input_pieces = [self._input_blocks(n, operand, name, base) for operand, name in reads]
        output_pieces = self._output_blocks(n, todo, base)
        chunks = self.chunks(n)
        chunk_block: tuple[int, str] | None = None
        for k, part in enumerate(todo):
            inputs = tuple(pieces[k] for pieces in input_pieces)
            weights = None
            if chunks:
                if chunk_block is None or chunk_block[0] != part.group:
                    size = chunks[part.group]
                    chunk_block = (part.group, self._fetch_chunk(n, size, k, todo, base))
                weights = chunk_block[1]
            output, report = output_pieces[k]
            program.runs.append(Run(n, part, inputs, output, weights, report))

    def _fetch_chunk(self, n: int, size: int, k: int, todo: Sequence[Part], base: int) -> str:
        group, last = todo[k].group, k
        while last + 1 < len(todo) and todo[last + 1].group == group:
            last += 1
        name = f"weights_{self.layers[n].op.index:02d}.{group}"
        if name in self.program.requests:
            name = f"{name}.{k}"
        start = max(base + k - 1, -1)
        self.program.requests[name] = Request(name, size, start, base + last, WEIGHTS)
        self.program.fetches.append(
            Fetch(name, "weights", 0, size, start, base + k, layer=n, chunk=group)
        )
        return name

    def _input_blocks(self, n: int, operand: int, name: str, base: int) -> list[tuple[str, int]]:
        """Return per part (block, byte offset) of what it reads of one operand.

        Parts in a row that read the same bytes of a tensor in L3 share a block.
        """
        ranges = self.network.ranges_of(n, operand, self.decision.splits[n])
        if name not in self.decision.in_l3:
            return [(self._whole_block(name, n), offset) for offset, _ in ranges]
        pieces: list[tuple[str, int]] = []
        index = self.layers[n].op.index
        for visit, ((offset, size), run) in enumerate(groupby(ranges)):
            block = f"{name}>{index:02d}.{operand}.{visit}"
            use = base + len(pieces)
            # The link moves whole units, also those in which the stripe starts and ends.
            lead = offset % self.network.unit
            offset, size = offset - lead, align_up(size + lead, self.network.unit)
            pieces += [(block, lead)] * len(list(run))
            ready = self._stored(name, offset, size, use)
            start = max(use - 1, ready)
            self.program.requests[block] = Request(block, size, start, base + len(pieces) - 1)
            self.program.stripes[block] = n
            self.program.fetches.append(Fetch(block, name, offset, size, start, use, ready=ready))
        return pieces

    def _stored(self, name: str, offset: int, size: int, use: int) -> int:
        """Return when the bytes are in L3; their stores are waited for at ``use`` at the latest."""
        ready = -1
        for i in self.stores.get(name, ()):
            store = self.program.stores[i]
            if store.offset < offset + size and offset < store.offset + store.size:
                if store.wait > use:
                    store = store._replace(wait=use)
                    self.program.stores[i] = store
                    block = self.program.requests[store.block]
                    last = max(block.first, store.start - 1, store.wait - 1)
                    self.program.requests[store.block] = replace(block, last=last)
                ready = max(ready, store.wait)
        return ready

    def _output_blocks(
        self, n: int, todo: Sequence[Part], base: int
    ) -> list[tuple[tuple[str, int], tuple[str, int, int] | None]]:
        """Return per part (block, byte offset) of its output, and what is complete after it."""
        name = self.network.flow.writes[n]
        ranges = self.network.ranges_of(n, None, self.decision.splits[n])
        pieces: list[tuple[tuple[str, int], tuple[str, int, int] | None]] = []
        if name not in self.decision.in_l3:
            whole = (name, 0, self.network.flow.forms[name].size_bytes)
            for k, (offset, _) in enumerate(ranges):
                pieces.append(((name, offset), whole if k == len(todo) - 1 else None))
            return pieces
        for k, (part, (offset, size)) in enumerate(zip(todo, ranges, strict=True)):
            block = f"{name}.{part.stripe}"
            last = k == len(todo) - 1 or todo[k + 1].stripe != part.stripe
            pieces.append(((block, 0), (block, 0, size) if last else None))
            position = base + k
            if block not in self.program.requests:
                self.program.stripes[block] = n
                self.program.requests[block] = Request(block, size, position, position)
            if last:
                wait = max(min(position + 2, self.end), position + 1)
                request = self.program.requests[block]
                self.program.requests[block] = replace(request, last=wait - 1)
                self._store(Store(block, name, 0, offset, size, position + 1, wait))
        return pieces


def widest_gap(made: int, readers: Sequence[tuple[int, int, int]]) -> tuple[int, int] | None:
    """Return (last position before, first layer after) the longest time in which nobody reads.

    readers: (layer, first, last position). None when no gap is long enough to leave L2 and return.
    """
    best: tuple[int, int, int] | None = None
    before = made
    for layer, first, last in readers:
        gap = first - before
        if gap > 3 and (best is None or gap > best[0]):
            best = (gap, before, layer)
        before = max(before, last)
    return (best[1], best[2]) if best is not None else None
