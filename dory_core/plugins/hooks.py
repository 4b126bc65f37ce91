"""Marking the hooks of a plugin, and reading them; pluggy registers and calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, overload

import pluggy

from dory_core.plugins import hookspecs

#: Version of the hooks and of ``dory_core.api``. A plugin names the one it needs as ``DORY_API``.
API_VERSION = 1

MARKER = pluggy.HookimplMarker(hookspecs.PROJECT)
_OPTIONS = f"{hookspecs.PROJECT}_impl"  # attribute in which pluggy's marker stores its options
_TARGETS = f"{hookspecs.PROJECT}_targets"
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Refused(Exception):
    """A plugin cannot be used; the text is the reason."""


@overload
def hookimpl(function: _Function) -> _Function: ...
@overload
def hookimpl(
    *, target: str | tuple[str, ...] = (), first: bool = False, wrapper: bool = False
) -> Callable[[_Function], _Function]: ...
def hookimpl(
    function: Any = None,
    *,
    target: str | tuple[str, ...] = (),
    first: bool = False,
    wrapper: bool = False,
) -> Any:
    """Mark a function of a plugin as its implementation of the hook of the same name.

    It is pluggy's marker with a target in addition.

    Args:
        function: The function to mark.
        target: Names of the targets that the function answers for; it is not called for other
            targets. Another plugin may provide the target. Without a name the function is called
            for every target and may read ``ctx.name``.
        first: True when the answers go before those of the plugin that provides the target
            (pluggy's ``tryfirst``), as for kernels that are preferred to the target's own.
            Otherwise they go after them.
        wrapper: True for a generator that yields once, receives the answers of the other plugins
            and returns their replacement (pluggy's ``wrapper``).

    >>> @hookimpl(target="blinky")
    ... def dory_dma_hal(ctx):
    ...     return DmaHal(any_core=False)
    """
    targets = (target,) if isinstance(target, str) else tuple(target)

    def mark(function: _Function) -> _Function:
        setattr(function, _TARGETS, targets)
        return MARKER(function, tryfirst=first, wrapper=wrapper)

    return mark if function is None else mark(function)


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook as a plugin implements it.

    Attributes:
        name: Name of the hook.
        function: The plugin's function.
        parameters: Parameters of the specification that the function takes.
        targets: Targets that the function answers for, empty for all.
        options: Options of pluggy's marker.
    """

    name: str
    function: Callable[..., Any]
    parameters: tuple[str, ...]
    targets: tuple[str, ...]
    options: Mapping[str, Any]

    def answers_for(self, target: str | None) -> bool:
        """Return True when the function is called for a target."""
        return not self.targets or target in self.targets


@cache
def specifications() -> Mapping[str, tuple[str, ...]]:
    """Return the parameter names of every hook, in the order of their definition."""
    hooks = {n: f for n, f in vars(hookspecs).items() if n.startswith("dory_")}
    return {name: tuple(inspect.signature(f).parameters) for name, f in hooks.items()}


def hooks_of(plugin: Any) -> dict[str, Hook]:
    """Return the hooks of a module or object, in the order of the specifications.

    Raises: Refused for a newer API, an unknown or unmarked hook, and a wrong signature.
    """
    _check_api(getattr(plugin, "DORY_API", API_VERSION))
    specs = specifications()
    hooks = {}
    for name in dir(plugin):
        function = getattr(plugin, name, None)
        options = getattr(function, _OPTIONS, None)
        if callable(function) and isinstance(options, dict):
            if name not in specs:
                known = ", ".join(specs)
                raise Refused(f"unknown hook {name} (this version of dory-core has: {known})")
            hooks[name] = _hook(name, function, options)
        elif name in specs and callable(function):
            raise Refused(f"{name} is not marked with dory_core.api.hookimpl")
    return {name: hooks[name] for name in specs if name in hooks}


def _check_api(wanted: Any) -> None:
    if not isinstance(wanted, int) or wanted < 1:
        raise Refused(f"DORY_API must be a positive integer, not {wanted!r}")
    if wanted > API_VERSION:
        raise Refused(
            f"it needs plugin API {wanted}, this dory-core has API {API_VERSION}: "
            "upgrade dory-core or install an older version of the plugin"
        )


def _hook(name: str, function: Callable[..., Any], options: dict[str, Any]) -> Hook:
    offered = specifications()[name]
    targets: tuple[str, ...] = getattr(function, _TARGETS, ())
    if targets and "ctx" not in offered:
        raise Refused(f"{name} is marked with a target, but is not called for one")
    if options["wrapper"] and "ctx" not in offered:
        raise Refused(f"{name} is marked as a wrapper, but is not called for a target")
    if options["wrapper"] and not inspect.isgeneratorfunction(function):
        raise Refused(f"{name} is marked as a wrapper, but does not yield")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise Refused(f"wrong signature: {name} has none ({describe(error)})") from error
    taken = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise Refused(f"wrong signature: {name} must name its parameters, without * and **")
        if parameter.name in offered:
            taken.append(parameter.name)
        elif parameter.default is parameter.empty:
            offers = ", ".join(offered) or "nothing"
            raise Refused(
                f"wrong signature: {name} has a parameter {parameter.name!r}, dory offers {offers}"
            )
    return Hook(name, function, tuple(taken), targets, options)


def describe(error: BaseException) -> str:
    """Return ``TypeOfError: text`` on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
