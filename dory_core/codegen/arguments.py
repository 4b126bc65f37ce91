"""The kernel's call in C: what is equal for all tiles is set in front of the loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from string import Template

from dory_core.kernel import StructCall

_LITERAL = re.compile(r"&\(const (\w+)\)(\{.*\})\Z", re.DOTALL)
_DESIGNATOR = re.compile(r"\.(\w+)\s*=\s*")


@dataclass(frozen=True, slots=True)
class ArgumentText:
    """A value that a kernel's call names. atom: the same text, fit to stand beside operators.
    of_tile: it differs between tiles."""

    text: str
    atom: str
    of_tile: bool = False


#: Returns the value of a name.
Names = Callable[[str], ArgumentText]


def call_lines(call: str | StructCall, names: Names) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the declarations in front of the loop and the statements for one tile.

    names: values of the ``$names`` of the call.
    """
    if isinstance(call, str):
        return (), tuple(_substituted(Template(call), names).splitlines())
    structs = [_Struct("arguments", call.type)]
    for name, value in call.fields:
        literal = _LITERAL.match(value)
        if literal is None:
            structs[-1].add(_members(name, value), names)
        else:  # a struct of its own, which the argument points to
            structs.insert(0, _Struct(name, literal[1]))
            structs[0].add(_members("", literal[2]), names)
            structs[-1].add(((name, f"&{name}"),), names)
    return (
        tuple(line for struct in structs for line in struct.declaration()),
        (*(line for struct in structs for line in struct.of_tile), f"{call.function}(&arguments);"),
    )


class _Struct:
    """A struct in front of the loop: its fixed members, and the statements that set the others."""

    def __init__(self, name: str, type_: str) -> None:
        self.name = name
        self.type = type_
        self.fixed: list[str] = []
        self.of_tile: list[str] = []

    def add(self, members: Iterable[tuple[str, str]], names: Names) -> None:
        """Take members with their values, texts with ``$names``."""
        for member, value in members:
            given = Template(value)
            used = [names(name) for name in given.get_identifiers()]
            alone = len(used) == 1 and value == f"${given.get_identifiers()[0]}"
            text = used[0].text if alone else _substituted(given, names)
            lines = self.of_tile if any(one.of_tile for one in used) else self.fixed
            lines.append(f"{self.name}.{member} = {text};")

    def declaration(self) -> tuple[str, ...]:
        """Return its definition, and the statements that set the fixed members.

        An initialiser would clear the others first, which costs a small chip hundreds of cycles.
        """
        defined = f"{self.type} {self.name};"
        return (defined, f"DORY_SIM_UNDEFINED(&{self.name}, sizeof {self.name});", *self.fixed)


def _substituted(text: Template, names: Names) -> str:
    return text.substitute({name: names(name).atom for name in text.get_identifiers()})


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
