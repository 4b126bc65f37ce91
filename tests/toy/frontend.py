"""The plugin module of the toy frontend: the plain reading of integer ONNX."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dory_core.api import Frontend, FrontendOptions, Graph, hookimpl

NAME = "plain"


def _read(path: Path, options: FrontendOptions) -> Graph:
    from dory_core.api import Dialect, import_onnx

    return import_onnx(path, options, Dialect())


@hookimpl
def dory_frontends() -> list[Frontend]:
    return [Frontend(NAME, "integer ONNX, read as it stands", _read)]


def reading(graph: Graph) -> Any:
    """Return a plugin whose frontend ``built`` reads this graph from any file."""

    @hookimpl
    def dory_frontends() -> list[Frontend]:
        return [Frontend("built", "a graph of the tests", lambda path, options: graph)]

    return SimpleNamespace(dory_frontends=dory_frontends)
