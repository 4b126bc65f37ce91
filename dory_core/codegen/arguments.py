"""The kernel's call in C: what is equal for all tiles is initialised before the loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from string import Template

from dory_core.kernels.kernel import FunctionCall, StructValue

#: Members of a struct with their values, texts with ``$names`` or structs.
Fields = tuple[tuple[str, str | StructValue], ...]


@dataclass(frozen=True, slots=True)
class ArgumentText:
    """A value that a kernel's call names.

    Attributes:
        text: C expression.
        atom: The same expression, in brackets where an operator beside it would take it apart.
        of_tile: Whether it differs between tiles.
    """

    text: str
    atom: str
    of_tile: bool = False


INDENT = "  "
#: Most characters of the initialiser of a struct in a struct that stands on one line.
_SHORT = 90
#: A member of a shape on a line of its own: space before it, name without and of the size, value.
_SIZE = re.compile(r"(\s*)\.(\w+)_(h|w|c|top|left|in|out) = (.+),$")
#: The macros of dory_tile.h that stand for several members, by what these end with.
_SHAPES = (
    (("h", "w", "c"), "DORY_HWC"),
    (("h", "w"), "DORY_HW"),
    (("top", "left"), "DORY_TOP_LEFT"),
    (("in", "out"), "DORY_IN_OUT"),
)
#: The opening bracket of a call, which is no cast and encloses no sum.
_CALLED = re.compile(r"[A-Za-z_]\w*\($")

#: Returns the value of a name.
Names = Callable[[str], ArgumentText]


def call_lines(call: FunctionCall, names: Names) -> tuple[list[str], list[str]]:
    """Return the declarations before the loop and the statements for one tile.

    Args:
        call: Call of the kernel.
        names: Returns the value of a ``$name`` of the call.
    """
    before: list[str] = []
    of_tile: list[str] = []
    values: list[str] = []
    for name, value in call.arguments.items():
        if isinstance(value, StructValue):
            first, each = _struct(value.pointed, name, value.fields, names)
            before += first
            of_tile += each
            value = f"&{name}"
        values.append(value)
    lines = [*of_tile, *_substituted(call.statement(values), names).splitlines()]
    return _with_shapes(before), _with_shapes(lines)


def _with_shapes(lines: Sequence[str]) -> list[str]:
    """Return lines in which the members of a shape, such as x_h, x_w and x_c, are one macro."""
    found: list[str] = []
    rest = list(lines)
    while rest:
        for suffixes, macro in _SHAPES:
            members = [_SIZE.match(line) for line in rest[: len(suffixes)]]
            ends = tuple(match[3] for match in members if match)
            names = {match[2] for match in members if match}
            if ends == suffixes and len(names) == 1:
                values = ", ".join(match[4] for match in members if match)
                found.append(f"{rest[0][: rest[0].index('.')]}{macro}({names.pop()}, {values}),")
                del rest[: len(suffixes)]
                break
        else:
            found.append(rest.pop(0))
    return found


def _struct(type_: str, variable: str, fields: Fields, names: Names) -> tuple[list[str], list[str]]:
    """Return the definition of a struct with its fixed members, and what a tile sets.

    A struct without a fixed member is defined where the tile needs it.
    """
    before: list[str] = []
    of_tile: list[str] = []
    fixed: list[str] = []
    changing: list[tuple[str, str]] = []
    for member, value in _members("", fields, names):
        if isinstance(value, StructValue):  # a variable of its own, which the member points to
            name = member.rpartition(".")[2]
            first, each = _struct(value.pointed, name, value.fields, names)
            before += first
            of_tile += each
            value = f"&{name}"
        text = _substituted(value, names)
        if _is_of_tile(value, names):
            changing.append((member, text))
        else:
            fixed.append(f"{member} = {text}")
    if not fixed:
        lines = _definition(f"const {type_} {variable}", [f"{m} = {text}" for m, text in changing])
        return before, [*of_tile, *lines]
    const = "" if changing else "const "
    before += _definition(f"{const}{type_} {variable}", fixed)
    return before, [*of_tile, *(f"{variable}{member} = {text};" for member, text in changing)]


def _definition(head: str, members: Sequence[str]) -> list[str]:
    """Return the lines that define a variable with an initialiser, a member on each."""
    return [f"{head} = {{", *(f"{INDENT}{member}," for member in members), "};"]


def _members(path: str, fields: Fields, names: Names) -> Iterator[tuple[str, str | StructValue]]:
    """Yield members by their designators.

    Of a struct in a struct, the members that are equal for all tiles are one initialiser where it
    fits a line.
    """
    for name, value in fields:
        designator = f"{path}.{name}"
        if not isinstance(value, StructValue) or value.pointed:
            yield designator, value
            continue
        plain = tuple(m for m in value.fields if isinstance(m[1], str))
        fixed = tuple(m for m in plain if not _is_of_tile(m[1], names))
        text = str(StructValue(fixed))
        if fixed and len(designator) + len(_substituted(text, names)) <= _SHORT:
            yield designator, text
            rest = tuple(member for member in value.fields if member not in fixed)
            yield from _members(designator, rest, names)
        else:
            yield from _members(designator, value.fields, names)


def _is_of_tile(text: str | StructValue, names: Names) -> bool:
    """Return whether a text names a value that differs between tiles."""
    return any(names(name).of_tile for name in Template(str(text)).get_identifiers())


def _substituted(text: str, names: Names) -> str:
    """Return a text with the values of its names, in brackets where operators stand beside them."""

    def value(match: re.Match[str]) -> str:
        if match["invalid"] is not None:  # a $ that begins no name
            names(text[match.end() :].partition(",")[0])
        if match["escaped"] is not None:
            return "$"
        found = names(match["named"] or match["braced"])
        before, after = text[: match.start()].rstrip(), text[match.end() :].lstrip()
        apart = before[-1:] in ("", "=", ",", "{") or _CALLED.search(before)
        return found.text if apart and after[:1] in ("", ",", ")", "}", ";") else found.atom

    return Template.pattern.sub(value, text)
