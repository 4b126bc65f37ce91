"""What must be true of a plugin before it may take part; each check refuses with a sentence."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

import pluggy

from dory_core import hookspecs
from dory_core.frontend import Frontend
from dory_core.hardware import Target

#: Version of the hooks and of the types that cross them.
API_VERSION = 1

GROUP = "dory"

_OFFERS: Mapping[str, type[Any]] = {"dory_frontends": Frontend, "dory_targets": Target}


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
        return {
            "dist": self.dist,
            "version": self.version,
            "entry": self.entry,
            "state": self.state,
            "reason": self.reason,
            "hooks": list(self.hooks),
        }


class Refused(Exception):
    """Why a plugin cannot be used."""


@functools.cache
def specifications() -> Mapping[str, tuple[str, ...]]:
    """Return the parameter names of every hook, in the order of their definition."""
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    names = [name for name in vars(hookspecs) if name.startswith("dory_")]
    return {name: tuple(getattr(manager.hook, name).spec.argnames) for name in names}


def describe(error: BaseException) -> str:
    """Return ``TypeOfError: text`` on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def import_entry(entry: EntryPoint) -> Any:
    """Return the plugin object; raises Refused."""
    try:
        with contextlib.redirect_stdout(sys.stderr):  # stdout belongs to --json
            return entry.load()
    except (Exception, SystemExit) as error:
        raise Refused(f"import of {entry.value} failed: {describe(error)}") from error


def check_api(module: Any) -> None:
    """Refuse a plugin that was written for newer hooks than these; ``DORY_API`` states it.

    Raises: Refused.
    """
    wanted = getattr(module, "DORY_API", API_VERSION)
    if not isinstance(wanted, int) or wanted < 1:
        raise Refused(f"DORY_API must be a positive integer, not {wanted!r}")
    if wanted > API_VERSION:
        raise Refused(
            f"it needs plugin API {wanted}, this dory-core has API {API_VERSION}: "
            "upgrade dory-core or install an older version of the plugin"
        )


def hooks_of(module: Any) -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
    """Return the hooks that a plugin implements, checked against the specs; raises Refused."""
    specs = specifications()
    found: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {}
    for attribute in sorted(dir(module)):
        function = getattr(module, attribute, None)
        marks = getattr(function, f"{GROUP}_impl", None)
        if not callable(function) or not isinstance(marks, dict):
            if attribute in specs and callable(function):
                raise Refused(f"{attribute} is not marked with dory_core.plugins.hookimpl")
            continue
        name = marks.get("specname") or attribute
        if name not in specs:
            known = ", ".join(specs)
            raise Refused(f"unknown hook {name} (this version of dory-core has: {known})")
        if marks.get("wrapper") or marks.get("hookwrapper"):
            raise Refused(f"{name} is a hook wrapper, which dory does not support")
        if name in found:
            raise Refused(f"it implements {name} twice")
        found[name] = (function, _parameters(name, function, specs[name]))
    return found


def _parameters(
    name: str, function: Callable[..., Any], allowed: tuple[str, ...]
) -> tuple[str, ...]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise Refused(f"wrong signature: {name} has none ({describe(error)})") from error
    wanted = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise Refused(f"wrong signature: {name} must name its parameters, without * and **")
        if parameter.name in allowed:
            wanted.append(parameter.name)
        elif parameter.default is parameter.empty:
            takes = ", ".join(allowed) or "nothing"
            raise Refused(
                f"wrong signature: {name} has a parameter {parameter.name!r}, dory offers {takes}"
            )
    return tuple(wanted)


def offers(
    state: PluginState,
    hooks: Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]],
    name: str,
) -> list[Any]:
    """Return the records of a hook without parameters, checked; raises Refused."""
    if name not in hooks:
        return []
    try:
        with contextlib.redirect_stdout(sys.stderr):
            records = hooks[name][0]()
    except (Exception, SystemExit) as error:
        raise Refused(f"{name} raised {describe(error)}") from error
    if records is None:
        return []
    if not isinstance(records, (list, tuple)):
        raise Refused(f"{name} returned {type(records).__name__}, not a list")
    wanted = _OFFERS[name]
    for record in records:
        if not isinstance(record, wanted):
            raise Refused(f"{name} returned a {type(record).__name__}, not a {wanted.__name__}")
        if not record.name:
            raise Refused(f"{name} returned a {wanted.__name__} without a name")
    return list(records)


def check_clash(
    kind: str,
    records: Iterable[Any],
    known: Mapping[str, tuple[Any, PluginState]],
    state: PluginState,
) -> None:
    """Refuse names that another plugin, or this one, provides already. Raises: Refused."""
    seen: set[str] = set()
    for record in records:
        if record.name in seen:
            raise Refused(f"it provides {kind} {record.name!r} twice")
        seen.add(record.name)
        if record.name in known:
            other = known[record.name][1].label
            raise Refused(
                f"{kind} {record.name!r} is provided by both {other} and {state.label}; "
                f"the first one is used (DORY_PLUGINS=NAME,... chooses)"
            )
