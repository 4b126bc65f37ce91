"""What hooks answer: of the declared type, or an error that names the plugin and the hook."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from dory_core.discovery import PluginState
from dory_core.errors import DoryError, PluginError
from dory_core.hooks import Hook, Refused, describe

# `dory --help` loads this module: it does without the records.
if TYPE_CHECKING:
    from dory_core.frontend import Frontend
    from dory_core.target import Target

_LEAVE_OUT = "report this to its authors; DORY_PLUGINS=NAME,... leaves it out"
#: Records that hooks return, alone or in a list; a module is imported when its hook is asked.
_RECORDS = {
    "dory_frontends": ("dory_core.frontend", "Frontend"),
    "dory_targets": ("dory_core.target", "Target"),
    "dory_memory_hierarchy": ("dory_core.hardware", "MemoryHierarchy"),
    "dory_kernels": ("dory_core.kernel", "Kernel"),
    "dory_objective_terms": ("dory_core.kernel", "Term"),
    "dory_dma_hal": ("dory_core.target", "DmaHal"),
    "dory_passes": ("dory_core.passes", "Pass"),
    "dory_application": ("dory_core.target", "OutputFile"),
    "dory_runners": ("dory_core.simulate.runner", "Runner"),
    "dory_reports": ("dory_core.target", "OutputFile"),
}


def record_type(hook: str) -> type[Any]:
    """Return the class of the records that a hook returns."""
    module, name = _RECORDS[hook]
    return cast("type[Any]", getattr(importlib.import_module(module), name))


def ask(plugin: PluginState, hook: Hook, values: Mapping[str, Any]) -> Any:
    """Return what a plugin says for the target of ``values``, None when it is not its target.

    Raises: PluginError where the plugin fails, and what it raises of dory's own errors.
    """
    try:
        return hook(values) if hook.answers_for(values) else None
    except PluginError as error:  # of a record that cannot be: it does not know whose it is
        reason = f"plugin {plugin.label} failed in {hook.name}: {error.message}"
        raise PluginError(reason, error.hint) from error
    except DoryError:
        raise
    except Exception as error:
        reason = f"plugin {plugin.label} failed in {hook.name}: {describe(error)}"
        raise PluginError(reason, _LEAVE_OUT) from error


def records_of(plugin: PluginState, hook: Hook, values: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the records that a plugin returns in a list. Raises: PluginError."""
    answer = ask(plugin, hook, values)
    if answer is None and not _must_answer(hook, values):
        return
    for record in checked(hook.name, plugin, answer, list, tuple):
        yield checked(hook.name, plugin, record, record_type(hook.name))


def _must_answer(hook: Hook, values: Mapping[str, Any]) -> bool:
    """Return whether None is a forgotten list: the function is marked with that target."""
    return bool(hook.targets) and hook.answers_for(values)


def commands_of(plugin: PluginState, hook: Hook) -> Mapping[str, Any]:
    """Return the commands that a plugin adds by name, as objects of click. Raises: PluginError."""
    import typer

    app = typer.Typer(add_completion=False, rich_markup_mode=None)  # as dory itself
    app.callback()(_no_operation)

    def add(**arguments: Any) -> Any:
        hook.function(**arguments)
        return cast(Any, typer.main.get_command(app)).commands

    return cast("Mapping[str, Any]", ask(plugin, replace(hook, function=add), {"app": app}))


def _no_operation() -> None:
    """Keep a Typer of a single command a group."""


def checked(name: str, plugin: PluginState, answer: Any, *types: type[Any]) -> Any:
    """Return an answer that is of one of these types; raises PluginError."""
    if isinstance(answer, types):
        return answer
    wanted = "a list" if len(types) > 1 else types[0].__name__
    got = "None" if answer is None else type(answer).__name__
    raise PluginError(f"plugin {plugin.label} returned {got} from {name}, not {wanted}", _LEAVE_OUT)


def offers(hooks: Mapping[str, Hook], name: str) -> list[Any]:
    """Return the records of a hook without parameters; raises Refused."""
    if name not in hooks:
        return []
    try:
        records = hooks[name]({})
    except (Exception, SystemExit) as error:
        raise Refused(f"{name} raised {describe(error)}") from error
    if not isinstance(records, (list, tuple)):
        got = "None" if records is None else type(records).__name__
        raise Refused(f"{name} returned {got}, not a list")
    type_ = record_type(name)
    for record in records:
        if not isinstance(record, type_):
            raise Refused(f"{name} returned a {type(record).__name__}, not a {type_.__name__}")
    return list(records)


def check_clash(
    kind: str,
    records: Iterable[Frontend] | Iterable[Target],
    known: Mapping[str, tuple[Any, PluginState]],
    state: PluginState,
) -> None:
    """Refuse records without a name or of one that a plugin provides already. Raises: Refused."""
    seen: set[str] = set()
    for record in records:
        if not record.name:
            raise Refused(f"it provides a {kind} without a name")
        if record.name in seen:
            raise Refused(f"it provides {kind} {record.name!r} twice")
        seen.add(record.name)
        if record.name in known:
            other = known[record.name][1].label
            raise Refused(
                f"{kind} {record.name!r} is provided by both {other} and {state.label}; "
                f"the first one is used (DORY_PLUGINS=NAME,... chooses)"
            )
