"""The call of a kernel on one tile: a C function and its typed arguments.

An argument is an ``int``, a constant of the layer; an expression of :func:`size`; an
:class:`Operand`, where something of the tile begins; a :class:`Symbol` of C; ``None``, the null
pointer; or a :class:`Struct` or :class:`Items` of such values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from numbers import Integral
from types import MappingProxyType
from typing import Any

from dory_core.expr import Expr, Var

#: What the operands of a layer are called, in calls of kernels and as buffers in L1. A layer has as
#: many inputs at most.
OPERANDS = ("x", *(f"x{n}" for n in range(2, 17)))

#: The names of an :class:`Operand`, and what they are. ``x`` and ``l2_x`` exist for every input of
#: the layer: ``x2``, ``l2_x2`` and so on.
POINTERS: Mapping[str, str] = MappingProxyType(
    {
        "x": "first byte of the tile of the first input, in L1 or in place",
        "y": "first byte of the tile of the output",
        "weights": "first byte of part `weights` of the tile's constants (`WeightBlock.parts`)",
        "mul": "the same of the part `mul`",
        "add": "the same of the part `add`",
        "bias": "the same of the part `bias`",
        "psum": "partial sums of the output tile, `int32_t *`; `NULL` where nothing accumulates",
        "scratch": "`scratch_bytes` bytes in L1 that hold anything; `NULL` without",
        "l2_x": "first byte of the input's tile in L2; 0 when it stayed in L1",
    }
)

#: The names of a :func:`size`, and what they are. ``x_pitch`` exists for every input of the layer.
SIZES: Mapping[str, str] = MappingProxyType(
    {
        "x_pitch": "bytes from a row of the tile to the next, of one block of channels where the "
        "layout has blocks; more than `x_w` pixels where the kernel has whole rows",
        "y_pitch": "the same of the output tile",
        "x_h": "rows of the input that the tile needs, without padding",
        "x_w": "columns of the input that the tile needs: no pitch, a layout tile has whole rows",
        "x_c": "input channels of the tile, without the padding of layouts; all inputs of a Linear",
        "y_h": "rows of the output tile",
        "y_w": "columns of the output tile",
        "y_c": "output channels of the tile, without the padding of layouts",
        "x_row": "first row of the first input's tile in its tensor",
        "x_column": "first column of it",
        "x_channel": "first channel of it",
        "y_row": "first row of the output tile in its tensor",
        "y_column": "first column of it",
        "y_channel": "first channel of it",
        "pad_top": "rows of padding above the tile",
        "pad_left": "columns of padding left of the tile",
        "pad_bottom": "rows of padding below the tile, as far as its windows reach",
        "pad_right": "columns of padding right of the tile, likewise",
        "first": "1 for the first tile of input channels: partial sums start; else 0",
        "last": "1 for the last tile of input channels: the output is written; else 0",
    }
)

_POINTERS = frozenset((*POINTERS, *OPERANDS, *(f"l2_{name}" for name in OPERANDS)))
_SIZES = frozenset((*SIZES, *(f"{name}_pitch" for name in OPERANDS)))
#: More than any size: bounds of the variables, which values have only in a tile.
_MANY = 1 << 24

#: A number of the tile.
Size = int | Expr


@cache
def size(name: str) -> Expr:
    """Return a number of the tile, a variable for expressions.

    The elements of a plane of the output are ``size("y_h") * size("y_w")``.

    Args:
        name: One of :data:`SIZES`.
    """
    return Var(name, 0, _MANY, (0, 1, _MANY))


@dataclass(frozen=True, slots=True)
class Operand:
    """A pointer to an operand of the tile.

    Attributes:
        name: One of :data:`POINTERS`.
        type: C type of the parameter, such as ``const int32_t *``; empty for a pointer to bytes.
        offset: Bytes from the start of an operand of bytes.
        function: C function or macro that is applied to the pointer.
    """

    name: str
    type: str = ""
    offset: Size = 0
    function: str = ""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A value by its C name: an enumerator, a constant as ``INT64_C(3)``, or a local variable.

    Attributes:
        text: C text.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """Values in braces: an array, or the members of a struct in their order.

    Attributes:
        values: Values of the items.
        type: C type of an item where the argument points to an array; empty where the array or the
            struct is itself the member.
    """

    values: tuple[Argument, ...]
    type: str = ""


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct that a kernel is called with, or a member of one.

    Attributes:
        members: Values by name, ``name`` or ``name[3]``; the kernel reads no others.
        type: C type where the argument or the member points to the struct; empty where the member
            is the struct.
        literal: Whether it is a compound literal in the call, made for each tile. Else it is a
            variable, and generated code sets the members that are equal for all tiles once, before
            its tile loop.
    """

    members: Mapping[str, Argument]
    type: str = ""
    literal: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", MappingProxyType(dict(self.members)))


#: A value that a kernel is called with.
Argument = int | Expr | Operand | Symbol | Struct | Items | None


@dataclass(frozen=True, slots=True)
class Local:
    """A variable in a block around the call, which arguments name by a :class:`Symbol`.

    Attributes:
        type: C type, with ``static`` and ``const``.
        name: C name, with ``[]`` for an array.
        value: Initial value.
    """

    type: str
    name: str
    value: Argument

    @property
    def rows(self) -> int:
        """The lines of its initialiser: members of a struct, rows of a table; 0 for one line."""
        if isinstance(self.value, Struct):
            return len(self.value.members)
        if not isinstance(self.value, Items) or not self.name.endswith("[]"):
            return 0
        items = self.value.values
        return len(items) if all(isinstance(item, Items) for item in items) else 0


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """The call of a kernel on one tile.

    Attributes:
        function: C name of the function.
        arguments: Values by the names of the parameters, in their order.
        before: Local variables and calls before it.
        after: Calls after it.
    """

    function: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    before: tuple[Local | FunctionCall, ...] = ()
    after: tuple[FunctionCall, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", MappingProxyType(dict(self.arguments)))

    @property
    def leaves(self) -> Iterator[tuple[str, Any]]:
        """Every value with its path; a Struct and an Items come before their parts."""
        for one in self.before:
            yield from one.leaves if isinstance(one, FunctionCall) else _leaves(one.name, one.value)
        for name, value in self.arguments.items():
            yield from _leaves(name, value)
        for call in self.after:
            yield from call.leaves

    @property
    def names(self) -> tuple[str, ...]:
        """The names of operands and sizes in the call, in the order of their first use."""
        found = (name for _, value in self.leaves for name in names_of(value))
        return tuple(dict.fromkeys(found))

    def with_numbers(self, change: Callable[[str, int], Argument]) -> FunctionCall:
        """Return the call with other plain numbers in structs that are variables.

        Args:
            change: Gives the new value of a member from its path and its number.
        """

        def changed(path: str, value: Argument) -> Argument:
            if isinstance(value, Struct) and not value.literal:
                members = {n: changed(f"{path}.{n}", v) for n, v in value.members.items()}
                return replace(value, members=members)
            return change(path, int(value)) if isinstance(value, Integral) else value

        structs = {n: changed(n, v) for n, v in self.arguments.items() if isinstance(v, Struct)}
        return replace(self, arguments={**self.arguments, **structs})

    def reason_against(self) -> str | None:
        """Return why the call is not possible, as the end of a sentence about the kernel.

        Returns:
            The reason with argument, value and what is possible; None for a valid call.
        """
        for path, value in self.leaves:
            if not isinstance(value, _KINDS):
                return (
                    f"gives argument {path!r} the value {value!r}, possible are an int, an "
                    "expression of size(), Operand, Symbol, Struct, Items and None"
                )
            pointers = (value.name,) if isinstance(value, Operand) else ()
            for name in names_of(value):
                known, what = (_POINTERS, "operand") if name in pointers else (_SIZES, "size")
                if name not in known:
                    names = ", ".join(POINTERS if known is _POINTERS else SIZES)
                    return (
                        f"gives argument {path!r} the {what} {name!r}, which is unknown; known "
                        f"are {names}"
                    )
        return None


_KINDS = (Integral, Expr, Operand, Symbol, Struct, Items, type(None))


def _leaves(path: str, value: Argument) -> Iterator[tuple[str, Argument]]:
    yield path, value
    if isinstance(value, Struct):
        for name, member in value.members.items():
            yield from _leaves(f"{path}.{name}", member)
    elif isinstance(value, Items):
        for number, item in enumerate(value.values):
            yield from _leaves(f"{path}[{number}]", item)


def names_of(value: object) -> tuple[str, ...]:
    """Return the names of operands and sizes in a value, not in its members or items."""
    if isinstance(value, Operand):
        return (value.name, *names_of(value.offset))
    return tuple(variable.name for variable in value.variables) if isinstance(value, Expr) else ()


def named(*names: str) -> dict[str, Argument]:
    """Return operands and sizes by their names, for parameters with the same names.

    Args:
        names: Names of :data:`POINTERS` and :data:`SIZES`.
    """
    return {name: Operand(name) if name in _POINTERS else size(name) for name in names}
