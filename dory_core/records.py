"""Frozen dataclasses with slots that are made quickly: the records of the core.

The decorator of the standard library compiles six methods for each class from text. For the 200
records that a compile imports this took as long as the rest of its start. Here ``__init__`` alone
is compiled, and the other methods read the names of the fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses

    def dataclass(*, frozen, slots, eq=True, kw_only=False):
        """As of the standard library, where ``frozen`` and ``slots`` are true.

        A class that ``dataclasses.dataclass`` makes frozen cannot derive from such a record, and
        ``InitVar`` is not known.
        """
        assert frozen and slots
        plain = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)

        def make(cls):
            if cls.__doc__ is None:
                cls.__doc__ = ""  # else a text with the signature is made of it
            made = plain(cls)
            for name, method in _methods(made, eq).items():
                if made.__dict__.get(name) is None:
                    setattr(made, name, method)
            return made

        return make


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _methods(cls: type[Any], eq: bool) -> dict[str, Callable[..., Any]]:
    every = fields(cls)
    names = [f.name for f in every]
    methods: dict[str, Callable[..., Any]] = {
        "__init__": _init(cls, every),
        "__repr__": _repr([f.name for f in every if f.repr]),
        "__setattr__": _refuse_set,
        "__delattr__": _refuse_delete,
        "__getstate__": _getstate(names),
        "__setstate__": _setstate(names),
    }
    if eq:
        compared = _values([f.name for f in every if f.compare])
        hashed = _values([f.name for f in every if (f.compare if f.hash is None else f.hash)])
        methods |= {"__eq__": _eq(compared), "__hash__": lambda self: hash(hashed(self))}
    return methods


def _init(cls: type[Any], every: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Return ``__init__``, compiled: it runs most often of all.

    It fills the slots themselves, which takes half of the time of ``object.__setattr__``.
    """
    names: dict[str, Any] = {"_FACTORY": _FACTORY}
    parameters: tuple[list[str], list[str]] = ([], ["*"])  # by position, by name alone
    body = []
    for f in every:
        default, value = "", f.name
        if f.default is not MISSING:
            names[f"_default_{f.name}"] = f.default
            default = value = f"_default_{f.name}"
        elif f.default_factory is not MISSING:
            names[f"_factory_{f.name}"] = f.default_factory
            default, value = "_FACTORY", f"_factory_{f.name}()"
            if f.init:
                value = f"{value} if {f.name} is _FACTORY else {f.name}"
        if f.init:
            parameters[f.kw_only is True].append(f"{f.name}={default}" if default else f.name)
            value = f.name if f.default is not MISSING else value
        if f.init or default:
            names[f"_set_{f.name}"] = getattr(cls, f.name).__set__
            body.append(f" _set_{f.name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    named = parameters[1] if len(parameters[1]) > 1 else []
    head = ", ".join(["self", *parameters[0], *named])
    exec("\n".join([f"def __init__({head}):", *(body or [" pass"])]), names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {f.name: f.type for f in every if f.init} | {"return": None}
    return init


def _values(names: list[str]) -> Callable[[Any], Any]:
    """Return what gives the values of some fields, as something to compare and to hash."""
    return attrgetter(*names) if names else lambda self: ()


def _eq(compared: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    return equal


def _repr(names: list[str]) -> Callable[[Any], str]:
    def text(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({values})"

    return text


def _refuse_set(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(names: list[str]) -> Callable[[Any], list[Any]]:
    return lambda self: [getattr(self, name) for name in names]


def _setstate(names: list[str]) -> Callable[[Any, list[Any]], None]:
    def restore(self: Any, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return restore
