"""``dory report``: the tables of an application that was compiled before."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dory_core.cli.common import Debug, Quiet, Verbose, console, settings


def report(
    app: Annotated[Path, typer.Argument(metavar="DIR", help="An application made by dory.")],
    verbose: Verbose = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show layers, tiles, memory and estimate of an application."""
    from dory_core.application import read_plan
    from dory_core.report.table import print_plan

    print_plan(read_plan(app), console(), details=settings.verbosity > 0)
