"""Layers whose programs are equal except for numbers become one function.

Numbers that may differ: where operands begin in the memories, plain numbers in the struct that a
kernel is called with, and what differs between the parts of a layer. An address stays as it is
where all layers have the same one. Everything else has to be equal: what a tile costs does not
depend on who else runs the function.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dory_core.expr import Apply, Const, Expr, Lookup, Var
from dory_core.expr.trees import structure, substituted
from dory_core.kernels.call import Argument as CallArgument
from dory_core.kernels.call import Symbol, size
from dory_core.plan import LayerStep
from dory_core.plan.mapped import Mapped
from dory_core.plan.memories import CONSTANTS, L1, MemoryId
from dory_core.plan.operations import AHEAD, ROW, Address, Base, LayerFunction, LayerProgram, Value

_WORD = re.compile(r"\W+")
_PART = "part"


def layer_functions(
    steps: Sequence[LayerStep], programs: Sequence[LayerProgram]
) -> tuple[LayerFunction, ...]:
    """Return the functions of a network in the order of their first layer, views left out."""
    readers: dict[Any, list[_Reader]] = {}
    glances = [None if step.is_view else _glance(step) for step in steps]
    seen = Counter(glances)
    for number, (glance, step) in enumerate(zip(glances, steps, strict=True)):
        if glance is None:
            continue
        reader = _Reader(number, {(L1, block.name): [block.offsets[0]] for block in step.l1})
        key = reader.key(programs[number]) if seen[glance] > 1 else number
        readers.setdefault((glance, key), []).append(reader)
    return tuple(_function(same, programs[same[0].step]) for same in readers.values())


def _glance(step: LayerStep) -> Any:
    """Return a key that is made quickly and is equal for layers with equal programs."""
    operands = (*step.inputs, step.output)
    moved = tuple((t.form, t.layout.name, t.place.memory, t.place.tensor.shape) for t in operands)
    blocks = tuple((block.name, block.bytes, block.step, len(block.offsets)) for block in step.l1)
    weights = None if step.weights is None else (step.weights.linked, step.weights.level)
    kernel = step.kernel
    return (
        kernel.symbol,
        kernel.headers,
        kernel.fetches,
        moved,
        blocks,
        weights,
        len(step.parts) > 1,
        len(step.found),
    )


class _Reader:
    """Replaces the values of a program by keys, and keeps the numbers that may differ.

    Attributes:
        step: Number of the step.
        offsets: Bytes of addresses by memory and operand; at first the starts of buffers in L1.
        members: Numbers in structs of kernels by path.
        columns: Tables of numbers of the parts.
        table: Constants that it prefetches for a later layer.
    """

    def __init__(self, step: int, offsets: dict[tuple[MemoryId, str], list[int]]) -> None:
        self.step = step
        self.offsets = offsets
        self.members: dict[str, int] = {}
        self.columns: dict[Any, Lookup] = {}
        self.table = CONSTANTS

    @property
    def starts(self) -> dict[tuple[MemoryId, str], int]:
        """Where operands begin, by memory and operand."""
        return {at: min(offsets) for at, offsets in self.offsets.items()}

    def key(self, program: LayerProgram) -> Any:
        """Return the key that is equal for programs that share a function."""
        text = repr(Mapped(self.value, self.address, self.number).all(program.operations))
        starts = self.starts
        relative = ((at, *(n - starts[at] for n in found)) for at, found in self.offsets.items())
        return text, *relative

    def value(self, value: Value) -> Any:
        """Return the key of a size, a stride or a condition."""
        return structure(substituted(value, self._of_part))

    def _of_part(self, node: Expr) -> Expr | None:
        """Return the entry of a key for a number of the part."""
        if isinstance(node, Var) and node.name == _PART:
            # Without a table of its own the number of the part is the place in that table.
            return Var(f"{_PART} of {self.step}", 0, 0)
        if not isinstance(node, Lookup) or not _is_column(node):
            return None
        self.columns.setdefault(structure(node), node)
        place = list(self.columns).index(structure(node))
        return Var(f"{node.name} {place} {node.bounds[0] < 0}", 0, 0)

    def address(self, address: Address) -> Any:
        """Return the key of an address, without the byte where its operand begins."""
        terms, constant = _split(address.offset)
        memory, operand = address.memory, address.operand
        if memory.is_constants and operand == AHEAD:
            self.table, memory = memory, CONSTANTS
        if memory == L1 and (L1, operand) not in self.offsets and operand != AHEAD:
            terms = [*terms, (constant, Const(1))]  # of no buffer: it has to be the same byte
        else:
            self.offsets.setdefault((memory, operand), []).append(constant)
        return memory, operand, *((factor, self.value(term)) for factor, term in terms)

    def number(self, path: str, value: int) -> CallArgument:
        """Return the key of a number in a struct."""
        if abs(value) >= 1 << 31:
            return value
        self.members[path] = value
        return Symbol("a number")


def _is_column(value: Lookup) -> bool:
    """Return True when a table has a number for each part."""
    return isinstance(value.index, Var) and value.index.name == _PART


def _split(value: Value) -> tuple[list[tuple[int, Expr]], int]:
    """Return an expression as terms, each with its sign, and a constant."""
    if isinstance(value, int):
        return [], value
    if isinstance(value, Const):
        return [], value.value
    if not isinstance(value, Apply) or value.kind not in ("+", "-"):
        return [(1, value)], 0
    terms, constant = _split(value.args[0])
    more, other = _split(value.args[1])
    sign = 1 if value.kind == "+" else -1
    return [*terms, *((sign * factor, term) for factor, term in more)], constant + sign * other


# -- several forms as one function -----------------------------------------------------------------


def _function(readers: Sequence[_Reader], program: LayerProgram) -> LayerFunction:
    """Return the function of layers with equal keys.

    Args:
        readers: Readers of the layers.
        program: Program of the first one.
    """
    steps = tuple(reader.step for reader in readers)
    if len(readers) == 1:
        return LayerFunction(steps, program)
    bases = {}
    all_starts = [reader.starts for reader in readers]
    for memory, operand in all_starts[0]:
        starts = tuple(one[memory, operand] for one in all_starts)
        if memory == CONSTANTS or len(set(starts)) > 1:
            of_later = operand == AHEAD and memory == CONSTANTS
            tables = tuple(reader.table for reader in readers) if of_later else ()
            bases[_base(memory, operand)] = Base(memory, starts, tables)
    numbers = {path: tuple(one.members[path] for one in readers) for path in readers[0].members}
    numbers = {path: values for path, values in numbers.items() if len(set(values)) > 1}
    fresh = _unique((*bases, *map(_identifier, numbers)))[len(bases) :]
    members = dict(zip(numbers, fresh, strict=True))
    names = _unique(column.name for column in readers[0].columns.values())
    tables_of = zip(*(reader.columns.values() for reader in readers), strict=True)
    columns = {
        name: tuple(tuple(column.values.tolist()) for column in found)
        for name, found in zip(names, tables_of, strict=True)
    }
    scalars = {members[path]: values for path, values in numbers.items()}
    rows = {ROW + name: _number(ROW + name, values) for name, values in scalars.items()}
    writer = _Writer(bases, members, dict(zip(readers[0].columns, names, strict=True)))
    operations = Mapped(writer.value, writer.address, writer.number, rows).all(program.operations)
    return LayerFunction(steps, LayerProgram(program.parts, operations), bases, scalars, columns)


def _base(memory: MemoryId, operand: str) -> str:
    """Return the name of a base."""
    if memory.is_constants:
        return "ahead_weights" if operand == AHEAD else "weights"
    return f"{memory}_{operand}"


def _identifier(path: str) -> str:
    """Return the name of a member of a struct, without that of the struct: ``requant_shift``."""
    return _WORD.sub("_", path.partition(".")[2]).strip("_")


def _number(name: str, numbers: Iterable[int]) -> Var:
    """Return the variable of a number of the rows.

    Its domain is an array of only these, not of all between: two addends may be 2^31 apart.
    """
    values = sorted(set(numbers))
    return Var(name, values[0], values[-1], values)


def _unique(names: Iterable[str]) -> list[str]:
    """Return names, the later ones of equal ones with a number."""
    found: list[str] = []
    for name in names:
        fresh, number = name, 2
        while fresh in found:
            fresh, number = f"{name}_{number}", number + 1
        found.append(fresh)
    return found


@dataclass(frozen=True, slots=True)
class _Writer:
    """Replaces the numbers of the first layer that differ by names.

    Attributes:
        bases: Starts of operands by name.
        members: Names of numbers in structs by path.
        columns: Names of tables of the parts by their structure.
    """

    bases: Mapping[str, Base]
    members: Mapping[str, str]
    columns: Mapping[Any, str]

    def value(self, value: Value) -> Value:
        """Return a size, a stride or a condition with the names of its tables."""
        return substituted(value, self._column)  # type: ignore[no-any-return]

    def _column(self, node: Expr) -> Expr | None:
        if not isinstance(node, Lookup) or not _is_column(node):
            return None
        return Lookup(self.columns[structure(node)], node.values, node.index)

    def address(self, address: Address) -> Address:
        """Return an address, from its base where that differs."""
        offset, name = self.value(address.offset), _base(address.memory, address.operand)
        base = self.bases.get(name)
        if base is None:
            return replace(address, offset=offset)
        return replace(address, offset=offset - base.starts[0], base=name)

    def number(self, path: str, value: int) -> CallArgument:
        """Return a number in a struct, or the name of what differs."""
        return size(ROW + self.members[path]) if path in self.members else value
