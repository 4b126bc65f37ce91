"""Finding, checking and calling plugins.

Entry points of group ``dory`` name plugin modules. :func:`load_plugins` imports them in a fixed
order (entry point name, then distribution), and leaves out, with a reason, each one that is broken;
the others work on. Nothing is imported before the first call.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, cast

import pluggy

from dory_core.errors import DoryError, UsageError
from dory_core.hardware import DmaHal, MemoryHierarchy, Option, OutputFile, Target, TargetContext
from dory_core.options import all_options, resolve_options
from dory_core.plugin_checks import (
    API_VERSION,
    GROUP,
    PluginState,
    Refused,
    check_api,
    check_clash,
    describe,
    hooks_of,
    import_entry,
    offers,
    specifications,
)

if TYPE_CHECKING:
    import typer

    from dory_core.frontend import Frontend
    from dory_core.ir import Layer
    from dory_core.kernel import Kernel, Term
    from dory_core.passes import Pass
    from dory_core.plan import Plan
    from dory_core.simulate.runner import Runner
    from dory_core.tiling.geometry import Tile

#: Marks a function of a plugin as the implementation of the hook of the same name.
hookimpl = pluggy.HookimplMarker("dory")

__all__ = [
    "API_VERSION",
    "PluginError",
    "PluginState",
    "Plugins",
    "discover",
    "hookimpl",
    "load_plugins",
]

log = logging.getLogger("dory")


class PluginError(DoryError):
    """A hook of a plugin raised or returned something that it must not: a bug of the plugin."""


@dataclass(frozen=True, slots=True)
class _Implementation:
    """One hook of one plugin; parameters are the ones of the spec that the function takes."""

    plugin: PluginState
    function: Callable[..., Any]
    parameters: tuple[str, ...]


def _same(thing: Any) -> Any:
    return thing


class Plugins:
    """The plugins of one process: what they offer, and their hooks by target.

    Made by :func:`load_plugins` or, with given plugin objects, by :meth:`from_objects`.
    """

    def __init__(self) -> None:
        self._specs = specifications()
        self._states: list[PluginState] = []
        self._hooks: dict[str, list[_Implementation]] = {name: [] for name in self._specs}
        self._frontends: dict[str, tuple[Frontend, PluginState]] = {}
        self._targets: dict[str, tuple[Target, PluginState]] = {}
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
            module = load()
            check_api(module)
            hooks = hooks_of(module)
            state = replace(state, hooks=tuple(name for name in self._specs if name in hooks))
            frontends = offers(state, hooks, "dory_frontends")
            targets = offers(state, hooks, "dory_targets")
            check_clash("frontend", frontends, self._frontends, state)
            check_clash("target", targets, self._targets, state)
        except Refused as refused:
            self._fail(state, str(refused))
            return
        self._states.append(state)
        self._frontends.update({f.name: (f, state) for f in frontends})
        self._targets.update({t.name: (t, state) for t in targets})
        for name, (function, parameters) in hooks.items():
            self._hooks[name].append(_Implementation(state, function, parameters))

    def _fail(self, state: PluginState, reason: str) -> None:
        self._states.append(replace(state, state="failed", reason=reason))
        log.warning("plugin %s is left out: %s", state.label, reason)

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

    def target(self, name: str) -> Target:
        """Return the target called ``name``; raises UsageError."""
        if name not in self._targets:
            raise self._unknown("target", name, self._targets)
        return self._targets[name][0]

    def options(self, target: str) -> tuple[Option, ...]:
        """Return the options that :meth:`context` takes for a target; raises UsageError."""
        return all_options(self.target(target))

    def provider(self, kind: str, name: str) -> PluginState:
        """Return which plugin provides the ``frontend`` or ``target`` called ``name``."""
        known: Mapping[str, tuple[Any, PluginState]] = (
            self._frontends if kind == "frontend" else self._targets
        )
        return known[name][1]

    def _unknown(self, kind: str, name: str, known: Iterable[str]) -> UsageError:
        names = ", ".join(sorted(known)) or "none is installed"
        broken = [s for s in self._states if s.state != "loaded"]
        if broken:
            hint = f"not every plugin could be used ({broken[0].label}: {broken[0].reason})"
            hint += "; `dory plugins` tells more"
        else:
            hint = f"a {kind} comes with a Python package of its own: install it with pip"
        return UsageError(f"unknown {kind} {name!r}; known: {names}", hint)

    # -- hooks of a target -----------------------------------------------------------------------

    def context(self, target: str, settings: Mapping[str, str] | None = None) -> TargetContext:
        """Return the complete context of a target; settings: ``--set`` options as text.

        Raises UsageError for an unknown target, option or value, PluginError when no plugin
        describes the target's memories.
        """
        record = self.target(target)
        options, point = resolve_options(record, settings or {})
        ctx = TargetContext(record.name, options, None, point)
        hierarchy = self._first("dory_memory_hierarchy", MemoryHierarchy, ctx=ctx)
        if hierarchy is None:
            raise PluginError(
                f"no plugin describes the memories of target {target!r} (dory_memory_hierarchy)",
                f"report this to the authors of {self.provider('target', target).label}",
            )
        return ctx.with_hierarchy(hierarchy)

    def kernels(self, ctx: TargetContext, layer: Layer) -> tuple[Kernel, ...]:
        """Return the candidates of all plugins for ``layer``, in load order.

        A name belongs to the plugin that offered it first; another plugin's kernel of that name is
        left out and the clash reported. Raises: PluginError when a plugin fails.
        """
        from dory_core.kernel import Kernel

        kernels: list[Kernel] = []
        for plugin, kernel in self._records("dory_kernels", Kernel, ctx=ctx, layer=layer):
            owner = self._kernel_owners.setdefault((ctx.name, kernel.name), plugin)
            if owner.entry != plugin.entry or owner.dist != plugin.dist:
                self._report_clash(plugin, owner, kernel.name)
                continue
            if any(other.name == kernel.name for other in kernels):
                raise PluginError(
                    f"plugin {plugin.label} offers kernel {kernel.name!r} twice for one layer",
                    "report this to its authors",
                )
            kernels.append(kernel)
        return tuple(kernels)

    def _report_clash(self, plugin: PluginState, owner: PluginState, kernel: str) -> None:
        reason = (
            f"kernel {kernel!r} is provided by both {owner.label} and {plugin.label}; "
            "the first one is used"
        )
        for position, state in enumerate(self._states):
            if (state.dist, state.entry) == (plugin.dist, plugin.entry) and not state.reason:
                self._states[position] = replace(state, reason=reason)
                log.warning("%s", reason)

    def objective_terms(
        self, ctx: TargetContext, layer: Layer, kernel: Kernel, boundary: int, tile: Tile
    ) -> tuple[Term, ...]:
        """Return the terms of all plugins, in load order."""
        from dory_core.kernel import Term

        arguments = {"layer": layer, "kernel": kernel, "boundary": boundary, "tile": tile}
        return tuple(
            term for _, term in self._records("dory_objective_terms", Term, ctx=ctx, **arguments)
        )

    def dma_hal(self, ctx: TargetContext) -> DmaHal | None:
        """Return the target's DMA HAL, None when it has none."""
        return cast("DmaHal | None", self._first("dory_dma_hal", DmaHal, ctx=ctx))

    def passes(self, ctx: TargetContext) -> tuple[Pass, ...]:
        """Return the target's graph passes, in load order."""
        from dory_core.passes import Pass

        return tuple(pass_ for _, pass_ in self._records("dory_passes", Pass, ctx=ctx))

    def application(self, ctx: TargetContext, plan: Plan) -> tuple[OutputFile, ...]:
        """Return the application files of all plugins; raises PluginError when two share a path."""
        files: dict[str, tuple[OutputFile, PluginState]] = {}
        for plugin, file in self._records("dory_application", OutputFile, ctx=ctx, plan=plan):
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
        from dory_core.simulate.runner import Runner

        return tuple(runner for _, runner in self._records("dory_runners", Runner, ctx=ctx))

    def commands(self, app: typer.Typer) -> None:
        """Let every plugin add its commands to ``app``; one that fails is reported and left out."""
        for implementation in self._hooks["dory_commands"]:
            try:
                self._call("dory_commands", implementation, {"app": app})
            except DoryError as error:
                log.warning("%s", error.message)

    # -- calling ---------------------------------------------------------------------------------

    def _call(self, hook: str, implementation: _Implementation, values: Mapping[str, Any]) -> Any:
        arguments = {name: values[name] for name in implementation.parameters}
        try:
            return implementation.function(**arguments)
        except DoryError:
            raise
        except Exception as error:
            label = implementation.plugin.label
            raise PluginError(
                f"plugin {label} failed in {hook}: {describe(error)}",
                "report this to its authors; DORY_PLUGINS=NAME,... leaves it out",
            ) from error

    def _first(self, hook: str, type_: type[Any], **values: Any) -> Any:
        for implementation in self._hooks[hook]:
            result = self._call(hook, implementation, values)
            if result is not None:
                self._check_type(hook, implementation.plugin, result, type_)
                return result
        return None

    def _records(self, hook: str, type_: type[Any], **values: Any) -> list[tuple[PluginState, Any]]:
        records = []
        for implementation in self._hooks[hook]:
            result = self._call(hook, implementation, values)
            if result is None:
                continue
            self._check_type(hook, implementation.plugin, result, (list, tuple))
            for record in result:
                self._check_type(hook, implementation.plugin, record, type_)
                records.append((implementation.plugin, record))
        return records

    @staticmethod
    def _check_type(
        hook: str, plugin: PluginState, result: Any, type_: type[Any] | tuple[type[Any], ...]
    ) -> None:
        if not isinstance(result, type_):
            wanted = "a list" if isinstance(type_, tuple) else type_.__name__
            raise PluginError(
                f"plugin {plugin.label} returned {type(result).__name__} from {hook}, not {wanted}",
                "report this to its authors; DORY_PLUGINS=NAME,... leaves it out",
            )


def discover(selection: str | None) -> Plugins:
    """Find and load plugins; selection: entry point names, comma separated, None for all."""
    plugins = Plugins()
    wanted = None if selection is None else [n.strip() for n in selection.split(",") if n.strip()]
    found = sorted(
        entry_points(group=GROUP), key=lambda e: (e.name, e.dist.name if e.dist else "", e.value)
    )
    for entry in found:
        dist = entry.dist
        state = PluginState(
            dist.name if dist else "", dist.version if dist else "", entry.name, "loaded"
        )
        if wanted is not None and entry.name not in wanted:
            plugins._states.append(replace(state, state="skipped", reason="not in DORY_PLUGINS"))
            continue
        plugins._add(state, functools.partial(import_entry, entry))
    for name in wanted or ():
        if all(entry.name != name for entry in found):
            reason = "named by DORY_PLUGINS but not installed"
            plugins._states.append(PluginState("", "", name, "missing", reason))
            log.warning("plugin %s is %s", name, reason)
    return plugins


@functools.cache
def _load(selection: str | None) -> Plugins:
    return discover(selection)


def load_plugins() -> Plugins:
    """Return the plugins that are installed, restricted by ``DORY_PLUGINS``; loaded once."""
    return _load(os.environ.get("DORY_PLUGINS"))
