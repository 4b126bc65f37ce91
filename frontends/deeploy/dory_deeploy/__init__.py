"""Deeploy frontend of dory: integer networks with RequantShift nodes.

This module is the plugin: it declares the frontend and imports nothing heavy.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dory_core.api import hookimpl

if TYPE_CHECKING:
    from dory_core.api import Graph
    from dory_core.importing import Frontend, FrontendOptions, ReadOperator


def _read(path: Path, options: FrontendOptions) -> Graph:
    from dory_deeploy.dialect import parse

    return parse(path, options)


def _recognises(path: Path) -> bool:
    from dory_onnx import holds

    return holds(path, ("RequantShift", "div"), ("QuantizeLinear", "QLinear"))


def _operators() -> list[ReadOperator]:
    from dory_onnx import read_operators

    from dory_deeploy.dialect import DeeployDialect

    return read_operators(DeeployDialect())


@hookimpl
def dory_frontends() -> list[Frontend]:
    """Return the frontend ``deeploy``."""
    from dory_core.importing import Frontend

    summary = "networks of Deeploy (integer ONNX with RequantShift)"
    return [Frontend("deeploy", summary, _read, _recognises, operators=_operators)]
