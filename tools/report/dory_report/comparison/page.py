"""A comparison as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dory_report.comparison import charts
from dory_report.comparison.cards import cards
from dory_report.comparison.columns import plans_text
from dory_report.comparison.tables import notes, side_by_side, tables
from dory_report.page import Page, render
from dory_report.svg import Figure


def compare_page(document: Mapping[str, Any]) -> str:
    """Return the page of a document of ``dory compare --json``."""
    figures = compare_figures(document)
    layers = tuple(figure for figure in figures if figure.name.startswith("layers-"))
    return render(
        Page(
            title=f"{document['network']}: {plans_text(document['columns'])} compared",
            subtitle=f"read by {document['frontend']}",
            cards=cards(document),
            problems=(),
            first=tuple(f for f in figures if f not in layers and _is_shown(f, document)),
            tables=tables(document),
            figures=layers,
            facts=(("frontend", document["frontend"]),),
            notes=notes(document["columns"]),
        )
    )


def _is_shown(figure: Figure, document: Mapping[str, Any]) -> bool:
    """Return True for a chart that tells more than the large figures of the page do.

    Without variation this is the latency of the plans on one axis: their clocks differ.
    """
    several = sum(column["totals"] is not None for column in document["columns"]) > 1
    return (
        bool(document["varied"]) or figure.name == "front" or (several and figure.name == "latency")
    )


def compare_figures(document: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the charts of a comparison: totals, and layers where there are few columns.

    Where nothing varies the page has the totals as its large figures, and only latency as a chart.
    """
    totals = (
        charts.totals(document, "rate", "macs_per_cycle"),
        charts.totals(document, "latency", "latency_ms"),
        charts.totals(document, "energy", "energy_mj"),
        charts.front(document),
    )
    layers = charts.layers_cycles(document) if side_by_side(document) else ()
    return (*(figure for figure in totals if figure is not None), *layers)
