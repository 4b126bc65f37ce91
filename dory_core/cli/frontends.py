"""``dory frontends``: the file formats that can be read, and their operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from dory_core.cli import completion
from dory_core.cli.common import Debug, Json, console, print_json
from dory_core.documents import row
from dory_core.errors import UsageError

if TYPE_CHECKING:
    from dory_core.plugins.frontend import Frontend
    from dory_core.plugins.manager import Plugins

#: Option that works also without a command.
LIST_OPERATORS = "--list-operators"


def frontends(
    list_operators: Annotated[
        bool,
        typer.Option(
            LIST_OPERATORS, help="List the operators that are read, and what they must be like."
        ),
    ] = False,
    frontend: Annotated[
        str | None,
        typer.Option(
            "--frontend",
            "-f",
            metavar="NAME",
            help="Only this one.",
            autocompletion=completion.frontend_names,
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the file formats that can be read, or their operators."""
    from dory_core.plugins.manager import load_plugins

    plugins = load_plugins()
    chosen = plugins.frontends() if frontend is None else (plugins.frontend(frontend),)
    if list_operators:
        _list_operators([one for one in chosen if frontend or one.operators], json)
        return
    rows = [_row(plugins, one) for one in chosen]
    if json:
        print_json(rows)
        return
    from dory_core.cli.tables.listing import print_frontends

    print_frontends(rows, console())


def _row(plugins: Plugins, frontend: Frontend) -> dict[str, object]:
    provider = plugins.provider("frontend", frontend.name)
    return {**row(frontend, "name", "summary"), **row(provider, "dist", "version")}


def _list_operators(frontends: Sequence[Frontend], json: bool) -> None:
    rows = []
    for frontend in frontends:
        if frontend.operators is None:
            raise UsageError(
                f"the frontend '{frontend.name}' has no list of operators",
                "`dory check NETWORK` tells whether it reads a network",
            )
        rows += [
            {
                "frontend": frontend.name,
                "operator": one.name,
                "becomes": one.becomes,
                "constraints": list(one.constraints),
            }
            for one in frontend.operators()
        ]
    if json:
        print_json(rows)
        return
    from dory_core.cli.tables.listing import print_operators

    print_operators(rows, console())
