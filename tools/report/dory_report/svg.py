"""Charts as SVG text: places along a chart are percent of its width, so that it fits any page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dory_core.tools import cli, quoting

#: Height of a line of small text, in pixels.
TEXT_PX = 12
#: Between the lines of what a mark shows; the page breaks them there.
SEPARATOR = " \u00b7 "


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart.

    Attributes:
        name: Name of its element and of its image file.
        hint: A sentence below the title.
        legend: Pairs of class and text.
        height_px: Height of the plot.
        axis, gutter_px: Content left of the plot, and its width.
        marks: Marks of the plot.
        zooms: True when the plot may become wider than the page.
    """

    name: str
    title: str
    hint: str
    height_px: int
    marks: str
    axis: str = ""
    gutter_px: int = 46
    legend: tuple[tuple[str, str], ...] = ()
    zooms: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from ``low`` at the bottom to ``high`` at the top, on a number of pixels."""

    low: float
    high: float
    height_px: float
    logarithmic: bool = False
    top_px: float = field(default=8.0)

    def y(self, value: float) -> float:
        """Return the distance of a value from the upper edge, in pixels."""
        return round(self.top_px + (self.height_px - self.top_px) * (1 - self.share(value)), 2)

    def share(self, value: float) -> float:
        """Return where a value lies between the ends, 0 to 1."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low) if high > low else 0.0


def tag(name: str, content: str = "", /, **attributes: object) -> str:
    """Return an element.

    Args:
        content: SVG.
        attributes: Quoted; ``data_l`` is ``data-l``.
    """
    texts = (
        f' {key.strip("_").replace("_", "-")}="{quoting.html(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    start = f"<{name}{''.join(texts)}"
    return f"{start}>{content}</{name}>" if content else f"{start}/>"


def label(text: str, **attributes: object) -> str:
    """Return text at a place."""
    return tag("text", quoting.html(text), **attributes)


def percent(share: float) -> str:
    """Return a share of the width of a chart."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def tip(*lines: str) -> str:
    """Return the text that a mark shows when it is pointed at."""
    return SEPARATOR.join(line for line in lines if line)


def ticks(high: float, most: int = 5) -> list[float]:
    """Return round values from 0 up to ``high``."""
    if high <= 0:
        return [0.0]
    step = 10.0 ** math.floor(math.log10(high / most))
    step *= next(factor for factor in (1, 2, 5, 10, 20) if high / (step * factor) <= most)
    return [step * number for number in range(int(high / step + 1e-9) + 1)]


def powers(low: float, high: float) -> list[float]:
    """Return powers of ten between two values, and 2 and 5 times these where they are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    tens = [10.0**power for power in range(first, last + 1)]
    found = [value for value in tens if low <= value <= high]
    if len(found) >= 3:
        return found
    return [f * value for value in tens for f in (1, 2, 5) if low <= f * value <= high]


def grid(scale: Scale, values: Iterable[float]) -> str:
    """Return the lines of the plot at these values."""
    lines = (
        tag("line", class_="grid", x1=0, x2="100%", y1=scale.y(v), y2=scale.y(v)) for v in values
    )
    return "".join(lines)


def tick_labels(scale: Scale, values: Sequence[float], gutter_px: int = 46) -> str:
    """Return the texts of the axis at these values."""
    return "".join(
        label(number(v), class_="tick end", x=gutter_px - 6, y=scale.y(v) + 4) for v in values
    )


def number(value: float) -> str:
    """Return a value of an axis: ``0``, ``0.25``, ``1.5k``."""
    if value == 0 or abs(value) < 1000:
        return f"{value:g}"
    text = cli.count_text(value)
    digits, suffix = text.rstrip("kMGT"), text[len(text.rstrip("kMGT")) :]
    return f"{float(digits):g}{suffix}"


def columns(names: Sequence[str], y: float) -> str:
    """Return the names of equal columns below a plot, those that are not empty.

    The page hides what does not fit.
    """
    count = len(names)
    return tag(
        "g",
        "".join(label(n, x=percent((i + 0.5) / count), y=y) for i, n in enumerate(names) if n),
        class_="thin tick mid",
    )
