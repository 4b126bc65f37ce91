"""QuantLab frontend of dory: integer networks as the QuantLab quantiser exports them.

This module is the plugin: it declares the frontend and imports nothing heavy.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dory_core.api import hookimpl

if TYPE_CHECKING:
    from dory_core.api import Frontend, FrontendOptions, Graph


def _read(path: Path, options: FrontendOptions) -> Graph:
    from dory_quantlab.dialect import parse

    return parse(path, options)


@hookimpl
def dory_frontends() -> list[Frontend]:
    """Return the frontend ``quantlab``."""
    from dory_core.api import Frontend

    return [Frontend("quantlab", "networks of the QuantLab quantiser (its integer ONNX)", _read)]
