"""NEMO frontend of dory: integer networks as the NEMO quantiser exports them.

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
    from dory_nemo.dialect import parse

    return parse(path, options)


def _recognises(path: Path) -> bool:
    from dory_onnx import OTHER_FORMS, holds, is_float

    return holds(path, (), ("weight_bits", *OTHER_FORMS)) and not is_float(path)


def _operators() -> list[ReadOperator]:
    from dory_onnx import read_operators

    from dory_nemo.dialect import NemoDialect

    return read_operators(NemoDialect())


@hookimpl
def dory_frontends() -> list[Frontend]:
    """Return the frontend ``nemo``."""
    from dory_core.importing import Frontend

    summary = "networks of the NEMO quantiser (integer-deployable ONNX)"
    return [Frontend("nemo", summary, _read, _recognises, operators=_operators)]
