"""The charts of a report as Vega-Lite specifications: data and how to draw it, nothing else.

Each takes a plan.json document. The same specification is drawn in the page and written as an
image, so that both show the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dory_core.budgets import BUDGET_NAMES
from dory_core.plan import RESIDENT
from dory_core.report.units import budget_text

Spec = dict[str, Any]

_WIDTH = 900
_KINDS = {"activations": "#4c78a8", "constants": "#f58518"}
# Computing, waiting for L2, other, waiting for L3.
_TIME = ["#54a24b", "#e45756", "#bab0ac", "#f58518"]
_NARROW = 260
#: What tensors are called in the chart of L1 that the layer neither reads nor writes.
KEPT = "kept for later"


def _chart(title: str, values: Sequence[Mapping[str, Any]], **parts: Any) -> Spec:
    return {
        "title": {"text": title, "anchor": "start"},
        "width": _WIDTH,
        "data": {"values": [dict(value) for value in values]},
        "config": {"view": {"stroke": "#ddd"}, "axis": {"grid": False}},
        **parts,
    }


def _field(name: str, kind: str, title: str | None, **more: Any) -> dict[str, Any]:
    return {"field": name, "type": kind, "title": title, **more}


def _tooltip(**fields: str) -> list[dict[str, Any]]:
    """Return the tooltip that shows fields under these titles; numbers with separators."""
    return [{"field": name, "title": title, "format": ","} for name, title in fields.items()]


def _labels(*fields: str) -> list[dict[str, Any]]:
    return [{"field": name, "type": "nominal"} for name in fields]


def _domain(colours: Mapping[str, str]) -> dict[str, Any]:
    return {"domain": list(colours), "range": list(colours.values())}


def layer_label(layer: Mapping[str, Any]) -> str:
    """Return the short name of a layer: its index and kind."""
    return f"{layer['index']:02d} {layer['kind']}"


def positions(plan: Mapping[str, Any]) -> list[str]:
    """Return the layer that runs at each position; a layer of several parts has several."""
    return [
        layer_label(layer) + (f" part {part}" if layer["l3_tiles"] > 1 else "")
        for layer in plan["layers"]
        for part in range(layer["l3_tiles"])
    ]


def memory_map(plan: Mapping[str, Any], level: str) -> Spec:
    """Return the map of a memory level over time: a block is a rectangle, offset by lifetime."""
    use = plan["memory"][level]
    names = positions(plan)
    values = []
    for block in use["blocks"]:
        constants = block["name"].startswith("weights")
        values.append(
            {
                **block,
                "kind": "constants" if constants else "activations",
                "end": block["offset"] + block["size"],
                "from": block["first"],
                "to": block["last"] + 1,
                "begins": _position(names, block["first"]),
                "ends": _position(names, block["last"]),
            }
        )
    blocks = {
        "mark": {"type": "rect", "stroke": "white", "strokeWidth": 0.5},
        "encoding": {
            "x": _field(
                "from",
                "quantitative",
                "position in the execution",
                axis={"tickMinStep": 1},
                scale={"nice": False, "zero": False},
            ),
            "x2": {"field": "to"},
            "y": _field("offset", "quantitative", "byte offset", axis={"format": "s"}),
            "y2": {"field": "end"},
            "color": _field("kind", "nominal", None, scale=_domain(_KINDS)),
            "tooltip": [
                *_labels("name"),
                *_tooltip(size="bytes", offset="offset"),
                *_labels("begins", "ends"),
            ],
        },
    }
    budget = {
        "mark": {"type": "rule", "strokeDash": [6, 4], "color": "#e45756"},
        "data": {"values": [{"budget": use["budget"]}]},
        "encoding": {
            "y": _field("budget", "quantitative", None),
            "tooltip": _tooltip(budget="budget"),
        },
    }
    title = f"{level}: {use['used']:,} of {use['budget']:,} bytes"
    near = 2 * use["used"] > use["budget"]
    return _chart(title, values, height=320, layer=[blocks, budget] if near else [blocks])


def _position(names: Sequence[str], position: int) -> str:
    if position < 0:
        return "before the first layer"
    return names[position] if position < len(names) else "after the last layer"


def cycles(plan: Mapping[str, Any]) -> Spec:
    """Return the cycles of each layer: computing, waiting for L2, the rest, and for L3 before it.

    A layer in place waits for the memories that it works on.
    """
    values = []
    moved = any(layer["estimate"]["transfers"] for layer in plan["layers"])
    names = ["computing", f"waiting for {'L2' if moved else 'memory'}", "other", "waiting for L3"]
    for layer in plan["layers"]:
        estimate = layer["estimate"]
        computing, waiting = estimate["compute_cycles"], estimate["stall_cycles"]
        rest = max(estimate["cycles"] - computing - waiting, 0)
        shares = zip(names, (computing, waiting, rest, estimate["l3_stall_cycles"]), strict=True)
        values += [
            {"layer": layer_label(layer), "name": layer["name"], "what": what, "cycles": count}
            for what, count in shares
            if count
        ]
    encoding = {
        "x": _field("layer", "ordinal", None, sort=None),
        "y": _field("cycles", "quantitative", "cycles", axis={"format": "s"}),
        "color": _field("what", "nominal", None, scale={"domain": names, "range": _TIME}),
        "tooltip": [*_labels("layer", "name", "what"), *_tooltip(cycles="cycles")],
    }
    return _chart("Cycles per layer (estimate)", values, height=260, mark="bar", encoding=encoding)


def _beside(layer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tensors in L1 that a layer leaves alone, as buffers."""
    moved = {t["name"] for t in layer["inputs"] if t["transfer"] == RESIDENT}
    moved.add(layer["output"]["name"])
    others = [t for t in layer["kept"] if t["name"] not in moved]
    return [{"name": KEPT, "bytes": t["bytes"], "offsets": [t["offset"]]} for t in others]


def local_memory(plan: Mapping[str, Any]) -> Spec:
    """Return what lies in L1 during each layer: its buffers with their copies, and other tensors
    that stay there."""
    values = [
        {
            "layer": layer_label(layer),
            "buffer": block["name"],
            "copies": len(block["offsets"]),
            "bytes": block["bytes"] * len(block["offsets"]),
        }
        for layer in plan["layers"]
        for block in (*layer["l1_blocks"], *_beside(layer))
    ]
    bars = {
        "mark": "bar",
        "encoding": {
            "x": _field("layer", "ordinal", None, sort=None),
            "y": _field("bytes", "quantitative", "bytes", axis={"format": "s"}),
            "color": _field("buffer", "nominal", None),
            "tooltip": [*_labels("layer", "buffer"), *_tooltip(bytes="bytes", copies="copies")],
        },
    }
    budget = {
        "mark": {"type": "rule", "strokeDash": [6, 4], "color": "#e45756"},
        "data": {"values": [{"budget": plan["memory"]["L1"]["budget"]}]},
        "encoding": {"y": _field("budget", "quantitative", None)},
    }
    return _chart("Buffers in L1", values, height=220, layer=[bars, budget])


def roofline(plan: Mapping[str, Any]) -> Spec | None:
    """Return MAC/cycle of each layer over the MACs for each byte that it moves, under the roof.

    The roof is the peak of the cores and the rate of the link between L2 and L1. None when the
    target states no peak.
    """
    roof = plan["roofline"]
    peak, rate = roof["peak_macs_per_cycle"], roof["links"]["L2-L1"]
    if not peak:
        return None
    values = [
        {
            "layer": layer_label(layer),
            "name": layer["name"],
            "kernel": layer["kernel"],
            "intensity": round(layer["macs"] / layer["estimate"]["transfer_bytes"], 3),
            "rate": round(layer["estimate"]["macs_per_cycle"], 3),
            "cycles": layer["estimate"]["cycles"],
        }
        for layer in plan["layers"]
        if layer["macs"] and layer["estimate"]["transfer_bytes"]
    ]
    if not values:
        return None
    ridge = peak / rate
    ends = (
        min([ridge / 8, *(v["intensity"] for v in values)]) / 2,
        max([ridge * 8, *(v["intensity"] for v in values)]) * 2,
    )
    line = [{"intensity": x, "rate": min(peak, x * rate)} for x in (ends[0], ridge, ends[1])]
    x = _field(
        "intensity",
        "quantitative",
        "MAC per byte moved between L2 and L1",
        scale={"type": "log", "nice": False, "domain": list(ends)},
    )
    y = _field("rate", "quantitative", "MAC per cycle", scale={"type": "log"})
    points = {
        "mark": {"type": "point", "filled": True, "opacity": 0.8},
        "encoding": {
            "x": x,
            "y": y,
            "size": _field("cycles", "quantitative", "cycles", scale={"range": [30, 500]}),
            "color": _field("kernel", "nominal", None),
            "tooltip": [*_labels("layer", "name"),
                        *_tooltip(rate="MAC/cycle", intensity="MAC/byte", cycles="cycles")],
        },
    }  # fmt: skip
    ceiling = {
        "mark": {"type": "line", "color": "#888"},
        "data": {"values": line},
        "encoding": {"x": x, "y": y},
    }
    title = f"Roofline: {peak:g} MAC/cycle, {rate:g} bytes/cycle"
    return _chart(title, values, height=320, layer=[ceiling, points])


def timeline(document: Mapping[str, Any]) -> Spec:
    """Return what cores and links do over time. document: of ``timeline.json``."""
    names, lanes = document["names"], document["lanes"]
    values = [
        {
            "lane": lanes[lane],
            "what": names[name],
            "layer": document["layers"][layer],
            "tile": tile,
            "start": start,
            "end": start + duration,
            "cycles": duration,
        }
        for lane, name, layer, tile, start, duration in document["events"]
    ]
    encoding = {
        "x": _field("start", "quantitative", "cycles (scroll to zoom, drag to move)",
                    axis={"format": "s"}, scale={"nice": False}),
        "x2": {"field": "end"},
        "y": _field("lane", "nominal", None, sort=list(lanes)),
        "color": _field("what", "nominal", None),
        "tooltip": [*_labels("layer", "what"),
                    *_tooltip(tile="tile", start="start", cycles="cycles")],
    }  # fmt: skip
    zoom = [
        {
            "name": "zoom",
            "select": {"type": "interval", "encodings": ["x"]},
            "bind": "scales",
        }
    ]
    mark = {"type": "bar", "clip": True}
    height = 44 * len(lanes)
    return _chart("Timeline", values, height=height, mark=mark, encoding=encoding, params=zoom)


_MEASURES = {
    "macs_per_cycle": "MAC per cycle",
    "latency_ms": "latency in ms",
    "energy_mj": "energy in mJ",
}


def totals(document: Mapping[str, Any], measure: str) -> Spec | None:
    """Return a total of each column of a comparison. document: of ``dory compare --json``.

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
    if numeric and title in BUDGET_NAMES:
        # Sizes are compared by their ratio; the axis shows those that were asked for.
        ticks = sorted({value["x"] for value in values})
        axis = {"values": ticks, "labelOverlap": True, "grid": True, "format": "~r"}
        title, more = f"{title} in kB", {"scale": {"type": "log", "nice": False}, "axis": axis}
    if not varied:
        more = {"axis": {"labelAngle": 0}}
    encoding = {
        "x": _field("x", "quantitative" if numeric else "ordinal", title, sort=None, **more),
        "y": _field("value", "quantitative", _MEASURES[measure], scale={"zero": not varied}),
        "color": _field(
            "series", "nominal", None, sort=None, **({} if varied else {"legend": None})
        ),
        "tooltip": [*_labels("series", "x"), *_tooltip(value=_MEASURES[measure], cycles="cycles")],
    }
    mark = {"type": "line", "point": True} if varied else {"type": "bar", "width": 60}
    width = {} if varied else {"width": _NARROW}
    title_text = f"{_MEASURES[measure]} (estimate)"
    return _chart(title_text, values, height=260, mark=mark, encoding=encoding, **width)


def _position_of(column: Mapping[str, Any], name: str) -> float | str:
    """Return where a column stands on the axis of what varies; budgets in kB."""
    position = _number_of(column["variation"][name])
    if name in BUDGET_NAMES and not isinstance(position, str):
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
        "x": _field("layer", "ordinal", None, sort=None),
        "y": _field(
            "cycles", "quantitative", "cycles", axis={"format": "s"}, scale={"type": "log"}
        ),
        "color": _field("column", "nominal", None, sort=None),
        "tooltip": [*_labels("layer", "name", "column", "kernel"), *_tooltip(cycles="cycles")],
    }
    mark = {"type": "point", "filled": True, "size": 60}
    title = "Cycles per layer (estimate, logarithmic)"
    return _chart(title, values, height=260, mark=mark, encoding=encoding)


def column_label(column: Mapping[str, Any]) -> str:
    """Return the name of a column of a comparison: the target and what varies."""
    variation = (f"{k}={budget_text(k, v)}" for k, v in column["variation"].items())
    return " ".join([column["target"], *variation])
