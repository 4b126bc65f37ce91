"""Charts as image files."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from dory_core.api import ToolMissing, UsageError
from dory_core.tools import cli, quoting
from dory_report import palette
from dory_report.page import chart_style
from dory_report.svg import Figure, label, tag

IMAGE_FORMATS = ("svg", "png")
_WIDTH_PX = 1000
_HEAD_PX = 48
_MARGIN_PX = 12
_PNG_SCALE = 2
_PNG_TIMEOUT_S = 120.0
#: Run by a process of its own, because resvg ends its process when memory runs out.
_DRAW = f"""\
import sys
import resvg_py
text = sys.stdin.buffer.read().decode()
sys.stdout.buffer.write(bytes(resvg_py.svg_to_bytes(svg_string=text, zoom={_PNG_SCALE})))
"""

_LOG = logging.getLogger("dory.report")


class NotDrawn(Exception):
    """The library that draws PNG images failed; the message has its last words."""


def image(figure: Figure, format_: str) -> bytes:
    """Return a chart as an image of its own. format_: one of IMAGE_FORMATS.

    Raises UsageError, ToolMissing when the extra ``png`` is not installed, and NotDrawn.
    """
    if format_ not in IMAGE_FORMATS:
        raise UsageError(f"no images of type {format_!r}", f"known: {', '.join(IMAGE_FORMATS)}")
    content = svg(figure).encode()
    return content if format_ == "svg" else _png(content)


def _png(content: bytes) -> bytes:
    if find_spec("resvg_py") is None:
        raise ToolMissing("PNG images need resvg", 'pip install "dory-report[png]"')
    try:
        done = subprocess.run(
            [sys.executable, "-c", _DRAW],
            input=content,
            capture_output=True,
            timeout=_PNG_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotDrawn(str(error)) from error
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise NotDrawn(said[-1] if said else f"resvg ended with status {done.returncode}")
    return done.stdout


def write_images(folder: Path, format_: str, figures: Sequence[Figure]) -> list[Path]:
    """Write charts as images; return their paths. What cannot be drawn is a line of the log.

    Raises UsageError and ToolMissing.
    """
    cli.check_outside(folder)
    drawn = {}
    for figure in figures:
        path = folder / f"{figure.name}.{format_}"
        try:
            drawn[path] = image(figure, format_)
        except NotDrawn as error:
            reason = quoting.visible(str(error))
            _LOG.warning("%s is not drawn: %s", quoting.visible(str(path)), reason)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror}", "choose another DIR"
        ) from error
    for path, content in drawn.items():
        cli.write_file(path, content)
    return list(drawn)


def svg(figure: Figure) -> str:
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
