"""Which plugins are installed: entry points of group ``dory``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dory_core.documents import row

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

GROUP = "dory"
#: Entry points of this group name the plugin modules whose commands ``dory --help`` lists.
COMMAND_GROUP = "dory.commands"


@dataclass(frozen=True, slots=True)
class PluginState:
    """What became of one entry point; a row of ``dory plugins``.

    Attributes:
        state: ``loaded``, ``failed`` (reason says why), ``skipped`` (by DORY_PLUGINS) or
            ``missing`` (named by DORY_PLUGINS, not installed).
        hooks: Names of the hooks that it implements.
    """

    dist: str
    version: str
    entry: str
    state: str
    reason: str = ""
    hooks: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The plugin as messages name it: ``entry (distribution version)``."""
        return f"{self.entry} ({self.dist} {self.version})" if self.dist else self.entry

    def to_json(self) -> dict[str, Any]:
        """Return the row of ``dory plugins --json``."""
        return row(self, "dist", "version", "entry", "state", "reason", "hooks")


@dataclass(frozen=True, slots=True)
class FoundPlugin:
    """An installed plugin that is not imported yet.

    Attributes:
        module: What its entry point names.
        commands: Whether group ``dory.commands`` names it too.
    """

    state: PluginState
    module: str
    commands: bool
    load: Callable[[], Any]


def installed() -> list[FoundPlugin]:
    """Return the installed plugins in load order: by entry point name, then distribution."""
    from importlib.metadata import distributions

    found: dict[str, list[FoundPlugin]] = {}
    for dist in distributions():
        points = _entry_points(dist)
        modules = {point.value for point in points if point.group == COMMAND_GROUP}
        plugins = [
            FoundPlugin(
                PluginState(dist.name, dist.version, point.name, "loaded"),
                point.value,
                point.value in modules,
                point.load,
            )
            for point in points
            if point.group == GROUP
        ]
        if plugins:
            found.setdefault(dist.name, plugins)  # the first one on the path is what is imported
    return sorted((one for plugins in found.values() for one in plugins), key=_load_order)


def _entry_points(dist: Distribution) -> list[EntryPoint]:
    """Return the entry points of a distribution, none where its file is damaged."""
    try:
        return list(dist.entry_points)
    except (TypeError, ValueError):  # importlib.metadata reads a line without "=" so, or no UTF-8
        return []


def _load_order(found: FoundPlugin) -> tuple[str, str, str]:
    return found.state.entry, found.state.dist, found.module
