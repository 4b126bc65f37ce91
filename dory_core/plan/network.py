"""The program of the network: parts of layers, transfers of L3 and changes of layout in order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from dory_core.plan import Conversion, ExtTransfer, LayerStep, Place, StatePlan
from dory_core.plan.block_ids import BlockId, BlockKind
from dory_core.plan.blocks import Block
from dory_core.plan.lower import lower_layer
from dory_core.plan.network_operations import (
    BeginStates,
    Convert,
    Dead,
    EndStates,
    ExtStart,
    ExtWait,
    Inputs,
    MoveRows,
    NetworkOperation,
    Outputs,
    Program,
    PutRows,
    Replaced,
    Report,
    RunPart,
    TakeRows,
    View,
)
from dory_core.plan.share import layer_functions


def lower(
    steps: Sequence[LayerStep], operations: Iterable[NetworkOperation], any_core: bool
) -> Program:
    """Return all operations of one inference.

    Args:
        steps: The layers in the order of execution.
        operations: Those of the network.
        any_core: Whether each core may start transfers.
    """
    later = (None if one.ahead is None else steps[one.ahead.step] for one in steps)
    pairs = zip(steps, later, strict=True)
    layers = tuple(lower_layer(step, any_core, one) for step, one in pairs)
    return Program(tuple(operations), layers, layer_functions(steps, layers))


def lower_network(
    steps: Sequence[LayerStep],
    transfers: Iterable[ExtTransfer] = (),
    inputs: tuple[Place, ...] = (),
    outputs: tuple[Place, ...] = (),
    final: Iterable[Conversion] = (),
    blocks: Collection[Block] = (),
    states: tuple[StatePlan, ...] = (),
) -> Iterator[NetworkOperation]:
    """Yield the operations of one inference, without those of the layers.

    Args:
        steps: In the order of execution.
        transfers: Between L3 and L2, in the order of their start.
        inputs: Places of the inputs of the network.
        outputs: Places of its outputs.
        final: Conversions after the last layer.
        blocks: Of L2, with their padding.
        states: In the order in which they are copied at the end.
    """
    events = _Events(transfers, blocks, sum(len(step.parts) for step in steps))
    shared = _sharing(blocks)
    yield from events.at(-1)
    yield Inputs(inputs)
    if states:
        yield BeginStates(states)
    position = -1
    for position, number, index in _parts(steps):
        step = steps[number]
        part = step.parts[index]
        yield from events.at(position)
        for place, source, size in part.early:
            yield _moved(number, place, source, size)
        for one in part.takes:
            if one.moves is not None:
                yield _moved(number, one.place, *one.moves)
            yield TakeRows(one.input, one.place, one.offset, one.first, one.rows)
        if index == 0:
            yield from map(Convert, step.conversions)
        if part.moves is not None:
            yield _moved(number, step.output.place, *part.moves)
        rolling = shared.get(step.output.place.tensor.name)
        if rolling is not None and part.report is not None and step.output.place.passing:
            yield Replaced(replace(rolling, offset=part.output, size=part.report[1]))
        yield View(number) if step.is_view else RunPart(number, index)
        if part.report is not None:
            place = step.output.place
            level = 1 if place.level == 1 else 2
            yield Report(step.index, level, place.memory, *part.report)
        for output, place in enumerate(outputs):
            if place.passing and place == step.output.place:
                yield PutRows(output, place, part.output, *part.stripe)
    yield from events.at(position + 1)
    yield from map(Convert, final)
    yield Outputs(outputs)
    if states:
        yield EndStates(states)


def _moved(step: int, place: Place, source: int, size: int) -> MoveRows | Dead:
    """Return the operation before rows are written at the start of a rolling buffer.

    Args:
        step: The step before which they move.
        place: The buffer.
        source: First byte of the rows that are still read.
        size: Their bytes; 0 when no layer reads the rows in the buffer again.
    """
    if size:
        return MoveRows(step, place, source, size)
    rolling = BlockId(place.tensor.name, BlockKind.ROLLING)
    return Dead(Block(rolling, place.offset, source - place.offset, 0, 0, place.memory))


def _sharing(blocks: Iterable[Block]) -> dict[str, Block]:
    """Return the rolling buffers in which a tensor is written over others, by its name."""
    rolling, found = [one for one in blocks if one.id.kind is BlockKind.ROLLING], dict[str, Block]()
    chains = [one for one in blocks if one.id.kind is BlockKind.CHAIN]
    for n, one in enumerate(rolling):
        for k, other in enumerate(rolling):
            # The first one of those in the same place is written where nothing lies.
            same = (one.offset, one.first, one.last) == (other.offset, other.first, other.last)
            if k != n and (k < n or not same) and _meet(one, other):
                found[one.id.tensor] = one
            # Within a chain nothing tells that a buffer has ended before.
            ended = other.last < one.first and _meet_in_place(one, other)
            if ended and any(_meet(one, chain) and _meet(other, chain) for chain in chains):
                found[one.id.tensor] = one
    return found


def _meet(one: Block, other: Block) -> bool:
    """Return True when two blocks have bytes in common at some position."""
    in_time = one.first <= other.last and other.first <= one.last
    return in_time and _meet_in_place(one, other)


def _meet_in_place(one: Block, other: Block) -> bool:
    """Return True when two blocks have bytes of a memory in common."""
    in_place = one.offset < other.end and other.offset < one.end
    return one.memory == other.memory and in_place


def _parts(steps: Sequence[LayerStep]) -> list[tuple[int, int, int]]:
    """Return position, number of the step and number of the part of all parts, in their order."""
    return sorted(
        (part.position, number, index)
        for number, step in enumerate(steps)
        for index, part in enumerate(step.parts)
    )


class _Events:
    """What core 0 does before each position."""

    def __init__(self, transfers: Iterable[ExtTransfer], blocks: Iterable[Block], end: int) -> None:
        self.waits: dict[int, list[ExtTransfer]] = {}
        self.starts: dict[int, list[ExtTransfer]] = {}
        self.dead: dict[int, list[Block]] = {}
        for transfer in transfers:
            self.starts.setdefault(transfer.start, []).append(transfer)
            if transfer.start < transfer.wait:
                self.waits.setdefault(transfer.wait, []).append(transfer)
        chains = [block for block in blocks if block.id.kind is BlockKind.CHAIN]
        for block in blocks:
            if block.id.kind is BlockKind.ROLLING and any(_meet(block, one) for one in chains):
                continue  # others may lie there when it ends
            if block.last < end - 1:  # -1: of an input that no layer reads
                self.dead.setdefault(block.last + 1, []).append(block)

    def at(self, position: int) -> Iterator[NetworkOperation]:
        """Yield the waits for earlier transfers, then stores, then loads.

        What is stored leaves its place in L2 before anything is loaded there.
        """
        yield from map(ExtWait, self.waits.get(position, ()))
        for incoming in (False, True):
            started = [t for t in self.starts.get(position, ()) if t.incoming == incoming]
            yield from map(ExtStart, started)
            yield from (ExtWait(t) for t in started if t.wait == position)
            if not incoming:
                yield from map(Dead, self.dead.get(position, ()))
