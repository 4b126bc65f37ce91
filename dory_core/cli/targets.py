"""``dory targets``: the chips that applications can be made for, with their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from dory_core.cli.common import Debug, Json, console, print_json
from dory_core.documents import row
from dory_core.errors import DoryError, PluginError

if TYPE_CHECKING:
    from dory_core.plugins.manager import Plugins


def targets(json: Json = False, debug: Debug = False) -> None:
    """List the chips, their memories and their options."""
    from dory_core.plugins.manager import load_plugins

    plugins = load_plugins()
    rows = [_row(plugins, target.name) for target in plugins.targets()]
    if json:
        print_json(rows)
    else:
        from dory_core.cli.tables.listing import print_targets

        print_targets(rows, console())
    if any(row["problem"] for row in rows):
        raise typer.Exit(PluginError.exit_code)


def _row(plugins: Plugins, name: str) -> dict[str, Any]:
    """Return one target as ``dory targets --json`` prints it."""
    target = plugins.target(name)
    provider = plugins.provider("target", name)
    return {
        **row(target, "name", "summary"),
        **row(provider, "dist", "version"),
        "problem": plugins.problem(name),
        "levels": _levels(plugins, name),
        "options": [
            {
                "name": option.name,
                "type": option.type.__name__,
                **row(option, "default", "choices", "help"),
            }
            for option in plugins.options(name)
        ],
        "operating_points": [
            row(point, "name", "core_hz", "energy_j_per_cycle", "source", "only")
            for point in target.operating_points
        ],
    }


def _levels(plugins: Plugins, name: str) -> list[dict[str, Any]]:
    """Return the memories with the default options; none when their plugin fails."""
    try:
        hierarchy = plugins.context(name).memory
    except DoryError:
        return []
    return [
        {
            "name": level.name,
            "memories": [memory.name for memory in level.memories],
            **row(level, "size_bytes", "usable_bytes"),
        }
        for level in hierarchy.levels
    ]
