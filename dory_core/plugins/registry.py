"""Loading plugins, and the frontends and targets that they provide."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dory_core.errors import NotSupported, UsageError
from dory_core.plugins.answers import check_clash, offers
from dory_core.plugins.discovery import PluginState
from dory_core.plugins.hooks import Hook, Refused, describe, hooks_of

if TYPE_CHECKING:
    from dory_core.hardware.target import Option, Target
    from dory_core.plugins.frontend import Frontend

log = logging.getLogger("dory")


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin that is in use.

    Attributes:
        state: Its row of ``dory plugins`` when it was loaded.
        hooks: The hooks that it implements, by name.
    """

    state: PluginState
    hooks: Mapping[str, Hook]


class Registry:
    """The plugins of one process, and the frontends and targets that they provide."""

    def __init__(self) -> None:
        self._states: list[PluginState] = []
        self._loaded: list[LoadedPlugin] = []
        self._frontends: dict[str, tuple[Frontend, PluginState]] = {}
        self._targets: dict[str, tuple[Target, PluginState]] = {}

    def add(self, state: PluginState, load: Callable[[], Any]) -> None:
        """Load a plugin and register its frontends and targets; a broken one becomes ``failed``.

        Args:
            state: The row of ``dory plugins`` if loading succeeds.
            load: Function that imports the plugin and returns it.
        """
        try:
            with contextlib.redirect_stdout(sys.stderr):  # stdout belongs to --json
                try:
                    plugin = load()
                except (Exception, SystemExit) as error:
                    raise Refused(f"import failed: {describe(error)}") from error
                hooks = hooks_of(plugin)
                frontends = offers(hooks, "dory_frontends")
                targets = offers(hooks, "dory_targets")
            state = replace(state, hooks=tuple(hooks))
            check_clash("frontend", frontends, self._frontends, state)
            check_clash("target", targets, self._targets, state)
        except Refused as refused:
            self.leave_out(replace(state, state="failed", reason=str(refused)))
            log.warning("plugin %s is left out: %s", state.label, refused)
            return
        self._states.append(state)
        self._frontends.update({f.name: (f, state) for f in frontends})
        self._targets.update({t.name: (t, state) for t in targets})
        self._loaded.append(LoadedPlugin(state, hooks))

    def leave_out(self, state: PluginState) -> None:
        """Add a row of ``dory plugins`` for a plugin that is not loaded."""
        self._states.append(state)

    def note(self, plugin: PluginState, reason: str) -> bool:
        """Give a loaded plugin a reason unless it has one; return True if it had none."""
        for position, state in enumerate(self._states):
            if (state.dist, state.entry) == (plugin.dist, plugin.entry) and not state.reason:
                self._states[position] = replace(state, reason=reason)
                return True
        return False

    def note_unknown_targets(self) -> None:
        """Note the targets that hooks are marked with and that no plugin provides."""
        for plugin in self._loaded:
            for hook in plugin.hooks.values():
                for target in sorted({*hook.targets} - {*self._targets}):
                    reason = f"no plugin provides target {target!r} of its {hook.name}"
                    self.note(plugin.state, reason)

    @property
    def states(self) -> tuple[PluginState, ...]:
        """The state of each plugin, in load order."""
        return tuple(self._states)

    def frontends(self) -> tuple[Frontend, ...]:
        """Return all frontends, by name."""
        return tuple(self._frontends[name][0] for name in sorted(self._frontends))

    def targets(self) -> tuple[Target, ...]:
        """Return all targets, by name."""
        return tuple(self._targets[name][0] for name in sorted(self._targets))

    def frontend(self, name: str) -> Frontend:
        """Return the frontend called ``name``; raises UsageError."""
        frontend: Frontend = self._provided("frontend", name)[0]
        return frontend

    def target(self, name: str) -> Target:
        """Return the target called ``name``; raises UsageError."""
        target: Target = self._provided("target", name)[0]
        return target

    def provider(self, kind: str, name: str) -> PluginState:
        """Return the plugin that provides the ``frontend`` or ``target`` called ``name``."""
        return self._provided(kind, name)[1]

    def _provided(self, kind: str, name: str) -> tuple[Any, PluginState]:
        known: Mapping[str, tuple[Any, PluginState]]
        known = self._frontends if kind == "frontend" else self._targets
        if name in known:
            return known[name]
        names = ", ".join(sorted(known)) or "none is installed"
        near = get_close_matches(name.lower(), [one.lower() for one in known], 1)
        meant = next((one for one in known if near == [one.lower()]), None)
        guess = f"did you mean {meant}? Otherwise: " if meant else ""
        raise UsageError(f"unknown {kind} {name!r}; known: {names}", guess + self._missing(kind))

    def options(self, target: str) -> tuple[Option, ...]:
        """Return the options that a target takes as ``--set``; raises UsageError."""
        from dory_core.hardware.options import all_options

        return all_options(self.target(target))

    def recognising(self, path: Path) -> tuple[Frontend, ...]:
        """Return the frontends that recognise a file."""
        return tuple(f for f in self.frontends() if f.recognises is not None and f.recognises(path))

    def frontend_for(self, path: Path) -> Frontend:
        """Return the only frontend that recognises a file.

        Raises:
            UsageError: When no frontend is there, or several recognise the file.
            NotSupported: When none recognises it.
        """
        candidates = self.recognising(path)
        if len(candidates) == 1:
            return candidates[0]
        if not self._frontends:
            raise UsageError(f"{path}: no frontend is there to read it", self._missing("frontend"))
        names = ", ".join(f.name for f in candidates or self.frontends())
        if candidates:
            raise UsageError(
                f"{path}: several frontends recognise this file",
                f"give --frontend NAME, one of: {names}",
            )
        raise NotSupported(
            f"{path}: no frontend recognises this file",
            "give the file of a quantised network, or its format with"
            f" --frontend NAME, one of: {names} (`dory frontends` explains them)",
        )

    def _missing(self, kind: str) -> str:
        """Return a hint about a missing frontend or target."""
        broken = [s for s in self._states if s.state != "loaded"]
        if broken:
            why = f"not every plugin could be used ({broken[0].label}: {broken[0].reason})"
            return f"{why}; `dory plugins` tells more"
        return f"a {kind} comes with a Python package of its own: install it with pip"
