"""Parts of Vega-Lite specifications: data and how to draw it, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Spec = dict[str, Any]

_WIDTH = 900


def chart(title: str, values: Sequence[Mapping[str, Any]], **parts: Any) -> Spec:
    """Return a chart of the width of a page. parts: what it adds and replaces."""
    return {
        "title": {"text": title, "anchor": "start"},
        "width": _WIDTH,
        "data": {"values": [dict(value) for value in values]},
        "config": {"view": {"stroke": "#ddd"}, "axis": {"grid": False}},
        **parts,
    }


def field(name: str, kind: str, title: str | None, **more: Any) -> dict[str, Any]:
    """Return how a field of the data is drawn."""
    return {"field": name, "type": kind, "title": title, **more}


def tooltip(**fields: str) -> list[dict[str, Any]]:
    """Return the tooltip that shows fields under these titles; numbers with separators."""
    return [{"field": name, "title": title, "format": ","} for name, title in fields.items()]


def labels(*fields: str) -> list[dict[str, Any]]:
    """Return the part of a tooltip that shows fields as text."""
    return [{"field": name, "type": "nominal"} for name in fields]


def domain(colours: Mapping[str, str]) -> dict[str, Any]:
    """Return the scale that gives each value its colour."""
    return {"domain": list(colours), "range": list(colours.values())}


def layer_label(layer: Mapping[str, Any]) -> str:
    """Return the short name of a layer: its index and kind."""
    return f"{layer['index']:02d} {layer['kind']}"
