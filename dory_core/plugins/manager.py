"""Finding, loading and asking plugins.

Entry points of group ``dory`` name plugin modules. :func:`load_plugins` imports them in a fixed
order (entry point name, then distribution). A broken plugin is left out with its reason, and the
others are loaded. pluggy calls their hooks. Nothing is imported before the first call.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pluggy

from dory_core.errors import DoryError, PluginError
from dory_core.plugins import hookspecs
from dory_core.plugins.answers import guarded
from dory_core.plugins.discovery import PluginState, installed
from dory_core.plugins.registry import Registry, log

if TYPE_CHECKING:
    from dory_core.codegen.application_record import Application
    from dory_core.hardware.target import DmaHal, OutputFile, TargetContext
    from dory_core.ir import Layer, Operator
    from dory_core.ir.geometry import Tile
    from dory_core.kernels.kernel import Kernel, Term
    from dory_core.passes import Pass
    from dory_core.simulate.runner import Runner


class Plugins(Registry):
    """The plugins of one process: what they provide, and their hooks by target.

    Made by :func:`load_plugins` or, with given plugin objects, by :meth:`from_objects`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._managers: dict[str | None, pluggy.PluginManager] = {}
        self._kernel_owners: dict[tuple[str, str], PluginState] = {}

    @classmethod
    def from_objects(cls, **objects: Any) -> Plugins:
        """Return Plugins made of modules or other objects with hooks, by name; for tests."""
        plugins = cls()
        for name, plugin in objects.items():
            plugins.add(PluginState("", "", name, "loaded"), functools.partial(_same, plugin))
        return plugins

    def context(self, target: str, settings: Mapping[str, str] | None = None) -> TargetContext:
        """Return the complete context of a target.

        Args:
            target: Name of the target.
            settings: Target options (``--set``) as text.

        Raises:
            UsageError: For an unknown target, option or value.
            PluginError: When no plugin describes the target's memories.
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

    def problem(self, target: str) -> str:
        """Return why hooks of a target fail, with its default options; empty when none does.

        Hooks that are called for a layer or an application are not asked.
        """
        try:
            ctx = self.context(target)
            self.dma_hal(ctx), self.passes(ctx), self.runners(ctx)
        except DoryError as error:
            return error.message
        return ""

    def note_failing_targets(self) -> None:
        """Note which plugins provide a target whose hooks fail."""
        for target in self.targets():
            if reason := self.problem(target.name):
                self.note(self.provider("target", target.name), f"target {target.name}: {reason}")

    def kernels(self, ctx: TargetContext, layer: Layer) -> tuple[Kernel, ...]:
        """Return the candidates of all plugins for ``layer``, best first; see ``hookimpl``.

        A name belongs to the plugin that offered it first. A kernel of that name from another
        plugin is left out, and the clash is reported. Raises: PluginError when a plugin fails.
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

    def operators(self) -> tuple[type[Operator], ...]:
        """Return the kinds of layers of all plugins, beyond those of the core, in load order.

        A kind whose name is taken is left out, and the clash is reported.
        """
        from dory_core.ir.ops import KINDS

        owners, operators = {kind.__name__: "dory" for kind in KINDS}, []
        for plugin, kind in _records(self._hooks().dory_operators()):
            name = kind.__name__
            if name in owners:
                self._warn_of_clash(plugin, "operator", name, owners[name])
            else:
                owners[name] = plugin.label
                operators.append(kind)
        return tuple(operators)

    def foreign_kernels(self, target: str) -> Mapping[str, str]:
        """Return the kernels that other plugins than the target's own offered for it.

        The result maps the name of each kernel to the label of its plugin.
        """
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
        """Return True when a plugin implements ``dory_application`` for the target.

        A hook without a target counts for the plugin that provides the target.
        """
        provider = self.provider("target", ctx.name)
        hooks = ((p.state, p.hooks.get("dory_application")) for p in self._loaded)
        return any(
            hook is not None and (ctx.name in hook.targets if hook.targets else plugin is provider)
            for plugin, hook in hooks
        )

    def application(self, ctx: TargetContext, application: Application) -> tuple[OutputFile, ...]:
        """Return the application files of all plugins; raises PluginError when two share a path."""
        files: dict[str, tuple[OutputFile, PluginState]] = {}
        answers = self._hooks(ctx).dory_application(ctx=ctx, application=application)
        for plugin, file in _records(answers):
            if file.path in files:
                first = files[file.path][1].label
                raise PluginError(
                    f"application file {file.path!r} comes from both {first} and {plugin.label}",
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
        """Return the files of ``dory_reports``; a failure or a taken path becomes a warning.

        Args:
            plan: The document of ``plan.json``.
            timeline: The document of ``timeline.json``.
            taken: Paths of the application's other files.
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

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the functions of all plugins for Python, by name; a clash is reported."""
        functions: dict[str, Callable[..., Any]] = {}
        owners: dict[str, str] = {}
        for plugin, function in _records(self._hooks().dory_functions()):
            name = function.__name__
            if name in owners:
                self._warn_of_clash(plugin, "function", name, owners[name])
            else:
                owners[name], functions[name] = plugin.label, function
        return functions

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

    def _hooks(self, ctx: TargetContext | None = None) -> Any:
        """Return the hooks of all plugins as pluggy calls them, for a target or for none."""
        name = None if ctx is None else ctx.name
        if name not in self._managers:
            self._managers[name] = self._manager(name)
        return self._managers[name].hook

    def _manager(self, target: str | None) -> pluggy.PluginManager:
        """Return a plugin manager with the hooks that answer for a target.

        It asks first the hooks marked ``first``, then the plugin of the target, then the others,
        each in load order. pluggy asks the plugin that was registered last first.
        """
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        provider = self.provider("target", target) if target in self._targets else None
        order = sorted(self._loaded, key=lambda plugin: plugin.state is not provider)
        for plugin in reversed(order):
            hooks = {n: h for n, h in plugin.hooks.items() if h.answers_for(target)}
            guards = {name: guarded(plugin.state, h, self._warn) for name, h in hooks.items()}
            if guards:  # pluggy takes two namespaces without functions for one plugin
                manager.register(SimpleNamespace(**guards), plugin.state.label)
        return manager

    def _warn(self, plugin: PluginState, reason: str) -> None:
        """Note a reason, and log it once."""
        if self.note(plugin, reason):
            log.warning("%s", reason)

    def _warn_of_clash(self, plugin: PluginState, kind: str, name: str, owner: str) -> None:
        both = f"{owner} and {plugin.label}"
        self._warn(plugin, f"{kind} {name!r} is provided by both {both}; the first one is used")


def _same(plugin: Any) -> Any:
    return plugin


def _records(answers: Iterable[Any]) -> Iterator[tuple[PluginState, Any]]:
    """Yield the records of all plugins, each with its plugin."""
    return ((answer.plugin, record) for answer in answers for record in answer)


def _joined(answers: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(record for _, record in _records(answers))


def discover(selection: str | None, only_commands: bool = False) -> Plugins:
    """Find and load plugins.

    Args:
        selection: Entry point names separated by commas, None for all.
        only_commands: Load only the modules that group ``dory.commands`` names.
    """
    plugins = Plugins()
    wanted = None if selection is None else [n.strip() for n in selection.split(",") if n.strip()]
    found = [plugin for plugin in installed() if plugin.commands or not only_commands]
    for plugin in found:
        if wanted is None or plugin.state.entry in wanted:
            plugins.add(plugin.state, plugin.load)
        else:
            plugins.leave_out(replace(plugin.state, state="skipped", reason="not in DORY_PLUGINS"))
    if only_commands:
        return plugins
    for name in wanted or ():
        if all(plugin.state.entry != name for plugin in found):
            reason = "named by DORY_PLUGINS but not installed"
            plugins.leave_out(PluginState("", "", name, "missing", reason))
            log.warning("plugin %s is %s", name, reason)
    plugins.note_unknown_targets()
    return plugins


@functools.cache
def _load(selection: str | None, only_commands: bool) -> Plugins:
    return discover(selection, only_commands)


def load_plugins(only_commands: bool = False) -> Plugins:
    """Return the installed plugins, restricted by ``DORY_PLUGINS``; they are loaded once.

    only_commands: load only the plugins whose commands ``dory --help`` lists.
    """
    return _load(os.environ.get("DORY_PLUGINS"), only_commands)
