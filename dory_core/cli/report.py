"""``dory report``: the tables of an application that was compiled before."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated

import typer

from dory_core.cli.common import Debug, Quiet, Verbose, console, settings
from dory_core.errors import UsageError


def report(
    app: Annotated[
        Path, typer.Argument(metavar="DIR", help="An application made by dory, or its plan.json.")
    ],
    verbose: Verbose = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show layers, tiles, memory and estimate of an application."""
    from dory_core.report.table import print_plan

    path = app / "plan.json" if app.is_dir() else app
    try:
        plan = json_.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}",
            "give the directory of an application made by `dory compile`",
        ) from error
    except ValueError as error:
        raise UsageError(f"{path} is not valid JSON: {error}", "compile again") from error
    if not isinstance(plan, dict) or not {"version", "layers", "memory"} <= plan.keys():
        raise UsageError(f"{path} is not a plan of dory", "compile again")
    print_plan(plan, console(), details=settings.verbosity > 0)
