"""Rolling buffers: the turns of the layers of a fused chain, and which rows of a tensor stay.

A tensor between layers of a chain is never whole in L2. Its *rolling buffer* holds the rows that
some layer still reads. Each part of the layer that makes the tensor adds rows after them; where
the buffer has no room for these, the rows that are still needed move to its start first. So no row
is computed twice, as in Goetschalckx and Verhelst, "Breaking High-Resolution CNN Bandwidth Barriers
with Enhanced Depth-First Execution", JETCAS 2019.

Ranges are (first byte, bytes) of a whole tensor, in rising order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

Ranges = Sequence[tuple[int, int]]


class Turn(NamedTuple):
    """A part of a layer of a chain that runs.

    Attributes:
        layer: Number of the layer in the chain. Below 0 are makers outside the chain: the caller,
            who makes rows of inputs.
        part: Number of the part.
    """

    layer: int
    part: int


class Needs(NamedTuple):
    """What the layers of a chain need of each other, in rows.

    Attributes:
        totals: Output rows of each layer.
        most: Most rows of a part of each layer, a multiple of its granule.
        granules: Parts of each layer begin at multiples of it.
        makers: Numbers of the layers whose outputs each layer reads, in the chain.
        until: Tells how many rows of one of them are needed for output rows of a layer: of the
            layer, the position in its ``makers``, the first row and the number of rows.
    """

    totals: Sequence[int]
    most: Sequence[int]
    granules: Sequence[int]
    makers: Sequence[Sequence[int]]
    until: Callable[[int, int, int, int], int]


class MovedBytes(NamedTuple):
    """Bytes of a buffer that move to its start.

    Attributes:
        source: First of the bytes.
        size: How many.
    """

    source: int
    size: int


@dataclass(frozen=True, slots=True)
class RollingBuffer:
    """Where the rows of a tensor lie in its buffer.

    Attributes:
        size_bytes: Bytes of the buffer.
        writes: Byte of the buffer at which each part of its maker writes.
        reads: Bytes of the buffer at which each part of a reader reads, by the reader's key.
        moves: What moves to the start of the buffer before a part of its maker, by that part.
        members: Makers of the tensors that share it, in the chain; empty for a buffer of one
            tensor. Before a part of the first one the rows of all of them move.
    """

    size_bytes: int
    writes: tuple[int, ...]
    reads: Mapping[tuple[int, int], tuple[int, ...]]
    moves: Mapping[int, MovedBytes] = field(default_factory=dict)
    members: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", MappingProxyType(dict(self.reads)))
        object.__setattr__(self, "moves", MappingProxyType(dict(self.moves)))


@dataclass(frozen=True, slots=True)
class RollingChain:
    """The turns of the layers of a fused chain.

    The caller is the maker of network inputs that come by rows. Its turns have no positions of
    their own: they belong to the next part of a layer.

    Attributes:
        order: The turns; those of input ``k`` of ``taken`` have the layer ``-1 - k``.
        positions: Those of the parts of each layer, counted from the first part.
        taken: Network inputs that come by rows.
        pieces: (first byte, bytes) of the pieces in which each of them comes.
        arrivals: Position, number in ``taken`` and number of each piece.
    """

    order: tuple[Turn, ...]
    positions: tuple[tuple[int, ...], ...]
    taken: tuple[str, ...] = ()
    pieces: tuple[Ranges, ...] = ()
    arrivals: tuple[tuple[int, int, int], ...] = ()

    @property
    def parts(self) -> int:
        """Number of parts of all layers."""
        return sum(map(len, self.positions))


def turns(needs: Needs) -> tuple[tuple[int, ...], ...]:
    """Return the first row of each part of each layer of a chain.

    A part runs as late as its readers allow and has as many rows as they need, up to the most.
    """

    def count(n: int, start: int, end: int) -> int:
        wanted = -(-(end - start) // needs.granules[n]) * needs.granules[n]
        return min(needs.most[n], wanted, needs.totals[n] - start)

    return _run(needs, count)[1]


def turns_of(needs: Needs, starts: Sequence[Sequence[int]]) -> tuple[Turn, ...]:
    """Return the parts of a chain in the order in which they run.

    Args:
        needs: As for :func:`turns`.
        starts: The first row of each part of each layer.
    """
    ends = [
        dict(zip(one, (*one[1:], total), strict=True))
        for one, total in zip(starts, needs.totals, strict=True)
    ]
    return _run(needs, lambda n, start, _: ends[n][start] - start)[0]


def _run(
    needs: Needs, count: Callable[[int, int, int], int]
) -> tuple[tuple[Turn, ...], tuple[tuple[int, ...], ...]]:
    """Return the order of parts, and their first rows.

    Args:
        needs: Those of the chain.
        count: Rows of the part of a layer that begins at a row, on the way to another row.
    """
    order = list[Turn]()
    done, starts = [0] * len(needs.totals), [list[int]() for _ in needs.totals]

    def make(n: int, end: int) -> None:
        """Run parts of a layer until it has made the rows before ``end``."""
        while done[n] < end:
            start = done[n]
            rows = count(n, start, end)
            for k, maker in enumerate(needs.makers[n]):
                make(maker, needs.until(n, k, start, rows))
            order.append(Turn(n, len(starts[n])))
            starts[n].append(start)
            done[n] = start + rows

    for n in reversed(range(len(needs.totals))):
        make(n, needs.totals[n])
    return tuple(order), tuple(map(tuple, starts))


def with_arrivals(
    order: Iterable[Turn], readers: Sequence[Mapping[tuple[int, int], Ranges]]
) -> tuple[tuple[Turn, ...], tuple[Ranges, ...]]:
    """Return an order with the turns of tensors that come from outside, and what these write.

    Each piece comes right before the part that needs it. Rows that no layer has read until then
    come by themselves, so that they are not kept. What comes after the last piece is not read. The
    pieces of tensor ``k`` are turns of layer ``-1 - k``.

    Args:
        order: In which the parts of the chain run.
        readers: Of each tensor, what each part of a reader reads, by layer of the chain and
            operand.
    """
    found, writes = list[Turn](), [list[tuple[int, int]]() for _ in readers]
    done = [0] * len(readers)
    for turn in order:
        for k, reads in enumerate(readers):
            ranges = [one[turn.part] for key, one in reads.items() if key[0] == turn.layer]
            for border in sorted({at for start, size in ranges for at in (start, start + size)}):
                if border > done[k]:
                    found.append(Turn(-1 - k, len(writes[k])))
                    writes[k].append((done[k], border - done[k]))
                    done[k] = border
        found.append(turn)
    return tuple(found), tuple(map(tuple, writes))


def rolling_chain(
    order: Sequence[Turn],
    layers: int,
    taken: Sequence[str],
    readers: Sequence[Mapping[tuple[int, int], Sequence[tuple[int, int]]]],
) -> RollingChain:
    """Return the turns of a chain, with those of the caller.

    Args:
        order: The turns of its layers.
        layers: Number of its layers.
        taken: Network inputs that come by rows.
        readers: Of each of them, the ranges that each part reads, by its reader.
    """
    order, pieces = with_arrivals(order, readers)
    positions: list[list[int]] = [[] for _ in range(layers)]
    position, arrivals = 0, list[tuple[int, int, int]]()
    for layer, part in order:
        if layer < 0:
            arrivals.append((position, -1 - layer, part))
        else:
            positions[layer].append(position)
            position += 1
    return RollingChain(order, tuple(map(tuple, positions)), tuple(taken), pieces, tuple(arrivals))
