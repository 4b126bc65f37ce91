"""TensorFlow Lite frontend of dory: int8 .tflite files, exact to TensorFlow Lite Micro.

This module is the plugin: it declares the frontend and imports nothing heavy.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dory_core.api import hookimpl

if TYPE_CHECKING:
    import numpy.typing as npt

    from dory_core.api import Graph
    from dory_core.importing import Frontend, FrontendOptions, GoldenRequest, ReadOperator, desktop


def _read(path: Path, options: FrontendOptions) -> Graph:
    from dory_tflite.importer import parse

    return parse(path, options)


def _recognises(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(8)[4:] == b"TFL3"
    except OSError:
        return False


def _desktop(path: Path) -> desktop.Desktop:
    from dory_tflite.desktop import load_desktop

    return load_desktop(path)


def _operators() -> list[ReadOperator]:
    from dory_tflite.operators import read_operators

    return read_operators()


def _golden(path: Path, request: GoldenRequest) -> dict[str, npt.NDArray[Any]]:
    from dory_tflite.golden_request import golden_of

    return golden_of(path, request)


@hookimpl
def dory_frontends() -> list[Frontend]:
    """Return the frontend ``tflite``."""
    from dory_core.importing import Frontend

    summary = "TensorFlow Lite files of 8-bit and 16x8 networks, exact to TensorFlow Lite Micro"
    return [
        Frontend(
            "tflite",
            summary,
            _read,
            _recognises,
            _desktop,
            operators=_operators,
            golden=_golden,
        )
    ]
