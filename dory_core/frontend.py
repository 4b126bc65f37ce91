"""What a dialect plugin needs: the record it contributes and the shared ONNX import.

A plugin subclasses :class:`Dialect` for what is its own and returns a :class:`Frontend` whose
reader calls :func:`import_onnx` with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dory_core.frontends_common.arithmetic import Step, requants_of
from dory_core.frontends_common.dialect import (
    AddMeaning,
    Dialect,
    FrontendOptions,
    Operand,
    normal_add,
)
from dory_core.frontends_common.importer import import_onnx
from dory_core.ir import Graph
from dory_core.onnx_model import Node

__all__ = [
    "AddMeaning",
    "Dialect",
    "Frontend",
    "FrontendOptions",
    "Node",
    "Operand",
    "Step",
    "import_onnx",
    "normal_add",
    "requants_of",
]


@dataclass(frozen=True, slots=True)
class Frontend:
    """A way to read networks of one ONNX dialect.

    name: what ``--frontend`` takes. summary: one line for ``dory frontends``.
    reader: reads a file; it imports what it needs when it is called.
    """

    name: str
    summary: str
    reader: Callable[[Path, FrontendOptions], Graph]

    def parse(self, path: Path, options: FrontendOptions | None = None) -> Graph:
        """Return the integer network of an ONNX file.

        Raises: UsageError when the file is missing, NotSupported when it cannot be computed exactly.
        """
        return self.reader(Path(path), options or FrontendOptions())
