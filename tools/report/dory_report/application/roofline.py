"""How near the layers of an application come to what cores and link can do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from dory_report.svg import (
    Figure,
    Scale,
    grid,
    label,
    number,
    percent,
    powers,
    tag,
    tick_labels,
    tip,
)

_PLOT_PX = 300
_NAMES_PX = 40


def roofline(plan: Mapping[str, Any]) -> Figure | None:
    """Return MAC/cycle of each layer over its MACs for each byte that it moves, under the roof.

    The roof is the peak of the cores and the rate of the link between L2 and L1. None when the
    target states no peak, or no layer with MACs moves anything.
    """
    roof = plan["roofline"]
    peak, rate = roof["peak_macs_per_cycle"], roof["links"].get("L2-L1")
    layers = [
        layer
        for layer in plan["layers"]
        if layer["macs"]
        and layer["estimate"]["transfer_bytes"]
        and layer["estimate"]["macs_per_cycle"] > 0
    ]
    if not peak or not rate or not layers:
        return None
    dense = {n["index"]: n["macs"] / n["estimate"]["transfer_bytes"] for n in layers}
    ridge = peak / rate
    low, high = min([ridge / 8, *dense.values()]) / 2, max([ridge * 8, *dense.values()]) * 2
    across = Scale(low, high, 1, logarithmic=True)
    slowest = min(layer["estimate"]["macs_per_cycle"] for layer in layers)
    fastest = max(layer["estimate"]["macs_per_cycle"] for layer in layers)
    scale = Scale(slowest / 2, max(peak, fastest) * 1.5, _PLOT_PX, logarithmic=True)
    most = max(layer["estimate"]["cycles"] for layer in layers)
    marks = [
        _point(layer, dense[layer["index"]], across, scale, most)
        for layer in sorted(layers, key=lambda n: -n["estimate"]["cycles"])
    ]
    values = powers(scale.low, scale.high)
    bounds = {_bound(layer): _text(layer) for layer in layers}
    return Figure(
        "roofline",
        f"Roofline: {peak:g} MAC/cycle, {rate:g} bytes/cycle",
        "MAC per cycle of each layer over its MAC per byte between L2 and L1, both logarithmic; "
        "area: cycles. The line is what cores and link allow.",
        _PLOT_PX + _NAMES_PX,
        grid(scale, values) + _roof(peak, rate, across, scale) + "".join(marks) + _below(across),
        tick_labels(scale, values),
        legend=tuple(bounds.items()),
    )


def _bound(layer: Mapping[str, Any]) -> str:
    bound = str(layer["estimate"]["bound"])
    return {"compute": "compute", "L3-L2": "wait-l3"}.get(bound, "wait-l2")


def _text(layer: Mapping[str, Any]) -> str:
    return f"limited by {layer['estimate']['bound']}"


def _point(layer: Mapping[str, Any], density: float, across: Scale, scale: Scale, most: int) -> str:
    estimate = layer["estimate"]
    return tag(
        "circle",
        class_=f"m dot {_bound(layer)}",
        cx=percent(across.share(density)),
        cy=scale.y(estimate["macs_per_cycle"]),
        r=round(4 + 9 * math.sqrt(estimate["cycles"] / (most or 1)), 1),
        data_l=layer["index"],
        data_tip=tip(
            layer["kernel"],
            f"{estimate['macs_per_cycle']:.2f} MAC/cycle at {density:.2f} MAC/byte",
            f"{estimate['cycles']:,} cycles, {_text(layer)}",
        ),
    )


def _roof(peak: float, rate: float, across: Scale, scale: Scale) -> str:
    """Return the slope of the link from where it enters the plot, and the peak of the cores."""
    ridge = peak / rate
    start = max(across.low, scale.low / rate)
    ends = ((start, start * rate), (ridge, peak), (across.high, peak))
    return "".join(
        tag("line", class_="roof", x1=percent(across.share(a)), y1=scale.y(rate_a),
            x2=percent(across.share(b)), y2=scale.y(rate_b))
        for (a, rate_a), (b, rate_b) in pairwise(ends)
    )  # fmt: skip


def _below(across: Scale) -> str:
    lines = "".join(
        label(number(value), x=percent(across.share(value)), y=_PLOT_PX + 15)
        for value in powers(across.low, across.high)
    )
    title = label("MAC per byte", class_="tick end", x="100%", y=_PLOT_PX + 34)
    return tag("g", lines, class_="thin tick mid") + title
