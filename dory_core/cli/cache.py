"""``dory cache``: show and clean the files that dory keeps for later runs."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from dory_core.cli.common import Debug, Json, Quiet, Verbose, console, print_json, settings


class Action(StrEnum):
    """An action on the cache."""

    size = "size"
    clean = "clean"


def cache(
    action: Annotated[
        Action, typer.Argument(help="Show its size, or remove everything in it.")
    ] = Action.size,
    json: Json = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Show or clean the cache of compiled objects ($DORY_CACHE)."""
    from dory_core.simulate.cache import LIMIT_BYTES, cache_dir, cache_use, clean_cache

    if action is Action.clean:
        clean_cache()
    uses = cache_use()
    if json:
        folders = [asdict(use) for use in uses]
        print_json({"directory": str(cache_dir()), "limit_bytes": LIMIT_BYTES, "folders": folders})
    elif settings.verbosity >= 0:
        from dory_core.cli.tables.listing import print_cache

        print_cache(str(cache_dir()), uses, LIMIT_BYTES, console())
