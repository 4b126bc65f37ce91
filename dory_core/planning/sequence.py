"""The execution of a network as a sequence of parts, and what each one needs in L2 and when.

Positions count the parts of all layers in order; position -1 is the moment before the first part
and the one behind the last is the end. What happens at a position before its part runs, in order:

1. waits for transfers started earlier,
2. stores to L3 are started, those that block are waited for,
3. fetches from L3 are started, those that block are waited for.

Fetches are started one position ahead of their use here; ``prefetch`` moves them further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from dory_core.ir import Graph
from dory_core.planning.blocks import WEIGHTS, Request
from dory_core.tiling.outer import Part, Split, input_range, output_range, parts


@dataclass(frozen=True, slots=True)
class Decision:
    """What of a network is streamed or lies in L3.

    splits: per layer position. in_l3: tensors that live in L3 and pass through L2 in stripes.
    spilled: tensors that leave L2 between their early and their late readers.
    streamed: constants come from L3, chunk by chunk.
    """

    splits: tuple[Split, ...]
    in_l3: frozenset[str] = frozenset()
    spilled: frozenset[str] = frozenset()
    streamed: bool = True


@dataclass(frozen=True, slots=True)
class Fetch:
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


@dataclass(frozen=True, slots=True)
class Store:
    """Bytes of a block of L2 that go to L3. wait: position at which the block is free again."""

    block: str
    tensor: str
    block_offset: int
    offset: int
    size: int
    start: int
    wait: int


@dataclass(frozen=True, slots=True)
class Run:
    """A part with the blocks that hold its data, and byte offsets of its data in them."""

    layer: int
    part: Part
    inputs: tuple[tuple[str, int], ...]
    output: tuple[str, int]
    weights: str | None
    report: tuple[str, int, int] | None


@dataclass(slots=True)
class PartSequence:
    """Runs by position, requests for L2 by name, transfers, and the lifetimes of tensors in L3."""

    runs: list[Run] = field(default_factory=list)
    requests: dict[str, Request] = field(default_factory=dict)
    fetches: list[Fetch] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    l3_requests: list[Request] = field(default_factory=list)
    stripes: dict[str, int] = field(default_factory=dict)  # blocks of stripes, and their layer
    first: list[int] = field(default_factory=list)  # first position of each layer
    last: list[int] = field(default_factory=list)  # last position of each layer

    @property
    def end(self) -> int:
        """The position behind the last part."""
        return len(self.runs)

    def layer_at(self, position: int) -> int:
        """Return the layer that runs at a position, the nearest one at the ends."""
        return self.runs[min(max(position, 0), self.end - 1)].layer


def build_sequence(
    graph: Graph, decision: Decision, chunk_bytes: Sequence[Sequence[int]]
) -> PartSequence:
    """Return the program of ``decision``; chunk_bytes: per layer, of each group's constants."""
    return _Builder(graph, decision, chunk_bytes).build()


class _Builder:
    def __init__(
        self, graph: Graph, decision: Decision, chunk_bytes: Sequence[Sequence[int]]
    ) -> None:
        self.graph = graph
        self.decision = decision
        self.chunks = chunk_bytes
        self.program = PartSequence()
        self.layers = graph.layers
        self.parts: list[list[Part]] = []
        self.uses: dict[str, list[int]] = {}  # layers that read a tensor
        for n, layer in enumerate(graph.ops):
            self.parts.append(list(parts(self.layers[n], decision.splits[n])))
            for name in dict.fromkeys(layer.inputs):
                self.uses.setdefault(name, []).append(n)

    def build(self) -> PartSequence:
        program = self.program
        position = 0
        for split in self.parts:
            program.first.append(position)
            position += len(split)
            program.last.append(position - 1)
        self.end = position
        self._place_tensors()
        for n in range(len(self.layers)):
            self._add_layer(n)
        return program

    # -- tensors ------------------------------------------------------------------------------

    def _producer_end(self, name: str) -> int:
        for n, layer in enumerate(self.graph.ops):
            if layer.output == name:
                return self.program.last[n]
        return -1

    def _producer_start(self, name: str) -> int:
        for n, layer in enumerate(self.graph.ops):
            if layer.output == name:
                return self.program.first[n]
        return -1

    def _place_tensors(self) -> None:
        """Give every whole tensor its block, or its two blocks when it is spilled between."""
        decision, program = self.decision, self.program
        self.late: dict[str, int] = {}  # first layer that reads the second block
        for name, tensor in self.graph.tensors.items():
            start, made = self._producer_start(name), self._producer_end(name)
            readers = self.uses.get(name, [])
            last = max([made, *(program.last[n] for n in readers)])
            if name in self.graph.outputs:
                last = self.end
            if name in decision.in_l3:
                program.l3_requests.append(Request(name, tensor.size_bytes, start, last))
                continue
            gap = widest_gap(made, [(n, program.first[n], program.last[n]) for n in readers])
            if name not in decision.spilled or gap is None:
                program.requests[name] = Request(name, tensor.size_bytes, start, last)
                continue
            before, late = gap
            wait = min(made + 2, program.first[late])
            first_last = max(before, wait - 1)
            program.requests[name] = Request(name, tensor.size_bytes, start, first_last)
            program.stores.append(Store(name, name, 0, 0, tensor.size_bytes, made + 1, wait))
            use = program.first[late]
            back = f"{name}.back"
            begin = max(use - 1, wait)
            program.requests[back] = Request(back, tensor.size_bytes, begin, last)
            program.fetches.append(Fetch(back, name, 0, tensor.size_bytes, begin, use, ready=wait))
            program.l3_requests.append(Request(name, tensor.size_bytes, made + 1, use))
            self.late[name] = late

    def _whole_block(self, name: str, layer: int) -> str:
        late = self.late.get(name)
        return f"{name}.back" if late is not None and layer >= late else name

    # -- layers -------------------------------------------------------------------------------

    def _add_layer(self, n: int) -> None:
        layer, program = self.layers[n], self.program
        todo = self.parts[n]
        base = program.first[n]
        input_pieces = [
            self._input_blocks(n, operand, name, todo, base)
            for operand, name in enumerate(layer.op.inputs)
        ]
        output_pieces = self._output_blocks(n, todo, base)
        chunk_block: tuple[int, str] | None = None
        for k, part in enumerate(todo):
            inputs = tuple(pieces[k] for pieces in input_pieces)
            weights = None
            if self.decision.streamed and self.chunks[n]:
                if chunk_block is None or chunk_block[0] != part.group:
                    chunk_block = (part.group, self._fetch_chunk(n, part, k, todo, base))
                weights = chunk_block[1]
            output, report = output_pieces[k]
            program.runs.append(Run(n, part, inputs, output, weights, report))

    def _fetch_chunk(self, n: int, part: Part, k: int, todo: Sequence[Part], base: int) -> str:
        last = k
        while last + 1 < len(todo) and todo[last + 1].group == part.group:
            last += 1
        index = self.layers[n].op.index
        name = f"weights_{index:02d}.{part.group}"
        if name in self.program.requests:
            name = f"{name}.{k}"
        size = self.chunks[n][part.group]
        start = max(base + k - 1, -1)
        self.program.requests[name] = Request(name, size, start, base + last, WEIGHTS)
        self.program.fetches.append(
            Fetch(name, "weights", 0, size, start, base + k, layer=n, chunk=part.group)
        )
        return name

    def _input_blocks(
        self, n: int, operand: int, name: str, todo: Sequence[Part], base: int
    ) -> list[tuple[str, int]]:
        """Return per part (block, byte offset) of what it reads of one operand.

        Parts in a row that read the same bytes of a tensor in L3 share a block.
        """
        layer = self.layers[n]
        ranges = [input_range(layer, operand, part.stripe_span) for part in todo]
        if name not in self.decision.in_l3:
            return [(self._whole_block(name, n), offset) for offset, _ in ranges]
        pieces: list[tuple[str, int]] = []
        for visit, ((offset, size), run) in enumerate(groupby(ranges)):
            block = f"{name}>{layer.op.index:02d}.{operand}.{visit}"
            use = base + len(pieces)
            pieces += [(block, 0)] * len(list(run))
            ready = self._stored(name, offset, size, use)
            start = max(use - 1, ready)
            self.program.requests[block] = Request(block, size, start, base + len(pieces) - 1)
            self.program.stripes[block] = n
            self.program.fetches.append(Fetch(block, name, offset, size, start, use, ready=ready))
        return pieces

    def _stored(self, name: str, offset: int, size: int, use: int) -> int:
        """Return when the bytes are in L3; their stores are waited for at ``use`` at the latest."""
        ready = -1
        for i, store in enumerate(self.program.stores):
            overlaps = store.offset < offset + size and offset < store.offset + store.size
            if store.tensor == name and overlaps:
                if store.wait > use:
                    store = replace(store, wait=use)
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
        layer = self.layers[n]
        name = layer.op.output
        pieces: list[tuple[tuple[str, int], tuple[str, int, int] | None]] = []
        if name not in self.decision.in_l3:
            for k, part in enumerate(todo):
                offset, _ = output_range(layer, part.stripe_span)
                done = (name, 0, layer.output.size_bytes) if k == len(todo) - 1 else None
                pieces.append(((name, offset), done))
            return pieces
        for k, part in enumerate(todo):
            offset, size = output_range(layer, part.stripe_span)
            block = f"{name}.{part.stripe}"
            last = k == len(todo) - 1 or todo[k + 1].stripe != part.stripe
            pieces.append(((block, 0), (block, 0, size) if last else None))
            position = base + k
            if block not in self.program.requests:
                self.program.stripes[block] = n
                self.program.requests[block] = Request(block, size, position, position)
            if last:
                wait = min(position + 2, self.end)
                wait = max(wait, position + 1)
                request = self.program.requests[block]
                self.program.requests[block] = replace(request, last=wait - 1)
                self.program.stores.append(Store(block, name, 0, offset, size, position + 1, wait))
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
