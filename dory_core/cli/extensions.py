"""Commands of plugins: found in the metadata of distributions, made by ``dory_commands``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from dory_core.errors import DoryError, ToolMissing, UsageError

_ADVERTISED = "dory.commands"  # key in the data that contexts of the option parser share

#: Distributions of this repository, by the commands that they add.
_PACKAGES = {"compare": "dory-report", "report": "dory-report"}


def plugin_commands(ctx: Any, own: Collection[str]) -> Mapping[str, Any]:
    """Return the commands of plugins that group ``dory.commands`` names; no other is imported.

    own: names of dory's own commands, which no plugin can replace.
    """
    if _ADVERTISED not in ctx.meta:
        from dory_core.plugins.manager import load_plugins

        ctx.meta[_ADVERTISED] = load_plugins(only_commands=True).commands(own)
    return cast("Mapping[str, Any]", ctx.meta[_ADVERTISED])


def find_command(ctx: Any, name: str, own: Collection[str]) -> Any:
    """Return the command of a plugin, None when none adds it."""
    from dory_core.plugins.manager import load_plugins

    advertised = plugin_commands(ctx, own)
    return advertised[name] if name in advertised else load_plugins().commands(own).get(name)


def missing_command(name: str) -> DoryError | None:
    """Return the error for a missing command of a package of this repository, else None."""
    from dory_core.plugins.manager import load_plugins

    package = _PACKAGES.get(name)
    if package is None:
        return None
    for state in load_plugins().states:
        if state.dist == package:
            return UsageError(
                f"`dory {name}` is a command of {state.label}, which is {state.state}: "
                f"{state.reason}",
                "`dory plugins` lists what is loaded",
            )
    return ToolMissing(
        f"`dory {name}` is a command of the package {package}, which is not installed",
        f"pip install {package}, or pip install ./tools/report in a copy of dory's repository",
    )
