"""The charts of a comparison: totals over what varies, and the layers of each plan.

Each is made of a document of ``dory compare --json``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from dory_core.tools import cli
from dory_report.application.charts import cycles_chart, layer_cycles
from dory_report.comparison.columns import budget_text, column_label
from dory_report.palette import PLANS
from dory_report.svg import Figure, Scale, grid, label, percent, tag, tick_labels, ticks, tip

_PLOT_PX = 240
_NAMES_PX = 40
_ROW_PX = 34

_MEASURES = {
    "macs_per_cycle": "MAC per cycle",
    "latency_ms": "Latency in ms",
    "energy_mj": "Energy in mJ",
}


def totals(document: Mapping[str, Any], name: str, measure: str) -> Figure | None:
    """Return a total of each column.

    measure: a name in ``totals`` of the columns. What varies first runs along the axis, a line for
    each combination of the rest; without variation a bar for each target. None without any value.
    """
    columns = [
        column
        for column in document["columns"]
        if column["totals"] is not None and column["totals"][measure] is not None
    ]
    if not columns:
        return None
    title = f"{_MEASURES[measure]} (estimate)"
    if not document["varied"]:
        return _bars(name, title, columns, measure)
    return _lines(name, title, document["varied"], columns, measure)


def _bars(name: str, title: str, columns: Sequence[Mapping[str, Any]], measure: str) -> Figure:
    """Return a bar for each target, with its name above it."""
    most = max(column["totals"][measure] for column in columns) or 1
    rows = []
    for number, column in enumerate(columns):
        value, y = column["totals"][measure], _ROW_PX * number
        bar = tag("rect", class_=f"m {_plan(number)}", x=0, width=percent(value / most), y=y + 18,
                  height=10, data_tip=_told(column, measure))  # fmt: skip
        rows.append(label(column["target"], x=0, y=y + 12) + bar)
        rows.append(label(f"{value:,.4g}", class_="end", x="100%", y=y + 12))
    return Figure(name, title, "", _ROW_PX * len(columns), "".join(rows))


def _lines(
    name: str,
    title: str,
    varied: Sequence[str],
    columns: Sequence[Mapping[str, Any]],
    measure: str,
) -> Figure:
    """Return a line for each combination of what does not run along the axis."""
    series: dict[str, list[Mapping[str, Any]]] = {}
    for column in columns:
        rest = [f"{n}={budget_text(n, column['variation'][n])}" for n in varied[1:]]
        series.setdefault(" ".join([column["target"], *rest]), []).append(column)
    places = _places(varied[0], columns)
    most = max(column["totals"][measure] for column in columns) or 1
    scale = Scale(0, most * 1.05, _PLOT_PX)
    marks = []
    for number, points in enumerate(series.values()):
        at = [(places[p["variation"][varied[0]]][0], scale.y(p["totals"][measure])) for p in points]
        at_sorted = sorted(at)
        marks += [
            tag("line", class_=f"line {_plan(number)}", x1=percent(a), y1=y, x2=percent(b), y2=z,
                stroke_dasharray=_DASHES[number // len(PLANS) % len(_DASHES)])
            for (a, y), (b, z) in pairwise(at_sorted)
        ]  # fmt: skip
        marks += [
            tag("circle", class_=f"m dot {_plan(number)}", cx=percent(x), cy=y, r=5,
                data_tip=_told(point, measure))
            for (x, y), point in zip(at, points, strict=True)
        ]  # fmt: skip
    names = "".join(
        label(text, x=percent(x), y=_PLOT_PX + 15) for x, text in sorted(places.values())
    )
    values = ticks(scale.high)
    below = label(varied[0], class_="tick end", x="100%", y=_PLOT_PX + 34)
    return Figure(
        name,
        title,
        f"over {varied[0]}",
        _PLOT_PX + _NAMES_PX,
        grid(scale, values) + "".join(marks) + tag("g", names, class_="thin tick mid") + below,
        tick_labels(scale, values),
        legend=tuple((_plan(number), text) for number, text in enumerate(series)),
    )


def _l2_bytes(point: Mapping[str, Any]) -> int:
    """Return the bytes of L2 of a plan: data and code."""
    return int(point["l2_bytes"] + point["code_bytes"])


def front(document: Mapping[str, Any]) -> Figure | None:
    """Return cycles over bytes of L2, with those of code there; None without any front.

    Each column with a front has a line.
    """
    columns = [column for column in document["columns"] if column["front"]]
    if not columns:
        return None
    points = [point for column in columns for point in column["front"]]
    scale = Scale(0, max(point["cycles"] for point in points) * 1.05, _PLOT_PX)
    across = Scale(0, max(map(_l2_bytes, points)) * 1.05, 1)
    marks = []
    for number, column in enumerate(columns):
        at = [(across.share(_l2_bytes(p)), scale.y(p["cycles"])) for p in column["front"]]
        marks += [
            tag("line", class_=f"line {_plan(number)}", x1=percent(a), y1=y, x2=percent(b), y2=z)
            for (a, y), (b, z) in pairwise(at)
        ]
        for (x, y), point in zip(at, column["front"], strict=True):
            told = tip(
                column_label(column),
                f"{point['l2_bytes']:,} B of L2, {point['code_bytes']:,} B of code there, "
                f"{point['l1_bytes']:,} B of L1",
                f"{point['cycles']:,} cycles",
            )
            marks.append(tag("circle", class_=f"m dot {_plan(number)}", cx=percent(x), cy=y, r=5,
                             data_tip=told))  # fmt: skip
    names = "".join(
        label(cli.bytes_text(int(value)), x=percent(across.share(value)), y=_PLOT_PX + 15)
        for value in ticks(across.high)[1:]
    )
    values = ticks(scale.high)
    return Figure(
        "front",
        "Cycles within fewer bytes of L2 (estimate)",
        "from the fastest plan to the smallest",
        _PLOT_PX + _NAMES_PX,
        grid(scale, values) + "".join(marks) + tag("g", names, class_="thin tick mid"),
        tick_labels(scale, values),
        legend=tuple((_plan(n), column_label(column)) for n, column in enumerate(columns)),
    )


_DASHES = (None, "6 3", "2 3", "10 3 2 3")


def _plan(number: int) -> str:
    """Return the class of a plan of the comparison."""
    return PLANS[number % len(PLANS)].name


def _told(column: Mapping[str, Any], measure: str) -> str:
    totals = column["totals"]
    return tip(
        column_label(column),
        f"{_MEASURES[measure]}: {totals[measure]:,.4g}",
        f"{totals['cycles']:,} cycles",
    )


def _places(name: str, columns: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, str]]:
    """Return where each value stands along the axis, 0 to 1, and its text.

    Sizes are compared by their ratio, numbers by their difference; names stand side by side.
    """
    values = list(dict.fromkeys(column["variation"][name] for column in columns))
    numbers = [_number_of(value) for value in values]
    known = [number for number in numbers if number is not None]
    texts = [budget_text(name, value) for value in values]
    if len(known) < len(values) or len(values) == 1 or min(known) == max(known):
        count = len(values)
        return {v: ((n + 0.5) / count, texts[n]) for n, v in enumerate(values)}
    ratio = name in cli.BUDGET_NAMES and min(known) > 0
    scale = Scale(min(known), max(known), 1, logarithmic=ratio)
    return {
        value: (0.04 + 0.92 * scale.share(number), text)
        for value, number, text in zip(values, known, texts, strict=True)
    }


def _number_of(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def layers_cycles(document: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the cycles of each layer on each column, all over the same layers.

    Each chart has a scale of its own: the totals compare the columns.
    """
    found = []
    columns = [column for column in document["columns"] if column["layers"]]
    for number, column in enumerate(columns):
        layers = column["layers"]
        most = max(sum(layer_cycles(layer).values()) for layer in layers)
        title = f"Cycles of each layer: {column_label(column)} (estimate)"
        found.append(cycles_chart(f"layers-cycles-{number}", title, layers, most))
    return tuple(found)
