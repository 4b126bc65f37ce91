"""Which plugins are installed: entry points of group ``dory``, by the metadata of distributions."""

from __future__ import annotations

import functools
import importlib
import operator
import sys
from collections.abc import Callable
from configparser import ConfigParser
from configparser import Error as ConfigError
from contextlib import suppress
from pathlib import Path
from typing import Any

from dory_core.documents import row
from dory_core.records import dataclass

GROUP = "dory"
#: Entry points of this group name the plugin modules whose commands ``dory --help`` lists.
COMMAND_GROUP = "dory.commands"


@dataclass(frozen=True, slots=True)
class PluginState:
    """What became of one entry point; a row of ``dory plugins``.

    state: ``loaded``, ``failed`` (reason says why), ``skipped`` (by DORY_PLUGINS) or ``missing``
    (named by DORY_PLUGINS, not installed). hooks: names of the hooks that it implements.
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


#: A plugin, what its entry point names, and what imports that.
Found = list[tuple[PluginState, str, Callable[[], Any]]]


def installed() -> Found:
    """Return the installed plugins in load order."""
    from importlib.metadata import entry_points

    found = []
    for entry in entry_points(group=GROUP):
        dist, version = (entry.dist.name, entry.dist.version) if entry.dist else ("", "")
        state = PluginState(dist, version, entry.name, "loaded")
        found.append((state, entry.value, entry.load))
    return sorted(found, key=_load_order)


def advertising() -> Found:
    """Return, as :func:`installed`, the plugins that group ``dory.commands`` names, too.

    ``importlib.metadata`` reads what every distribution says, which takes as long as the rest of
    ``dory --help``; here only the distributions whose file has the group are looked at.
    """
    found: dict[str, Found] = {}
    for file in (f for path in sys.path for f in Path(path).glob("*.*-info/entry_points.txt")):
        with suppress(OSError, UnicodeDecodeError, KeyError, ConfigError):
            text = file.read_text(encoding="utf-8")
            if f"[{COMMAND_GROUP}]" in text:
                dist, plugins = _advertised(file.parent, text)
                found.setdefault(dist, plugins)  # the first one on the path is what is imported
    return sorted((plugin for plugins in found.values() for plugin in plugins), key=_load_order)


class _EntryPoints(ConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr  # names keep their capitals


def _advertised(folder: Path, text: str) -> tuple[str, Found]:
    """Return the name of the distribution and its plugins that group ``dory.commands`` names."""
    groups = _EntryPoints(delimiters=("=",), strict=False, interpolation=None)
    groups.read_string(text)
    headers = folder / ("METADATA" if folder.suffix == ".dist-info" else "PKG-INFO")
    lines = (line.partition(": ") for line in headers.read_text(encoding="utf-8").splitlines())
    fields = {name: value for name, _, value in reversed([*lines])}  # the first of a name counts
    modules = set(groups[COMMAND_GROUP].values())
    return fields["Name"], [
        (
            PluginState(fields["Name"], fields["Version"], name, "loaded"),
            value,
            functools.partial(_import, value),
        )
        for name, value in (groups[GROUP].items() if GROUP in groups else ())
        if value in modules
    ]


def _import(value: str) -> Any:
    module, _, attribute = value.partition(":")
    thing = importlib.import_module(module.strip())
    return operator.attrgetter(attribute.strip())(thing) if attribute else thing


def _load_order(found: tuple[PluginState, str, Any]) -> tuple[str, str, str]:
    state, value, _ = found
    return state.entry, state.dist, value
