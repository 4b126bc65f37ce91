"""What the benchmarks of the paper's figures share: tables, charts and their files."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


def parser(purpose: str) -> argparse.ArgumentParser:
    """Return the options that all of them take."""
    found = argparse.ArgumentParser(description=purpose)
    found.add_argument("--image", type=Path, metavar="FILE", help="write the chart: .svg or .png")
    found.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    return found


def text_table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table; numbers with two decimals."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in rows:
        cells = (f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values())
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def chart(
    title: str, rows: Sequence[Row], x: str, y: str, colour: str, **mark: Any
) -> dict[str, Any]:
    """Return a Vega-Lite chart of ``y`` over ``x``, a colour for each value of ``colour``."""
    numeric = all(isinstance(row[x], (int, float)) for row in rows)
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": title,
        "width": 700,
        "height": 280,
        "data": {"values": [dict(row) for row in rows]},
        "mark": mark or {"type": "bar"},
        "encoding": {
            "x": {"field": x, "type": "quantitative" if numeric else "nominal", "sort": None},
            "y": {"field": y, "type": "quantitative"},
            "color": {"field": colour, "type": "nominal", "sort": None},
            **({} if mark else {"xOffset": {"field": colour, "sort": None}}),
        },
    }


def publish(
    options: argparse.Namespace, title: str, words: str, rows: Sequence[Row], spec: dict[str, Any]
) -> None:
    """Print the table; write it and the chart where the options ask for it."""
    text = f"# {title}\n\n{words}\n\n{text_table(rows)}"
    print(text)
    if options.markdown is not None:
        options.markdown.write_text(text, encoding="utf-8")
    if options.image is not None:
        options.image.write_bytes(_image(spec, options.image.suffix))


def _image(spec: dict[str, Any], suffix: str) -> bytes:
    """Return a Vega-Lite chart as an image; the package is the extra ``figures`` of dory-core."""
    import vl_convert

    if suffix == ".png":
        return bytes(vl_convert.vegalite_to_png(spec, scale=2.0))
    return str(vl_convert.vegalite_to_svg(spec)).encode()
