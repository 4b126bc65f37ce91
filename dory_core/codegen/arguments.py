"""The kernel's call in C: what is equal for all tiles is set in front of the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from string import Template

from dory_core.kernels.kernel import FunctionCall, StructValue

#: Members of a struct with their values, texts with ``$names`` or structs.
Fields = tuple[tuple[str, str | StructValue], ...]


@dataclass(frozen=True, slots=True)
class ArgumentText:
    """A value that a kernel's call names. atom: the same text, fit to stand beside operators.
    of_tile: it differs between tiles."""

    text: str
    atom: str
    of_tile: bool = False


#: Returns the value of a name.
Names = Callable[[str], ArgumentText]


def call_lines(call: FunctionCall, names: Names) -> tuple[list[str], list[str]]:
    """Return the declarations in front of the loop and the statements for one tile.

    names: values of the ``$names`` of the call.
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
    return before, [*of_tile, *_substituted(Template(call.statement(values)), names).splitlines()]


def _struct(type_: str, variable: str, fields: Fields, names: Names) -> tuple[list[str], list[str]]:
    """Return the definition of a struct with its fixed members, and what a tile sets.

    An initialiser would clear the members first, which costs a small chip hundreds of cycles.
    """
    fixed = [f"{type_} {variable};", f"DORY_SIM_UNDEFINED(&{variable}, sizeof {variable});"]
    before: list[str] = []
    of_tile: list[str] = []
    for member, value in _members(variable, fields):
        if isinstance(value, StructValue):  # a variable of its own, which the member points to
            name = member.rpartition(".")[2]
            first, each = _struct(value.pointed, name, value.fields, names)
            before += first
            of_tile += each
            value = f"&{name}"
        given = Template(value)
        used = [names(name) for name in given.get_identifiers()]
        alone = len(used) == 1 and value == f"${given.get_identifiers()[0]}"
        text = used[0].text if alone else _substituted(given, names)
        lines = of_tile if any(one.of_tile for one in used) else fixed
        lines.append(f"{member} = {text};")
    return before + fixed, of_tile


def _members(path: str, fields: Fields) -> Iterator[tuple[str, str | StructValue]]:
    """Yield the members in structs of structs, and those that point to one."""
    for name, value in fields:
        if isinstance(value, StructValue) and not value.pointed:
            yield from _members(f"{path}.{name}", value.fields)
        else:
            yield f"{path}.{name}", value


def _substituted(text: Template, names: Names) -> str:
    for match in text.pattern.finditer(text.template):
        if match["invalid"] is not None:  # a $ that begins no name
            names(text.template[match.end() :].partition(",")[0])
    return text.substitute({name: names(name).atom for name in text.get_identifiers()})
