"""QuantLab frontend of dory: integer networks as the QuantLab quantiser exports them.

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
    from dory_quantlab.dialect import parse

    return parse(path, options)


def _recognises(path: Path) -> bool:
    from dory_onnx import OTHER_FORMS, holds

    return holds(path, ("weight_bits",), OTHER_FORMS)


def _operators() -> list[ReadOperator]:
    from dory_onnx import read_operators

    from dory_quantlab.dialect import QuantlabDialect

    return read_operators(QuantlabDialect())


@hookimpl
def dory_frontends() -> list[Frontend]:
    """Return the frontend ``quantlab``."""
    from dory_core.importing import Frontend

    summary = "networks of the QuantLab quantiser (its integer ONNX)"
    return [Frontend("quantlab", summary, _read, _recognises, operators=_operators)]
