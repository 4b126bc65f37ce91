"""The text form of ``dory check --least``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from dory_core.cli.tables.plan import new_table
from dory_core.cli.tables.units import bytes_text, count_text
from dory_core.quoting import visible_document


def print_front(document: Mapping[str, Any], out: Console) -> None:
    """Print the plans of a front, from the fastest to the smallest, and what would make one fit."""
    document = visible_document(document)
    points, budget = document["points"], document["l2_budget"]
    out.print(Text(f"{document['network']} for {document['target']}"), style="bold")
    code = ("code B",) if any(point["code_bytes"] for point in points) else ()
    sizes = ("L2 B", *code, "L1 B", "cycles", "+ cycles")
    heads = (*sizes, "fits", "most is live in", "largest block")
    table = new_table(*heads, right=sizes, drop=("largest block", "L1 B"))
    for point in points:
        more = point["cycles"] / points[0]["cycles"] - 1
        table.add_row(
            Text(str(point["l2_bytes"])),
            *(Text(str(point["code_bytes"])) for _ in code),
            Text(str(point["l1_bytes"])),
            Text(count_text(point["cycles"])),
            Text(f"{100 * more:.1f} %"),
            Text("yes" if point["fits"] else "no"),
            Text(where_text(point)),
            Text(f"{point['block']} {bytes_text(point['block_bytes'])}"),
        )
    out.print(table)
    least = points[-1]["l2_bytes"]
    if document["fits"]:
        with_code = f" with {points[-1]['code_bytes']} B of code" if code else ""
        out.print(Text(f"fits {budget} B of L2; the least is {least} B{with_code}"))
        return
    out.print(Text(f"does not fit {budget} B of L2: the least is {least} B"), style="red")
    for change in document["changes"]:
        lost = f", {100 * change['macs']:.0f} % fewer MAC" if change["macs"] else ""
        out.print(Text(f"would fit with {change['text']}: {change['bytes']} B live{lost}"))
    if not document["changes"]:
        out.print(Text("no single change of input or channels makes this plan fit"))
    out.print(Text(f"hint: give --l2 {least} or more if the chip has it"))


def where_text(point: Mapping[str, Any]) -> str:
    """Return the layer, or the fused chain, where a plan needs most of L2."""
    if point["first"] == point["last"]:
        return f"layer {point['first']:02d} {point['layer']}"
    return f"chain of layers {point['first']:02d} to {point['last']:02d}"
