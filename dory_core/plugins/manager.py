"""Finding, loading and asking plugins.

Entry points of group ``dory`` name plugin modules. :func:`load_plugins` imports them in a fixed
order (entry point name, then distribution), and leaves out, with a reason, each one that is broken;
the others work on. pluggy calls their hooks. Nothing is imported before the first call.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

from dory_core.errors import PluginError, UsageError
from dory_core.plugins import hookspecs
from dory_core.plugins.answers import check_clash, guarded, offers
from dory_core.plugins.discovery import PluginState, installed
from dory_core.plugins.hooks import Hook, Refused, describe, hooks_of

if TYPE_CHECKING:
    from dory_core.codegen.application_record import Application
    from dory_core.hardware.target import DmaHal, Option, OutputFile, Target, TargetContext
    from dory_core.ir import Layer
    from dory_core.ir.geometry import Tile
    from dory_core.kernels.kernel import Kernel, Term
    from dory_core.passes import Pass
    from dory_core.plugins.frontend import Frontend
    from dory_core.simulate.runner import Runner


log = logging.getLogger("dory")


def _same(thing: Any) -> Any:
    return thing


@dataclass(frozen=True, slots=True)
class _Plugin:
    """A loaded plugin: what became of its entry point, and its hooks by name."""

    state: PluginState
    hooks: Mapping[str, Hook]


class Plugins:
    """The plugins of one process: what they offer, and their hooks by target.

    Made by :func:`load_plugins` or, with given plugin objects, by :meth:`from_objects`.
    """

    def __init__(self) -> None:
        self._states: list[PluginState] = []
        self._loaded: list[_Plugin] = []
        self._frontends: dict[str, tuple[Frontend, PluginState]] = {}
        self._targets: dict[str, tuple[Target, PluginState]] = {}
        self._managers: dict[str | None, pluggy.PluginManager] = {}
        self._kernel_owners: dict[tuple[str, str], PluginState] = {}

    @classmethod
    def from_objects(cls, **objects: Any) -> Plugins:
        """Return Plugins made of modules or other objects with hooks, by name; for tests."""
        plugins = cls()
        for name, thing in objects.items():
            plugins._add(PluginState("", "", name, "loaded"), functools.partial(_same, thing))
        return plugins

    # -- loading ---------------------------------------------------------------------------------

    def _add(self, state: PluginState, load: Callable[[], Any]) -> None:
        """Import one plugin, check it and take what it offers; a broken one becomes ``failed``."""
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
            self._states.append(replace(state, state="failed", reason=str(refused)))
            log.warning("plugin %s is left out: %s", state.label, refused)
            return
        self._states.append(state)
        self._frontends.update({f.name: (f, state) for f in frontends})
        self._targets.update({t.name: (t, state) for t in targets})
        self._loaded.append(_Plugin(state, hooks))

    def _warn(self, plugin: PluginState, reason: str) -> None:
        """Note a reason, and say it once."""
        if self._note(plugin, reason):
            log.warning("%s", reason)

    def _warn_of_clash(self, plugin: PluginState, kind: str, name: str, owner: str) -> None:
        both = f"{owner} and {plugin.label}"
        self._warn(plugin, f"{kind} {name!r} is provided by both {both}; the first one is used")

    def _note(self, plugin: PluginState, reason: str) -> bool:
        """Give a loaded plugin a reason unless it has one; return whether it had none."""
        for position, state in enumerate(self._states):
            if (state.dist, state.entry) == (plugin.dist, plugin.entry) and not state.reason:
                self._states[position] = replace(state, reason=reason)
                return True
        return False

    def _note_unknown_targets(self) -> None:
        for plugin in self._loaded:
            for hook in plugin.hooks.values():
                for target in sorted({*hook.targets} - {*self._targets}):
                    reason = f"no plugin provides target {target!r} of its {hook.name}"
                    self._note(plugin.state, reason)

    # -- what there is ---------------------------------------------------------------------------

    @property
    def states(self) -> tuple[PluginState, ...]:
        """What became of each plugin that was found, in load order."""
        return tuple(self._states)

    def frontends(self) -> tuple[Frontend, ...]:
        """Return all frontends, by name."""
        return tuple(self._frontends[name][0] for name in sorted(self._frontends))

    def targets(self) -> tuple[Target, ...]:
        """Return all targets, by name."""
        return tuple(self._targets[name][0] for name in sorted(self._targets))

    def frontend(self, name: str) -> Frontend:
        """Return the frontend called ``name``; raises UsageError."""
        if name not in self._frontends:
            raise self._unknown("frontend", name, self._frontends)
        return self._frontends[name][0]

    def frontend_for(self, path: Path) -> Frontend:
        """Return the one frontend that recognises a file; raises UsageError."""
        found = self.recognising(path)
        if len(found) == 1:
            return found[0]
        if not self._frontends:
            raise UsageError(f"{path}: no frontend is there to read it", self._missing("frontend"))
        names = ", ".join(f.name for f in found or self.frontends())
        if found:
            raise UsageError(
                f"{path}: several frontends recognise this file",
                f"give --frontend NAME, one of: {names}",
            )
        raise UsageError(
            f"{path}: no frontend recognises this file",
            "give the file of a quantised network, or its format with"
            f" --frontend NAME, one of: {names} (`dory frontends` explains them)",
        )

    def recognising(self, path: Path) -> tuple[Frontend, ...]:
        """Return the frontends that recognise a file."""
        return tuple(f for f in self.frontends() if f.recognises is not None and f.recognises(path))

    def target(self, name: str) -> Target:
        """Return the target called ``name``; raises UsageError."""
        if name not in self._targets:
            raise self._unknown("target", name, self._targets)
        return self._targets[name][0]

    def options(self, target: str) -> tuple[Option, ...]:
        """Return the options that :meth:`context` takes for a target; raises UsageError."""
        from dory_core.hardware.options import all_options

        return all_options(self.target(target))

    def provider(self, kind: str, name: str) -> PluginState:
        """Return which plugin provides the ``frontend`` or ``target`` called ``name``."""
        return self._frontends[name][1] if kind == "frontend" else self._targets[name][1]

    def _unknown(self, kind: str, name: str, known: Iterable[str]) -> UsageError:
        names = ", ".join(sorted(known)) or "none is installed"
        return UsageError(f"unknown {kind} {name!r}; known: {names}", self._missing(kind))

    def _missing(self, kind: str) -> str:
        """Return what to do where a frontend or target is missing."""
        broken = [s for s in self._states if s.state != "loaded"]
        if broken:
            why = f"not every plugin could be used ({broken[0].label}: {broken[0].reason})"
            return f"{why}; `dory plugins` tells more"
        return f"a {kind} comes with a Python package of its own: install it with pip"

    # -- hooks of a target -----------------------------------------------------------------------

    def context(self, target: str, settings: Mapping[str, str] | None = None) -> TargetContext:
        """Return the complete context of a target; settings: ``--set`` options as text.

        Raises UsageError for an unknown target, option or value, PluginError when no plugin
        describes the target's memories.
        """
        from dory_core.hardware.options import resolve_options
        from dory_core.hardware.target import TargetContext

        record = self.target(target)
        options, point = resolve_options(record, settings or {})
        ctx = TargetContext(record.name, options, None, point)
        hierarchy = self._hooks(ctx).dory_memory_hierarchy(ctx=ctx)
        if hierarchy is None:
            raise PluginError(
                f"no plugin describes the memories of target {target!r} (dory_memory_hierarchy)",
                f"report this to the authors of {self.provider('target', target).label}",
            )
        return ctx.with_hierarchy(hierarchy)

    def kernels(self, ctx: TargetContext, layer: Layer) -> tuple[Kernel, ...]:
        """Return the candidates of all plugins for ``layer``, best first; see ``hookimpl``.

        A name belongs to the plugin that offered it first; another plugin's kernel of that name is
        left out and the clash reported. Raises: PluginError when a plugin fails.
        """
        kernels: dict[str, Kernel] = {}
        answers = self._hooks(ctx).dory_kernels(ctx=ctx, layer=layer)
        for plugin, kernel in _records(answers):
            owner = self._kernel_owners.setdefault((ctx.name, kernel.name), plugin)
            if owner is not plugin:
                self._warn_of_clash(plugin, "kernel", kernel.name, owner.label)
            elif kernel.name in kernels:
                raise PluginError(
                    f"plugin {plugin.label} offers kernel {kernel.name!r} twice for one layer",
                    "report this to its authors",
                )
            else:
                kernels[kernel.name] = kernel
        return tuple(kernels.values())

    def foreign_kernels(self, target: str) -> Mapping[str, str]:
        """Return plugins by the names of kernels that they offered for a target of another one."""
        provider = self.provider("target", target)
        return {
            name: plugin.label
            for (owner, name), plugin in self._kernel_owners.items()
            if owner == target and plugin is not provider
        }

    def objective_terms(
        self, ctx: TargetContext, layer: Layer, kernel: Kernel, tile: Tile
    ) -> tuple[Term, ...]:
        """Return the terms of all plugins, in load order."""
        hook = self._hooks(ctx).dory_objective_terms
        return _joined(hook(ctx=ctx, layer=layer, kernel=kernel, tile=tile))

    def dma_hal(self, ctx: TargetContext) -> DmaHal | None:
        """Return the target's DMA HAL, None when it has none."""
        hal: DmaHal | None = self._hooks(ctx).dory_dma_hal(ctx=ctx)
        return hal

    def passes(self, ctx: TargetContext) -> tuple[Pass, ...]:
        """Return the target's graph passes, in load order."""
        return _joined(self._hooks(ctx).dory_passes(ctx=ctx))

    def has_application(self, ctx: TargetContext) -> bool:
        """Return whether a plugin has ``dory_application`` for the target by name, or is its."""
        provider = self.provider("target", ctx.name)
        return any(
            ctx.name in hook.targets or (not hook.targets and plugin.state is provider)
            for plugin in self._loaded
            for name, hook in plugin.hooks.items()
            if name == "dory_application"
        )

    def application(self, ctx: TargetContext, application: Application) -> tuple[OutputFile, ...]:
        """Return the application files of all plugins; raises PluginError when two share a path."""
        files: dict[str, tuple[OutputFile, PluginState]] = {}
        answers = self._hooks(ctx).dory_application(ctx=ctx, application=application)
        for plugin, file in _records(answers):
            if file.path in files:
                other = files[file.path][1].label
                raise PluginError(
                    f"application file {file.path!r} comes from both {other} and {plugin.label}",
                    "leave one of them out with DORY_PLUGINS=NAME,...",
                )
            files[file.path] = (file, plugin)
        return tuple(file for file, _ in files.values())

    def runners(self, ctx: TargetContext) -> tuple[Runner, ...]:
        """Return the target's runners, in load order."""
        return _joined(self._hooks(ctx).dory_runners(ctx=ctx))

    def reports(
        self, plan: Mapping[str, Any], timeline: Mapping[str, Any], taken: Collection[str]
    ) -> tuple[OutputFile, ...]:
        """Return the files that explain an application, whose other files have the paths ``taken``.

        A plugin that fails and a path that is taken are reported, and left out.
        """
        files: dict[str, OutputFile] = {}
        answers = self._hooks().dory_reports(plan=plan, timeline=timeline)
        for plugin, file in _records(answers):
            if file.path in taken or file.path in files:
                reason = f"its report {file.path!r} would replace another file of applications"
                self._warn(plugin, reason)
            else:
                files[file.path] = file
        return tuple(files.values())

    def commands(self, own: Collection[str]) -> dict[str, Any]:
        """Return the commands of all plugins by name, as objects of click.

        own: names that are taken. A name that is taken and a plugin that fails are reported.
        """
        commands: dict[str, Any] = {}
        providers = dict.fromkeys(own, "dory")
        for plugin, (name, command) in _records(self._hooks().dory_commands(app=None)):
            if name in providers:
                self._warn_of_clash(plugin, "command", name, providers[name])
            else:
                providers[name], commands[name] = plugin.label, command
        return commands

    # -- asking ----------------------------------------------------------------------------------

    def _hooks(self, ctx: TargetContext | None = None) -> Any:
        """Return the hooks of all plugins as pluggy calls them, for a target or for none."""
        name = None if ctx is None else ctx.name
        if name not in self._managers:
            self._managers[name] = self._manager(name)
        return self._managers[name].hook

    def _manager(self, target: str | None) -> pluggy.PluginManager:
        """Return a plugin manager with the hooks that answer for a target.

        It asks first who declares to be first, then the plugin of the target, then the others,
        each in load order: pluggy asks first who was registered last.
        """
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        provider = self.provider("target", target) if target in self._targets else None
        own = [plugin for plugin in self._loaded if plugin.state is provider]
        others = [plugin for plugin in self._loaded if plugin.state is not provider]
        for plugin in reversed(own + others):
            hooks = {n: h for n, h in plugin.hooks.items() if h.answers_for(target)}
            guards = {name: guarded(plugin.state, h, self._warn) for name, h in hooks.items()}
            manager.register(_Registered(guards), plugin.state.label)
        return manager


class _Registered:
    """The functions of a plugin that pluggy calls, as attributes."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        vars(self).update(functions)


def _records(answers: Iterable[Any]) -> Iterator[tuple[PluginState, Any]]:
    """Yield the records of all plugins, each with its plugin."""
    return ((answer.plugin, record) for answer in answers for record in answer)


def _joined(answers: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(record for _, record in _records(answers))


def discover(selection: str | None, only_commands: bool = False) -> Plugins:
    """Find and load plugins.

    Args:
        selection: Entry point names, comma separated, None for all.
        only_commands: Load the modules that group ``dory.commands`` names, and look at no other.
    """
    plugins = Plugins()
    wanted = None if selection is None else [n.strip() for n in selection.split(",") if n.strip()]
    found = [one for one in installed() if one.commands or not only_commands]
    for one in found:
        if wanted is None or one.state.entry in wanted:
            plugins._add(one.state, one.load)
        else:
            skipped = replace(one.state, state="skipped", reason="not in DORY_PLUGINS")
            plugins._states.append(skipped)
    if only_commands:
        return plugins
    for name in wanted or ():
        if all(one.state.entry != name for one in found):
            reason = "named by DORY_PLUGINS but not installed"
            plugins._states.append(PluginState("", "", name, "missing", reason))
            log.warning("plugin %s is %s", name, reason)
    plugins._note_unknown_targets()
    return plugins


@functools.cache
def _load(selection: str | None, only_commands: bool) -> Plugins:
    return discover(selection, only_commands)


def load_plugins(only_commands: bool = False) -> Plugins:
    """Return the plugins that are installed, restricted by ``DORY_PLUGINS``; loaded once.

    only_commands: those alone whose commands ``dory --help`` lists.
    """
    return _load(os.environ.get("DORY_PLUGINS"), only_commands)
