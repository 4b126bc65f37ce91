"""Namespaces whose names are imported when they are first asked for.

Each lists its names by module; the stub beside it (``api.pyi``) says the same to type checkers, and
a test compares both.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def homes(names_of: Mapping[str, str]) -> dict[str, str]:
    """Return the module of each name. names_of: by module, separated by spaces."""
    return {name: module for module, names in names_of.items() for name in names.split()}


def namespace(
    module: str, names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module with the names of :func:`homes`."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home = importlib.import_module(names[name])
        if not hasattr(home, name):  # a module of a package
            return importlib.import_module(f"{names[name]}.{name}")
        return getattr(home, name)

    return get, lambda: sorted(names)
