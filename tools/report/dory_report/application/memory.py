"""Maps of memories over the layers of an application: a block is a box with its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dory_core.tools import quoting
from dory_report.application.charts import indices, layer_label
from dory_report.svg import (
    TEXT_PX,
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

#: What tensors are called in the map of L1 that the layer neither reads nor writes.
KEPT = "kept for later"

_PLOT_PX = 280
_NAMES_PX = 22
_NAME = 24
_TEXTS = {
    "activations": "activations",
    "weights": "constants",
    "outputs": "outputs of the layer",
    "scratch": "scratch memory",
}
_BUFFERS = {"w": "weights", "y": "outputs", "scratch": "scratch"}


def memory_map(plan: Mapping[str, Any], level: str, memory: int = 0) -> Figure:
    """Return a map of the blocks in a memory of a level, at each position of the execution.

    memory: its number in the level.
    """
    use = plan["memory"][level]
    places = _positions(plan["layers"])
    blocks = [block for block in use["blocks"] if block["memory"] == memory]
    several = len({block["memory"] for block in use["blocks"]}) > 1
    high = max([use["used"], *(b["offset"] + b["size"] for b in blocks)])
    scale = _scale(high, use["budget"])
    boxes = dict[tuple[int, int, str], str]()
    for block in sorted(blocks, key=lambda b: (b["first"], b["offset"])):
        first, last = max(block["first"], 0), min(block["last"], len(places) - 1)
        constants = block["name"].startswith("weights")
        lines = (
            block["name"],
            f"{block['size']:,} bytes at {block['offset']:,}",
            _life(places, block["first"], block["last"]),
        )
        alive = places[first : last + 1]
        link = _links(plan, block, alive) if constants else _numbers(alive)
        column = (first, last + 1, link)
        boxes[column] = boxes.get(column, "") + _box(
            "weights" if constants else "activations",
            block["name"],
            (scale.y(block["offset"] + block["size"]), scale.y(block["offset"])),
            tip(*lines),
        )
    name = "memory-" + level.lower().replace(" ", "-") + (f"-{memory}" if several else "")
    title = f"{level}{f', memory {memory}' if several else ''} over the layers"
    meanings = ("activations", "weights")
    names = indices(places)
    first_parts = ["" if a == b else a for a, b in zip(names, ["", *names], strict=False)]
    return _figure(name, title, scale, use, boxes, meanings, first_parts)


def _positions(layers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the layer that runs at each position of the execution."""
    at = {position: layer for layer in layers for position in layer["positions"]}
    return [at[position] for position in sorted(at)]


def local_memory(plan: Mapping[str, Any]) -> Figure:
    """Return a map of L1 during each layer: its buffers with their copies, and other tensors
    that stay there."""
    layers, use = plan["layers"], plan["memory"]["L1"]
    found = [
        (place, block, offset)
        for place, layer in enumerate(layers)
        for block in (*layer["l1_blocks"], *beside(layer))
        for offset in block["offsets"]
    ]
    high = max([use["used"], *(offset + block["bytes"] for _, block, offset in found)])
    scale = _scale(high, use["budget"])
    boxes, meanings = dict[tuple[int, int, str], str](), dict[str, None]()
    for place, block, offset in found:
        meaning = _BUFFERS.get(block["name"], "activations")
        meanings[meaning] = None
        edges = scale.y(offset + block["bytes"]), scale.y(offset)
        copies = f"{len(block['offsets'])} copies" if len(block["offsets"]) > 1 else ""
        text = tip(f"{block['name']}: {block['bytes']:,} bytes at {offset:,}", copies)
        column = (place, place + 1, str(layers[place]["index"]))
        boxes[column] = boxes.get(column, "") + _box(meaning, block["name"], edges, text)
    ordered = tuple(name for name in _TEXTS if name in meanings)
    title = "L1 during each layer"
    return _figure("memory-l1", title, scale, use, boxes, ordered, indices(layers))


def beside(layer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tensors in L1 that a layer does not use, as buffers."""
    moved = {t["name"] for t in layer["inputs"] if t["transfer"] == "resident"}
    moved.add(layer["output"]["name"])
    others = [t for t in layer["kept"] if t["name"] not in moved]
    return [{"name": KEPT, "bytes": t["bytes"], "offsets": [t["offset"]]} for t in others]


def _scale(high: int, budget: int) -> Scale:
    """Return the scale of a map; the budget is on it where at least a third of it is used."""
    return Scale(0, max(high, budget) if 3 * high > budget else high or 1, _PLOT_PX)


def _figure(
    name: str,
    title: str,
    scale: Scale,
    use: Mapping[str, Any],
    boxes: Mapping[tuple[int, int, str], str],
    meanings: Sequence[str],
    names: Sequence[str],
) -> Figure:
    """Return a map. boxes: by first column, the one after the last, and their layers."""
    values = ticks(scale.high)
    budget = ""
    if scale.high >= use["budget"] > 0:
        y = scale.y(use["budget"])
        text = tip("budget", f"{use['budget']:,} bytes")
        budget = tag("line", class_="budget", x1=0, x2="100%", y1=y, y2=y, data_tip=text)
    return Figure(
        name,
        title,
        f"{use['used']:,} of {use['budget']:,} bytes are used. A box is a block: its height is "
        "its size, its width how long it is needed.",
        _PLOT_PX + _NAMES_PX,
        grid(scale, values)
        + tag("g", "".join(_column(*at, len(names), b) for at, b in boxes.items()), class_="names")
        + budget
        + columns(names, _PLOT_PX + 15),
        tick_labels(scale, values),
        legend=tuple((m, _TEXTS[m]) for m in meanings)
        + ((("budget", "budget"),) if budget else ()),
    )


def _column(first: int, behind: int, link: str, count: int, boxes: str) -> str:
    """Return boxes in columns of the map; layers and boxes are linked by ``link``."""
    x, width = percent(first / count), percent((behind - first) / count)
    return tag("svg", boxes, x=x, width=width, data_l=link)


def _box(meaning: str, name: str, edges: tuple[float, float], text: str) -> str:
    """Return a box with its name, where it is high enough for one.

    edges: upper and lower, in pixels. text: for the mouse.
    """
    top, bottom = round(edges[0]), round(edges[1])
    height = bottom - top or 0.5
    found = tag("rect", class_=meaning, width="100%", y=top, height=height, data_tip=text)
    if height < TEXT_PX:
        return found
    shown = quoting.shortened(name, _NAME)
    return found + label(shown, x=4, y=round((top + bottom) / 2 + 4))


def _numbers(layers: Sequence[Mapping[str, Any]]) -> str:
    """Return the layers that a mark belongs to, as the page finds them."""
    return " ".join(str(n) for n in dict.fromkeys(layer["index"] for layer in layers))


def _links(
    plan: Mapping[str, Any], block: Mapping[str, Any], alive: Sequence[Mapping[str, Any]]
) -> str:
    """Return the layers of a block of constants: those that load from it, else while it lives."""
    readers = [
        layer
        for layer in plan["layers"]
        if layer["weights"]
        and layer["weights"]["linked"]
        and block["offset"] <= layer["weights"]["offset"] < block["offset"] + block["size"]
    ]
    return _numbers(readers or alive)


def _life(places: Sequence[Mapping[str, Any]], first: int, last: int) -> str:
    """Return from where to where a block lives, empty for a single layer."""
    start, end = (
        layer_label(places[at]) if 0 <= at < len(places) else "the start" if at < 0 else "the end"
        for at in (first, last)
    )
    return "" if start == end else f"from {start} to {end}"
