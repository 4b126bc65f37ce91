"""The parts of a network in order: which blocks each one needs, and what is moved before it.

Positions count the parts of all layers in order; position -1 is the moment before the first part
and the one after the last is the end. What happens at a position before its part runs, in order:

1. waits for transfers started earlier,
2. stores to L3 are started, those that block are waited for,
3. fetches from L3 are started, those that block are waited for.

Fetches are started one position ahead of their use, until ``prefetch`` moves them further.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from dory_core.plan.block_ids import BlockId
from dory_core.plan.blocks import Request
from dory_core.planning.chains.rolling import MovedBytes
from dory_core.schedule.loops import Schedule
from dory_core.tiling.outer import Part


class Fetch(NamedTuple):
    """Bytes of L3 that a block of L2 is filled with before its first use.

    Attributes:
        block: The block of L2.
        source: Name of the tensor, or ``weights``.
        offset, size: Bytes within the source.
        start: Position at which it is started.
        use: Position of the first part that needs it.
        ready: Earliest position of the start.
        layer, chunk: Numbers of the layer and of its group of constants; -1 for a tensor.
    """

    block: BlockId
    source: str
    offset: int
    size: int
    start: int
    use: int
    ready: int = -1
    layer: int = -1
    chunk: int = -1


class Store(NamedTuple):
    """Bytes of a block of L2 that go to L3.

    Attributes:
        block: The block of L2.
        tensor: Name of the tensor that the bytes belong to.
        block_offset: First byte in the block.
        offset, size: Bytes within the tensor.
        start: Position at which it is started.
        wait: Position at which the block is free again.
    """

    block: BlockId
    tensor: str
    block_offset: int
    offset: int
    size: int
    start: int
    wait: int


class Arrival(NamedTuple):
    """Rows of a network input that come before a part runs.

    Attributes:
        tensor: The input.
        output: The block that they come to, and the byte of it.
        first, size: Bytes of the tensor.
        moves: Rows of the block that move to the start of it before.
    """

    tensor: str
    output: tuple[BlockId, int]
    first: int
    size: int
    moves: MovedBytes | None


class Run(NamedTuple):
    """A part with the blocks that hold its data, and byte offsets of its data in them.

    Attributes:
        layer: Number of the layer.
        part: Stripe and group of channels.
        inputs: (block, first byte) of each operand.
        output: (block, first byte) of what it writes.
        weights: The block of fetched constants, None for linked ones.
        report: (block, first byte, bytes) of the output that is complete after the part, None for
            none.
        moves: Rows of the rolling buffer of its output that move to the start of it before.
        arrivals: Rows of network inputs that come before.
        early: Rolling buffers of other tensors, and their rows that move to their start before.
    """

    layer: int
    part: Part
    inputs: tuple[tuple[BlockId, int], ...]
    output: tuple[BlockId, int]
    weights: BlockId | None
    report: tuple[BlockId, int, int] | None
    moves: MovedBytes | None = None
    arrivals: tuple[Arrival, ...] = ()
    early: tuple[tuple[BlockId, MovedBytes], ...] = ()


@dataclass(slots=True)
class PartSequence:
    """All parts of a network, the blocks of L2 that they need, and the transfers from and to L3.

    Attributes:
        runs: The parts by position.
        requests: Sizes and live ranges of the blocks of L2.
        fetches, stores: From L3 and to it, in the order in which they were found.
        l3_requests: Live ranges of tensors in L3.
        stripes, chunks: Blocks of stripes, and of constants that are fetched, with the number of
            their layer.
        first, last: Positions of each layer's parts.
        end: The position after the last part.
        turns: All positions of layers in fused chains, by layer; those of other layers follow one
            another.
    """

    runs: list[Run] = field(default_factory=list)
    requests: dict[BlockId, Request] = field(default_factory=dict)
    fetches: list[Fetch] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    l3_requests: list[Request] = field(default_factory=list)
    stripes: dict[BlockId, int] = field(default_factory=dict)
    chunks: dict[BlockId, int] = field(default_factory=dict)
    first: Sequence[int] = ()
    last: Sequence[int] = ()
    end: int = 0
    turns: dict[int, Sequence[int]] = field(default_factory=dict)

    def positions_of(self, n: int) -> Sequence[int]:
        """Return the positions of a layer's parts."""
        return self.turns.get(n) or range(self.first[n], self.last[n] + 1)

    def runs_of(self, n: int) -> list[Run]:
        """Return the runs of a layer's parts."""
        return [self.runs[position] for position in self.positions_of(n)]


class Visit(NamedTuple):
    """Parts in a row that use the same thing.

    Attributes:
        first: Number of the first of them in the layer.
        parts: How many.
    """

    first: int
    parts: int


class Piece(NamedTuple):
    """What a visit uses: bytes of a tensor, or a group of constants.

    Attributes:
        block: The block of L2 that holds it.
        first, parts: Those of the visit.
        offset, size: Byte range of the tensor; 0 for constants.
        group: Number of the group of constants; 0 for a tensor.
    """

    block: BlockId
    first: int
    parts: int
    offset: int = 0
    size: int = 0
    group: int = 0


def widest_gap(made: int, readers: Sequence[tuple[int, int, int]]) -> tuple[int, int] | None:
    """Return (last position before, first layer after) the longest time without a reader.

    None when no gap is long enough to leave L2 and return.

    Args:
        made: Position after which the tensor is complete.
        readers: (layer, first, last position) of each reader, in order.
    """
    best: tuple[int, int, int] | None = None
    before = made
    for layer, first, last in readers:
        gap = first - before
        if gap > 3 and (best is None or gap > best[0]):
            best = (gap, before, layer)
        before = max(before, last)
    return (best[1], best[2]) if best is not None else None


def same_inputs(schedules: Sequence[Schedule], runs: Sequence[Run]) -> list[bool]:
    """Return for each part of a layer whether the part before has the same inputs in L1.

    That is so where both have them in one tile.
    """
    one_tile = all(s.counts[1:] == (1, 1, 1) and not s.is_channelwise for s in schedules)
    found = [False]
    for before, run in pairwise(runs):
        same = run.inputs == before.inputs
        found.append(one_tile and same and run.part.stripe_span == before.part.stripe_span)
    return found


def waits_before_prefetch(program: PartSequence, users: Mapping[int, int]) -> PartSequence:
    """Return a network that waits for fetched constants before the layer that loads them.

    Args:
        program: The network.
        users: By the layer that starts a weight prefetch, the layer that it is for.
    """
    use = {fetch.block: fetch.use for fetch in program.fetches}
    for n, user in users.items():
        block = program.runs_of(user)[0].weights
        if block is not None:
            use[block] = min(use[block], program.first[n])
    fetches = [fetch._replace(use=use[fetch.block]) for fetch in program.fetches]
    return replace(program, fetches=fetches)
