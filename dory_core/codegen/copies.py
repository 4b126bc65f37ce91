"""The copies of a layer as C: a descriptor where one is made once, a function where tiles load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dory_core.codegen.cexpr import INDENT, wrapped
from dory_core.codegen.values import Values
from dory_core.expr import Expr
from dory_core.hardware.copies import DMA, PIECES
from dory_core.plan.memories import CONSTANTS
from dory_core.plan.operations import (
    AHEAD,
    Copy,
    LayerProgram,
    Of,
    Value,
    Wait,
    When,
    all_operations,
)


def copies_by_helper(program: LayerProgram) -> bool:
    """Return True when a function of dory_copy.h makes a copy of a layer."""
    return any(copy.carriage.by != DMA for copy in _copies(program))


def _copies(program: LayerProgram) -> Iterator[Copy]:
    return (op for op in all_operations(program) if isinstance(op, Copy))


@dataclass(slots=True)
class Copies:
    """The copies of a layer.

    Attributes:
        values: Names of the layer's values in C.
        cores: Number of cores that run the layer.
        functions: Copies that start in several places or channel by channel, by operand.
        tickets: Number of tickets of each operand.
        local: Operands whose only copy starts outside of the loop, in the block that waits for it.
    """

    values: Values
    cores: int
    functions: dict[str, Copy] = field(init=False)
    tickets: dict[str, int] = field(init=False)
    local: set[str] = field(init=False)

    def __post_init__(self) -> None:
        copies = list(_copies(self.values.program))
        self.functions = {c.operand: c for c in copies if c.of is Of.NEXT or c.channels is not None}
        stores = next((slot.copies for slot in self.values.slots if slot.name == "y_slot"), 1)
        self.tickets = {
            c.operand: stores if c.operand == "y" else 1
            for c in copies
            if not c.carriage.by_cores and c.operand != AHEAD
        }
        loop = self.values.program.loop
        looped = all_operations(loop) if loop is not None else ()
        self.local = set(self.tickets) - {op.operand for op in looped if isinstance(op, Copy)}
        if any(copy.each_core for copy in copies):  # the others' blocks end in between
            self.local = set()
        # What starts under a condition is waited for outside of its block.
        choices = (op for op in self.values.program.operations if isinstance(op, When))
        started = (op for one in choices for op in one.body if isinstance(op, Copy))
        self.local -= {copy.operand for copy in started}
        if self.values.step.loaded_ahead:
            self.tickets["w"] = 1
            self.local -= {"w"}

    @property
    def _started(self) -> set[str]:
        """The operands whose tickets change: a copy sets them, or a wait clears them."""
        program = self.values.program
        copies = {copy.operand for copy in _copies(program)}
        waits = (op for op in all_operations(program) if isinstance(op, Wait) and not op.open)
        return copies | {wait.operand for wait in waits}

    # -- statements ------------------------------------------------------------------------------

    def declarations(self) -> Iterator[str]:
        """Yield the declarations of tickets that outlive the block in which their copy starts."""
        none = "DORY_NO_TICKET"
        for name, copies in self.tickets.items():
            if copies > 1:
                values = ", ".join([none] * copies)
                yield f"dory_ticket_t {name}_ticket[{copies}] = {{{values}}};"
            elif name not in self.local:
                started = name == "w" and self.values.step.loaded_ahead
                const = "const " if name not in self._started else ""
                yield f"{const}dory_ticket_t {name}_ticket = {f'*{AHEAD}' if started else none};"

    def statement(self, copy: Copy) -> str:
        """Return the statement that makes a copy, or starts it and keeps its ticket."""
        if copy.carriage.by_cores:
            return f"{self.load(copy)};"
        if copy.operand == AHEAD:
            return f"*{AHEAD} = DORY_AHEAD({self.load(copy)});"
        kind = "const dory_ticket_t " if copy.operand in self.local else ""
        return f"{kind}{self.ticket(copy.operand, copy.ticket_slot)} = {self.load(copy)};"

    def ticket(self, operand: str, slot: Value) -> str:
        """Return the variable of a ticket."""
        place = f"[{self.values.text(slot)}]" if self.tickets[operand] > 1 else ""
        return f"{operand}_ticket{place}"

    def load(self, copy: Copy) -> str:
        """Return the expression that starts a copy where it is needed."""
        values = self.values
        first = bool(values.axes) and copy.to_l1 and copy.of is Of.CURRENT
        l1 = values.address(copy.l1, None if first else copy.of)
        if copy.operand not in self.functions:
            return self._start(copy, l1)
        arguments = [l1]
        if copy.l2.base or copy.l2.memory != CONSTANTS:
            arguments.append(values.base(copy.l2))
        for _, name in self._used(copy):
            is_position = bool(values.axes) and name == values.position
            arguments.append(values.position_of(copy.of) if is_position else name)
        return f"load_{copy.operand}({', '.join(arguments)})"

    # -- functions -------------------------------------------------------------------------------

    def definitions(self) -> Iterator[str]:
        """Yield the functions that start loads of a tile."""
        yield from map(self._function, self.functions.values())

    def _function(self, copy: Copy) -> str:
        what = "the constants" if copy.operand == "w" else "the input"
        of = f" of tile {self.values.position}" if self.values.axes else ""
        parameters = ["uint8_t *to"]
        if copy.l2.base or copy.l2.memory != CONSTANTS:
            parameters.append(f"const uint8_t *{self.values.base(copy.l2)}")
        parameters += (kind + name for kind, name in self._used(copy))
        lines = self._start_lines(copy, "to")
        by_cores = copy.carriage.by_cores
        kind = "void" if by_cores else "dory_ticket_t"
        head = f"static {kind} load_{copy.operand}({', '.join(parameters)}) {{"
        starts = "Loads the calling core's share" if by_cores else "Starts the load"
        body = (line for text in lines for line in wrapped(text, len(INDENT)))
        return "\n".join([f"/* {starts} of {what}{of}. */", *wrapped(head, 0), *body, "}"])

    def _used(self, copy: Copy) -> list[tuple[str, str]]:
        """Return types and names of a copy function's parameters, except its addresses."""
        values = [copy.l2.offset, *copy.shape, *copy.l1_strides, copy.l1_channel]
        values.append(0 if copy.channels is None else copy.channels)
        used = {v.name for value in values if isinstance(value, Expr) for v in value.variables}
        found = []
        if used & {axis.name for axis in self.values.axes}:
            kind = "uint32_t " if self.values.single else "dory_index_t "
            found.append((kind, self.values.position))
        if copy.each_core and self.cores > 1:
            found.append(("uint32_t ", "core"))
        if "part" in used:
            found.append(("const part_t *", "part"))
        struct = self.values.reader.struct
        if struct and any(struct in self.values.text(value) for value in values):
            found.append(("const tables_t *", "by_tile"))
        return found

    def _start_lines(self, copy: Copy, l1: str) -> list[str]:
        """Return the statements of a function that makes a copy, or returns its ticket."""
        by_cores = copy.carriage.by_cores
        if copy.channels is None:
            return [f"{'' if by_cores else 'return '}{self._start(copy, l1)};"]
        atom = self.values.atom
        first, step = ("core", "DORY_CORES") if copy.each_core and self.cores > 1 else ("0", "1")
        l1 = f"{l1} + c * {atom(copy.l1_channel)}"
        l2 = f"{self.values.address(copy.l2)} + c * {copy.l2_channel}"
        command = _command(copy, self._descriptor(copy, l1, l2), "0, 1", "ticket")
        loop = [
            f"for (uint32_t c = {first}; c < {atom(copy.channels)}; c += {step}) {{",
            f"{INDENT}{'' if by_cores else 'ticket = '}{command};",
            "}",
        ]
        if by_cores:
            return loop
        return ["dory_ticket_t ticket = DORY_NO_TICKET;", *loop, "return ticket;"]

    def _start(self, copy: Copy, l1: str) -> str:
        """Return the call that starts a copy."""
        core = "core" if self.cores > 1 else "0"
        descriptor = self._descriptor(copy, l1, self.values.address(copy.l2))
        return _command(copy, descriptor, f"{core}, DORY_CORES")

    def _descriptor(self, copy: Copy, l1: str, l2: str) -> str:
        """Return the descriptor of a copy; a tile lies dense in L1."""
        n0, n1, n2 = copy.shape
        where = (l1, l2) if copy.to_l1 else (l2, l1)
        kind = "LOAD" if copy.to_l1 else "STORE"
        numbers: tuple[Value, ...]
        if copy.channels is not None:
            name, numbers = "CHANNEL", (copy.element_bytes, n1, n2, *copy.l2_strides)
        elif _is_one(n1) and _is_one(n2):
            name, numbers = "ROW", (n0,)
        elif _is_one(n2):
            name, numbers = "ROWS", (n0, n1, copy.l2_strides[0])
        else:
            name, numbers = "BOX", (n0, n1, n2, *copy.l2_strides)
        texts = map(self.values.text, numbers)
        return f"DORY_{kind}_{name}({', '.join((*where, *texts))})"


def _command(copy: Copy, descriptor: str, share: str, ticket: str = "") -> str:
    """Return the call that makes or starts a copy; it returns a ticket unless the cores copy.

    Args:
        copy: The copy.
        descriptor: C expression of its descriptor.
        share: C arguments: number of the core, and number of cores.
        ticket: C expression of the ticket that the copy joins, empty for a new one.
    """
    carriage = copy.carriage
    if carriage.by_cores:
        return f"dory_copy_share({descriptor}, {share})"
    if carriage.by == PIECES:
        limits = f"{carriage.dimensions}, {carriage.max_bytes}"
        return f"dory_copy_pieces({ticket or 'DORY_NO_TICKET'}, {descriptor}, {limits})"
    return f"dory_dma_join({ticket}, {descriptor})" if ticket else f"dory_dma_start({descriptor})"


def _is_one(value: Value) -> bool:
    return isinstance(value, int) and value == 1
