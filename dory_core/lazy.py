"""Namespaces whose names are imported when they are first asked for.

The names of a namespace are listed once, in a stub beside its module: ``api.pyi`` has lines such as
``from dory_core.kernels.kernel import Kernel as Kernel``. Type checkers read the stub, and so does
:func:`namespace`.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def homes(file: str) -> dict[str, str]:
    """Return the module of each name in the stub beside a module; file: of the module."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}


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
