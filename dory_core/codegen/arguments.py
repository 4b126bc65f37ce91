"""The kernel's call in C: values that are equal for all tiles are set before the loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from dory_core.codegen.cexpr import ATOM, CHOICE, COMPARISON, INDENT, PRODUCT, SUM, bracketed
from dory_core.expr import Apply, Const, Expr, Var
from dory_core.kernels.call import (
    Argument,
    FunctionCall,
    Items,
    Local,
    Operand,
    Struct,
    Symbol,
    names_of,
)

#: A member of a shape that is set: its name without that of the size, this name, value.
_SIZE = re.compile(r"([\w.\[\]]+)_(h|w|c|top|left|in|out) = (.+);$")
#: The macros of dory_tile.h that stand for several members, by what these end with.
_SHAPES = (
    (("h", "w", "c"), "DORY_HWC"),
    (("h", "w"), "DORY_HW"),
    (("top", "left"), "DORY_TOP_LEFT"),
    (("in", "out"), "DORY_IN_OUT"),
)
#: Elements of a byte; a pointer to wider ones is passed as one to void, which C converts.
_BYTES = ("int8_t", "uint8_t", "char", "void")
_INT32_MAX = (1 << 31) - 1
_STRENGTH = {"*": PRODUCT, "//": PRODUCT, "%": PRODUCT, "+": SUM, "-": SUM}


@dataclass(frozen=True, slots=True)
class ArgumentText:
    """An operand or a size that a kernel's call names.

    Attributes:
        text: C expression.
        atom: The same expression, in brackets where an adjacent operator would bind more strongly.
        of_tile: True when it differs between tiles.
    """

    text: str
    atom: str
    of_tile: bool = False


#: Returns an operand or a size by its name.
Names = Callable[[str], ArgumentText]


def call_lines(call: FunctionCall, names: Names) -> tuple[list[str], list[str], list[str]]:
    """Return the declarations before the loop, what a tile sets of them, and the call.

    Args:
        call: Call of the kernel.
        names: Returns an operand or a size of the tile.
    """
    before, of_tile, statement = _call(call, names)
    return _with_shapes(before), _with_shapes(of_tile), statement


def call_text(call: FunctionCall, names: Names) -> str:
    """Return declarations and statements of a call for one tile, without macros of shapes.

    Args:
        call: Call of the kernel.
        names: Returns an operand or a size of the tile.
    """
    return "\n".join(chain.from_iterable(_call(call, names)))


def _call(call: FunctionCall, names: Names) -> tuple[list[str], list[str], list[str]]:
    before: list[str] = []
    of_tile: list[str] = []
    values: list[str] = []
    for name, value in call.arguments.items():
        if isinstance(value, Struct) and value.type and not value.literal:
            first, each = _struct(name, value, names)
            before += first
            of_tile += each
            values.append(f"&{name}")
        else:
            values.append(_text(value, names))
    return before, of_tile, _statement(call, values, names)


def _statement(call: FunctionCall, values: Sequence[str], names: Names) -> list[str]:
    """Return the lines of a call, with the lines around it in a block."""
    lines = f"{call.function}({', '.join(values)});".split("\n")
    if not (call.before or call.after):
        return lines
    before = (line for one in call.before for line in _beside(one, names))
    after = (line for one in call.after for line in _beside(one, names))
    return ["{", *(INDENT + line for line in (*before, *lines, *after)), "}"]


def _beside(one: Local | FunctionCall, names: Names) -> list[str]:
    """Return the lines of a further call next to the kernel's, or of a local variable."""
    if isinstance(one, FunctionCall):
        return [f"{one.function}({', '.join(_text(v, names) for v in one.arguments.values())});"]
    head, value = f"{one.type} {one.name}", one.value
    if not one.rows:
        return [f"{head} = {_text(value, names)};"]
    if isinstance(value, Struct):
        return _definition(head, _designated(value, names))
    assert isinstance(value, Items)
    return _definition(head, [_text(item, names) for item in value.values])


def _definition(head: str, members: Sequence[str]) -> list[str]:
    """Return the lines that define a variable with an initialiser, a member on each."""
    return [f"{head} = {{", *(f"{INDENT}{member}," for member in members), "};"]


def _with_shapes(lines: Sequence[str]) -> list[str]:
    """Return lines in which the members of a shape, such as x_h, x_w and x_c, are one macro."""
    found: list[str] = []
    rest = list(lines)
    while rest:
        for suffixes, macro in _SHAPES:
            members = [_SIZE.fullmatch(line) for line in rest[: len(suffixes)]]
            ends = tuple(match[2] for match in members if match)
            names = {match[1] for match in members if match}
            if ends == suffixes and len(names) == 1:
                values = ", ".join(match[3] for match in members if match)
                found.append(f"{macro}({names.pop()}, {values});")
                del rest[: len(suffixes)]
                break
        else:
            found.append(rest.pop(0))
    return found


# -- structs -------------------------------------------------------------------------------------


def _struct(variable: str, struct: Struct, names: Names) -> tuple[list[str], list[str]]:
    """Return the definition of a struct with its fixed members, and what a tile sets.

    Members are set one by one: an initialiser clears the others, for which a compiler that saves
    code calls a function.
    """
    before: list[str] = []
    of_tile: list[str] = []
    fixed = [f"{struct.type} {variable};"]
    changing: list[str] = []
    for member, value in _members(variable, struct):
        if isinstance(value, Struct):  # the member points to a variable of its own
            name = member.rpartition(".")[2]
            first, each = _struct(name, value, names)
            before += first
            of_tile += each
            value = Symbol(f"&{name}")
        lines = changing if _is_of_tile(value, names) else fixed
        lines.append(f"{member} = {_text(value, names)};")
    return before + fixed, of_tile + changing


def _members(path: str, struct: Struct) -> Iterator[tuple[str, Argument]]:
    """Yield the members, those in structs and arrays one by one, and those that point to one."""
    for name, value in struct.members.items():
        if isinstance(value, Struct) and not value.type:
            yield from _members(f"{path}.{name}", value)
        elif isinstance(value, Items) and not value.type:
            yield from ((f"{path}.{name}[{k}]", item) for k, item in enumerate(value.values))
        else:
            yield f"{path}.{name}", value


def _designated(struct: Struct, names: Names) -> list[str]:
    """Return the members of an initialiser."""
    return [f".{name} = {_text(member, names)}" for name, member in struct.members.items()]


def _is_of_tile(value: Argument, names: Names) -> bool:
    """Return True when a value differs between tiles."""
    if isinstance(value, Items):
        return any(_is_of_tile(item, names) for item in value.values)
    if isinstance(value, Struct):
        return any(_is_of_tile(member, names) for member in value.members.values())
    return any(names(name).of_tile for name in names_of(value))


# -- values --------------------------------------------------------------------------------------


def _text(value: Argument, names: Names) -> str:
    """Return a value as an argument, a member or an item."""
    if value is None:
        return "NULL"
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, Operand):
        return _operand(value, names)
    if isinstance(value, Expr):
        return names(value.name).text if isinstance(value, Var) else _size(value, names)[0]
    if isinstance(value, Items):
        body = f"{{{', '.join(_text(item, names) for item in value.values)}}}"
        return f"({value.type}[]){body}" if value.type else body
    if isinstance(value, Struct):
        members = _designated(value, names)
        if not value.type:
            return f"{{{', '.join(members)}}}"
        lines = ",\n".join(INDENT + member for member in members)
        return f"&(const {value.type}){{\n{lines}}}"
    return c_number(int(value))


def c_number(value: int) -> str:
    """Return an integer as a C constant of a sufficient type."""
    if value == -_INT32_MAX - 1:
        return f"(-{_INT32_MAX} - 1)"
    if value == -(1 << 63):
        return f"(-INT64_C({(1 << 63) - 1}) - 1)"
    return str(value) if abs(value) <= _INT32_MAX else f"INT64_C({value})"


def _operand(operand: Operand, names: Names) -> str:
    found, offset = names(operand.name), operand.offset
    text, atom = found.text, found.atom
    if isinstance(offset, Expr) or offset:
        more = bracketed(_size(offset, names), SUM) if isinstance(offset, Expr) else str(offset)
        text = f"{atom} + {more}"
        atom = f"({text})"
    if operand.function:
        text = atom = f"{operand.function}({text})"
    return f"({_conversion(operand.type)}){atom}" if operand.type else text


def _conversion(type_: str) -> str:
    """Return the type that an address is converted to for a type: that, or void."""
    pointed, star, _ = type_.rpartition("*")
    words = pointed.split()
    if not star or words[-1] in _BYTES:
        return type_
    return "const void *" if "const" in words else "void *"


def _size(expr: Expr, names: Names) -> tuple[str, int]:
    """Return an expression of sizes as an operand of operators, with its binding strength."""
    if isinstance(expr, Var):
        return names(expr.name).atom, ATOM
    if isinstance(expr, Const):
        return c_number(expr.value), ATOM if expr.value >= 0 else SUM
    assert isinstance(expr, Apply), expr
    kind, texts = expr.kind, [_size(arg, names) for arg in expr.args]
    if kind == "ceil_div":
        left, right = bracketed(texts[0], SUM), bracketed(texts[1], ATOM)
        return f"({left} + {right} - 1) / {right}", PRODUCT
    if kind in ("min", "max"):
        left, right = (bracketed(text, SUM) for text in texts)
        return f"{left} {'<' if kind == 'min' else '>'} {right} ? {left} : {right}", CHOICE
    strength = _STRENGTH.get(kind, COMPARISON)
    left, right = bracketed(texts[0], strength), bracketed(texts[1], strength + 1)
    return f"{left} {'/' if kind == '//' else kind} {right}", strength
