"""The program of a layer as C: straight lines for one tile, a loop for several.

Operations of core 0 that follow one another stand in one block. A copy that is started before the
loop and in it is a function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from dory_core.codegen.arguments import ArgumentText, call_lines
from dory_core.codegen.cexpr import Reader, c_type, comment, string, wrapped
from dory_core.codegen.names import layer_parameters, layer_symbol, weights_symbol
from dory_core.copies import DMA, PIECES
from dory_core.expr import Expr, Var
from dory_core.plan import LayerStep
from dory_core.plan.operations import (
    AXES,
    CONSTANTS,
    L1,
    Address,
    Argument,
    Barrier,
    Call,
    Changes,
    Copy,
    LayerProgram,
    Loop,
    LoopAxis,
    Mark,
    MarkKind,
    Of,
    Operation,
    Slot,
    Value,
    Wait,
    When,
    all_operations,
)

INDENT = "  "


def print_layer(step: LayerStep, program: LayerProgram, cores: int) -> tuple[list[str], list[str]]:
    """Return the C of a layer's program: what stands before its function, and the function's lines.

    cores: that run it; one of them needs no barriers.
    """
    return _Printer(step, program, cores).text()


def copies_by_helper(step: LayerStep) -> bool:
    """Return whether a copy of a layer is made by a function of dory_copy.h."""
    return any(carriage.by != DMA for carriage in step.carriages.values())


def _command(copy: Copy, descriptor: str, share: str, ticket: str = "") -> str:
    """Return the call that makes or starts a copy; it gives a ticket unless the cores copy.

    share: which core's of how many. ticket: what the copy joins.
    """
    carriage = copy.carriage
    if carriage.by_cores:
        return f"dory_copy_share({descriptor}, {share})"
    if carriage.by == PIECES:
        limits = f"{carriage.dimensions}, {carriage.max_bytes}"
        return f"dory_copy_pieces({ticket or 'DORY_NO_TICKET'}, {descriptor}, {limits})"
    return f"dory_dma_join({ticket}, {descriptor})" if ticket else f"dory_dma_start({descriptor})"


@dataclass(slots=True)
class _Printer:
    """tickets: how many an operand has. local: operands whose only copy starts outside of the loop,
    in the block that waits for it. functions: copies that are functions. call: the statements that
    call the kernel."""

    step: LayerStep
    program: LayerProgram
    cores: int
    reader: Reader = field(init=False)
    axes: tuple[LoopAxis, ...] = ()
    slots: tuple[Slot, ...] = ()
    single: bool = False  # the loop has one axis
    functions: dict[str, Copy] = field(init=False)
    tickets: dict[str, int] = field(init=False)
    local: set[str] = field(init=False)
    call: Sequence[str] = ()

    def __post_init__(self) -> None:
        loop = self.program.loop
        if loop is not None:
            self.axes, self.slots, self.single = loop.axes, loop.slots, len(loop.axes) == 1
        self.reader = Reader({})
        self.reader.variables = self._variables()
        copies = [op for op in all_operations(self.program) if isinstance(op, Copy)]
        self.functions = {c.operand: c for c in copies if c.of is Of.NEXT or c.channels is not None}
        stores = next((slot.copies for slot in self.slots if slot.name == "y_slot"), 1)
        self.tickets = {
            c.operand: stores if c.operand == "y" else 1 for c in copies if not c.carriage.by_cores
        }
        looped = all_operations(loop) if loop is not None else ()
        self.local = set(self.tickets) - {op.operand for op in looped if isinstance(op, Copy)}
        if any(copy.each_core for copy in copies):  # the others' blocks end in between
            self.local = set()

    # -- names -----------------------------------------------------------------------------------

    def _variables(self) -> dict[str, str]:
        """Return what the loop's variables are called."""
        names = {axis.name: axis.name if self.single else f"t.{axis.name}" for axis in self.axes}
        for slot in self.slots:
            always = self._changes_always(slot.axes)
            names[slot.name] = f"{self._tile_number()} % {slot.copies}" if always else slot.name
        return names

    def _next_slot(self, name: str) -> str:
        """Return the slot of the next tile where a copy for it is started."""
        slot = next(slot for slot in self.slots if slot.name == name)
        if self._changes_always(slot.axes):
            return f"({self._tile_number()} + 1) % {slot.copies}"
        return f"{name} ^ 1u"

    def _changes_always(self, axes: Sequence[str]) -> bool:
        """Return whether every tile differs from the one before along one of the axes."""
        return bool(self.axes) and self.axes[-1].name in axes

    def _tile_number(self) -> str:
        if not self.single:
            return "n" if self.axes else "0"
        axis = self.axes[0]
        if isinstance(axis.first, int) and axis.first == 0:
            return axis.name
        return f"({axis.name} - {self.reader.atom(axis.first)})"

    def _address(self, address: Address, of: Of | None = Of.CURRENT) -> str:
        """Return a pointer to a byte. of: None for the first tile."""
        base = {L1: "l1", CONSTANTS: weights_symbol(self.step)}.get(address.memory, address.memory)
        terms, constant = self.reader.sum_terms(address.offset)
        texts = [base]
        block = self.step.block(address.operand) if address.memory == L1 else None
        if block is not None:
            name = f"L1_{address.operand.upper()}"
            texts.append(name)
            constant -= block.offsets[0]
            slots = [term for term in terms if of is not None and _slot_name(term[1])]
            terms = [term for term in terms if not _slot_name(term[1])]
            for _, slot in slots:
                assert isinstance(slot, Var)
                text = self.reader.atom(slot)
                if of is Of.NEXT:
                    text = f"({self._next_slot(slot.name)})"
                texts.append(f"{text} * {name}_STEP")
        if terms or constant:
            texts.append(self.reader.behind(terms, constant))
        if address.memory == CONSTANTS and len(texts) > 1:
            texts[0] = f"(const uint8_t *){base}"
        return " + ".join(texts)

    # -- definitions -----------------------------------------------------------------------------

    def text(self) -> tuple[list[str], list[str]]:
        """Return definitions, each several lines, and the lines of the function."""
        functions = [self._function(copy) for copy in self.functions.values()]
        body = list(self._body())
        return [*self._offsets(), *self._parts(), *self._tables(), *functions], body

    def _offsets(self) -> Iterator[str]:
        """Yield the names of the buffers' offsets in L1."""
        rows = []
        for block in self.step.l1:
            name = f"L1_{block.name.upper()}"
            rows.append(f"{name} = {block.offsets[0]},")
            if len(block.offsets) > 1:
                rows.append(f"{name}_STEP = {block.bytes},")
        if rows:
            several = any(len(block.offsets) > 1 for block in self.step.l1)
            what = " and from one copy to the next" if several else ""
            lines = "".join(f"\n{INDENT}{row}" for row in rows)
            yield f"/* Bytes from the start of L1{what}. */\nenum {{{lines}\n}};"

    def _parts(self) -> Iterator[str]:
        """Yield the table of what differs between the parts of the layer."""
        columns = self.reader.columns
        if not columns:
            return
        by_type: dict[str, list[str]] = {}
        for name, values in columns.items():
            by_type.setdefault(c_type(values), []).append(name)
        order = [name for names in by_type.values() for name in names]
        members = (f"{INDENT}{type_} {', '.join(names)};" for type_, names in by_type.items())
        count = self.program.parts
        rows = (", ".join(str(columns[name][k]) for name in order) for k in range(count))
        lines = "".join(f"\n{INDENT}{{{row}}}," for row in rows)
        yield (
            "/* What differs between the parts of the layer. */\n"
            "typedef struct {\n" + "\n".join(members) + "\n} part_t;\n"
            f"static const part_t parts[{count}] = {{{lines}\n}};"
        )

    def _tables(self) -> Iterator[str]:
        """Yield the tables of what has no short formula."""
        lines: list[str] = []
        for name, values in self.reader.tables.items():
            text = ", ".join(str(value) for value in values)
            line = f"static const {c_type(values)} {name}[{len(values)}] = {{{text}}};"
            lines += wrapped(line, 0)
        if lines:
            yield "\n".join(lines)

    def _function(self, copy: Copy) -> str:
        """Return the function that starts the load of a tile."""
        what = "the constants" if copy.operand == "w" else "the input"
        of = f" of tile {self._position}" if self.axes else ""
        names = self._used(copy)
        parameters = ["uint8_t *to"]
        if copy.l2.memory != CONSTANTS:
            parameters.append(f"const uint8_t *{copy.l2.memory}")
        parameters += [kind + name for kind, name in names]
        lines = self._start_lines(copy, "to")
        by_cores = copy.carriage.by_cores
        kind = "void" if by_cores else "dory_ticket_t"
        head = f"static {kind} load_{copy.operand}({', '.join(parameters)}) {{"
        starts = "Loads the calling core's share" if by_cores else "Starts the load"
        return "\n".join(
            [
                f"/* {starts} of {what}{of}. */",
                *wrapped(head, 0),
                *(line for text in lines for line in wrapped(text, 2)),
                "}",
            ]
        )

    @property
    def _position(self) -> str:
        """What the position of a tile is called."""
        return self.axes[0].name if self.single else "t"

    def _used(self, copy: Copy) -> list[tuple[str, str]]:
        """Return the parameters of a copy's function beside its addresses, with their types."""
        values = [copy.l2.offset, *copy.shape, *copy.l1_strides, copy.l1_channel]
        values.append(0 if copy.channels is None else copy.channels)
        used = {v.name for value in values if isinstance(value, Expr) for v in value.variables}
        found = []
        if used & {axis.name for axis in self.axes}:
            kind = "uint32_t " if self.single else "dory_index_t "
            found.append((kind, self._position))
        if copy.each_core and self.cores > 1:
            found.append(("uint32_t ", "core"))
        if "part" in used:
            found.append(("const part_t *", "part"))
        return found

    # -- copies ----------------------------------------------------------------------------------

    def _start_lines(self, copy: Copy, l1: str) -> list[str]:
        """Return the statements of a function that makes a copy, or returns its ticket."""
        by_cores = copy.carriage.by_cores
        if copy.channels is None:
            return [f"{'' if by_cores else 'return '}{self._start(copy, l1)};"]
        first, step = ("core", "DORY_CORES") if copy.each_core and self.cores > 1 else ("0", "1")
        l1 = f"{l1} + c * {self.reader.atom(copy.l1_channel)}"
        l2 = f"{self._address(copy.l2)} + c * {copy.l2_channel}"
        command = _command(copy, self._descriptor(copy, l1, l2), "0, 1", "ticket")
        ticket = [] if by_cores else ["dory_ticket_t ticket = DORY_NO_TICKET;"]
        return [
            *ticket,
            f"for (uint32_t c = {first}; c < {self.reader.atom(copy.channels)}; c += {step}) {{",
            f"{INDENT}{'' if by_cores else 'ticket = '}{command};",
            "}",
            *(["return ticket;"] if ticket else []),
        ]

    def _start(self, copy: Copy, l1: str) -> str:
        """Return the call that starts a copy."""
        core = "core" if self.cores > 1 else "0"
        descriptor = self._descriptor(copy, l1, self._address(copy.l2))
        return _command(copy, descriptor, f"{core}, DORY_CORES")

    def _descriptor(self, copy: Copy, l1: str, l2: str) -> str:
        """Return the descriptor of a copy; a tile lies dense in L1."""
        n0, n1, n2 = copy.shape
        where = (l1, l2) if copy.to_l1 else (l2, l1)
        kind = "LOAD" if copy.to_l1 else "STORE"
        values: tuple[Value, ...]
        if copy.channels is not None:
            name, values = "CHANNEL", (copy.element_bytes, n1, n2, *copy.l2_strides)
        elif _is_one(n1) and _is_one(n2):
            name, values = "ROW", (n0,)
        elif _is_one(n2):
            name, values = "ROWS", (n0, n1, copy.l2_strides[0])
        else:
            name, values = "BOX", (n0, n1, n2, *copy.l2_strides)
        texts = (self.reader.text(value) for value in values)
        return f"DORY_{kind}_{name}({', '.join((*where, *texts))})"

    def _load(self, copy: Copy) -> str:
        """Return the expression that starts a copy where it is needed."""
        first = bool(self.axes) and copy.to_l1 and copy.of is Of.CURRENT
        l1 = self._address(copy.l1, None if first else copy.of)
        if copy.operand not in self.functions:
            return self._start(copy, l1)
        arguments = [l1]
        if copy.l2.memory != CONSTANTS:
            arguments.append(copy.l2.memory)
        for _, name in self._used(copy):
            if self.axes and name == self._position:
                name = self._position_of(copy.of)
            arguments.append(name)
        return f"load_{copy.operand}({', '.join(arguments)})"

    def _position_of(self, of: Of) -> str:
        """Return the position of the first tile, or of the next one."""
        if of is Of.CURRENT:
            return self.reader.text(self.axes[0].first) if self.single else "t"
        return f"{self._position} + 1" if self.single else "next"

    # -- the function ----------------------------------------------------------------------------

    def _body(self) -> Iterator[str]:
        head = f"void {layer_symbol(self.step)}({layer_parameters(self.step)}) {{"
        yield head
        main = list(self._main())
        lines: list[str] = []
        if self.program.parts > 1:
            lines.append(
                "const part_t *const part = &parts[number];"
                if self.reader.columns
                else "(void)number;"
            )
        if self.cores > 1:
            lines.append("const uint32_t core = dory_core_id();")
        for line in [*lines, *main]:
            yield from wrapped(line, len(INDENT))
        yield "}"

    def _main(self) -> Iterator[str]:
        call = next(op for op in all_operations(self.program) if isinstance(op, Call))
        before, self.call = call_lines(call.call, lambda name: self._argument(call.arguments[name]))
        if self.program.loop is not None and not self.single:
            yield from self._counters(self.program.loop)
        yield from self._tickets()
        if before and self.axes and any("arguments." in line for line in self.call):
            yield "/* Of the kernel: what is equal for all tiles. The loop sets the rest. */"
        yield from before
        yield from self._lines(self.program.operations)

    def _tickets(self) -> Iterator[str]:
        """Yield the declarations of tickets that outlive the block in which their copy starts."""
        none = "DORY_NO_TICKET"
        for name, copies in self.tickets.items():
            if copies > 1:
                values = ", ".join([none] * copies)
                yield f"dory_ticket_t {name}_ticket[{copies}] = {{{values}}};"
            elif name not in self.local:
                yield f"dory_ticket_t {name}_ticket = {none};"

    def _counters(self, loop: Loop) -> Iterator[str]:
        """Yield the declarations of what a loop along several axes counts."""
        starts = {axis.name: self.reader.text(axis.first) for axis in loop.axes}
        yield f"const uint32_t tiles = {self.reader.text(loop.tiles)};"
        yield f"dory_index_t t = {{{', '.join(starts.get(axis, '0') for axis in AXES)}}};"
        for slot in loop.slots:
            if not self._changes_always(slot.axes):
                yield f"uint32_t {slot.name} = 0;"

    def _argument(self, argument: Argument) -> ArgumentText:
        if argument is None:
            return ArgumentText("NULL", "NULL")
        if not isinstance(argument, Address):
            of_tile = _of_tile(argument)
            return ArgumentText(self.reader.text(argument), self.reader.atom(argument), of_tile)
        text = self._address(argument)
        of_tile = _of_tile(argument.offset)
        if argument.operand == "psum":
            text = f"(int32_t *)(void *)({text})"
        if argument.memory == CONSTANTS and not text.startswith("("):
            text = f"(const uint8_t *){text}"
        atom = text if text.isidentifier() or text.startswith("(int32_t *)") else f"({text})"
        return ArgumentText(text, atom, of_tile)

    def _lines(self, operations: Iterable[Operation]) -> Iterator[str]:
        """Yield the statements of operations."""
        for who, group in groupby(operations, self._who):
            lines = self._statements(list(group))
            if who == "core 0" and self.cores > 1 and lines:
                yield "if (core == 0) {"
                yield from (INDENT + line for line in lines)
                yield "}"
            else:
                yield from lines

    def _statements(self, operations: Sequence[Operation]) -> list[str]:
        """Return the statements of operations of the same cores."""
        lines: list[str] = []
        skip = False
        for operation, following in zip(operations, [*operations[1:], None], strict=True):
            if skip:
                skip = False
            elif self._waits_at_once(operation, following):
                assert isinstance(operation, Copy)
                lines.append(f"dory_dma_wait({self._load(operation)});")
                skip = True
            else:
                lines += self._operation(operation)
        return lines

    def _waits_at_once(self, operation: Operation, following: Operation | None) -> bool:
        """Return whether a copy is waited for where it starts."""
        return (
            isinstance(operation, Copy)
            and isinstance(following, Wait)
            and following.open
            and operation.operand == following.operand
            and operation.operand in self.local
        )

    def _who(self, operation: Operation) -> str:
        """Return whether core 0 or every core does something."""
        if isinstance(operation, When):
            return self._who(operation.body[0])
        if isinstance(operation, (Copy, Wait)):
            return "all" if operation.each_core else "core 0"
        return "core 0" if isinstance(operation, Mark) else "all"

    def _operation(self, operation: Operation) -> Iterator[str]:
        if isinstance(operation, Copy):
            yield self._copy(operation)
        elif isinstance(operation, Wait):
            name = self._ticket(operation.operand, operation.slot)
            yield f"dory_dma_wait({name});" if operation.open else f"DORY_WAIT({name});"
        elif isinstance(operation, Barrier):
            if self.cores > 1:
                reason = f" /* {operation.reason} */" if operation.reason else ""
                yield f"dory_barrier();{reason}"
        elif isinstance(operation, Mark):
            yield self._mark(operation)
        elif isinstance(operation, Call):
            yield from self.call
        elif isinstance(operation, When):
            reason = f" /* {operation.reason} */" if operation.reason else ""
            yield f"if ({self._condition(operation.condition)}) {{{reason}"
            yield from (INDENT + line for o in operation.body for line in self._operation(o))
            yield "}"
        else:
            yield from self._loop(operation)

    def _copy(self, copy: Copy) -> str:
        if copy.carriage.by_cores:
            return f"{self._load(copy)};"
        kind = "const dory_ticket_t " if copy.operand in self.local else ""
        return f"{kind}{self._ticket(copy.operand, copy.ticket_slot)} = {self._load(copy)};"

    def _ticket(self, operand: str, slot: Value) -> str:
        place = f"[{self.reader.text(slot)}]" if self.tickets[operand] > 1 else ""
        return f"{operand}_ticket{place}"

    def _mark(self, mark: Mark) -> str:
        if mark.kind is MarkKind.LAYER:
            return f"DORY_SIM_LAYER({self.step.index}, {string(self.step.layer.op.name)});"
        if mark.kind is MarkKind.LAYER_END:
            return "DORY_SIM_LAYER_END();"
        if mark.kind is MarkKind.TILE:
            return f"DORY_SIM_TILE({self._tile_number()});"
        assert mark.address is not None
        name = "L1_KEEP" if mark.kind is MarkKind.KEEP else mark.kind.name
        text = f" /* {comment(mark.text)} */" if mark.text else ""
        where = self._address(mark.address)
        return f"DORY_SIM_{name}({where}, {self.reader.text(mark.bytes)});{text}"

    def _condition(self, condition: Expr | Changes) -> str:
        if isinstance(condition, Expr):
            return self.reader.text(condition)
        if self.single:
            axis = self.axes[0]
            return f"{axis.name} + 1 < {self.reader.text(axis.end)}"
        if self._changes_always(condition.axes):
            return "n + 1 < tiles"
        differs = self._differs(condition.axes)
        return f"n + 1 < tiles && {f'({differs})' if len(condition.axes) > 1 else differs}"

    @staticmethod
    def _differs(axes: Sequence[str]) -> str:
        return " || ".join(f"next.{axis} != t.{axis}" for axis in axes)

    def _loop(self, loop: Loop) -> Iterator[str]:
        body = self._lines(loop.body)
        if self.single:
            axis = loop.axes[0]
            first, end = (self.reader.text(value) for value in (axis.first, axis.end))
            yield f"for (uint32_t {axis.name} = {first}; {axis.name} < {end}; {axis.name}++) {{"
            yield from (INDENT + line for line in body)
            yield "}"
            return
        yield "for (uint32_t n = 0; n < tiles; n++) {"
        yield from (INDENT + line for line in (*self._advance(loop), *body, *self._step(loop)))
        yield "}"

    def _advance(self, loop: Loop) -> Iterator[str]:
        """Yield the statements that find the next tile."""
        yield "dory_index_t next = t;"
        *outer, _ = range(len(loop.axes))
        for depth in outer:
            axis = loop.axes[-1 - depth]
            first, end = (self.reader.text(value) for value in (axis.first, axis.end))
            yield f"{INDENT * depth}if (++next.{axis.name} == {end}) {{"
            yield f"{INDENT * (depth + 1)}next.{axis.name} = {first};"
        yield f"{INDENT * len(outer)}next.{loop.axes[0].name}++;"
        for depth in reversed(outer):
            yield f"{INDENT * depth}}}"

    def _step(self, loop: Loop) -> Iterator[str]:
        for slot in loop.slots:
            if not self._changes_always(slot.axes):
                yield f"{slot.name} ^= {self._differs(slot.axes)};"
        yield "t = next;"


def _of_tile(value: Value) -> bool:
    """Return whether a value differs between the tiles of a part."""
    return isinstance(value, Expr) and any(v.name != "part" for v in value.variables)


def _slot_name(term: Expr) -> bool:
    return isinstance(term, Var) and term.name.endswith("_slot")


def _is_one(value: Value) -> bool:
    return isinstance(value, int) and value == 1
