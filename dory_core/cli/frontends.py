"""``dory frontends``: the file formats that can be read."""

from __future__ import annotations

from dory_core.cli.common import Debug, Json, console, print_json
from dory_core.documents import row


def frontends(json: Json = False, debug: Debug = False) -> None:
    """List the file formats that can be read."""
    from dory_core.plugins import load_plugins

    plugins = load_plugins()
    rows = [
        {
            **row(frontend, "name", "summary"),
            **row(plugins.provider("frontend", frontend.name), "dist", "version"),
        }
        for frontend in plugins.frontends()
    ]
    if json:
        print_json(rows)
        return
    from dory_core.cli.tables.listing import print_frontends

    print_frontends(rows, console())
