"""dory frontend: ${n.name}."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dory_core.api import hookimpl

if TYPE_CHECKING:
    from dory_core.api import Graph
    from dory_core.importing import Frontend, FrontendOptions

DORY_API = 1


def read(path: Path, options: FrontendOptions) -> Graph:
    """Return the integer network of a file; the heavy imports wait until one is read."""
    from ${n.package}.dialect import parse

    return parse(path, options)


@hookimpl
def dory_frontends() -> list[Frontend]:
    """Return the dialect."""
    from dory_core.importing import Frontend

    return [Frontend("${n.name}", "ONNX as ${n.name} exports it", read)]
