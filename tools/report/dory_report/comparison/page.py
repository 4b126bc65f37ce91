"""A comparison as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dory_report.comparison import charts
from dory_report.comparison.tables import notes, side_by_side, tables
from dory_report.page import Figure, Page, render


def compare_page(document: Mapping[str, Any]) -> str:
    """Return the page of a document of ``dory compare --json``."""
    return render(
        Page(
            title=f"{document['network']}: {len(document['columns'])} plans compared",
            facts=(("frontend", document["frontend"]),),
            tables=tables(document),
            figures=compare_figures(document),
            notes=notes(document["columns"]),
        )
    )


def compare_figures(document: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the charts of a comparison: totals, and layers where there are few columns."""
    specs = {
        "rate": charts.totals(document, "macs_per_cycle"),
        "latency": charts.totals(document, "latency_ms"),
        "energy": charts.totals(document, "energy_mj"),
        "layers-cycles": charts.layer_cycles(document) if side_by_side(document) else None,
    }
    return tuple(Figure(name, spec) for name, spec in specs.items() if spec is not None)
