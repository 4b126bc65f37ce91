"""The charts of an application over its layers and over time.

Each is made of a plan.json document; the page and images show the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from dory_report.svg import (
    Figure,
    Scale,
    columns,
    grid,
    label,
    percent,
    tag,
    tick_labels,
    ticks,
    tip,
)

_PLOT_PX = 190
_NAMES_PX = 22
_LANE_PX = 30
_LAYERS_PX = 24
_TIME = ("compute", "wait-l2", "other", "wait-l3", "convert")


def layer_label(layer: Mapping[str, Any]) -> str:
    """Return the short name of a layer: its index and kind."""
    return f"{layer['index']:02d} {layer['kind']}"


def full_label(layer: Mapping[str, Any]) -> str:
    """Return index, kind and name of a layer."""
    return f"{layer_label(layer)} {layer['name']}".rstrip()


def indices(layers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the labels of layers below a chart: their indices."""
    return [f"{layer['index']:02d}" for layer in layers]


def layer_cycles(layer: Mapping[str, Any]) -> dict[str, int]:
    """Return the cycles until a layer ends, by the class of what they are spent on.

    Computing, waiting for L2, the rest; before the layer waiting for L3, and conversions.
    """
    estimate = layer["estimate"]
    computing, waiting = estimate["compute_cycles"], estimate["stall_cycles"]
    rest = max(estimate["cycles"] - computing - waiting, 0)
    before = (estimate["l3_stall_cycles"], estimate["conversion_cycles"])
    return dict(zip(_TIME, (computing, waiting, rest, *before), strict=True))


def cycles_legend(layers: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Return class and text of what the cycles of these layers are spent on.

    A layer in place waits for the memories that it works on.
    """
    moved = any(layer["estimate"]["transfers"] for layer in layers)
    waiting = f"waiting for {'L2' if moved else 'memory'}"
    texts = ("computing", waiting, "other", "waiting for L3", "conversion of layouts")
    found = {name for layer in layers for name, count in layer_cycles(layer).items() if count}
    return tuple((n, text) for n, text in zip(_TIME, texts, strict=True) if n in found)


def cycles_chart(
    name: str, title: str, layers: Sequence[Mapping[str, Any]], most: int, hint: str = ""
) -> Figure:
    """Return the cycles of each layer as bars. most: at the upper edge."""
    scale = Scale(0, most or 1, _PLOT_PX)
    values, count = ticks(scale.high), len(layers)
    legend = cycles_legend(layers)
    areas = (_area(layer, place, count, legend) for place, layer in enumerate(layers))
    bars = tag("svg", _bars(layers, scale, legend), width="100%", height=_PLOT_PX,
               viewBox=f"0 0 {count or 1} {_PLOT_PX}", preserveAspectRatio="none")  # fmt: skip
    return Figure(
        name,
        title,
        hint,
        _PLOT_PX + _NAMES_PX,
        "".join(areas) + grid(scale, values) + bars + columns(indices(layers), _PLOT_PX + 15),
        tick_labels(scale, values),
        legend=legend,
    )


def _area(
    layer: Mapping[str, Any], place: int, count: int, legend: Sequence[tuple[str, str]]
) -> str:
    """Return the area of the mouse for the bar of a layer: its whole column."""
    spent = layer_cycles(layer)
    lines = (f"{text}: {spent[name]:,}" for name, text in legend if spent[name])
    text = tip(f"{sum(spent.values()):,} cycles", *lines)
    return tag("rect", class_="m area", x=percent(place / count), width=percent(1 / count),
               height=_PLOT_PX + _NAMES_PX, data_l=layer["index"], data_tip=text)  # fmt: skip


def _bars(
    layers: Sequence[Mapping[str, Any]], scale: Scale, legend: Sequence[tuple[str, str]]
) -> str:
    """Return a path for each part of the cycles, stacked; a layer is 1 wide."""
    paths = {name: "" for name, _ in legend}
    for place, layer in enumerate(layers):
        below, spent = 0, layer_cycles(layer)
        for name in paths:
            top, bottom = scale.y(below + spent[name]), scale.y(below)
            if spent[name]:
                high = round(bottom - top, 1)
                paths[name] += f"M{place}.1 {round(top, 1)}h.8v{high}h-.8z"
            below += spent[name]
    return "".join(tag("path", class_=f"bar {name}", d=path) for name, path in paths.items())


def cycles(plan: Mapping[str, Any]) -> Figure:
    """Return the cycles of each layer of an application."""
    layers = plan["layers"]
    most = max((sum(layer_cycles(layer).values()) for layer in layers), default=1)
    title = "Cycles of each layer (estimate)"
    return cycles_chart("cycles", title, layers, most, "Where the time of an inference goes.")


def timeline(document: Mapping[str, Any], plan: Mapping[str, Any]) -> Figure:
    """Return a chart of cores and links over time from the document of ``timeline.json``.

    A lane for each, above them a strip with the layers: a layer's border is where it first
    computes.
    """
    lanes, layers = document["lanes"], plan["layers"]
    ends = (start + duration for *_, start, duration in document["events"])
    end = max(max(ends, default=0), document["cycles"]) or 1
    height = _LAYERS_PX + _LANE_PX * len(lanes)
    axis = "".join(
        label(text, class_="tick end", x=58, y=_LAYERS_PX + _LANE_PX * n + 19)
        for n, text in enumerate(lanes)
    )
    used = {_activity(document["names"][name]) for _, name, *_ in document["events"]}
    return Figure(
        "timeline",
        "Timeline (estimate)",
        "Lines are the borders of layers.",
        height + _NAMES_PX,
        _strip(document, layers, end, height) + _spans(document, layers, end) + _times(end, height),
        label("layer", class_="tick end", x=58, y=16) + axis,
        gutter_px=64,
        legend=tuple((name, text) for name, text in _ACTIVITIES.items() if name in used),
        zooms=True,
    )


def _strip(
    document: Mapping[str, Any], layers: Sequence[Mapping[str, Any]], end: float, height: int
) -> str:
    """Return the borders of the layers and their names."""
    starts: dict[int, float] = {}
    lanes = document["lanes"]
    cores = lanes.index("cores") if "cores" in lanes else len(lanes) - 1
    for lane, _, layer, _, start, _ in document["events"]:
        if lane == cores and 0 <= layer < len(layers):
            starts.setdefault(layer, start)
    order = sorted(starts.items(), key=lambda item: item[1])
    found = []
    for (number, start), (_, after) in pairwise([*order, (-1, end)]):
        layer, x = layers[number], f"{100 * start / end:.4g}%"
        width = f"{100 * max(after - start, 0) / end:.4g}%"
        box = tag("rect", width="100%", height=_LAYERS_PX - 4, y=2)
        name = label(layer_label(layer), x=4, y=16)
        found.append(
            tag("svg", box + name, class_="m", x=x, width=width, height=_LAYERS_PX,
                data_l=layer["index"])
        )  # fmt: skip
    borders = "".join(f"M{start:.0f} 0v1" for _, start in order)
    lines = tag("path", class_="border", d=borders)
    return _over(lines, end, 0, height) + tag("g", "".join(found), class_="names strips")


def _over(content: str, end: float, y: int, height: int) -> str:
    """Return an SVG element with cycles as horizontal coordinates and a height of 1."""
    box = f"0 0 {end:.0f} 1"
    return tag("svg", content, y=y, width="100%", height=height, viewBox=box,
               preserveAspectRatio="none")  # fmt: skip


def _spans(document: Mapping[str, Any], layers: Sequence[Mapping[str, Any]], end: float) -> str:
    """Return a path for each lane, activity and layer, a box in it for each tile.

    Coordinates are cycles. Outlines of boxes do not scale, so that all boxes are visible.
    """
    paths: dict[tuple[int, int], dict[int, list[tuple[float, float]]]] = {}
    for lane, name, layer, _, start, duration in document["events"]:
        paths.setdefault((lane, name), {}).setdefault(layer, []).append((start, duration))
    found = []
    for (lane, name), by_layer in sorted(paths.items()):
        what = document["names"][name]
        content = "".join(
            tag(
                "path",
                d=_path(boxes),
                data_l=layers[number]["index"] if 0 <= number < len(layers) else None,
            )
            for number, boxes in by_layer.items()
        )
        group = tag("g", content, class_=f"span {_activity(what)}", data_what=what)
        found.append(_over(group, end, _LAYERS_PX + _LANE_PX * lane + 4, _LANE_PX - 8))
    return "".join(found)


def _path(boxes: Sequence[tuple[float, float]]) -> str:
    """Return boxes of height 1 from start and length, each relative to the one before."""
    text, at = "", 0
    for start, length in boxes:
        first, last = round(start), round(start + length)
        text += f"m{first - at} 0v1h{last - first}v-1z"
        at = first
    return text


#: What lanes do, with the colour of the data that they move.
_ACTIVITIES = {
    "compute": "computing",
    "activations": "loading inputs",
    "weights": "loading constants",
    "outputs": "storing outputs",
    "wait-l3": "transfers of L3",
    "convert": "converting layouts",
    "other": "other",
}


def _activity(name: str) -> str:
    """Return the class of what a lane does."""
    verb, _, what = name.partition(" ")
    if verb in ("compute", "convert"):
        return verb
    if what.startswith("L3"):
        return "wait-l3"
    if what.startswith("x"):
        return "activations"
    return {"w": "weights", "y": "outputs"}.get(what, "other")


def _times(end: float, height: int) -> str:
    """Return the times below the timeline; the first one begins at its start."""
    values = ticks(end * 0.98, 6)
    return tag(
        "g",
        "".join(
            label(f"{value:,.0f}", class_=None if value else "first", x=percent(value / end),
                  y=height + 15)
            for value in values
        ),
        class_="thin tick mid",
    )  # fmt: skip
