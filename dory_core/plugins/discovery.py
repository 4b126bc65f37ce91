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
    """The state of one entry point; a row of ``dory plugins``.

    Attributes:
        dist: Name of the distribution; empty for a plugin object of a test.
        version: Version of the distribution.
        entry: Name of the entry point.
        state: ``loaded``, ``failed``, ``skipped`` (by DORY_PLUGINS) or ``missing`` (named by
            DORY_PLUGINS, not installed).
        reason: Why the plugin is not loaded, or what is wrong with a loaded one.
        hooks: Names of the hooks that the plugin implements.
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
        state: Its name and distribution.
        module: The module that its entry point names.
        commands: True when group ``dory.commands`` names the module too.
        load: Function that imports the module and returns it.
    """

    state: PluginState
    module: str
    commands: bool
    load: Callable[[], Any]


def installed() -> list[FoundPlugin]:
    """Return the installed plugins in load order: by entry point name, then distribution."""
    from importlib.metadata import distributions

    plugins: dict[str, list[FoundPlugin]] = {}
    for dist in distributions():
        points = _entry_points(dist)
        advertised = {point.value for point in points if point.group == COMMAND_GROUP}
        offered = [
            FoundPlugin(
                PluginState(dist.name, dist.version, point.name, "loaded"),
                point.value,
                point.value in advertised,
                point.load,
            )
            for point in points
            if point.group == GROUP
        ]
        if offered:  # Python imports the first distribution of a name on the path
            plugins.setdefault(dist.name, offered)
    every = (plugin for offered in plugins.values() for plugin in offered)
    return sorted(every, key=lambda p: (p.state.entry, p.state.dist, p.module))


def _entry_points(dist: Distribution) -> list[EntryPoint]:
    """Return the entry points of a distribution, none when its file is damaged."""
    try:
        return list(dist.entry_points)
    except (TypeError, ValueError):  # a line without "=", or bytes that are not UTF-8
        return []
