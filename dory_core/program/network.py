"""The program of the network: parts of layers, transfers of L3 and changes of layout in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dory_core.blocks import Block
    from dory_core.plan import Conversion, ExtTransfer, LayerStep


@dataclass(frozen=True, slots=True)
class ExtStart:
    """Core 0 starts a transfer between L3 and L2."""

    transfer: ExtTransfer


@dataclass(frozen=True, slots=True)
class ExtWait:
    """Core 0 waits for a transfer between L3 and L2."""

    transfer: ExtTransfer


@dataclass(frozen=True, slots=True)
class Dead:
    """For the simulation: nobody reads a block of L2 again before somebody writes it."""

    block: Block


@dataclass(frozen=True, slots=True)
class Report:
    """Core 0 hands bytes of a layer's output to the caller: level, memory of it, byte range."""

    layer: int
    level: int
    memory: int
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Inputs:
    """The network's inputs are copied into L2."""


@dataclass(frozen=True, slots=True)
class Convert:
    """All cores change the layout of a tensor."""

    conversion: Conversion


@dataclass(frozen=True, slots=True)
class RunPart:
    """All cores run a part of a layer. step: of the execution."""

    step: int
    part: int


NetworkOperation = ExtStart | ExtWait | Dead | Report | Inputs | Convert | RunPart


def lower_network(
    steps: Sequence[LayerStep],
    transfers: Sequence[ExtTransfer],
    blocks: Iterable[Block] = (),
    final: Iterable[Conversion] = (),
) -> tuple[NetworkOperation, ...]:
    """Return the operations of one inference.

    blocks: of L2. final: conversions of network outputs, behind the last layer.
    """
    events = _Events(transfers, blocks, sum(len(step.parts) for step in steps))
    program: list[NetworkOperation] = [*events.at(-1), Inputs()]
    position = -1
    for number, step in enumerate(steps):
        for index, part in enumerate(step.parts):
            position = part.position
            program += events.at(position)
            if index == 0:
                program += [Convert(conversion) for conversion in step.conversions]
            program.append(RunPart(number, index))
            if part.report is not None:
                place = step.output.place
                level = 1 if place.level == 1 else 2
                program.append(Report(step.index, level, place.memory, *part.report))
    program += events.at(position + 1)
    program += [Convert(conversion) for conversion in final]
    return tuple(program)


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
        for block in blocks:
            if 0 <= block.last < end - 1:
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
