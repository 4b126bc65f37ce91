"""QDQ frontend of dory: 8-bit ONNX networks, exact to onnxruntime's integer operators.

This module is the plugin: it declares the frontend and imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dory_core.api import hookimpl

if TYPE_CHECKING:
    import numpy.typing as npt
    import typer

    from dory_core.api import Graph
    from dory_core.importing import Frontend, FrontendOptions, GoldenRequest, ReadOperator


def _read(path: Path, options: FrontendOptions) -> Graph:
    from dory_qdq.importer import parse

    return parse(path, options)


def _recognises(path: Path) -> bool:
    """Also for float networks, which are refused with the command that quantises them."""
    from dory_onnx import OTHER_FORMS, holds, is_float

    if holds(path, ("QuantizeLinear",), ()) or holds(path, ("QLinear",), ()):
        return True
    return holds(path, (), ("weight_bits", *OTHER_FORMS)) and is_float(path)


def _operators() -> list[ReadOperator]:
    from dory_qdq.known import read_operators

    return read_operators()


def _golden(path: Path, request: GoldenRequest) -> dict[str, npt.NDArray[Any]]:
    from dory_qdq.golden import golden_of

    return golden_of(path, request)


@hookimpl
def dory_frontends() -> list[Frontend]:
    """Return the frontend ``qdq``."""
    from dory_core.importing import Frontend

    summary = "QDQ and QOperator ONNX of 8 bits, exact to onnxruntime's integer operators"
    return [
        Frontend(
            "qdq", summary, _read, _recognises, ties_even=True, operators=_operators, golden=_golden
        )
    ]


@hookimpl
def dory_commands(app: typer.Typer) -> None:
    """Add ``dory quantize``."""
    from dory_qdq.quantize.command import quantize_

    app.command("quantize")(quantize_)


@hookimpl
def dory_functions() -> list[Callable[..., Any]]:
    """Return ``dory.quantize``."""
    from dory_qdq.quantize.function import quantize

    return [quantize]
