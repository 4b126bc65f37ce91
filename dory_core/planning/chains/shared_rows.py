"""Rolling buffers that several tensors of a fused chain share.

A layer that computes each element of the element at the same place writes its output over its
input: rows of both have as many bytes, so both lie in one buffer. Where rows of the input are read
again by another layer, the output lies some rows before
them.

    a sum reads x, which no other layer reads later, and its output y takes the place of x

    before      | y0 | x1 | x2 | x3 |
    sum         | y0 | y1 | x2 | x3 |
    move        | y1 | x2 | x3 |    |   when y0 was read, and the maker of x adds a row
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from dory_core.planning.chains.rolling import MovedBytes, Ranges, RollingBuffer, Turn

#: The end of every tensor.
ALL = 1 << 62

#: A reader of a tensor: the layer of the chain, and which of its operands it is.
Reader = tuple[int, int]


class Rolling(NamedTuple):
    """A tensor between layers of a chain.

    Attributes:
        maker: Number of the layer that makes it, in the chain.
        writes: What each of its parts writes.
        readers: What each part of a reader reads, by reader.
        written_over: Readers whose output may take its place.
    """

    maker: int
    writes: Ranges
    readers: Mapping[Reader, Ranges]
    written_over: Collection[Reader] = ()

    def reads(self, turn: Turn, without: Reader | None = None) -> Iterator[int]:
        """Yield the first byte that each reader reads in a turn, one reader left out."""
        for key, ranges in self.readers.items():
            if key[0] == turn.layer and key != without:
                yield ranges[turn.part][0]


@dataclass(frozen=True, slots=True)
class SharedRows:
    """A buffer of one tensor, or of several of which each is written over the one before it.

    Attributes:
        tensors: The tensors.
        before: Bytes by which each lies before the first one.
        buffers: The places of the rows of each.
        taken: Number of the layer, in the chain, whose buffer this one has taken over; -1 for none.
    """

    tensors: tuple[Rolling, ...]
    before: tuple[int, ...]
    buffers: tuple[RollingBuffer, ...]
    taken: int = -1

    @property
    def size_bytes(self) -> int:
        """Bytes of the buffer."""
        return self.buffers[0].size_bytes

    @property
    def moved_bytes(self) -> int:
        """Bytes of rows that move to the start of the buffer, in all."""
        return sum(move.size for move in self.buffers[0].moves.values())


def shared_rows(order: Sequence[Turn], tensors: Sequence[Rolling]) -> dict[int, SharedRows]:
    """Return the buffer that begins with each tensor, of the tensors from its maker on.

    What a buffer has taken over has none of its own. How the layers from one on share buffers does
    not depend on layers before it.

    Args:
        order: In which the parts of the chain run.
        tensors: All tensors between layers of the chain.
    """
    found, free = dict[int, SharedRows](), dict[int, SharedRows]()
    turns = dict[int, list[tuple[int, Turn]]]()
    for at, turn in enumerate(order):
        turns.setdefault(turn.layer, []).append((at, turn))
    for tensor in sorted(tensors, key=lambda one: -one.maker):
        alone = _alone(_own(turns, [tensor]), tensor)
        best, saved = SharedRows((tensor,), (0,), (alone,)), 0
        for reader in tensor.written_over:
            if (other := free.get(reader[0])) is None:
                continue
            own = _own(turns, [tensor, *other.tensors])
            joint = _over(own, tensor, reader, other)
            if joint and alone.size_bytes + other.size_bytes - joint.size_bytes > saved:
                best = joint
                saved = alone.size_bytes + other.size_bytes - joint.size_bytes
        free.pop(best.taken, None)
        found[tensor.maker] = free[tensor.maker] = best
    return found


def buffers_of(found: Mapping[int, SharedRows]) -> dict[int, RollingBuffer]:
    """Return the rolling buffer of the output of each layer of a chain."""
    buffers, taken = dict[int, RollingBuffer](), {one.taken for one in found.values()}
    for maker in sorted(found):
        if maker not in taken:
            pairs = zip(found[maker].tensors, found[maker].buffers, strict=True)
            buffers |= {tensor.maker: buffer for tensor, buffer in pairs}
    return buffers


def _own(turns: Mapping[int, Sequence[tuple[int, Turn]]], tensors: Iterable[Rolling]) -> list[Turn]:
    """Return the turns of the makers and readers of some tensors, in order.

    Args:
        turns: Those of each layer, with their places in the order.
        tensors: The tensors.
    """
    users = {layer for one in tensors for layer in (one.maker, *(key[0] for key in one.readers))}
    return [turn for _, turn in sorted(chain(*(turns[layer] for layer in users)))]


def _over(
    own: Sequence[Turn], tensor: Rolling, reader: Reader, other: SharedRows
) -> SharedRows | None:
    """Return a buffer in which a layer writes its output over its input.

    Args:
        own: The turns of all layers that use the buffer.
        tensor: The input.
        reader: The layer with the operand.
        other: The buffer of the output.

    Returns:
        None where rows would move before anything was written there.
    """
    tensors = (tensor, *other.tensors)
    distance = _distance(own, tensor, reader, other.tensors[0])
    before = (0, *(distance + one for one in other.before))
    buffers = _buffers(own, tensors, before)
    return None if buffers is None else SharedRows(tensors, before, buffers, tensors[1].maker)


def rolling_buffer(order: Iterable[Turn], tensor: Rolling) -> RollingBuffer:
    """Return the smallest buffer of a tensor.

    Args:
        order: In which the parts of the chain run.
        tensor: The tensor.
    """
    users = {tensor.maker, *(layer for layer, _ in tensor.readers)}
    return _alone([turn for turn in order if turn.layer in users], tensor)


def _alone(own: Sequence[Turn], tensor: Rolling) -> RollingBuffer:
    """Return the smallest buffer of a tensor; ``own``: the turns of its maker and readers."""
    found = _buffers(own, (tensor,), (0,))
    assert found is not None  # rows move once some are there
    return found[0]


def _buffers(
    own: Sequence[Turn], tensors: Sequence[Rolling], before: Sequence[int]
) -> tuple[RollingBuffer, ...] | None:
    """Return the places of tensors in the smallest buffer of all of them, each over the one before.

    Args:
        own: The turns of all layers that use the buffer.
        tensors: The tensors.
        before: Bytes by which each lies before the first one.

    Returns:
        None where rows would move before anything was written there.
    """
    first = tensors[0]
    needed = _first_needed(own, tensors, before)
    size = max(
        sum(first.writes[turn.part]) - start
        for turn, start in zip(own, needed, strict=True)
        if turn.layer == first.maker
    )
    origin, moves, places = -before[-1], dict[int, MovedBytes](), list[int]()
    for (layer, part), kept in zip(own, needed, strict=True):
        if layer == first.maker:
            start, new = first.writes[part]
            if start + new - origin > size:
                if kept < 0:
                    return None
                moves[part] = MovedBytes(kept - origin, start - kept)
                origin = kept
        places.append(origin)
    members = tuple(one.maker for one in tensors) if len(tensors) > 1 else ()
    buffers = [
        replace(_placed(own, places, one, shift, size), members=members)
        for one, shift in zip(tensors, before, strict=True)
    ]
    return (replace(buffers[0], moves=moves), *buffers[1:])


def _distance(own: Sequence[Turn], tensor: Rolling, reader: Reader, output: Rolling) -> int:
    """Return by how many bytes the output of a layer has to lie before its input.

    What it writes lies before all bytes of the input that other parts still read.
    """
    needed, distance = ALL, 0
    for turn in reversed(own):
        needed = min([needed, *tensor.reads(turn, without=reader)])
        if turn.layer == output.maker:
            distance = max(distance, sum(output.writes[turn.part]) - needed)
        needed = min([needed, *tensor.reads(turn)])
    return distance


def _first_needed(
    own: Sequence[Turn], tensors: Sequence[Rolling], before: Sequence[int]
) -> list[int]:
    """Return the first byte, counted in the first tensor, that is used at or after each turn."""
    uses = dict[int, list[tuple[Ranges, int]]]()
    for tensor, shift in zip(tensors, before, strict=True):
        uses.setdefault(tensor.maker, []).append((tensor.writes, shift))
        for (layer, _), ranges in tensor.readers.items():
            uses.setdefault(layer, []).append((ranges, shift))
    needed, found = ALL, list[int]()
    for layer, part in reversed(own):
        for ranges, shift in uses[layer]:
            needed = min(needed, ranges[part][0] - shift)
        found.append(needed)
    return found[::-1]


def _placed(
    own: Sequence[Turn], origins: Sequence[int], tensor: Rolling, shift: int, size: int
) -> RollingBuffer:
    """Return where the rows of a tensor lie in a buffer.

    Args:
        own: The turns of all layers that use the buffer.
        origins: Byte of the first tensor at the start of the buffer, in each turn.
        tensor: The tensor.
        shift: Bytes by which it lies before the first one.
        size: Bytes of the buffer.
    """
    writes = list[int]()
    reads: dict[Reader, list[int]] = {key: [] for key in tensor.readers}
    for turn, origin in zip(own, origins, strict=True):
        if turn.layer == tensor.maker:
            writes.append(tensor.writes[turn.part][0] - shift - origin)
        for key, ranges in tensor.readers.items():
            if key[0] == turn.layer:
                reads[key].append(ranges[turn.part][0] - shift - origin)
    return RollingBuffer(size, tuple(writes), {key: tuple(at) for key, at in reads.items()})
