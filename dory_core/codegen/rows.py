"""Tables in C of the differences between layers that run one function."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dory_core.codegen.cexpr import INDENT, c_type
from dory_core.codegen.names import table_symbol, weights_symbol
from dory_core.plan import LayerStep
from dory_core.plan.memories import CONSTANTS
from dory_core.plan.operations import Base, LayerFunction

#: The variable of a function with what differs between the layers that run it.
OWN_ROW = "const row_t *const own = &rows[row];"
#: The variable of a function with its tables, which a copy on the stack keeps from transfers.
OWN_TABLES = "const tables_t own_tables = tables, *const by_tile = &own_tables;"

_WORD = 4  # bytes of an element of a table of constants


@dataclass(frozen=True, slots=True)
class Rows:
    """The table of a function: a row for each step. Without several steps there is none.

    Attributes:
        prefix: Prefix of the Plan.
        steps: The steps that run the function.
        function: The function.
        near: Whether it reads a copy on the stack, as transfers delay reads of the table.
    """

    prefix: str
    steps: Sequence[LayerStep]
    function: LayerFunction
    near: bool = False

    # -- parts of layers -------------------------------------------------------------------------

    def parts(self, columns: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
        """Yield the tables of what differs between the parts of a layer.

        columns: of the first layer, by the names that the function reads.
        """
        if not columns:
            return
        values = {
            name: self.function.columns[name] if self.function.is_shared else (column,)
            for name, column in columns.items()
        }
        by_type: dict[str, list[str]] = {}
        for name, found in values.items():
            by_type.setdefault(c_type(n for column in found for n in column), []).append(name)
        order = [name for names in by_type.values() for name in names]
        members = (f"{INDENT}{type_} {', '.join(names)};" for type_, names in by_type.items())
        tables = []
        for number, step in enumerate(self.steps):
            count = len(step.parts)
            rows = (", ".join(str(values[name][number][k]) for name in order) for k in range(count))
            lines = "".join(f"\n{INDENT}{{{row}}}," for row in rows)
            tables.append(f"static const part_t {self._parts(step)}[{count}] = {{{lines}\n}};")
        yield (
            "/* What differs between the parts of the layer. */\n"
            "typedef struct {\n" + "\n".join(members) + "\n} part_t;\n" + "\n".join(tables)
        )

    @property
    def own_part(self) -> str:
        """The variable of a function with what differs between the parts of the layer."""
        table = "own->parts" if self.function.is_shared else "parts"
        if self.near:
            return f"const part_t own_part = {table}[number], *const part = &own_part;"
        return f"const part_t *const part = &{table}[number];"

    def _parts(self, step: LayerStep) -> str:
        return f"parts_{step.index:02d}" if self.function.is_shared else "parts"

    # -- layers ------------------------------------------------------------------------------------

    def definitions(self, has_parts: bool) -> Iterator[str]:
        """Yield the table of the layers. has_parts: each has a table of its parts."""
        if not self.function.is_shared:
            return
        members, rows = self._members(has_parts)
        if members:
            lines = "".join(f"\n{INDENT}{{{row}}}," for row in rows)
            yield (
                "/* What differs between the layers that run this function. */\n"
                "typedef struct {\n" + "\n".join(members) + "\n} row_t;\n"
                f"static const row_t rows[{len(self.steps)}] = {{{lines}\n}};"
            )

    def _members(self, has_parts: bool) -> tuple[list[str], Iterator[str]]:
        """Return the members of a row, and the values of each row."""
        members: list[str] = []
        columns: list[Sequence[str]] = []
        for name, base in self.function.bases.items():
            if base.memory == CONSTANTS:
                members.append(f"{INDENT}const uint32_t *{name};")
                columns.append([*map(self._constants, self._tables(base), base.starts)])
        if has_parts:
            members.append(f"{INDENT}const part_t *parts;")
            columns.append([self._parts(step) for step in self.steps])
        numbers = {n: b.starts for n, b in self.function.bases.items() if b.memory != CONSTANTS}
        if numbers:
            type_ = c_type(n for starts in numbers.values() for n in starts)
            where = " and ".join(sorted({self._memory(n) for n in numbers}))
            of = f" /* bytes from the start of {where} */"
            members.append(f"{INDENT}{type_} {', '.join(numbers)};{of}")
            columns += [[str(n) for n in starts] for starts in numbers.values()]
        scalars: dict[str, list[str]] = {}
        for name, values in self.function.scalars.items():
            scalars.setdefault(c_type(values), []).append(name)
        for type_, names in scalars.items():
            members.append(f"{INDENT}{type_} {', '.join(names)}; /* of the kernel */")
            columns += [[str(n) for n in self.function.scalars[name]] for name in names]
        return members, (", ".join(row) for row in zip(*columns, strict=True))

    def _memory(self, name: str) -> str:
        return str(self.function.bases[name].memory)

    def _tables(self, base: Base) -> list[str]:
        """Return the tables of constants of each layer."""
        if base.tables:
            return [table_symbol(self.prefix, table) for table in base.tables]
        return [weights_symbol(self.prefix, step) for step in self.steps]

    @staticmethod
    def _constants(symbol: str, start: int) -> str:
        """Return where the constants of a layer begin."""
        if start % _WORD:
            return f"(const uint32_t *)(const void *)((const uint8_t *){symbol} + {start})"
        return f"{symbol} + {start // _WORD}" if start else symbol

    def locals(self, bases: Collection[str], has_parts: bool) -> Iterator[str]:
        """Yield the variables of the function. bases: those that it reads."""
        if not self.function.is_shared:
            return
        if self.function.bases or self.function.scalars or has_parts:
            yield OWN_ROW
        else:
            yield "(void)row;"
        for name, base in self.function.bases.items():
            if name in bases:
                yield self._pointer(name, base)

    @staticmethod
    def _pointer(name: str, base: Base) -> str:
        if base.memory == CONSTANTS:
            return f"const uint8_t *const {name} = (const uint8_t *)own->{name};"
        return f"uint8_t *const {name} = {base.memory} + own->{name};"
