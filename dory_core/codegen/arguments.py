"""The kernel's call in a tile loop: what is equal for all tiles is set in front of the loop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from string import Template

from dory_core.codegen.cexpr import CExpr, atom
from dory_core.kernel import StructCall

_OF_TILE = re.compile(r"\bt\.|_slot\b")  # what an expression that differs between tiles names
_LITERAL = re.compile(r"&\(const (\w+)\)(\{.*\})\Z", re.DOTALL)
_DESIGNATOR = re.compile(r"\.(\w+)\s*=\s*")


def call_lines(
    text: str | StructCall, names: Mapping[str, CExpr]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the declarations in front of the loop and the statements for one tile.

    names: C expressions for the ``$names`` of the call.
    """
    values = {name: atom(value) for name, value in names.items()}
    if isinstance(text, str):
        return (), tuple(Template(text).substitute(values).splitlines())
    structs = [_Struct("arguments", text.type)]
    for name, value in text.fields:
        alone = value.removeprefix("$")
        given = str(names[alone]) if alone in names else Template(value).substitute(values)
        literal = _LITERAL.match(given)
        if literal is not None:  # a struct of its own, which the argument points to
            structs.insert(0, _Struct(name, literal[1]))
            structs[0].add(_members("", literal[2]))
            given = f"&{name}"
        structs[-1].add(_members(name, given))
    return (
        tuple(line for struct in structs for line in struct.declaration()),
        (*(line for struct in structs for line in struct.of_tile), f"{text.function}(&arguments);"),
    )


class _Struct:
    """A struct in front of the loop: its fixed members, and the statements that set the others."""

    def __init__(self, name: str, type_: str) -> None:
        self.name = name
        self.type = type_
        self.fixed: list[str] = []
        self.of_tile: list[str] = []

    def add(self, members: Iterable[tuple[str, str]]) -> None:
        """Take members with their values."""
        for member, value in members:
            if _OF_TILE.search(value):
                self.of_tile.append(f"{self.name}.{member} = {value};")
            else:
                self.fixed.append(f"{self.name}.{member} = {value};")

    def declaration(self) -> tuple[str, ...]:
        """Return its definition, and the statements that set the fixed members.

        An initialiser would clear the others first, which costs a small chip hundreds of cycles.
        """
        defined = f"{self.type} {self.name};"
        return (defined, f"DORY_SIM_UNDEFINED(&{self.name}, sizeof {self.name});", *self.fixed)


def _members(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield the members of an initialiser, ``{.a = 1, .b = {2, 3}}``, with their designators."""
    value = value.strip()
    if not value.startswith("{"):
        yield name, value
        return
    for position, part in enumerate(_split(value[1:-1])):
        match = _DESIGNATOR.match(part)
        if match:
            member = f"{name}.{match[1]}" if name else match[1]
            yield from _members(member, part[match.end() :])
        else:
            yield from _members(f"{name}[{position}]", part)


def _split(text: str) -> Iterator[str]:
    """Yield the parts of ``text`` between commas outside of brackets."""
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += (character in "({[") - (character in ")}]")
        if character == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()
