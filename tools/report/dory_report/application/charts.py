"""The charts of an application as Vega-Lite specifications.

Each is made of a plan.json document. The same specification is drawn in the page and written as an
image, so that both show the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dory_report.vega import Spec, chart, domain, field, labels, layer_label, tooltip

_KINDS = {"activations": "#4c78a8", "constants": "#f58518"}
# Computing, waiting for L2, other, waiting for L3.
_TIME = ["#54a24b", "#e45756", "#bab0ac", "#f58518"]
#: What tensors are called in the chart of L1 that the layer neither reads nor writes.
KEPT = "kept for later"


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
            "x": field(
                "from",
                "quantitative",
                "position in the execution",
                axis={"tickMinStep": 1},
                scale={"nice": False, "zero": False},
            ),
            "x2": {"field": "to"},
            "y": field("offset", "quantitative", "byte offset", axis={"format": "s"}),
            "y2": {"field": "end"},
            "color": field("kind", "nominal", None, scale=domain(_KINDS)),
            "tooltip": [
                *labels("name"),
                *tooltip(size="bytes", offset="offset"),
                *labels("begins", "ends"),
            ],
        },
    }
    budget = {
        "mark": {"type": "rule", "strokeDash": [6, 4], "color": "#e45756"},
        "data": {"values": [{"budget": use["budget"]}]},
        "encoding": {
            "y": field("budget", "quantitative", None),
            "tooltip": tooltip(budget="budget"),
        },
    }
    title = f"{level}: {use['used']:,} of {use['budget']:,} bytes"
    near = 2 * use["used"] > use["budget"]
    return chart(title, values, height=320, layer=[blocks, budget] if near else [blocks])


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
        "x": field("layer", "ordinal", None, sort=None),
        "y": field("cycles", "quantitative", "cycles", axis={"format": "s"}),
        "color": field("what", "nominal", None, scale={"domain": names, "range": _TIME}),
        "tooltip": [*labels("layer", "name", "what"), *tooltip(cycles="cycles")],
    }
    return chart("Cycles per layer (estimate)", values, height=260, mark="bar", encoding=encoding)


def _beside(layer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tensors in L1 that a layer leaves alone, as buffers."""
    moved = {t["name"] for t in layer["inputs"] if t["transfer"] == "resident"}
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
            "x": field("layer", "ordinal", None, sort=None),
            "y": field("bytes", "quantitative", "bytes", axis={"format": "s"}),
            "color": field("buffer", "nominal", None),
            "tooltip": [
                *labels("layer", "buffer"),
                *tooltip(bytes="bytes", copies="copies"),
            ],
        },
    }
    budget = {
        "mark": {"type": "rule", "strokeDash": [6, 4], "color": "#e45756"},
        "data": {"values": [{"budget": plan["memory"]["L1"]["budget"]}]},
        "encoding": {"y": field("budget", "quantitative", None)},
    }
    return chart("Buffers in L1", values, height=220, layer=[bars, budget])


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
    x = field(
        "intensity",
        "quantitative",
        "MAC per byte moved between L2 and L1",
        scale={"type": "log", "nice": False, "domain": list(ends)},
    )
    y = field("rate", "quantitative", "MAC per cycle", scale={"type": "log"})
    points = {
        "mark": {"type": "point", "filled": True, "opacity": 0.8},
        "encoding": {
            "x": x,
            "y": y,
            "size": field("cycles", "quantitative", "cycles", scale={"range": [30, 500]}),
            "color": field("kernel", "nominal", None),
            "tooltip": [*labels("layer", "name"),
                        *tooltip(rate="MAC/cycle", intensity="MAC/byte", cycles="cycles")],
        },
    }  # fmt: skip
    ceiling = {
        "mark": {"type": "line", "color": "#888"},
        "data": {"values": line},
        "encoding": {"x": x, "y": y},
    }
    title = f"Roofline: {peak:g} MAC/cycle, {rate:g} bytes/cycle"
    return chart(title, values, height=320, layer=[ceiling, points])


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
        "x": field("start", "quantitative", "cycles (scroll to zoom, drag to move)",
                    axis={"format": "s"}, scale={"nice": False}),
        "x2": {"field": "end"},
        "y": field("lane", "nominal", None, sort=list(lanes)),
        "color": field("what", "nominal", None),
        "tooltip": [*labels("layer", "what"),
                    *tooltip(tile="tile", start="start", cycles="cycles")],
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
    return chart("Timeline", values, height=height, mark=mark, encoding=encoding, params=zoom)
