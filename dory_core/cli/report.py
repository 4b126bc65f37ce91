"""``dory report``: what an application that was compiled before does, as tables, page and trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dory_core.cli.common import Debug, Quiet, Verbose, console, settings, write_file
from dory_core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dory_core.report.page import Figure


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

        write_file(html, report_page(plan, read_timeline(app)).encode())
        wrote.append(html)
    if images is not None:
        from dory_core.report.page import figures

        wrote += write_images(images, image_format, figures(plan, read_timeline(app)))
    if trace is not None:
        write_file(trace, _trace(plan, read_timeline(app)))
        wrote.append(trace)
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


def write_images(folder: Path, format_: str, figures: Sequence[Figure]) -> list[Path]:
    """Write the charts of a page as images; return their paths. Raises UsageError."""
    from dory_core.report.drawing import image

    drawn = {folder / f"{f.name}.{format_}": image(f.spec, format_) for f in figures}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror}", "choose another DIR"
        ) from error
    for path, content in drawn.items():
        write_file(path, content)
    return list(drawn)
