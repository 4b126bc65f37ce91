"""The text form of ``dory run``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from dory_core.cli.tables.plan import new_table
from dory_core.cli.tables.units import count_text
from dory_core.quoting import visible, visible_document

_MOST_ANSWERS = 10
_MOST_RUNS = 20  # exact ones that are listed


def print_run(
    document: Mapping[str, Any],
    out: Console,
    details: bool = False,
    answers: Sequence[str] = (),
) -> None:
    """Print what each run gave, and in the last line the verdict.

    Args:
        document: The document of ``dory run --json``.
        out: The console.
        details: True to print the layers of every run, not only of those that are not exact.
        answers: Sentences on what the network answered.
    """
    document = visible_document(document)
    runs = document["runs"]
    for note in document.get("notes", ()):
        out.print(Text(note))
    hidden = 0
    for number, run in enumerate(runs):
        layers = run["layers"]
        exact = sum(1 for layer in layers if layer["exact"])
        if exact == len(layers) and number >= _MOST_RUNS and not details:
            hidden += 1
            continue
        title = f"run {number}" if len(runs) > 1 else "run"
        out.print(Text(f"{title}: {run['input']}: {exact} of {len(layers)} layers exact"))
        if details or exact < len(layers):
            out.print(_layer_table(layers))
    if hidden:
        out.print(Text(f"{hidden} more runs: every layer exact (-v lists them)"))
    for answer in answers[:_MOST_ANSWERS]:
        out.print(Text(visible(answer)))
    if len(answers) > _MOST_ANSWERS:
        out.print(Text(f"{len(answers) - _MOST_ANSWERS} more answers: --dump DIR writes them"))
    where = f"{document['runner']}, DMA {document['dma']}"
    if document["exact"]:
        unread = sum(layer.get("not_computed", 0) for layer in runs[0]["layers"])
        if unread:
            out.print(Text(f"not computed, because nothing reads them: {unread} channels"))
        whose = f" to {document['reference']}" if document["reference"] else ""
        out.print(Text(f"exact{whose}: every element of every layer matches the golden ({where})"))
    else:
        out.print(Text(f"NOT EXACT: {first_mismatch(runs)} ({where})"), style="red")


def _layer_table(layers: list[Mapping[str, Any]]) -> Any:
    counted = ("instructions", "per MAC") if any(n.get("instructions") for n in layers) else ()
    numbers = ("cycles", *counted)
    table = new_table(
        "layer",
        "exact",
        "wrong",
        "first wrong element",
        *numbers,
        right=("wrong", *numbers),
        drop=("per MAC", "instructions", "cycles"),
    )
    for layer in layers:
        cycles, instructions, macs = (layer.get(k) for k in ("cycles", "instructions", "macs"))
        row = [
            "yes" if layer["exact"] else "NO",
            str(layer["mismatches"]),
            _element(layer["first"]) if layer.get("first") else "",
            "-" if cycles is None else count_text(cycles),
        ]
        if counted:
            row.append("-" if instructions is None else count_text(instructions))
            row.append(f"{instructions / macs:.2f}" if instructions and macs else "-")
        table.add_row(Text(_title(layer)), *row)
    return table


def _title(layer: Mapping[str, Any]) -> str:
    tensor = f" (tensor {layer['tensor']})" if layer.get("tensor") else ""
    return f"{layer['index']:02d} {layer['name']}{tensor}"


def _element(first: Mapping[str, int]) -> str:
    place = f"(c {first['c']}, h {first['h']}, w {first['w']})"
    return f"{place} expected {first['expected']}, got {first['got']}"


def first_mismatch(runs: list[Mapping[str, Any]]) -> str:
    """Return a text about the first wrong element of all runs."""
    for run in runs:
        for layer in run["layers"]:
            if layer.get("first"):
                return f"layer {_title(layer)} {_element(layer['first'])}"
    return "a run gave no exact result"
