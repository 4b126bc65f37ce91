"""Type checks of the answers of hooks; an error names the plugin and the hook."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from dory_core.errors import DoryError, PluginError
from dory_core.plugins import hookspecs
from dory_core.plugins.discovery import PluginState
from dory_core.plugins.hooks import MARKER, Hook, Refused, describe, specifications

if TYPE_CHECKING:
    from dory_core.hardware.target import Target
    from dory_core.plugins.frontend import Frontend

_LEAVE_OUT = "report this to its authors; DORY_PLUGINS=NAME,... leaves it out"
#: Module and class of the record that a hook returns, as such or in a list. The module is imported
#: when the hook is asked.
_RECORDS = {
    "dory_frontends": ("dory_core.plugins.frontend", "Frontend"),
    "dory_operators": ("dory_core.ir", "Operator"),
    "dory_targets": ("dory_core.hardware.target", "Target"),
    "dory_memory_hierarchy": ("dory_core.hardware.memories", "MemoryHierarchy"),
    "dory_kernels": ("dory_core.kernels.kernel", "Kernel"),
    "dory_objective_terms": ("dory_core.kernels.kernel", "Term"),
    "dory_dma_hal": ("dory_core.hardware.target", "DmaHal"),
    "dory_passes": ("dory_core.passes", "Pass"),
    "dory_application": ("dory_core.hardware.target", "OutputFile"),
    "dory_runners": ("dory_core.simulate.runner", "Runner"),
    "dory_reports": ("dory_core.hardware.target", "OutputFile"),
    "dory_functions": ("types", "FunctionType"),
}
#: Hooks whose records are classes.
_OF_CLASSES = frozenset({"dory_operators"})
#: Hooks without which an application can be made: a plugin that fails there is left out.
_DISPENSABLE = frozenset({"dory_reports", "dory_functions", "dory_commands"})


class Answer(list[Any]):
    """The records that a plugin returned from a hook, with the plugin."""

    def __init__(self, plugin: PluginState, records: Iterable[Any]) -> None:
        super().__init__(records)
        self.plugin = plugin


def guarded(
    plugin: PluginState, hook: Hook, warn: Callable[[PluginState, str], None]
) -> Callable[..., Any]:
    """Return the function that pluggy calls in place of a hook, with all specified parameters.

    It returns one checked record where the first result wins, otherwise an :class:`Answer` of
    checked records, and None where the plugin has no answer. Its errors name the plugin. Errors of
    a hook that an application does not need become warnings.

    Args:
        plugin: The plugin that implements the hook.
        hook: The hook to call.
        warn: Function that reports a warning about a plugin.
    """
    specification = getattr(hookspecs, hook.name)
    names = specifications()[hook.name]

    def taken(values: tuple[Any, ...]) -> dict[str, Any]:
        return {n: v for n, v in zip(names, values, strict=True) if n in hook.parameters}

    @functools.wraps(specification)  # pluggy reads the parameters there
    def guard(*values: Any) -> Any:
        try:
            with _blamed(plugin, hook):
                answer = _ask(hook, taken(values))
            return _checked_answer(plugin, hook, answer)
        except DoryError as error:
            if hook.name not in _DISPENSABLE:
                raise
            warn(plugin, error.message)
            return None

    @functools.wraps(specification)
    def wrapper(*values: Any) -> Generator[None, Any, Any]:
        with _blamed(plugin, hook):
            answer = yield from hook.function(**taken(values))
        return _checked_answer(plugin, hook, answer)

    function = wrapper if hook.options["wrapper"] else guard
    return cast("Callable[..., Any]", MARKER(function, **hook.options))


@contextmanager
def _blamed(plugin: PluginState, hook: Hook) -> Iterator[None]:
    """Turn every exception of a hook except dory's own errors into a PluginError of the plugin."""
    try:
        yield
    except PluginError as error:  # an invalid record, whose message does not name the plugin
        if hook.options["wrapper"]:  # the error of a wrapped plugin
            raise
        reason = f"plugin {plugin.label} failed in {hook.name}: {error.message}"
        raise PluginError(reason, error.hint) from error
    except DoryError:
        raise
    except Exception as error:
        reason = f"plugin {plugin.label} failed in {hook.name}: {describe(error)}"
        raise PluginError(reason, _LEAVE_OUT) from error


def _ask(hook: Hook, values: Mapping[str, Any]) -> Any:
    if hook.name == "dory_commands":
        return [*_commands(hook).items()]
    return hook.function(**values)


def _checked_answer(plugin: PluginState, hook: Hook, answer: Any) -> Any:
    """Return a valid answer; raises PluginError.

    None in place of a list is an error of a function that is marked with a target.
    """
    if first_result(hook.name):
        if answer is None:
            return None
        return checked(hook.name, plugin, answer, record_type(hook.name))
    if answer is None and not hook.targets:
        return None
    records = checked(hook.name, plugin, answer, list, tuple)
    if hook.options["wrapper"]:  # a list of the wrapped plugins' answers
        return [a if isinstance(a, Answer) else _answer(plugin, hook, a) for a in records]
    return _answer(plugin, hook, records)


def _answer(plugin: PluginState, hook: Hook, records: Any) -> Answer:
    type_ = tuple if hook.name == "dory_commands" else record_type(hook.name)
    check = _checked_class if hook.name in _OF_CLASSES else checked
    return Answer(plugin, (check(hook.name, plugin, record, type_) for record in records))


def first_result(hook: str) -> bool:
    """Return True for a hook whose result is the record of the first plugin that returns one."""
    return bool(getattr(hookspecs, hook).dory_spec["firstresult"])


def record_type(hook: str) -> type[Any]:
    """Return the class of the records that a hook returns."""
    module, name = _RECORDS[hook]
    return cast("type[Any]", getattr(importlib.import_module(module), name))


def _commands(hook: Hook) -> Mapping[str, Any]:
    """Return the commands that a plugin adds, objects of click by name."""
    import typer

    app = typer.Typer(add_completion=False, rich_markup_mode=None)  # as dory itself
    app.callback()(_no_operation)
    hook.function(**dict.fromkeys(hook.parameters, app))
    return cast("Mapping[str, Any]", cast(Any, typer.main.get_command(app)).commands)


def _no_operation() -> None:
    """Keep a Typer of a single command a group."""


def checked(name: str, plugin: PluginState, answer: Any, *types: type[Any]) -> Any:
    """Return an answer after a check of its type.

    Args:
        name: Name of the hook.
        plugin: The plugin that answered.
        answer: What it returned.
        types: Types of which the answer must have one.

    Raises:
        PluginError: When the answer has another type.
    """
    if isinstance(answer, types):
        return answer
    wanted = "a list" if len(types) > 1 else types[0].__name__
    got = "None" if answer is None else type(answer).__name__
    raise PluginError(f"plugin {plugin.label} returned {got} from {name}, not {wanted}", _LEAVE_OUT)


def _checked_class(name: str, plugin: PluginState, answer: Any, type_: type[Any]) -> Any:
    """Return a class that derives from a type and has all its methods; raises PluginError."""
    if not isinstance(answer, type) or not issubclass(answer, type_):
        got = answer.__name__ if isinstance(answer, type) else type(answer).__name__
        reason = f"returned {got} from {name}, not a class that derives from {type_.__name__}"
    elif missing := sorted(getattr(answer, "__abstractmethods__", ())):
        reason = f"returned {answer.__name__} from {name}, which has no {', '.join(missing)}"
    else:
        return answer
    raise PluginError(f"plugin {plugin.label} {reason}", _LEAVE_OUT)


def offers(hooks: Mapping[str, Hook], name: str) -> list[Any]:
    """Return the records of a hook without parameters; raises Refused."""
    if name not in hooks:
        return []
    try:
        records = hooks[name].function()
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
    """Refuse frontends or targets without a name, or with a name that is taken.

    Args:
        kind: ``frontend`` or ``target``, for messages.
        records: The records that a plugin provides.
        known: Records of other plugins by name, each with its plugin.
        state: The plugin that provides ``records``.

    Raises:
        Refused: With the reason.
    """
    seen: set[str] = set()
    for record in records:
        if not record.name:
            raise Refused(f"it provides a {kind} without a name")
        if record.name in seen:
            raise Refused(f"it provides {kind} {record.name!r} twice")
        seen.add(record.name)
        if record.name in known:
            owner = known[record.name][1].label
            raise Refused(
                f"{kind} {record.name!r} is provided by both {owner} and {state.label}; "
                f"the first one is used (DORY_PLUGINS=NAME,... chooses)"
            )
