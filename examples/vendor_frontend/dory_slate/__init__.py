"""dory frontend: Slate, layers of integers as JSON.

This module is the plugin: it declares the frontend and imports nothing heavy.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dory_core.api import hookimpl

if TYPE_CHECKING:
    from dory_core.api import Graph
    from dory_core.importing import Frontend, FrontendOptions, ReadOperator

DORY_API = 1


def _read(path: Path, options: FrontendOptions) -> Graph:
    """Return the network of a file. The file states all that ``options`` could."""
    from dory_slate.reader import parse

    return parse(path)


def _recognises(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16).replace(b" ", b"").startswith(b'{"slate":')


def _operators() -> list[ReadOperator]:
    from dory_core.importing import ReadOperator

    return [
        ReadOperator("conv", "Conv", ("it requantises by a factor and a shift",)),
        ReadOperator("dense", "Linear", ("it requantises by a factor and a shift",)),
        ReadOperator("maximum", "MaxPool"),
        ReadOperator("sum", "Add", ("it requantises by one factor and a shift",)),
    ]


@hookimpl
def dory_frontends() -> list[Frontend]:
    """Return the frontend."""
    from dory_core.importing import Frontend

    summary = "layers of integers as JSON"
    return [Frontend("slate", summary, _read, _recognises, operators=_operators)]
