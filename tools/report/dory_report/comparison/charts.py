"""The charts of a comparison as Vega-Lite specifications.

Each is made of a document of ``dory compare --json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dory_core.api import cli
from dory_report.comparison.columns import budget_text, column_label
from dory_report.vega import Spec, chart, field, labels, layer_label, tooltip

_NARROW = 260

_MEASURES = {
    "macs_per_cycle": "MAC per cycle",
    "latency_ms": "latency in ms",
    "energy_mj": "energy in mJ",
}


def totals(document: Mapping[str, Any], measure: str) -> Spec | None:
    """Return a total of each column.

    measure: a name in ``totals`` of the columns. What varies first runs along the axis, a line for
    each combination of the rest; without variation a bar for each target. None without any value.
    """
    varied = document["varied"]
    values = []
    for column in document["columns"]:
        if column["totals"] is None or column["totals"][measure] is None:
            continue
        rest = [f"{n}={budget_text(n, column['variation'][n])}" for n in varied[1:]]
        values.append(
            {
                "target": column["target"],
                "series": " ".join([column["target"], *rest]),
                "x": _position_of(column, varied[0]) if varied else column["target"],
                "value": column["totals"][measure],
                "cycles": column["totals"]["cycles"],
            }
        )
    if not values:
        return None
    numeric = all(not isinstance(value["x"], str) for value in values)
    title, more = varied[0] if varied else None, dict[str, Any]()
    if numeric:
        more = {"scale": {"zero": False}}
    if numeric and title in cli.BUDGET_NAMES:
        # Sizes are compared by their ratio; the axis shows those that were asked for.
        ticks = sorted({value["x"] for value in values})
        axis = {"values": ticks, "labelOverlap": True, "grid": True, "format": "~r"}
        title, more = f"{title} in kB", {"scale": {"type": "log", "nice": False}, "axis": axis}
    if not varied:
        more = {"axis": {"labelAngle": 0}}
    encoding = {
        "x": field("x", "quantitative" if numeric else "ordinal", title, sort=None, **more),
        "y": field("value", "quantitative", _MEASURES[measure], scale={"zero": not varied}),
        "color": field(
            "series", "nominal", None, sort=None, **({} if varied else {"legend": None})
        ),
        "tooltip": [
            *labels("series", "x"),
            *tooltip(value=_MEASURES[measure], cycles="cycles"),
        ],
    }
    mark = {"type": "line", "point": True} if varied else {"type": "bar", "width": 60}
    width = {} if varied else {"width": _NARROW}
    title_text = f"{_MEASURES[measure]} (estimate)"
    return chart(title_text, values, height=260, mark=mark, encoding=encoding, **width)


def _position_of(column: Mapping[str, Any], name: str) -> float | str:
    """Return where a column stands on the axis of what varies; budgets in kB."""
    position = _number_of(column["variation"][name])
    if name in cli.BUDGET_NAMES and not isinstance(position, str):
        return position / 1024
    return position


def _number_of(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def layer_cycles(document: Mapping[str, Any]) -> Spec:
    """Return the cycles of each layer on each column of a comparison."""
    values = [
        {
            "layer": layer_label(layer),
            "name": layer["name"],
            "column": column_label(column),
            "kernel": layer["kernel"],
            "cycles": layer["estimate"]["cycles"],
        }
        for column in document["columns"]
        for layer in column["layers"]
    ]
    encoding = {
        "x": field("layer", "ordinal", None, sort=None),
        "y": field("cycles", "quantitative", "cycles", axis={"format": "s"}, scale={"type": "log"}),
        "color": field("column", "nominal", None, sort=None),
        "tooltip": [
            *labels("layer", "name", "column", "kernel"),
            *tooltip(cycles="cycles"),
        ],
    }
    mark = {"type": "point", "filled": True, "size": 60}
    title = "Cycles per layer (estimate, logarithmic)"
    return chart(title, values, height=260, mark=mark, encoding=encoding)
