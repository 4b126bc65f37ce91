"""``dory new``: start a plugin."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dory_core import quoting
from dory_core.cli.common import Debug, Quiet, Verbose, console, settings


class Kind(StrEnum):
    """What a plugin can add."""

    target = "target"
    frontend = "frontend"


def new(
    kind: Annotated[Kind, typer.Argument(help="What the plugin adds.", metavar="target|frontend")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="As in --target or --frontend.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Where; default: ./dory-NAME."),
    ] = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a small working plugin to start from."""
    from dory_core.cli.scaffold import names, write_plugin

    plugin = names(name)
    directory = output or Path(plugin.distribution)
    write_plugin(kind.value, plugin, directory)
    if settings.verbosity >= 0:
        how = quoting.shell("pip", "install", "-e", quoting.path(directory))
        console().print(
            f"written: {quoting.visible(str(directory))} (install it with: {how})", markup=False
        )
