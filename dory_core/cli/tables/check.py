"""The text form of ``dory check``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from dory_core.cli.tables.fitted import FittedTable
from dory_core.cli.tables.golden import golden_lines
from dory_core.cli.tables.plan import memory_table, new_table
from dory_core.cli.tables.texts import alone_text, engine_names
from dory_core.quoting import visible_document


def print_check(document: Mapping[str, Any], out: Console, details: int = 0) -> None:
    """Print which layers are supported, by which kernel, and whether the network fits.

    With several engines, also the engine and why preferred engines do not compute a layer.

    details: 1 adds rejections by kernels for this kind of layer, and channels that are not
    computed; 2 adds all kernels.
    """
    document = visible_document(document)
    if document.get("format"):
        read = document["format"]
        by = f"{read['dist']} {read['version']}".strip() or "a plugin"
        out.print(Text(f"format: {read['frontend']} ({read['summary']}), read by {by}"))
    if document["layers"]:
        out.print(_layers(document, details))
    if document.get("levels"):
        out.print(memory_table((level["name"], level) for level in document["levels"]))
    if note := alone_text(document["layers"]):
        out.print(Text(f"note: {note}"))
    for note in document.get("notes", ()):
        out.print(Text(f"note: {note}"))
    if document.get("golden"):
        names = {layer["index"]: layer["node"] for layer in document["layers"]}
        for line in golden_lines(document["golden"], names):
            out.print(Text(line))
    reason = document.get("reason")
    because = f": {reason}" if reason else ""
    if not document["supported"]:
        out.print(Text(f"not supported{because}"), style="red")
    elif document.get("fits") is False:
        out.print(Text(f"supported, but does not fit{because}"), style="red")
    elif document.get("fits"):
        out.print(Text("supported, and fits"))
    else:
        out.print(Text("supported"))
    if document.get("hint"):
        out.print(Text(f"hint: {document['hint']}"))


def _layers(document: Mapping[str, Any], details: int) -> FittedTable:
    """Return the table of layers, with the rejections by engines and kernels below each layer."""
    layers = document["layers"]
    bound = document.get("fits") is not None or any(n["kernel"] for n in layers)
    several = len(engine_names(layers)) > 1
    heads = [*(["engine"] if several else []), *(["kernel"] if bound else [])]
    table = new_table("layer", "op", *heads)
    for layer in layers:
        cells = [Text(f"{layer['index']:02d} {layer['node']}"), Text(layer["op"])]
        cells += [Text(layer["engine"] or "-")] if several else []
        table.add_row(*cells, *([Text(layer["kernel"] or "-")] if bound else []))
        refused = [(p["engine"], p["reason"]) for p in layer["passed_over"] if several]
        if details or not (layer["kernel"] or document["supported"]):
            asked = [r for r in layer["rejections"] if details > 1 or not r["other_kind"]]
            asked = asked if layer["kernel"] or asked else layer["rejections"]
            refused += [(r["kernel"], r["reason"]) for r in asked]
        if details and layer.get("removed"):
            table.add_line(f"without channels {layer['removed']}")
        for name, reason in refused:
            table.add_line(f"not {name}: {reason}")
    return table
