"""Operations of a layer: what is copied, waited for and computed, in the order of execution.

:mod:`dory_core.plan` makes them from placed layers, once; what runs between the layers stands in
:mod:`dory_core.plan.network_operations`. The C printer prints them; the timeline, the check of
contents and the tests execute them. Addresses and sizes are expressions of the loop's variables:

``o``, ``h``, ``w``, ``i``: position of the tile along output channels, rows, columns, input
channels; ``part``: which part of the layer runs; ``x_slot``, ``w_slot``, ``y_slot``: which copy of
a ping-pong buffer the tile uses. What is equal for all tiles is a plain integer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from dory_core.expr import Expr
from dory_core.hardware.copies import AS_IT_IS, Carriage
from dory_core.kernels.call import FunctionCall
from dory_core.plan.memories import MemoryId

Value = int | Expr

#: Variables of the axes of a tile loop.
AXES = ("o", "h", "w", "i")

#: What the names of variables begin with that are numbers of a row (LayerFunction.scalars).
ROW = "row_"
#: The copy that brings the first constants of a later layer, or of the next part.
AHEAD = "ahead"


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """A byte of a memory.

    Attributes:
        memory: Memory of the byte.
        offset: Bytes from the start of the memory or the base.
        operand: Operand of the byte: x, x2, w, y or AHEAD, or the buffer psum or scratch.
        base: Name of the Base from which the offset counts, where layers share the program.
    """

    memory: MemoryId
    offset: Value
    operand: str = ""
    base: str = ""


class Of(Enum):
    """Which tile the variables of an operation belong to."""

    CURRENT = "t"
    NEXT = "next"


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """Make a copy between L2 and L1, or start it; core 0 does.

    Attributes:
        operand: ``x``, ``x2``, ``w`` or ``y``, which also names the ticket; AHEAD: the later layer
            waits for it.
        to_l1: Whether it goes from L2 to L1.
        l1, l2: First byte in each.
        shape: Elements per row, rows, planes.
        l1_strides, l2_strides: Bytes from row to row and from plane to plane.
        element_bytes: Bytes of an element.
        channels: Number of such copies that share the ticket, None for one.
        l1_channel, l2_channel: Bytes from one to the next.
        each_core: Every core copies its own channels or rows.
        ticket_slot: Which ticket of the operand.
        carriage: How it is made; where the cores copy there is no ticket, it is complete when they
            have met at a barrier.
        of: Which tile the variables belong to.
    """

    operand: str
    to_l1: bool
    l1: Address
    l2: Address
    shape: tuple[Value, Value, Value] = (1, 1, 1)
    l1_strides: tuple[Value, Value] = (0, 0)
    l2_strides: tuple[int, int] = (0, 0)
    element_bytes: int = 1
    channels: Value | None = None
    l1_channel: Value = 0
    l2_channel: int = 0
    each_core: bool = False
    ticket_slot: Value = 0
    carriage: Carriage = AS_IT_IS
    of: Of = Of.CURRENT


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """Wait for the copy of an operand, which an earlier layer may have started (``ahead``).

    Attributes:
        operand: As in the :class:`Copy`.
        slot: Which ticket of the operand.
        open: Whether there is certainly one; else it waits only if there is.
        each_core: Whether every core waits for its own copies.
    """

    operand: str
    slot: Value = 0
    open: bool = True
    each_core: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    """All cores meet.

    Attributes:
        reason: What has happened then.
    """

    reason: str = ""


class MarkKind(Enum):
    """Marks for the simulation; core 0 makes them.

    LAYER follows the KEEP of what it finds in L1; TILE precedes the bytes of the tile, right before
    the kernel.
    """

    LAYER = "layer"
    TILE = "tile"
    READ = "read"
    SUMS = "sums"
    WRITE = "write"
    KEEP = "keep"


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """A mark for the simulation: of an event, or of bytes at an address.

    Attributes:
        kind: What happens.
        address: The first byte, None for an event.
        bytes: How many.
        text: Name of a tensor.
    """

    kind: MarkKind
    address: Address | None = None
    bytes: Value = 0
    text: str = ""


#: An operand or a size in a kernel's call: an address, a number, None for NULL.
Argument = Address | int | Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """Every core calls the kernel.

    Attributes:
        call: The function and its declared arguments.
        arguments: Operands and sizes of the tile, by their names.
    """

    call: FunctionCall
    arguments: dict[str, Argument]


@dataclass(frozen=True, slots=True)
class Changes:
    """There is a next tile, and it differs from this one along one of the axes.

    Attributes:
        axes: Names of the axes, of ``AXES``.
    """

    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class AtTile:
    """The tile has this number, counted from 0.

    Attributes:
        number: The number; an expression where it differs between layers that share a function.
    """

    number: Value


@dataclass(frozen=True, slots=True, eq=False)
class When:
    """Operations under a condition: an expression that is not 0, a change of the tile or one tile.

    Attributes:
        condition: What must hold.
        body: The operations, in order.
        reason: Why, for comments.
    """

    condition: Expr | Changes | AtTile
    body: tuple[Operation, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class LoopAxis:
    """A variable of a loop and its range.

    Attributes:
        name: One of ``AXES``.
        first, end: The first position, and the one after the last.
        several: Whether every part has several positions.
    """

    name: str
    first: Value
    end: Value
    several: bool


def changes_always(loop: Sequence[LoopAxis], axes: Collection[str]) -> bool:
    """Return True when every tile of a loop differs from the one before along one of some axes.

    It does along the innermost axis, where all parts have several positions.
    """
    return bool(loop) and loop[-1].name in axes and (len(loop) == 1 or loop[-1].several)


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A variable that counts from 0 how often the tile changed along some axes.

    Attributes:
        name: Of the variable, such as ``x_slot``.
        axes: Names of the axes.
        copies: It counts modulo this.
    """

    name: str
    axes: tuple[str, ...]
    copies: int = 2


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """Run the body for every tile.

    Attributes:
        axes: From the outermost to the innermost.
        tiles: Number of tiles.
        slots: Variables that pick the copy of each ping-pong buffer.
        body: The operations for each tile, in order.
    """

    axes: tuple[LoopAxis, ...]
    tiles: Value
    slots: tuple[Slot, ...]
    body: tuple[Operation, ...]


Operation = Copy | Wait | Barrier | Mark | Call | When | Loop


@dataclass(frozen=True, slots=True, eq=False)
class LayerProgram:
    """The operations of a layer.

    Attributes:
        parts: How often it runs, each time with another value of ``part``.
        operations: In order.
    """

    parts: int
    operations: tuple[Operation, ...]

    @property
    def loop(self) -> Loop | None:
        """The loop over tiles, None when every part is one tile."""
        return next((op for op in self.operations if isinstance(op, Loop)), None)


def all_operations(program: LayerProgram | Loop | When) -> Iterator[Operation]:
    """Yield every operation once, whatever loops and conditions it stands in."""
    for operation in program.operations if isinstance(program, LayerProgram) else program.body:
        yield operation
        if isinstance(operation, (Loop, When)):
            yield from all_operations(operation)


# -- what layers share ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Base:
    """Where an operand begins in a memory: another place in each layer.

    Attributes:
        memory: The memory.
        starts: Bytes from the start of the memory, of each layer.
        tables: Memories of the constants of other layers; empty for a layer's own.
    """

    memory: MemoryId
    starts: tuple[int, ...]
    tables: tuple[MemoryId, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LayerFunction:
    """The program of one layer, or of several that are equal except for numbers in a table.

    Attributes:
        steps: Numbers of the steps that run it, in order; each has a row of the table.
        program: That of the first step, in which numbers that differ in others are variables.
        bases: Where the operands of each step begin, by name.
        scalars: Numbers that kernels are called with: a value for each step, by name.
        columns: Numbers of the parts of each step, which may have different numbers of parts, by
            name.
    """

    steps: tuple[int, ...]
    program: LayerProgram
    bases: Mapping[str, Base] = field(default_factory=dict)
    scalars: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    columns: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)

    @property
    def is_shared(self) -> bool:
        """Whether several layers run it."""
        return len(self.steps) > 1
