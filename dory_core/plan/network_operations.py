"""Operations of a network: in which order its parts run, and what is moved between them.

:mod:`dory_core.plan.network` makes them, once. What a part of a layer does stands in
:mod:`dory_core.plan.operations`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.plan.block_ids import BlockId
from dory_core.plan.blocks import Block
from dory_core.plan.operations import LayerFunction, LayerProgram
from dory_core.plan.places import Conversion, Place, StatePlan


@dataclass(frozen=True, slots=True)
class ExtTransfer:
    """A transfer between L3 and L2 of contiguous bytes.

    Attributes:
        block: The block of L2.
        l2_offset, l3_offset: Bytes from the start of each arena.
        size: Bytes that are moved.
        incoming: Whether it goes from L3 to L2.
        start: It is started before the part at this position runs, after the waits there.
        wait: It is waited for before the part at this position runs; equal to start when it blocks.
        slot: Number of its ticket.
    """

    block: BlockId
    l2_offset: int
    l3_offset: int
    size: int
    incoming: bool
    start: int
    wait: int
    slot: int = 0


@dataclass(frozen=True, slots=True)
class ExtStart:
    """Core 0 starts a transfer between L3 and L2.

    Attributes:
        transfer: What is moved, and from where.
    """

    transfer: ExtTransfer


@dataclass(frozen=True, slots=True)
class ExtWait:
    """Core 0 waits for a transfer between L3 and L2.

    Attributes:
        transfer: The one that was started.
    """

    transfer: ExtTransfer


@dataclass(frozen=True, slots=True)
class Dead:
    """For the simulation: no layer reads a block of L2 again before it is written.

    Attributes:
        block: Whose bytes these are.
    """

    block: Block


@dataclass(frozen=True, slots=True)
class Replaced:
    """For the simulation: the next part writes over bytes of L2, which are not read later.

    Attributes:
        block: Whose bytes these will be. The part itself may read what lies there before.
    """

    block: Block


@dataclass(frozen=True, slots=True)
class Report:
    """Core 0 hands bytes of a layer's output to the caller.

    Attributes:
        layer: Index of the layer in the file.
        level, memory: Number of the level, and of the memory in it.
        offset, bytes: Range in the arena of that memory.
    """

    layer: int
    level: int
    memory: int
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Inputs:
    """The network's inputs are copied to their places, of L2; those in L3 are there.

    Those that pass come by rows.

    Attributes:
        places: Of the inputs, in their order.
    """

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Outputs:
    """The network's outputs are copied from their places, of L2; those in L3 stay there.

    Those that pass are with the caller.

    Attributes:
        places: Of the outputs, in their order.
    """

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class BeginStates:
    """State is there: as the inference before left it, or its initial values.

    Attributes:
        states: All states, in the order of copying.
    """

    states: tuple[StatePlan, ...]


@dataclass(frozen=True, slots=True)
class EndStates:
    """State that lies elsewhere is copied to its places, after the outputs and in this order.

    Attributes:
        states: All states, in the order of copying.
    """

    states: tuple[StatePlan, ...]


@dataclass(frozen=True, slots=True)
class Convert:
    """All cores change the layout of a tensor.

    Attributes:
        conversion: From which place to which one.
    """

    conversion: Conversion


@dataclass(frozen=True, slots=True)
class MoveRows:
    """Core 0 moves rows of a rolling buffer of L2 to its start.

    Attributes:
        step: Number of the step for which it makes room.
        place: The buffer.
        source: First byte of the rows.
        bytes: Their size. Rows before them are not read again.
    """

    step: int
    place: Place
    source: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TakeRows:
    """Core 0 lets the caller write rows of a network input into its rolling buffer.

    Attributes:
        input: Number of the input.
        place: The buffer.
        offset: The byte of L2 at which the first row begins.
        first: Number of the first row.
        rows: How many.
    """

    input: int
    place: Place
    offset: int
    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class PutRows:
    """Core 0 hands rows of a network output to the caller, who has read them when it goes on.

    Attributes:
        output: Number of the output.
        place: The rolling buffer.
        offset: The byte of L2 at which the first row begins.
        first: Number of the first row.
        rows: How many.
    """

    output: int
    place: Place
    offset: int
    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class RunPart:
    """All cores run a part of a layer.

    Attributes:
        step: Number of the step of the execution.
        part: Number of the part in the layer.
    """

    step: int
    part: int


@dataclass(frozen=True, slots=True)
class View:
    """The inputs of a step lie where its output does: nothing runs.

    Attributes:
        step: Number of the step of the execution.
    """

    step: int


NetworkOperation = (
    View
    | ExtStart
    | ExtWait
    | Dead
    | Replaced
    | Report
    | Inputs
    | Outputs
    | BeginStates
    | EndStates
    | Convert
    | MoveRows
    | TakeRows
    | PutRows
    | RunPart
)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The operations of one inference.

    Attributes:
        operations: Those of the network, in order.
        layers: The operations that the parts of each step run.
        functions: What is printed of them, views apart.
    """

    operations: tuple[NetworkOperation, ...]
    layers: tuple[LayerProgram, ...]
    functions: tuple[LayerFunction, ...] = ()

    @property
    def by_step(self) -> dict[int, tuple[LayerFunction, int]]:
        """The function that runs each step, views apart, and the step's row there."""
        return {
            step: (function, row)
            for function in self.functions
            for row, step in enumerate(function.steps)
        }

    @property
    def given(self) -> tuple[Place, ...]:
        """Inputs of the network that lie in L3 before the first operation."""
        inputs = (op.places for op in self.operations if isinstance(op, Inputs))
        return tuple(place for places in inputs for place in places if place.level > 2)
