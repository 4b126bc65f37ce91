"""Draws docs/pipeline.svg from the list of stages: python docs/draw_pipeline.py [--check]."""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

from generated import written

from dory_core.driver.pipeline import STAGES

PICTURE = Path(__file__).with_name("pipeline.svg")

#: What reads the Plan: package, what it makes.
READERS = (
    ("codegen", "C, weights, Makefile, README"),
    ("estimate", "cycles, stalls and energy"),
    ("checks", "lifetimes, contents, marks"),
    ("plan.json", "tables, reports, comparisons"),
)

WIDTH, BOX, HEIGHT, GAP = 760, 240, 44, 34
STYLE = (
    "text{font:14px sans-serif;fill:#222}.name{font-weight:bold}.note{fill:#555;font-size:13px}"
    "rect{fill:#eef3fa;stroke:#345}.data{fill:#fff8e5}line{stroke:#345;stroke-width:1.5}"
)


def box(x: int, y: int, width: int, name: str, kind: str = "data") -> str:
    """Return a box with a name in its middle."""
    middle = f'x="{x + width // 2}" y="{y + HEIGHT // 2 + 5}" text-anchor="middle"'
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="6"/>'
        f'<text class="name" {middle}>{escape(name)}</text>'
    )


def arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    """Return an arrow from one point to another."""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="url(#head)"/>'


def picture() -> str:
    """Return the way of the data as SVG: one box per value, one arrow per stage."""
    parts: list[str] = []
    left, y = 20, 20
    middle = left + BOX // 2
    parts.append(box(left, y, BOX, "file of a network"))
    for stage in STAGES:
        below = y + HEIGHT + GAP
        parts.append(arrow(middle, y + HEIGHT, middle, below - 2))
        text = f"{stage.name}: {stage.summary}"
        parts.append(
            f'<text class="note" x="{middle + 14}" y="{y + HEIGHT + 22}">{escape(text)}</text>'
        )
        parts.append(box(left, below, BOX, stage.gives))
        y = below
    x = left + BOX + 60
    rows = [y + HEIGHT + GAP + n * (HEIGHT + 8) for n in range(len(READERS))]
    end = rows[-1] + HEIGHT // 2
    parts.append(f'<line x1="{middle}" y1="{y + HEIGHT}" x2="{middle}" y2="{end}"/>')
    for row, (name, makes) in zip(rows, READERS, strict=True):
        parts.append(arrow(middle, row + HEIGHT // 2, x - 2, row + HEIGHT // 2))
        parts.append(box(x, row, 130, name, "reader"))
        place = f'x="{x + 142}" y="{row + HEIGHT // 2 + 5}"'
        parts.append(f'<text class="note" {place}>{escape(makes)}</text>')
    height = rows[-1] + HEIGHT + 20
    head = (
        '<marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#345"/></marker>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}">\n<style>{STYLE}</style>\n<defs>{head}</defs>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    sys.exit(written({PICTURE: picture()}, sys.argv[1:]))
