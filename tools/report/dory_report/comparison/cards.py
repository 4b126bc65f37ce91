"""The four large figures of a comparison: how many plans fit, and the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dory_core.tools import cli
from dory_report.application.cards import large
from dory_report.comparison.columns import MOST_SIDE_BY_SIDE, column_label, verdict
from dory_report.page import Card, Meter


def cards(document: Mapping[str, Any]) -> tuple[Card, ...]:
    """Return the figures that stand first on the page of a comparison."""
    columns = document["columns"]
    return (
        _fits(columns),
        _best("Latency (estimate)", columns, "latency_ms", "ms"),
        _best("Energy (estimate)", columns, "energy_mj", "mJ"),
        _best("Rate (estimate)", columns, "macs_per_cycle", "MAC/cycle", most=True),
    )


def _fits(columns: Sequence[Mapping[str, Any]]) -> Card:
    """Return how many plans fit, and the fullest memory of each where there are few."""
    fit = sum(1 for column in columns if column["fits"])
    meters = tuple(_fullest(column) for column in columns[:MOST_SIDE_BY_SIDE])
    state = "good" if fit == len(columns) else "bad" if not fit else ""
    rest = len(columns) - len(meters)
    notes = (f"{rest} more plans in the table",) if rest else ()
    return Card("Memory", f"{fit} of {len(columns)}", "fit", notes, meters, state)


def _fullest(column: Mapping[str, Any]) -> Meter:
    shares = {n: m["used"] / m["budget"] for n, m in column["memory"].items() if m["budget"]}
    if not shares:
        return Meter(column_label(column), verdict(column), 0.0)
    level = max(shares, key=lambda name: shares[name])
    use = column["memory"][level]
    text = f"{level} {cli.bytes_text(use['used'])} of {cli.bytes_text(use['budget'])}"
    return Meter(column_label(column), text, shares[level])


def _best(
    title: str, columns: Sequence[Mapping[str, Any]], measure: str, unit: str, most: bool = False
) -> Card:
    """Return the best plan by a measure, and the bars of the best few.

    most: the largest value is the best one.
    """
    known = [
        (column["totals"][measure], column_label(column))
        for column in columns
        if column["totals"] is not None and column["totals"][measure] is not None
    ]
    if not known:
        return Card(title, "\u2013", notes=("not known for these plans",))
    ranked = sorted(known, key=lambda pair: pair[0], reverse=most)
    shown = ranked[:MOST_SIDE_BY_SIDE]
    longest = max(value for value, _ in shown) or 1
    meters = tuple(Meter(name, f"{large(value)} {unit}", value / longest) for value, name in shown)
    return Card(title, large(ranked[0][0]), f"{unit} at best", (), meters)
