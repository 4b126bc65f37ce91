"""``dory report``: what an application that was compiled before does, as tables, page and trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dory_core.tools import cli
from dory_report.options import Html, ImageFormat, Images


def report(
    app: Annotated[Path, typer.Argument(metavar="DIR", help="An application made by dory.")],
    html: Html = None,
    images: Images = None,
    image_format: ImageFormat = "svg",
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Write the timeline for Perfetto."),
    ] = None,
    json: cli.Json = False,
    verbose: cli.Verbose = 0,
    quiet: cli.Quiet = False,
    debug: cli.Debug = False,
) -> None:
    """Show layers, tiles, memory and estimate of an application."""
    from dory_core.tools import cli, quoting, read_plan

    plan = read_plan(app)
    wrote = []
    if html is not None:
        from dory_report.application.page import report_page
        from dory_report.page import MARK

        cli.write_file(html, report_page(plan, cli.read_timeline(app)).encode(), MARK)
        wrote.append(html)
    if images is not None:
        from dory_report.application.page import figures
        from dory_report.drawing import write_images

        wrote += write_images(images, image_format, figures(plan, cli.read_timeline(app)))
    if trace is not None:
        from dory_report.application.trace import TRACE_MARK, trace_bytes

        cli.write_file(trace, trace_bytes(plan, cli.read_timeline(app)), TRACE_MARK)
        wrote.append(trace)
    if json:
        cli.print_json(plan)
        return
    if cli.settings.verbosity < 0:
        return
    out = cli.console()
    if not wrote:
        cli.print_plan(plan, out, details=cli.settings.verbosity)
    for path in wrote:
        out.print(f"written: {quoting.visible(str(path))}", markup=False)
