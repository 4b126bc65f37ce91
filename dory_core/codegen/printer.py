"""The program of a layer as C: straight lines for one tile, a loop for several.

Operations of core 0 that follow one another stand in one block. A copy that is started before the
loop and in it is a function.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from dory_core.codegen.arguments import call_lines
from dory_core.codegen.cexpr import INDENT, Multiples, c_type, multiples, wrapped
from dory_core.codegen.copies import Copies
from dory_core.codegen.names import function_parameters, function_symbol, layer_arenas
from dory_core.codegen.rows import OWN_ROW, OWN_TABLES, Rows
from dory_core.codegen.values import Values
from dory_core.expr import Expr
from dory_core.plan import LayerStep
from dory_core.plan.memories import L1
from dory_core.plan.operations import (
    AXES,
    AtTile,
    Barrier,
    Call,
    Changes,
    Copy,
    LayerFunction,
    LayerProgram,
    Loop,
    Mark,
    MarkKind,
    Operation,
    Wait,
    When,
    all_operations,
)

_WORD = re.compile(r"\w+")
_COMMENT = re.compile(r"/\*.*?\*/")
#: A size that the last tile along an axis has of its own.
_RAGGED = re.compile(r"\b(?:t\.)?\w+ == \d+ \? \d+ : \d+\b")
#: Such a size has a name where a loop needs it at least as often.
_NAMED_FROM = 3
#: Most words of tables that a function copies to the stack.
_STACK_WORDS = 24
#: Who performs marks: the simulation.
_MARKS = "marks"
#: Names of the macros of bytes.
_BYTES = {
    MarkKind.KEEP: "FINDS",
    MarkKind.READ: "READS",
    MarkKind.SUMS: "UPDATES",
    MarkKind.WRITE: "WRITES",
}


@dataclass(frozen=True, slots=True)
class LayerText:
    """The C of a function.

    Attributes:
        definitions: Definitions before it, each several lines.
        body: Its lines.
        variables: Those of its variables that ``found`` may name.
        found: Macros of the bytes that the layer finds in L1.
        tile: Number of a tile, and macros of the bytes that the kernel reads and writes.
    """

    definitions: tuple[str, ...]
    body: tuple[str, ...]
    variables: tuple[str, ...]
    found: tuple[str, ...]
    tile: tuple[str, ...]


def print_layer(
    prefix: str, steps: Sequence[LayerStep], function: LayerFunction, cores: int, delays: bool
) -> LayerText:
    """Return the C of a function.

    Args:
        prefix: Prefix of the Plan.
        steps: The steps that run it.
        function: The function.
        cores: Number of cores that run it; one core needs no barriers.
        delays: Whether reads of the memory with its tables wait for transfers.
    """
    near = delays and function.program.loop is not None

    def printed(
        tables_near: bool, known: Multiples
    ) -> tuple[LayerText, dict[str, tuple[int, ...]]]:
        """Return the C, and its tables."""
        values = Values(prefix, steps[0], function, near, tables_near, known)
        rows = Rows(prefix, steps, function, near)
        copies = Copies(values, cores)
        text = _Printer(steps[0], function.program, cores, values, copies, rows).text()
        return text, values.reader.tables

    text, tables = printed(near, {})
    known = multiples(tables)
    if len({name for name, _, _ in known.values()}) < len(tables):
        text, tables = printed(near, known)
    too_long = near and sum(map(len, tables.values())) > _STACK_WORDS
    return printed(False, known)[0] if too_long else text


@dataclass(slots=True)
class _Printer:
    """Prints one function.

    call: the statements that call the kernel. arguments: those that set what differs between
    tiles. found, tile: as in LayerText.
    """

    step: LayerStep
    program: LayerProgram
    cores: int
    values: Values
    copies: Copies
    rows: Rows
    arguments: Sequence[str] = ()
    call: Sequence[str] = ()
    found: tuple[str, ...] = ()
    tile: tuple[str, ...] = ()

    # -- definitions -----------------------------------------------------------------------------

    def text(self) -> LayerText:
        """Return the function."""
        functions = list(self.copies.definitions())
        body = list(self._body())
        columns = self.values.reader.columns
        tables = (*self.rows.parts(columns), *self.rows.definitions(bool(columns)))
        offsets = "\n".join(self._offsets())
        definitions = ([offsets] if offsets else [], tables, self._tables(), functions)
        own_row = [OWN_ROW] if self._reads_row(columns) else []
        variables = (*own_row, *self._own_part(columns), *self._own_tables())
        return LayerText(
            tuple(chain.from_iterable(definitions)),
            tuple(body),
            variables,
            self.found,
            self.tile,
        )

    def _reads_row(self, columns: Collection[str]) -> bool:
        """Return True when the function has a table of what differs between its layers."""
        function = self.rows.function
        return function.is_shared and bool(function.bases or function.scalars or columns)

    def _own_part(self, columns: Collection[str]) -> tuple[str, ...]:
        """Return the variable of what differs between the parts, where there is any."""
        return (self.rows.own_part,) if self.program.parts > 1 and columns else ()

    def _own_tables(self) -> tuple[str, ...]:
        """Return the variable of the tables, where the function has a copy of them."""
        reader = self.values.reader
        return (OWN_TABLES,) if reader.struct and reader.tables else ()

    def _offsets(self) -> Iterator[str]:
        """Yield the names of offsets in L1, and in a block of constants."""
        rows, steps = [], []
        for block in self.step.l1:
            name = f"L1_{block.name.upper()}"
            if f"{L1}_{block.name}" not in self.rows.function.bases:
                rows.append(f"{name} = {block.offsets[0]}")
            if len(block.offsets) > 1:
                steps.append(f"{name}_STEP = {block.step}")
        named = {
            prefix: [f"{n} = {value}" for n, value in self.values.names.items() if n[:2] == prefix]
            for prefix in ("L1", "W_")
        }
        yield from _offsets_named("Bytes from the start of L1", [*rows, *named["L1"]])
        yield from _offsets_named("Bytes from one copy of a buffer to the next", steps)
        yield from _offsets_named("Bytes from the start of a tile's constants", named["W_"])

    def _tables(self) -> Iterator[str]:
        """Yield the tables of values without a short formula."""
        reader, lines, rows = self.values.reader, [], []
        for name, values in reader.tables.items():
            declared = f"{c_type(values)} {name}[{len(values)}]"
            text = f"{{{', '.join(str(value) for value in values)}}}"
            if reader.struct:
                lines.append(f"{INDENT}{declared};")
                rows += wrapped(f"{text},", len(INDENT))
            else:
                lines += wrapped(f"static const {declared} = {text};", 0)
        if rows:
            why = "/* Of a tile. Copied to the stack: reads of L2 wait for transfers in flight. */"
            lines = [why, "typedef struct {", *lines, "} tables_t;"]
            lines += ["static const tables_t tables = {", *rows, "};"]
        if lines:
            yield "\n".join(lines)

    # -- the function ----------------------------------------------------------------------------

    def _body(self) -> Iterator[str]:
        function = self.rows.function
        symbol = function_symbol(self.values.prefix, self.step, function)
        yield f"void {symbol}({function_parameters(self.step, function)}) {{"
        main = list(self._main())
        columns = self.values.reader.columns
        lines = list(self.rows.locals(self.values.bases, bool(columns)))
        used = set(_WORD.findall(_COMMENT.sub("", "\n".join((*lines, *main)))))
        if self.program.parts > 1:
            lines += self._own_part(columns) or ["(void)number;"]
            if columns and "part" not in used:
                lines.append("(void)part;")
        lines += self._own_tables()
        if self.cores > 1 and "core" in used:
            lines.append("const uint32_t core = dory_core_id();")
        if str(L1) in layer_arenas(self.step) and str(L1) not in used:
            lines.append(f"(void){L1};")
        for line in [*lines, *main]:
            yield from wrapped(line, len(INDENT))
        yield "}"

    def _main(self) -> Iterator[str]:
        call = next(op for op in all_operations(self.program) if isinstance(op, Call))
        before, self.arguments, self.call = call_lines(
            call.call, lambda name: self.values.argument(call.arguments[name], name)
        )
        if self.program.loop is not None and not self.values.single:
            yield from self._counters(self.program.loop)
        yield from self.copies.declarations()
        if before and self.values.axes and any("arguments." in line for line in self.arguments):
            yield "/* Of the kernel: what is equal for all tiles. The loop sets the rest. */"
        yield from before
        if self.program.loop is None:
            yield from self.arguments
        yield from self._lines(self.program.operations)

    def _counters(self, loop: Loop) -> Iterator[str]:
        """Yield the declarations of what a loop along several axes counts."""
        starts = {axis.name: self.values.text(axis.first) for axis in loop.axes}
        yield f"const uint32_t tiles = {self.values.text(loop.tiles)};"
        yield f"dory_index_t t = {{{', '.join(starts.get(axis, '0') for axis in AXES)}}};"
        for slot in loop.slots:
            if not self.values.changes_always(slot.axes):
                yield f"uint32_t {slot.name} = 0;"

    def _lines(self, operations: Iterable[Operation]) -> Iterator[str]:
        """Yield the statements of operations."""
        for who, group in groupby(operations, self._who):
            if who == _MARKS:
                self._take_marks(group)
                continue
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
                lines.append(f"dory_dma_wait({self.copies.load(operation)});")
                skip = True
            else:
                lines += self._operation(operation)
        return lines

    def _waits_at_once(self, operation: Operation, following: Operation | None) -> bool:
        """Return True when a copy is waited for where it starts."""
        return (
            isinstance(operation, Copy)
            and isinstance(following, Wait)
            and following.open
            and operation.operand == following.operand
            and operation.operand in self.copies.local
        )

    def _who(self, operation: Operation) -> str:
        """Return who performs an operation: core 0, every core, or the simulation."""
        if isinstance(operation, When):
            return self._who(operation.body[0])
        if isinstance(operation, (Copy, Wait)):
            return "all" if operation.each_core else "core 0"
        return _MARKS if isinstance(operation, Mark) else "all"

    def _operation(self, operation: Operation) -> Iterator[str]:
        if isinstance(operation, Copy):
            yield self.copies.statement(operation)
        elif isinstance(operation, Wait):
            name = self.copies.ticket(operation.operand, operation.slot)
            yield f"dory_dma_wait({name});" if operation.open else f"DORY_WAIT({name});"
        elif isinstance(operation, Barrier):
            if self.cores > 1:
                reason = f" /* {operation.reason} */" if operation.reason else ""
                yield f"dory_barrier();{reason}"
        elif isinstance(operation, Call):
            yield from self.call
        elif isinstance(operation, When):
            reason = f" /* {operation.reason} */" if operation.reason else ""
            yield f"if ({self._condition(operation.condition)}) {{{reason}"
            yield from (INDENT + line for o in operation.body for line in self._operation(o))
            yield "}"
        elif isinstance(operation, Loop):
            yield from self._loop(operation)

    def _take_marks(self, operations: Iterable[Operation]) -> None:
        """Keep what a layer finds in L1, or a tile with what its kernel reads and writes."""
        marked: list[str] = []
        for operation in operations:
            condition = operation.condition if isinstance(operation, When) else None
            for mark in operation.body if isinstance(operation, When) else (operation,):
                assert isinstance(mark, Mark)
                if mark.kind is MarkKind.LAYER:
                    self.found, marked = tuple(marked), []
                elif mark.kind is MarkKind.TILE:
                    marked.append(self.values.tile_number)
                else:
                    marked.append(self._bytes(mark, condition))
        self.tile = tuple(marked) or self.tile

    def _bytes(self, mark: Mark, condition: Expr | Changes | AtTile | None) -> str:
        """Return the macro for the bytes of a mark: no bytes when its condition does not hold."""
        assert mark.address is not None
        size = self.values.text(mark.bytes)
        if condition is not None:
            size = f"{self._condition(condition)} ? {self.values.atom(mark.bytes)} : 0"
        return f"DORY_{_BYTES[mark.kind]}({self.values.marked(mark.address)}, {size})"

    def _condition(self, condition: Expr | Changes | AtTile) -> str:
        if isinstance(condition, Expr):
            return self.values.text(condition)
        if isinstance(condition, AtTile):
            return f"{self.values.tile_number} == {self.values.text(condition.number)}"
        if self.values.single:
            axis = self.values.axes[0]
            return f"{axis.name} + 1 < {self.values.text(axis.end)}"
        if self.values.changes_always(condition.axes):
            return "n + 1 < tiles"
        differs = self._differs(condition.axes)
        return f"n + 1 < tiles && {f'({differs})' if len(condition.axes) > 1 else differs}"

    @staticmethod
    def _differs(axes: Sequence[str]) -> str:
        return " || ".join(f"next.{axis} != t.{axis}" for axis in axes)

    def _loop(self, loop: Loop) -> Iterator[str]:
        # Arguments are set before transfers start: reads of tables may wait for these.
        body = self._with_named_sizes([*self.arguments, *self._lines(loop.body)])
        if self.values.single:
            axis = loop.axes[0]
            first, end = (self.values.text(value) for value in (axis.first, axis.end))
            yield f"for (uint32_t {axis.name} = {first}; {axis.name} < {end}; {axis.name}++) {{"
            yield from (INDENT + line for line in body)
            yield "}"
            return
        yield "for (uint32_t n = 0; n < tiles; n++) {"
        yield from (INDENT + line for line in (*self._advance(loop), *body, *self._step(loop)))
        yield "}"

    def _with_named_sizes(self, lines: list[str]) -> list[str]:
        """Return the statements of a tile with a variable for each size that is written often.

        A variable has the name of the kernel's argument with that size, of the output if any.
        """
        code = Counter(_RAGGED.findall("\n".join(lines)))
        often = [size for size, n in code.items() if n >= _NAMED_FROM]
        declared = []
        for size in often:
            names = re.findall(
                rf"(\w+) = {re.escape(size)}[,;]", "\n".join((*self.arguments, *self.call))
            )
            names = sorted(names, key=lambda name: not name.startswith("y_"))
            fits = all(int(number) < 1 << 16 for number in re.findall(r"[?:] (\d+)", size))
            if names and fits and names[0] not in self.values.reader.tables:
                # Arithmetic takes words. Arguments, signed or not, take 16 bits without a warning.
                argument = re.compile(rf"(?<= = ){re.escape(size)}(?=[,;])")
                text = re.compile(rf"\({re.escape(size)}\)|{re.escape(size)}\b")
                lines = [argument.sub(f"(uint16_t){names[0]}", line) for line in lines]
                lines = [text.sub(names[0], line) for line in lines]
                self.tile = tuple(text.sub(names[0], mark) for mark in self.tile)
                declared.append(f"const uint32_t {names[0]} = {size};")
        return [*declared, *lines]

    def _advance(self, loop: Loop) -> Iterator[str]:
        """Yield the statements that find the next tile."""
        yield "dory_index_t next = t;"
        *outer, _ = range(len(loop.axes))
        for depth in outer:
            axis = loop.axes[-1 - depth]
            first, end = (self.values.text(value) for value in (axis.first, axis.end))
            yield f"{INDENT * depth}if (++next.{axis.name} == {end}) {{"
            yield f"{INDENT * (depth + 1)}next.{axis.name} = {first};"
        yield f"{INDENT * len(outer)}next.{loop.axes[0].name}++;"
        for depth in reversed(outer):
            yield f"{INDENT * depth}}}"

    def _step(self, loop: Loop) -> Iterator[str]:
        for slot in loop.slots:
            if not self.values.changes_always(slot.axes):
                yield f"{slot.name} ^= {self._differs(slot.axes)};"
        yield "t = next;"


def _offsets_named(what: str, rows: Sequence[str]) -> Iterator[str]:
    """Yield the definition of named numbers."""
    if rows:
        yield "\n".join([f"/* {what}. */", *wrapped(f"DORY_OFFSETS({', '.join(rows)});", 0)])
