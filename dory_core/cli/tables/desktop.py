"""The text form of ``dory check --compare-desktop``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from dory_core.cli.tables.fitted import FittedTable
from dory_core.cli.tables.plan import new_table

_MOST_NAMES = 3


def print_desktop(document: Mapping[str, Any], out: Console, details: bool = False) -> None:
    """Print for each interpreter the first operator with a difference of its own, and the reasons.

    Differences read "differing/elements by the largest". Those of outputs are after all layers.

    details: print every operator that differs.
    """
    runs = f"{document['inferences']} inferences on random inputs"
    out.print(Text(f"{document['package']} against {document['reference']}, {runs}"))
    out.print(_interpreters(document["interpreters"]))
    for found in document["interpreters"]:
        if found["refused"]:
            out.print(Text(f"{found['name']}: does not run it: {found['refused']}"))
        for reason, layers in _reasons(found["layers"]).items():
            out.print(Text(f"{found['name']}, {_names(layers)}: {reason}"))
        if details and found["layers"]:
            out.print(Text(f"{found['name']}: operators that differ"))
            out.print(_operators(found["layers"]))
    if any(found["layers"] for found in document["interpreters"]):
        out.print(
            Text(
                f"the application computes what {document['reference']} computes: compare a board"
                " with that, not with an interpreter that differs"
            )
        )


def _interpreters(interpreters: Sequence[Mapping[str, Any]]) -> FittedTable:
    table = new_table("interpreter", "first operator", "differs", "all", "outputs", right=("all",))
    for found in interpreters:
        own = [layer for layer in found["layers"] if layer["own"]["differ"]]
        first = own[0] if own else None
        table.add_row(
            Text(found["name"]),
            Text(first["name"] if first else "-"),
            Text(_extent(first["own"]) if first else "-"),
            "-" if found["refused"] else str(len(own)),
            Text("-" if found["refused"] else _extent(found["outputs"])),
        )
    return table


def _operators(layers: Sequence[Mapping[str, Any]]) -> FittedTable:
    table = new_table("operator", "by itself", "after those before")
    for layer in layers:
        table.add_row(Text(_title(layer)), _extent(layer["own"]), _extent(layer["whole"]))
    return table


def _title(layer: Mapping[str, Any]) -> str:
    return f"{layer['name']} ({layer['tensor']})" if layer["tensor"] else str(layer["name"])


def _extent(difference: Mapping[str, int]) -> str:
    if not difference["differ"]:
        return "equal"
    return "{differ}/{elements} by {largest}".format_map(difference)


def _reasons(layers: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for layer in layers:
        if layer["reason"]:
            found.setdefault(layer["reason"], []).append(layer["name"])
    return found


def _names(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_NAMES
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {rest} more" if rest > 0 else shown
