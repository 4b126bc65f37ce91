"""From a decision to the sequence of its parts, with the blocks that each one needs, and when.

Every network is one: a network that fits has one part per layer and fetches nothing.
:mod:`dory_core.planning.sequence.part_sequence` tells what positions are, and what happens at each.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dory_core.ir.geometry import Span
from dory_core.plan.block_ids import BlockId, BlockKind
from dory_core.plan.blocks import WEIGHTS, Request
from dory_core.planning.chains.rolling import MovedBytes
from dory_core.planning.decision import Decision
from dory_core.planning.sequence.network_parts import NetworkParts
from dory_core.planning.sequence.part_sequence import Arrival, Fetch, PartSequence, Run, Store
from dory_core.tiling.outer import Part

# Returns the bytes of a layer's groups of constants that are fetched; empty for none.
ChunkFunction = Callable[[int], Sequence[int]]


def build_sequence(
    network: NetworkParts,
    decision: Decision,
    chunks: ChunkFunction,
    layers: range | None = None,
) -> PartSequence:
    """Return the sequence of a decision.

    Args:
        network: The layers and how they may be cut.
        decision: Splits, and which tensors live in L3 or in L1.
        chunks: Bytes of the groups of constants of a layer that are fetched.
        layers: The layers whose blocks are wanted; None for all of them, and their runs. Without
            fused chains blocks of some layers are true, except at two positions at the ends.
    """
    return _Builder(network, decision, chunks).build(layers)


#: Stands for the part at a position that is not there yet.
_NO_RUN = Run(-1, Part(0, 0, Span(0, 0, 0, 0), (0, 0)), (), (BlockId(""), 0), None, None)


class _Blocks(NamedTuple):
    """Blocks of what passes through L2 for a layer.

    Attributes:
        reads: Those of each operand; None where it lies in L2 as a whole.
        writes: Those of the output; None where it lies in L2 as a whole.
        chunks: Those of the constants.
    """

    reads: Sequence[Sequence[BlockId] | None]
    writes: Sequence[BlockId] | None
    chunks: Sequence[BlockId]


class _Builder:
    def __init__(self, network: NetworkParts, decision: Decision, chunks: ChunkFunction) -> None:
        self.network = network
        self.decision = decision
        self.chunks = chunks
        self.layers = network.layers
        self.late: dict[str, int] = {}  # first layer that reads the second block
        # First bytes and numbers of the stores of each tensor, in order; they lie apart.
        self.stores: dict[str, list[tuple[int, int]]] = {}
        self.arrivals: dict[int, list[Arrival]] = {}  # by position
        self.early: dict[int, list[tuple[BlockId, MovedBytes]]] = {}  # by position

    def build(self, layers: range | None) -> PartSequence:
        first, last = self.network.positions(self.decision)
        self.end = max(last) + 1  # a chain may end with rows that its last layer does not read
        runs = [_NO_RUN] * self.end
        self.program = PartSequence(runs, first=first, last=last, end=self.end)
        for name in self.network.flow.forms if layers is None else self.network.names_in(layers):
            self._place_tensor(name)
        for n in range(len(self.layers)) if layers is None else layers:
            found = self._add_layer(n)
            if layers is None:
                self._add_runs(n, *found)
        for position, arrivals in self.arrivals.items():
            runs[position] = runs[position]._replace(arrivals=tuple(arrivals))
        for position, early in self.early.items():
            runs[position] = runs[position]._replace(early=tuple(early))
        return self.program

    def _place_tensor(self, name: str) -> None:
        """Give a whole tensor its block, or its two blocks when it is spilled between."""
        decision, program, network = self.decision, self.program, self.network
        if name in decision.resident or name in decision.fused:
            return
        block, size = network.wholes[name], network.sizes[name]
        start, last = self._life(name)
        if name in network.views.groups:
            lives = [self._life(one) for one in network.views.groups[name]]
            start, last = min(first for first, _ in lives), max(last for _, last in lives)
            whole, at = network.views.places.get(name, ("", 0))
            within = BlockId(whole) if whole else None
            keeps = not network.states.isdisjoint(network.views.groups[name])
            program.requests[block] = Request(
                block, size, start, last, within=within, at_bytes=at, persistent=keeps
            )
            return
        if name in decision.in_l3:
            end = self.end if name in network.outlive else last
            program.l3_requests.append(Request(block, size, start, end))
            return
        gap = network.gap(decision, name) if name in decision.spilled else None
        if gap is None:
            keeps = name in network.states
            program.requests[block] = Request(block, size, start, last, persistent=keeps)
            return
        before, late = gap
        made = network.made(decision, name)
        wait = min(made + 2, program.first[late])
        program.requests[block] = Request(block, size, start, max(before, wait - 1))
        self._store(Store(block, name, 0, 0, size, made + 1, wait))
        use = program.first[late]
        back = network.backs[name]
        begin = max(use - 1, wait)
        program.requests[back] = Request(back, size, begin, last)
        program.fetches.append(Fetch(back, name, 0, size, begin, use, ready=wait))
        program.l3_requests.append(Request(block, size, made + 1, use))
        self.late[name] = late

    def _life(self, name: str) -> tuple[int, int]:
        """Return the first and the last position at which a whole tensor is needed."""
        network, program = self.network, self.program
        n = network.makers[name]
        start = program.first[n] if n >= 0 else -1
        if name in network.outlive:
            return start, self.end - 1
        made = start if n < 0 or name in network.converted else program.last[n]
        return start, max([made, *(program.last[n] for n in network.readers[name])])

    def _store(self, store: Store) -> None:
        insort(self.stores.setdefault(store.tensor, []), (store.offset, len(self.program.stores)))
        self.program.stores.append(store)

    def _whole_block(self, name: str, layer: int) -> BlockId:
        late = self.late.get(name)
        back = late is not None and layer >= late
        return self.network.backs[name] if back else self.network.wholes[name]

    # -- layers -------------------------------------------------------------------------------

    def _add_layer(self, n: int) -> _Blocks:
        """Fetch and store what passes through L2 in pieces, and return its blocks."""
        flow, decision = self.network.flow, self.decision
        split = decision.splits[n]
        if split.takes_turns:
            self.program.turns[n] = self.network.turns_of(decision, n)
        if split.takes_turns and split.place == 0:
            self._take_rows(n)
        at = self.program.positions_of(n)
        reads = [
            self._fetch_stripes(n, k, name, at) if name in decision.in_l3 else None
            for k, name in enumerate(flow.reads[n])
        ]
        writes = None
        if flow.writes[n] in decision.in_l3:
            writes = self._store_stripes(n, at)
        elif flow.writes[n] in decision.fused:
            writes = self._roll(n, at)
        return _Blocks(reads, writes, self._fetch_chunks(n, at))

    def _add_runs(
        self,
        n: int,
        reads: Sequence[Sequence[BlockId] | None],
        writes: Sequence[BlockId] | None,
        chunks: Sequence[BlockId],
    ) -> None:
        """Add the runs of a layer: where each part finds its inputs, output and constants."""
        network, split = self.network, self.decision.splits[n]
        inputs = [self._inputs(n, k, blocks) for k, blocks in enumerate(reads)]
        name, todo = network.flow.writes[n], network.parts_of(n, split)
        ranges = network.ranges_of(n, None, split)
        buffer = network.buffer_of(self.decision, n)
        stripes = [] if writes is None or buffer is not None else self._spread(n, None, writes)
        weights: Sequence[BlockId | None] = self._spread(n, "w", chunks) or [None] * len(todo)
        whole, size = network.wholes[name], network.flow.forms[name].size_bytes
        for (k, part), position in zip(enumerate(todo), self.program.positions_of(n), strict=True):
            last, moves = k == len(todo) - 1, None
            output, done = (whole, ranges[k][0]), (whole, 0, size)
            if stripes:
                last = last or stripes[k + 1] != stripes[k]
                output, done = (stripes[k], 0), (stripes[k], 0, ranges[k][1])
            elif buffer is not None:
                output = (BlockId(name, BlockKind.ROLLING), buffer.writes[k])
                last, done = True, (*output, ranges[k][1])
                moves = self._moves(n, output[0], buffer.moves.get(k), position)
            report = done if last else None
            operands = tuple(pieces[k] for pieces in inputs)
            run = Run(n, part, operands, output, weights[k], report, moves)
            self.program.runs[position] = run

    def _moves(
        self, n: int, block: BlockId, moves: MovedBytes | None, position: int
    ) -> MovedBytes | None:
        """Return the rows that move before a part adds some; None where they move early, or none.

        Args:
            n: Number of the layer.
            block: The rolling buffer of its output.
            moves: The rows.
            position: That of the part.
        """
        rows = self.network.chain_rows(self.decision, n)
        if moves is None or not moves.size or rows is None or block.tensor not in rows.early:
            return moves
        used = (at for m in self._users(n) for at in self.network.turns_of(self.decision, m))
        after = max(at for at in used if at < position) + 1
        self.early.setdefault(after, []).append((block, moves))
        return None

    def _users(self, n: int) -> set[int]:
        """Return the layers that use the rolling buffer of the output of a layer."""
        buffer, first = self.network.buffer_of(self.decision, n), n - self.decision.splits[n].place
        makers = [first + one for one in buffer.members] if buffer and buffer.members else [n]
        names = [self.network.flow.writes[m] for m in makers]
        return {*makers, *(m for one in names for m in self.network.readers[one])}

    def _spread(
        self, n: int, operand: int | str | None, blocks: Sequence[BlockId]
    ) -> list[BlockId]:
        """Return the block of each part.

        Args:
            n: Number of the layer.
            operand: Number of the operand, ``w`` for constants, None for the output.
            blocks: Those of the visits of it.
        """
        visits = self.network.visits_of(n, operand, self.decision.splits[n])
        return [b for b, visit in zip(blocks, visits, strict=False) for _ in range(visit.parts)]

    def _inputs(
        self, n: int, operand: int, blocks: Sequence[BlockId] | None
    ) -> list[tuple[BlockId, int]]:
        """Return per part (block, byte offset) of what it reads of an operand."""
        split, name = self.decision.splits[n], self.network.flow.reads[n][operand]
        ranges = self.network.ranges_of(n, operand, split)
        if name in self.decision.fused:
            buffer = self.network.read_buffer(self.decision, n, name)
            block = BlockId(name, BlockKind.ROLLING)
            return [(block, at) for at in buffer.reads[split.place, operand]]
        if blocks is None:
            block = self._whole_block(name, n)
            return [(block, offset) for offset, _ in ranges]
        unit, spread = self.network.unit, self._spread(n, operand, blocks)
        return [(block, at % unit) for block, (at, _) in zip(spread, ranges, strict=True)]

    def _fetch_chunks(self, n: int, at: Sequence[int]) -> list[BlockId]:
        sizes, blocks = self.chunks(n), list[BlockId]()
        if not sizes:
            return blocks
        program = self.program
        pieces = self.network.chunks_of(n, self.decision.splits[n])
        for block, first, count, _, _, group in pieces:
            use, size = at[first], sizes[group]
            start = use - 1 if use > 0 else -1
            last = at[first + count - 1]
            program.requests[block] = Request(block, size, start, last, WEIGHTS)
            program.chunks[block] = n
            program.fetches.append(Fetch(block, "weights", 0, size, start, use, -1, n, group))
            blocks.append(block)
        return blocks

    def _fetch_stripes(self, n: int, operand: int, name: str, at: Sequence[int]) -> list[BlockId]:
        """Fetch what parts read of a tensor in L3; those in a row that read the same share it."""
        program, blocks = self.program, list[BlockId]()
        pieces = self.network.stripes_of(n, operand, self.decision.splits[n])
        in_chain = self.decision.splits[n].chain > 1
        for block, first, count, offset, size, _ in pieces:
            use = at[first]
            ready = self._stored(name, offset, size, use)
            start = use - 1
            if in_chain:  # it is in flight while the other layers compute
                start = min(start, at[first - 1] + 1 if first else at[0] - 1)
            start = max(start, at[0] - 1, ready)
            program.requests[block] = Request(block, size, start, at[first + count - 1])
            program.stripes[block] = n
            program.fetches.append(Fetch(block, name, offset, size, start, use, ready))
            blocks.append(block)
        return blocks

    def _roll(self, n: int, at: Sequence[int]) -> list[BlockId]:
        """Keep the rows of an output that other layers of the chain still read."""
        name, network = self.network.flow.writes[n], self.network
        buffer, first = network.buffer_of(self.decision, n), n - self.decision.splits[n].place
        assert buffer is not None, name
        makers = [first + one for one in buffer.members] or [n]
        names = [network.flow.writes[m] for m in makers]
        turns = [network.turns_of(self.decision, m) for m in self._users(n)]
        life = min(one[0] for one in turns), max(one[-1] for one in turns)
        whole, block = BlockId(names[0], BlockKind.ROLLING), BlockId(name, BlockKind.ROLLING)
        within, at_bytes = self._chain_block(n, names[0])
        requests, size = self.program.requests, buffer.size_bytes
        requests[whole] = Request(whole, size, *life, within=within, at_bytes=at_bytes)
        if block != whole:
            within = within or whole
            requests[block] = Request(block, size, *life, within=within, at_bytes=at_bytes)
        self.program.stripes[block] = n
        return [block]

    def _chain_block(self, n: int, name: str) -> tuple[BlockId | None, int]:
        """Return the block that a rolling buffer lies in, and where; None for one of its own.

        Args:
            n: A layer of the chain.
            name: The first tensor of the buffer.
        """
        rows = self.network.chain_rows(self.decision, n)
        if rows is None:
            return None, 0
        split, chain = self.decision.splits[n], self.network.chain_of(self.decision, n)
        start = self.program.first[n] - chain.positions[split.place][0]
        block = BlockId(next(iter(rows.places)), BlockKind.CHAIN)
        last = start + chain.parts - 1
        self.program.requests[block] = Request(block, rows.size_bytes, start, last)
        return block, rows.places[name]

    def _take_rows(self, n: int) -> None:
        """Let the rows of network inputs come that a chain reads whose first layer is given."""
        network = self.network
        chain, start = network.chain_of(self.decision, n), self.program.first[n]
        start -= chain.positions[0][0]
        for number, name in enumerate(chain.taken):
            buffer = network.read_buffer(self.decision, n, name)
            block = BlockId(name, BlockKind.ROLLING)
            coming = [(start + at, k) for at, which, k in chain.arrivals if which == number]
            last = max(network.turns_of(self.decision, m)[-1] for m in network.readers[name])
            within, at_bytes = self._chain_block(n, name)
            self.program.requests[block] = Request(
                block, buffer.size_bytes, coming[0][0], last, within=within, at_bytes=at_bytes
            )
            self.program.stripes[block] = n
            for at, k in coming:
                where, moves = (block, buffer.writes[k]), buffer.moves.get(k)
                found = Arrival(name, where, *chain.pieces[number][k], moves)
                self.arrivals.setdefault(at, []).append(found)

    def _store_stripes(self, n: int, at: Sequence[int]) -> list[BlockId]:
        """Store the stripes of an output in L3, each when its last part has run."""
        name, blocks = self.network.flow.writes[n], list[BlockId]()
        pieces = self.network.stripes_of(n, None, self.decision.splits[n])
        in_chain = self.decision.splits[n].chain > 1
        for block, first, count, offset, size, _ in pieces:
            start, after = at[first + count - 1] + 1, first + count
            wait = at[after] if in_chain and after < len(at) else start + 1
            wait = max(min(wait, self.end), start)
            self.program.requests[block] = Request(block, size, at[first], wait - 1)
            self.program.stripes[block] = n
            self._store(Store(block, name, 0, offset, size, start, wait))
            blocks.append(block)
        return blocks

    def _stored(self, name: str, offset: int, size: int, use: int) -> int:
        """Return when the bytes are in L3; their stores are waited for at ``use`` at the latest."""
        ready, end, stores = -1, offset + size, self.program.stores
        mine = self.stores.get(name, [])
        nearest = max(0, bisect_left(mine, (offset + 1,)) - 1)
        for begin, i in mine[nearest : bisect_left(mine, (end,))]:
            block, _, _, _, length, start, wait = stores[i]
            if offset < begin + length:
                if wait > use:
                    wait = use
                    stores[i] = stores[i]._replace(wait=wait)
                    kept = self.program.requests[block]
                    last = max(kept.first, start - 1, wait - 1)
                    self.program.requests[block] = Request(block, kept.size_bytes, kept.first, last)
                ready = max(ready, wait)
        return ready
