"""Layers whose programs are equal but for numbers become one function.

Numbers that may differ: where operands begin in the memories, plain numbers in the struct that a
kernel is called with, and what differs between the parts of a layer. An address stays as it is
where all layers have the same one. Everything else has to be equal: what a tile costs does not
depend on who else runs the function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from dory_core.expr import Apply, Const, Expr, Lookup, Var
from dory_core.kernels.kernel import FunctionCall, StructValue
from dory_core.plan import LayerStep
from dory_core.plan.operations import (
    AHEAD,
    CONSTANTS,
    L1,
    ROW,
    Address,
    Base,
    Call,
    LayerFunction,
    LayerProgram,
    Mark,
    Value,
    is_constants,
)

_NUMBER = re.compile(r"-?(0|[1-9]\d*)")
_NAME = re.compile(r"\$(\w+)")
_WORD = re.compile(r"\W+")
_PART = "part"


def layer_functions(
    steps: Sequence[LayerStep], programs: Sequence[LayerProgram]
) -> tuple[LayerFunction, ...]:
    """Return the functions of a network in the order of their first layer, views left out."""
    alike: dict[Any, list[int]] = {}
    for number, step in enumerate(steps):
        if not step.is_view:
            alike.setdefault(_glance(step), []).append(number)
    found = []
    for numbers in alike.values():
        if len(numbers) == 1:
            found.append(LayerFunction(tuple(numbers), programs[numbers[0]]))
            continue
        forms: dict[Any, list[_Form]] = {}
        for number in numbers:
            form = _Form.of(number, steps[number], programs[number])
            forms.setdefault(form.key, []).append(form)
        found += map(_function, forms.values())
    return tuple(sorted(found, key=lambda function: function.steps[0]))


def _glance(step: LayerStep) -> Any:
    """Return what is quickly seen and equal for layers with equal programs."""
    operands = (*step.inputs, step.output)
    moved = tuple((t.form, t.layout.name, t.place.memory, t.place.tensor.shape) for t in operands)
    blocks = tuple((block.name, block.bytes, len(block.offsets)) for block in step.l1)
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


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """A program without the numbers that may differ. key: equal for equal forms. starts: of
    operands by memory and operand; scalars: by path; columns: in the order in which they are met.
    table: what the constants are called that it loads for a later layer, else empty.
    """

    step: int
    program: LayerProgram
    key: Any
    starts: Mapping[tuple[str, str], int]
    scalars: Mapping[str, int]
    columns: tuple[tuple[str, tuple[int, ...]], ...]
    table: str = ""

    @classmethod
    def of(cls, number: int, step: LayerStep, program: LayerProgram) -> _Form:
        """Return the form of a step."""
        reader = _Reader(number, {(L1, block.name): block.offsets[0] for block in step.l1})
        key = reader.key(program.operations)
        starts = {at: min(found) for at, found in reader.starts.items()}
        relative = tuple(
            (at, tuple(n - starts[at] for n in found)) for at, found in reader.starts.items()
        )
        columns = tuple(reader.columns)
        return cls(number, program, (key, relative), starts, reader.scalars, columns, reader.table)


class _Reader:
    """Reads the program of a step: its form, and the numbers in it. known: where buffers of L1
    begin."""

    def __init__(self, step: int, known: Mapping[tuple[str, str], int]) -> None:
        self.step = step
        self.starts: dict[tuple[str, str], list[int]] = {at: [n] for at, n in known.items()}
        self.scalars: dict[str, int] = {}
        self.columns: dict[tuple[str, tuple[int, ...]], int] = {}
        self.table = ""

    def key(self, thing: Any) -> Any:
        """Return the form of anything in a program."""
        if isinstance(thing, Expr):
            return self._expression(thing)
        if isinstance(thing, tuple):
            return tuple(map(self.key, thing))
        if isinstance(thing, Address):
            return self._address(thing)
        if isinstance(thing, Mark):
            return thing.kind, self.key(thing.address), self.key(thing.bytes)
        if isinstance(thing, Call):
            return self._call(thing)
        if is_dataclass(thing):
            return type(thing), tuple(self.key(getattr(thing, f.name)) for f in fields(thing))
        return thing

    def _address(self, address: Address) -> Any:
        terms, constant = _split(address.offset)
        memory, operand = address.memory, address.operand
        if is_constants(memory) and operand == AHEAD:
            self.table, memory = memory, CONSTANTS
        if memory == L1 and (L1, operand) not in self.starts and operand != AHEAD:
            terms = [*terms, (constant, Const(1))]  # of no buffer: it has to be the same byte
        else:
            self.starts.setdefault((memory, operand), []).append(constant)
        forms = tuple((factor, self._expression(term)) for factor, term in terms)
        return memory, operand, forms

    def _call(self, call: Call) -> Any:
        function = call.call
        values = tuple((name, self._text(name, v)) for name, v in function.arguments.items())
        names = _NAME.findall(str(function))
        used = tuple((n, self.key(call.arguments[n])) for n in names if n in call.arguments)
        return function.function, function.before, function.after, values, used

    def _text(self, path: str, value: str | StructValue, member: bool = False) -> Any:
        if isinstance(value, StructValue):
            members = ((n, self._text(f"{path}.{n}", v, True)) for n, v in value.fields)
            return value.pointed, tuple(members)
        if member and _is_number(value):
            self.scalars[path] = int(value)
            return int
        return value

    def _expression(self, value: Expr) -> Any:
        if isinstance(value, Const):
            return value.value
        if isinstance(value, Var):
            # Without a table of its own the number of the part is the place in that table.
            return (value.name, self.step if value.name == _PART else value.bounds)
        if isinstance(value, Lookup):
            if _is_column(value):
                column = (value.name, tuple(value.values.tolist()))
                known = self.columns.setdefault(column, len(self.columns))
                return value.name, known, value.bounds[0] < 0
            return value.name, value.values.tobytes(), self._expression(value.index)
        assert isinstance(value, Apply), value
        return value.kind, tuple(map(self._expression, value.args))


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) and -(1 << 31) <= int(text) < 1 << 31


def _is_column(value: Lookup) -> bool:
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


def _function(forms: Sequence[_Form]) -> LayerFunction:
    """Return the function of layers with one form."""
    first, steps = forms[0], tuple(form.step for form in forms)
    if len(forms) == 1:
        return LayerFunction(steps, first.program)
    bases = {}
    for memory, operand in first.starts:
        starts = tuple(form.starts[memory, operand] for form in forms)
        if memory == CONSTANTS or len(set(starts)) > 1:
            tables = tuple(form.table for form in forms) if operand == AHEAD else ()
            bases[_base(memory, operand)] = Base(memory, starts, tables)
    scalars = {
        path: values
        for path in first.scalars
        if len(set(values := tuple(form.scalars[path] for form in forms))) > 1
    }
    names = _unique(name for name, _ in first.columns)
    columns = {name: tuple(form.columns[k][1] for form in forms) for k, name in enumerate(names)}
    renamed = dict(zip(first.columns, names, strict=True))
    members = _unique((*bases, *map(_identifier, scalars)))[len(bases) :]
    writer = _Writer(bases, dict(zip(scalars, members, strict=True)), scalars, renamed)
    program = LayerProgram(first.program.parts, writer.written(first.program.operations))
    return LayerFunction(
        steps, program, bases, dict(zip(members, scalars.values(), strict=True)), columns
    )


def _base(memory: str, operand: str) -> str:
    """Return the name of a base."""
    if is_constants(memory):
        return "ahead_weights" if operand == AHEAD else "weights"
    return f"{memory}_{operand}"


def _identifier(path: str) -> str:
    """Return the name of a member of a struct, without that of the struct: ``requant_shift``."""
    return _WORD.sub("_", path.partition(".")[2]).strip("_")


def _number(name: str, numbers: Iterable[int]) -> Var:
    """Return the variable of a number of the rows.

    Its domain is an array of these alone, not of all between: two addends may be 2^31 apart.
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


class _Writer:
    """Writes the program of the first layer with names for the numbers that differ."""

    def __init__(
        self,
        bases: Mapping[str, Base],
        names: Mapping[str, str],
        scalars: Mapping[str, tuple[int, ...]],
        columns: Mapping[tuple[str, tuple[int, ...]], str],
    ) -> None:
        self.bases = bases
        self.names = names
        self.scalars = scalars
        self.columns = columns

    def written(self, thing: Any) -> Any:
        """Return anything in a program with the names."""
        if isinstance(thing, Expr):
            return self._expression(thing)
        if isinstance(thing, tuple):
            return tuple(map(self.written, thing))
        if isinstance(thing, Address):
            return self._address(thing)
        if isinstance(thing, Mark):
            address, size = self.written(thing.address), self.written(thing.bytes)
            return replace(thing, address=address, bytes=size, text="")
        if isinstance(thing, Call):
            return self._call(thing)
        if is_dataclass(thing) and not isinstance(thing, type):
            values = {f.name: getattr(thing, f.name) for f in fields(thing)}
            return replace(thing, **{name: self.written(value) for name, value in values.items()})
        return thing

    def _address(self, address: Address) -> Address:
        offset = self.written(address.offset)
        name = _base(address.memory, address.operand)
        base = self.bases.get(name)
        if base is None:
            return replace(address, offset=offset)
        return replace(address, offset=offset - base.starts[0], base=name)

    def _call(self, call: Call) -> Call:
        function = call.call
        values = {name: self._text(name, value) for name, value in function.arguments.items()}
        used = set(_NAME.findall(str(function)))
        given = call.arguments.items()
        arguments = {name: self.written(value) for name, value in given if name in used}
        for path, name in self.names.items():
            numbers = self.scalars[path]
            arguments[ROW + name] = _number(ROW + name, numbers)
        made = FunctionCall(function.function, values, function.before, function.after)
        return Call(made, arguments)

    def _text(self, path: str, value: str | StructValue) -> str | StructValue:
        if isinstance(value, StructValue):
            members = tuple((n, self._text(f"{path}.{n}", v)) for n, v in value.fields)
            return StructValue(members, value.pointed)
        return f"${ROW}{self.names[path]}" if path in self.names else value

    def _expression(self, value: Expr) -> Expr:
        if isinstance(value, Lookup) and _is_column(value):
            name = self.columns[value.name, tuple(value.values.tolist())]
            return Lookup(name, value.values, value.index)
        if isinstance(value, Lookup):
            index = self._expression(value.index)
            return value if index is value.index else Lookup(value.name, value.values, index)
        if not isinstance(value, Apply):
            return value
        args = tuple(map(self._expression, value.args))
        changed = any(new is not old for new, old in zip(args, value.args, strict=True))
        return Apply(value.kind, args) if changed else value
