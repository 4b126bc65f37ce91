"""The plugin module of the toy frontend: its files are the text form of a Graph."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dory_core.api import Graph, NotSupported, hookimpl
from dory_core.importing import Frontend, FrontendOptions

NAME = "plain"


def _read(path: Path, options: FrontendOptions) -> Graph:
    from dory_core.ir.parse import parse_graph

    try:
        return parse_graph(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NotSupported(f"{path}: not a network in text form ({error})") from error


@hookimpl
def dory_frontends() -> list[Frontend]:
    return [Frontend(NAME, "the text form of networks", _read)]


def reading(graph: Graph, ties_even: bool = False) -> Any:
    """Return a plugin whose frontend ``built`` reads this graph from any file."""

    @hookimpl
    def dory_frontends() -> list[Frontend]:
        summary = "a graph of the tests"
        return [Frontend("built", summary, lambda path, options: graph, ties_even=ties_even)]

    return SimpleNamespace(dory_frontends=dory_frontends)
