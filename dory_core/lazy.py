"""Namespaces whose names are imported when they are first asked for.

Each lists its names by module; the stub beside it (``api.pyi``) says the same to type checkers, and
a test compares both.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def homes(names_of: Mapping[str, str]) -> dict[str, str]:
    """Return the module of each name. names_of: by module, separated by spaces."""
    return {name: module for module, names in names_of.items() for name in names.split()}


def namespace(
    module: str, names: Mapping[str, str], moved_to: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a namespace.

    Args:
        module: the name of the namespace.
        names: the module of each name, from :func:`homes`.
        moved_to: namespaces that hold names which this one had in earlier versions. Such a name
            still works here, with a DeprecationWarning.
    """

    def get(name: str) -> Any:
        if name in names:
            home = importlib.import_module(names[name])
            if not hasattr(home, name):  # a module of a package
                return importlib.import_module(f"{names[name]}.{name}")
            return getattr(home, name)
        for other in () if name.startswith("_") else moved_to:
            found = importlib.import_module(other)
            if name in dir(found):
                text = f"{module}.{name} is {other}.{name} now"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                return getattr(found, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return get, lambda: sorted(names)
