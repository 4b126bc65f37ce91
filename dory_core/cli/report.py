"""``dory report``: what an application that was compiled before does, as tables, page and trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dory_core.cli.common import Debug, Quiet, Verbose, console, settings
from dory_core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


def report(
    app: Annotated[Path, typer.Argument(metavar="DIR", help="An application made by dory.")],
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with tables and charts."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option("--images", metavar="DIR", help="Write the charts of the page as images."),
    ] = None,
    image_format: Annotated[
        str, typer.Option("--image-format", metavar="svg|png", help="Type of the images.")
    ] = "svg",
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Write the timeline for Perfetto."),
    ] = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show layers, tiles, memory and estimate of an application."""
    from dory_core.application import read_plan, read_timeline
    from dory_core.report.table import print_plan

    plan = read_plan(app)
    out = console()
    wrote = []
    if html is not None:
        from dory_core.report.page import report_page

        wrote.append(_write(html, lambda: report_page(plan, read_timeline(app)).encode()))
    if images is not None:
        wrote += _write_images(images, image_format, plan, read_timeline(app))
    if trace is not None:
        wrote.append(_write(trace, lambda: _trace(plan, read_timeline(app))))
    if settings.verbosity < 0:
        return
    if not wrote:
        print_plan(plan, out, details=settings.verbosity > 0)
    for path in wrote:
        out.print(f"written: {path}", markup=False)


def _trace(plan: dict[str, Any], timeline: dict[str, Any]) -> bytes:
    import json

    from dory_core.report.trace import trace_json

    totals = plan["totals"]
    latency_ms = totals["latency_ms"]
    clock_hz = totals["cycles"] / latency_ms * 1e3 if latency_ms else None
    document = trace_json(timeline, plan["target"], clock_hz)
    return (json.dumps(document, separators=(",", ":")) + "\n").encode()


def _write_images(
    folder: Path, format_: str, plan: dict[str, Any], timeline: dict[str, Any]
) -> list[Path]:
    from dory_core.report.drawing import image
    from dory_core.report.page import figures

    drawn = [(figure.name, image(figure.spec, format_)) for figure in figures(plan, timeline)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from error
    return [
        _write(folder / f"{name}.{format_}", lambda content=content: content)  # type: ignore[misc]
        for name, content in drawn
    ]


def _write(path: Path, content: Callable[[], bytes]) -> Path:
    data = content()
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "choose another FILE") from error
    return path
