"""The program of the network as C: statements, or a table of events to step through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dory_core.codegen.cexpr import INDENT
from dory_core.codegen.conversions import conversion_lines
from dory_core.codegen.names import function_symbol, layer_arenas
from dory_core.plan import Plan
from dory_core.plan.memories import l2_memory
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
    PutRows,
    Replaced,
    Report,
    RunPart,
    TakeRows,
    View,
)
from dory_core.plan.operations import AHEAD, LayerFunction

_WIDTH = 100


@dataclass(frozen=True, slots=True)
class NetworkBody:
    """The program of a network in C.

    Attributes:
        before: Statements before the copy of the inputs.
        after: Statements after it.
        names: Named offsets of the outputs of layers, as definitions of an enumeration.
        events: Rows of the table of a streamed network, which has statements that step through it.
        dead: Rows of the simulation's table of bytes that are not read again.
        given_at: Number of the first event after the copy of the inputs.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    names: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    dead: tuple[str, ...] = ()
    given_at: int = 0


def network_body(plan: Plan) -> NetworkBody:
    """Return the program of a network in C."""
    # The template copies inputs, outputs and state.
    copied = (Outputs, BeginStates, EndStates)
    program = [one for one in plan.program.operations if not isinstance(one, copied)]
    in_chains = any(step.chain > 1 for step in plan.steps)
    by_rows = any(place.passing for place in (*plan.inputs, *plan.outputs))
    printer: _Streamed | _Resident = _Resident(plan, _Calls(plan))
    if plan.transfers or in_chains or by_rows:
        printer = _Streamed(plan, _Calls(plan), frozenset(_behind_rows(program)))
    inputs = next(n for n, operation in enumerate(program) if isinstance(operation, Inputs))
    before = tuple(printer.lines(program[:inputs]))
    given_at = printer.events
    after = tuple(printer.lines(program[inputs + 1 :]))
    if not isinstance(printer, _Streamed):
        names = tuple(f"{name} = {offset}," for name, offset in printer.names.items())
        return NetworkBody(before, after, names, (), tuple(printer.dead))
    rows = tuple(_rows(printer.groups))
    return NetworkBody(before, after, (), rows, tuple(printer.dead), given_at)


def _behind_rows(program: Iterable[NetworkOperation]) -> Iterator[tuple[int, int] | None]:
    """Yield step and part of all parts before which rows pass; None for the end."""
    passed = False
    for operation in program:
        if isinstance(operation, (TakeRows, PutRows)):
            passed = True
        elif isinstance(operation, RunPart):
            if passed:
                yield operation.step, operation.part
            passed = False
    if passed:
        yield None


@dataclass(slots=True)
class _Calls:
    """The calls of layers' functions."""

    plan: Plan
    functions: dict[int, tuple[LayerFunction, int]] = field(init=False)

    def __post_init__(self) -> None:
        self.functions = self.plan.program.by_step

    def statement(self, number: int, part: str) -> str:
        """Return the call that runs a part of a step."""
        step = self.plan.steps[number]
        function, row = self.functions[number]
        symbol = function_symbol(self.plan.prefix, self.plan.steps[function.steps[0]], function)
        rows = (str(row),) if function.is_shared else ()
        parts = (part,) if len(step.parts) > 1 else ()
        ahead = (f"&{AHEAD}",) if step.hands_on else ()
        text = f"{symbol}({', '.join((*layer_arenas(step), *rows, *parts, *ahead))});"
        return f"{text} /* layer {step.index} */" if rows else text


@dataclass(slots=True)
class _Resident:
    """A network whose data lies in L2: a statement for each operation.

    Attributes:
        plan: Plan of the network.
        calls: Calls of layers.
        names: Names of the bytes at which outputs of layers begin in a memory.
        dead: Rows of the simulation's table of bytes that are not read again.
        events: Ends of layers and conversions so far.
    """

    plan: Plan
    calls: _Calls
    names: dict[str, int] = field(default_factory=dict)
    dead: list[str] = field(default_factory=list)
    events: int = 0

    def lines(self, program: Iterable[NetworkOperation]) -> Iterator[str]:
        """Yield the statements of operations."""
        for operation in program:
            yield from self._operation(operation)

    def _operation(self, operation: NetworkOperation) -> Iterator[str]:
        if isinstance(operation, RunPart):
            yield self.calls.statement(operation.step, str(operation.part))
        elif isinstance(operation, Report):
            base = "l1" if operation.level == 1 else str(l2_memory(operation.memory))
            where = base
            if operation.offset:
                name = f"LAYER_{operation.layer:02d}_{base.upper()}"
                known = self.names.setdefault(name, operation.offset)
                where = f"{base} + {name if known == operation.offset else operation.offset}"
            yield f"dory_report(io, {operation.layer}, {where}, {operation.bytes});"
            self.events += 1
        elif isinstance(operation, Convert):
            yield from conversion_lines(self.plan, operation.conversion)
            self.events += 1
        elif isinstance(operation, View):
            pass
        elif isinstance(operation, Dead):
            self.dead.append(_dead_row(operation, self.events))
        else:
            raise TypeError(f"{type(operation).__name__} needs a table of events")


@dataclass(slots=True)
class _Streamed:
    """A streamed network: its events are rows of a table.

    behind_rows: step and part of the parts before which the caller hands over or takes rows; None
    stands for the end. groups: title of what runs next, and the rows before it. dead: rows of the
    other table. events: rows so far.
    """

    plan: Plan
    calls: _Calls
    behind_rows: frozenset[tuple[int, int] | None] = frozenset()
    groups: list[tuple[str, list[str]]] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    events: int = 0

    def lines(self, program: Iterable[NetworkOperation]) -> Iterator[str]:
        """Yield the statements of operations, one step before each part and one at the end."""
        conversions: list[str] = []
        rows: list[str] = []
        for operation in program:
            if isinstance(operation, RunPart):
                step = self.plan.steps[operation.step]
                self._close(f"{step.index}.{operation.part}", rows)
                yield from self._run(operation, conversions)
                conversions, rows = [], []
            elif isinstance(operation, Convert):
                conversions += conversion_lines(self.plan, operation.conversion)
            elif isinstance(operation, (Dead, Replaced)):
                self.dead.append(_dead_row(operation, self.events + len(rows)))
            elif not isinstance(operation, View):
                rows.append(self._row(operation))
        self._close("end" if self.groups else "start", rows)
        yield from self._step(None in self.behind_rows)
        yield from conversions

    def _step(self, behind_rows: bool) -> Iterator[str]:
        """Yield the statements before a part; the run may have to end after rows have passed."""
        yield "dory_stream_step(&stream);"
        if behind_rows:
            yield "if (dory_stream_status(&stream) != DORY_OK) {"
            yield f"{INDENT}return DORY_EROWS;"
            yield "}"

    def _steps(self, numbers: Iterable[int], indent: int, first: int = 0) -> Iterator[str]:
        """Yield the statements before any part, from one on, of some steps."""
        behind = {key for key in self.behind_rows if key is not None and key[1] >= first}
        lines = self._step(not {step for step, _ in behind}.isdisjoint(numbers))
        yield from (INDENT * indent + line for line in lines)

    def _run(self, operation: RunPart, conversions: Sequence[str]) -> Iterator[str]:
        """Yield the statements that run a part; those of parts without conversions are a loop."""
        number, part = operation.step, operation.part
        step = self.plan.steps[number]
        first = 1 if step.conversions else 0
        if step.chain > 1:
            yield from self._take_turns(number, part)
        elif len(step.parts) == 1 or part < first:
            yield from self._step((number, part) in self.behind_rows)
            yield from (*conversions, self.calls.statement(number, str(part)))
        elif part == first:
            yield f"for (uint32_t part = {first}; part < {len(step.parts)}; part++) {{"
            yield from self._steps([number], 1, first)
            yield INDENT + self.calls.statement(number, "part")
            yield "}"

    def _take_turns(self, number: int, part: int) -> Iterator[str]:
        """Yield the loop over the parts of a fused chain, with the first part of its layers."""
        steps = self.plan.steps
        if part or (number and steps[number - 1].chain_end > number):
            return  # printed with the first part of the first layer
        chain = range(number, steps[number].chain_end)
        counts = {len(steps[n].parts) for n in chain}
        turns = sorted((p.position, n) for n in chain for p in steps[n].parts)
        if [n for _, n in turns] == [*chain] * min(counts):
            yield f"for (uint32_t part = 0; part < {min(counts)}; part++) {{"
            for one in chain:
                yield from self._steps([one], 1)
                yield INDENT + self.calls.statement(one, "part")
            yield "}"
            return
        yield "{"
        yield f"{INDENT}/* Layers {steps[number].index} to {steps[chain[-1]].index} alternate. */"
        yield f"{INDENT}static const uint8_t turns[{len(turns)}] = {{"
        *rows, end = (INDENT + line for line in packed([str(n - number) for _, n in turns]))
        yield from rows
        yield end + "};"
        yield f"{INDENT}uint32_t parts[{len(chain)}] = {{0}};"
        yield f"{INDENT}for (uint32_t t = 0; t < {len(turns)}; t++) {{"
        yield from self._steps(chain, 2)
        yield f"{INDENT}{INDENT}switch (turns[t]) {{"
        for one in chain:
            label = f"case {one - number}" if one != chain[-1] else "default"
            yield f"{INDENT * 2}{label}:"
            yield f"{INDENT * 3}{self.calls.statement(one, f'parts[{one - number}]')}"
            yield f"{INDENT * 3}break;"
        yield f"{INDENT * 2}}}"
        yield f"{INDENT * 2}parts[turns[t]]++;"
        yield f"{INDENT}}}"
        yield "}"

    def _close(self, title: str, rows: list[str]) -> None:
        """Take the rows of a group; the last one ends it."""
        self.groups.append((title, [*rows, "DORY_RUN"]))
        self.events += len(rows) + 1

    @staticmethod
    def _row(operation: NetworkOperation) -> str:
        if isinstance(operation, ExtStart):
            transfer = operation.transfer
            way = "LOAD" if transfer.incoming else "STORE"
            numbers = (transfer.slot, transfer.l2_offset, transfer.l3_offset, transfer.size)
            return f"DORY_EXT_{way}({', '.join(map(str, numbers))})"
        if isinstance(operation, ExtWait):
            return f"DORY_EXT_WAIT({operation.transfer.slot})"
        if isinstance(operation, MoveRows):
            place = operation.place
            numbers = (place.memory + 1, place.offset, operation.source, operation.bytes)
            return f"DORY_MOVE_ROWS({', '.join(map(str, numbers))})"
        if isinstance(operation, (TakeRows, PutRows)):
            way, number = (
                ("TAKE", operation.input)
                if isinstance(operation, TakeRows)
                else ("PUT", operation.output)
            )
            memory, rows = operation.place.memory + 1, f"{operation.first}, {operation.rows}"
            return f"DORY_{way}_ROWS({number}, {memory}, {operation.offset}, {rows})"
        assert isinstance(operation, Report), operation
        memory = 0 if operation.level == 1 else operation.memory + 1
        numbers = (operation.layer, memory, operation.offset, operation.bytes)
        return f"DORY_REPORT({', '.join(map(str, numbers))})"


def _dead_row(operation: Dead | Replaced, event: int) -> str:
    """Return the row of bytes that are not read again from an event on."""
    block, over = operation.block, int(isinstance(operation, Replaced))
    return f"{{{event}, {block.memory + 1}, {over}, {block.offset}, {block.size}}}"


def _rows(groups: Iterable[tuple[str, list[str]]]) -> Iterator[str]:
    """Yield the lines of the table of events, a group begins a line."""
    groups = list(groups)
    for number, (title, rows) in enumerate(groups):
        rows = [f"/* {title} */ {rows[0]}", *rows[1:]]
        yield from packed(rows, last=number == len(groups) - 1)


def packed(rows: Sequence[str], last: bool = True) -> Iterator[str]:
    """Yield rows of a table on lines of at most 100 columns. last: no comma follows."""
    line = INDENT
    for number, row in enumerate(rows):
        text = row if last and number == len(rows) - 1 else f"{row},"
        if len(line) + len(text) > _WIDTH - 2 and line != INDENT:
            yield line.rstrip()
            line = INDENT
        line += f"{text} "
    yield line.rstrip()
