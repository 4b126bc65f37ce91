"""A comparison as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dory_core.report import charts, drawing
from dory_core.report.compare import (
    MOST_SIDE_BY_SIDE,
    engine_lines,
    estimated_at,
    level_names,
    number_text,
    reasons,
    use_text,
    variation_texts,
    verdict,
)
from dory_core.report.page import Cell, Figure, Page, Row, Table, render
from dory_core.report.units import bytes_text, count_text


def compare_page(document: Mapping[str, Any]) -> str:
    """Return the page of a document of ``dory compare --json``.

    Raises: ToolMissing without the extra ``dory-core[report]``.
    """
    columns = document["columns"]
    tables = [_totals(document)]
    drawn = compare_figures(document)
    if _side_by_side(document):
        tables.append(_layers(document))
    return render(
        Page(
            title=f"{document['network']}: {len(columns)} plans compared",
            facts=(("frontend", document["frontend"]),),
            tables=tuple(tables),
            figures=drawn,
            notes=(*engine_lines(columns), *reasons(columns), *estimated_at(columns)),
            script=drawing.javascript(),
        )
    )


def compare_figures(document: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the charts of a comparison: totals, and layers when there are few columns."""
    specs = {
        "rate": charts.totals(document, "macs_per_cycle"),
        "latency": charts.totals(document, "latency_ms"),
        "energy": charts.totals(document, "energy_mj"),
        "layers-cycles": charts.layer_cycles(document) if _side_by_side(document) else None,
    }
    return tuple(Figure(name, spec) for name, spec in specs.items() if spec is not None)


def _side_by_side(document: Mapping[str, Any]) -> bool:
    columns = document["columns"]
    return len(columns) <= MOST_SIDE_BY_SIDE and any(column["layers"] for column in columns)


def _totals(document: Mapping[str, Any]) -> Table:
    columns, varied = document["columns"], document["varied"]
    levels = level_names(columns)
    heads = ("target", *varied, "fits", "cycles", "MAC/cycle", "ms", "mJ", *levels)
    rows = []
    for column in columns:
        totals = column["totals"] or {}
        cycles = totals.get("cycles")
        cells = [Cell(column["target"], column["target"])]
        texts = zip(varied, variation_texts(column, varied), strict=True)
        cells += [_value(text, column["variation"][name]) for name, text in texts]
        word = verdict(column)
        cells.append(Cell(word, word, column["reason"] or column["deployable_reason"]))
        text = "-" if cycles is None else count_text(cycles)
        cells.append(Cell(text, cycles or 0, "" if cycles is None else f"{cycles:,}"))
        for key, digits in (("macs_per_cycle", 2), ("latency_ms", 2), ("energy_mj", 3)):
            value = totals.get(key)
            cells.append(Cell(number_text(value, digits), value or 0.0))
        for name in levels:
            level = column["memory"].get(name)
            cells.append(Cell(use_text(level), level["used"] if level else 0))
        rows.append(Row(tuple(cells)))
    return Table("totals", heads, tuple(rows))


def _value(text: str, value: str) -> Cell:
    try:
        return Cell(text, float(value))
    except ValueError:
        return Cell(text, value)


def _layers(document: Mapping[str, Any]) -> Table:
    columns = [column for column in document["columns"] if column["layers"]]
    heads = ["layer", "node", "kind", "MAC"]
    for column in columns:
        name = charts.column_label(column)
        heads += [f"{name} cycles", f"{name} MAC/cycle", f"{name} L1"]
    by_index = [{layer["index"]: layer for layer in column["layers"]} for column in columns]
    rows = []
    for index in sorted(set().union(*by_index)):
        first = next(layers[index] for layers in by_index if index in layers)
        cells = [
            Cell(f"{index:02d}", index),
            Cell(first["name"], first["name"]),
            Cell(first["kind"], first["kind"]),
            Cell(count_text(first["macs"]) if first["macs"] else "-", first["macs"]),
        ]
        for layers in by_index:
            layer = layers.get(index)
            if layer is None:
                cells += [Cell("-", 0), Cell("-", 0.0), Cell("-", 0)]
                continue
            estimate, used = layer["estimate"], layer["bytes"]["l1"]
            rate = estimate["macs_per_cycle"]
            cells += [
                Cell(count_text(estimate["cycles"]), estimate["cycles"], layer["kernel"]),
                Cell(number_text(rate or None, 2), rate),
                Cell(bytes_text(used), used),
            ]
        rows.append(Row(tuple(cells)))
    return Table("layers", tuple(heads), tuple(rows))
