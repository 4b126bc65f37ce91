"""What all ONNX dialects share: shapes, constants, chains of arithmetic, import of layers.

A dialect plugin subclasses :class:`Dialect` for what is its own and reads files with
:func:`import_onnx`.
"""

from dory_core.onnx_import.arithmetic import Step, requants_of
from dory_core.onnx_import.dialect import AddMeaning, Dialect, Operand, normal_add
from dory_core.onnx_import.importer import import_onnx
from dory_core.onnx_model import Node

__all__ = [
    "AddMeaning",
    "Dialect",
    "Node",
    "Operand",
    "Step",
    "import_onnx",
    "normal_add",
    "requants_of",
]
