"""A comparison as a page of Markdown: the command, a table of all points, why some do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dory_core.tools import quoting
from dory_report.comparison.columns import (
    estimated_at,
    plans_text,
    reasons,
    variation_texts,
    verdict,
)
from dory_report.tables import number_cell

#: What every such page has near its beginning.
MARKDOWN_MARK = b" compared\n\nMade by `"
_NUMBERS = (
    "tiles", "parts", "L3-L2", "L3-L2 kB", "L2-L1", "L2-L1 kB", "Mcycles", "wait L2", "wait L3",
    "MAC/cycle", "ms", "mJ", "L1 kB", "L2 kB", "L3 kB",
)  # fmt: skip
_MEANINGS = (
    "Tiles: calls of a kernel. Parts: tiles between L3 and L2, one per layer where nothing is cut. "
    "L3-L2 and L2-L1: transfers started in one inference, and their bytes. Wait: millions of "
    "cycles in which the cores wait for L2, or for L3 between layers. L1, L2, L3: used at most. "
    "1 kB = 1024 bytes."
)


def comparison_markdown(document: Mapping[str, Any], command: str) -> str:
    """Return the page of a document of ``dory compare --json``. command: what made it."""
    columns, varied = document["columns"], document["varied"]
    heads = ("target", *varied, "fits", *_NUMBERS)
    lines = [
        f"# {quoting.markdown(document['network'])}: {plans_text(columns)} compared",
        "",
        f"Made by {quoting.markdown_code(command)}.",
        "",
        _MEANINGS,
        "",
        _row(heads),
        _row(["---"] * (2 + len(varied)) + ["---:"] * len(_NUMBERS)),
        *(_row(_cells(column, varied)) for column in columns),
    ]
    notes = (*reasons(columns), *estimated_at(columns))
    if notes:
        lines += ["", *(f"- {quoting.markdown(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(quoting.markdown(cell) for cell in cells) + " |"


def _cells(column: Mapping[str, Any], varied: Sequence[str]) -> list[str]:
    head = [column["target"], *variation_texts(column, varied), verdict(column)]
    totals, traffic = column["totals"], column["traffic"]
    if totals is None or traffic is None:
        return [*head, *["-"] * len(_NUMBERS)]
    return [
        *head,
        str(traffic["tiles"]),
        str(traffic["parts"]),
        str(traffic["l3_l2_transfers"]),
        _kilobytes(traffic["l3_l2_bytes"]),
        str(traffic["l2_l1_transfers"]),
        _kilobytes(traffic["l2_l1_bytes"]),
        _millions(totals["cycles"]),
        _millions(traffic["l2_l1_stall_cycles"]),
        _millions(traffic["l3_l2_stall_cycles"]),
        number_cell(totals["macs_per_cycle"]).text,
        number_cell(totals["latency_ms"]).text,
        number_cell(totals["energy_mj"], 3).text,
        *(_kilobytes(_used(column, name)) for name in ("L1", "L2", "L3")),
    ]


def _used(column: Mapping[str, Any], level: str) -> int | None:
    use = column["memory"].get(level)
    return None if use is None else use["used"]


def _kilobytes(size: int | None) -> str:
    return "-" if size is None else f"{size / 1024:.0f}"


def _millions(cycles: int) -> str:
    return f"{cycles / 1e6:.2f}"
