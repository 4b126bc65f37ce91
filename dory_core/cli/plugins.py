"""``dory plugins``: what was found, with hooks and state."""

from __future__ import annotations

import logging

import typer

from dory_core.cli.common import Debug, Json, console, print_json


def plugins(ctx: typer.Context, json: Json = False, debug: Debug = False) -> None:
    """List the plugins that are installed, and why one is left out."""
    from dory_core.plugins.manager import load_plugins

    logging.getLogger("dory").setLevel(logging.ERROR)  # the reasons are in the list
    found = load_plugins()
    found.commands(getattr(ctx.find_root().command, "commands", {}))  # notes clashes of names
    found.note_failing_targets()
    states = found.states
    if json:
        print_json([state.to_json() for state in states])
        return
    from dory_core.cli.tables.listing import print_plugins

    print_plugins(states, console())
