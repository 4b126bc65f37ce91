"""The tables of a comparison, for terminal and page.

Each is made of a document of ``dory compare --json``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dory_core.tools import cli
from dory_report.comparison.columns import (
    MOST_SIDE_BY_SIDE,
    column_label,
    engine_lines,
    estimated_at,
    plans_text,
    reasons,
    variation_texts,
    verdict,
)
from dory_report.tables import (
    Cell,
    Row,
    Table,
    count_cell,
    label_cell,
    layer_cell,
    number_cell,
    print_table,
)

if TYPE_CHECKING:
    from rich.console import Console


def print_comparison(document: Mapping[str, Any], out: Console) -> None:
    """Print the tables of a comparison; reasons stand below them."""
    from rich.text import Text

    columns = document["columns"]
    title = f"{document['network']} ({document['frontend']}): {plans_text(columns)}"
    out.print(Text(title), style="bold")
    for table in reversed(tables(document)):
        print_table(table, out, _least_important_first(table))
    for line in notes(columns):
        out.print(Text(line))


def tables(document: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the table of totals, and that of the layers where there are few columns."""
    few = side_by_side(document)
    return (_totals(document), _layers(document)) if few else (_totals(document),)


def _least_important_first(table: Table) -> list[str]:
    """Return the columns of layers that a comparison can do without: cycles of all stay."""
    if table.name != "layers":
        return []
    ends = (" L1", " MAC/cycle")
    rates = [title for end in ends for title in table.columns if title.endswith(end)]
    return [*rates, "kind", "MAC"]


def notes(columns: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the notes below the tables."""
    return (*engine_lines(columns), *reasons(columns), *estimated_at(columns))


def side_by_side(document: Mapping[str, Any]) -> bool:
    """Return True when the layers of all columns are shown."""
    columns = document["columns"]
    return len(columns) <= MOST_SIDE_BY_SIDE and any(column["layers"] for column in columns)


def _totals(document: Mapping[str, Any]) -> Table:
    """Return a row for each column of the document."""
    columns, varied = document["columns"], document["varied"]
    levels = sorted({name for column in columns for name in column["memory"]})
    heads = ("target", *varied, "fits", "cycles", "MAC/cycle", "ms", "mJ", *levels)
    rows = []
    for column in columns:
        totals = column["totals"] or {}
        texts = zip(varied, variation_texts(column, varied), strict=True)
        cells = (
            Cell(column["target"], column["target"], head=True),
            *(_value(text, column["variation"][name]) for name, text in texts),
            label_cell(verdict(column), column["reason"] or column["deployable_reason"]),
            count_cell(totals.get("cycles")),
            number_cell(totals.get("macs_per_cycle")),
            number_cell(totals.get("latency_ms")),
            number_cell(totals.get("energy_mj"), 3),
            *(_use(column["memory"].get(name)) for name in levels),
        )
        rows.append(Row(cells))
    return Table("totals", "Plans", heads, tuple(rows))


def _layers(document: Mapping[str, Any]) -> Table:
    """Return a row for each layer, with three cells for each column of the document."""
    columns = [column for column in document["columns"] if column["layers"]]
    measures = ("cycles", "MAC/cycle", "L1")
    heads = [f"{column_label(column)} {measure}" for column in columns for measure in measures]
    by_index = [{layer["index"]: layer for layer in column["layers"]} for column in columns]
    rows = []
    for index in sorted(set().union(*by_index)):
        first = next(layers[index] for layers in by_index if index in layers)
        cells = [
            layer_cell(first),
            label_cell(first["kind"]),
            count_cell(first["macs"] or None),
        ]
        for layers in by_index:
            cells += _layer(layers[index]) if index in layers else [Cell("-", 0)] * len(measures)
        rows.append(Row(tuple(cells), link=str(index)))
    return Table("layers", "Layers", ("layer", "kind", "MAC", *heads), tuple(rows))


def _layer(layer: Mapping[str, Any]) -> list[Cell]:
    estimate, used = layer["estimate"], layer["bytes"]["l1"]
    return [
        Cell(cli.count_text(estimate["cycles"]), estimate["cycles"], layer["kernel"]),
        number_cell(estimate["macs_per_cycle"] or None),
        Cell(cli.bytes_text(used), used),
    ]


def _value(text: str, value: str) -> Cell:
    try:
        return Cell(text, float(value))
    except ValueError:
        return Cell(text, value)


def _use(level: Mapping[str, int] | None) -> Cell:
    """Return the bytes used of a memory level and their share of the budget."""
    if level is None:
        return Cell("-", 0)
    used, share = level["used"], cli.share_text(level["used"], level["budget"])
    return Cell(f"{cli.bytes_text(used)} {share:>4}", used)
