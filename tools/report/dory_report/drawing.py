"""Charts as image files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dory_core.api import ToolMissing, UsageError, cli, quoting
from dory_report import palette
from dory_report.page import chart_style
from dory_report.svg import Figure, label, tag

IMAGE_FORMATS = ("svg", "png")
_WIDTH_PX = 1000
_HEAD_PX = 48
_MARGIN_PX = 12
_PNG_SCALE = 2


def image(figure: Figure, format_: str) -> bytes:
    """Return a chart as an image of its own. format_: one of IMAGE_FORMATS.

    Raises UsageError, and ToolMissing when the extra ``png`` is not installed.
    """
    if format_ not in IMAGE_FORMATS:
        raise UsageError(f"no images of type {format_!r}", f"known: {', '.join(IMAGE_FORMATS)}")
    text = _svg(figure)
    if format_ == "svg":
        return text.encode()
    try:
        import resvg_py
    except ImportError as error:
        raise ToolMissing("PNG images need resvg", 'pip install "dory-report[png]"') from error
    return bytes(resvg_py.svg_to_bytes(svg_string=text, zoom=_PNG_SCALE))


def write_images(folder: Path, format_: str, figures: Sequence[Figure]) -> list[Path]:
    """Write charts as images; return their paths. Raises UsageError."""
    drawn = {folder / f"{f.name}.{format_}": image(f, format_) for f in figures}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror}", "choose another DIR"
        ) from error
    for path, content in drawn.items():
        cli.write_file(path, content)
    return list(drawn)


def _svg(figure: Figure) -> str:
    """Return a chart with title and legend, in light colours."""
    plot_px = _WIDTH_PX - 2 * _MARGIN_PX - figure.gutter_px
    height = figure.height_px
    parts = (
        tag("style", quoting.html(" ".join(palette.resolved(chart_style()).split()))),
        tag("rect", class_="paper", width="100%", height="100%"),
        label(figure.title, class_="title", x=_MARGIN_PX, y=20),
        _legend(figure),
        _inside(figure.axis, _MARGIN_PX, figure.gutter_px, height),
        _inside(figure.marks, _MARGIN_PX + figure.gutter_px, plot_px, height),
    )
    return tag(
        "svg",
        "".join(parts),
        xmlns="http://www.w3.org/2000/svg",
        width=_WIDTH_PX,
        height=_HEAD_PX + height + _MARGIN_PX,
    )


def _inside(content: str, x: int, width: int, height: int) -> str:
    return tag("svg", content, x=x, y=_HEAD_PX, width=width, height=height) if content else ""


def _legend(figure: Figure) -> str:
    found, x = [], _MARGIN_PX
    for name, text in figure.legend:
        found.append(tag("rect", class_=name, x=x, y=30, width=10, height=10))
        found.append(label(text, class_="tick", x=x + 15, y=39))
        x += 34 + 7 * len(text)
    return "".join(found)
