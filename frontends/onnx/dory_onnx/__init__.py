"""What all ONNX dialects share: shapes, constants, chains of arithmetic, import of layers.

A dialect plugin subclasses :class:`Dialect` for what is its own and reads files with
:func:`import_onnx`.
"""

from dory_onnx.arithmetic import Step, integers, requants_of
from dory_onnx.dialect import AddMeaning, Dialect, Operand, normal_add
from dory_onnx.folding import clipped
from dory_onnx.growing import byte_table
from dory_onnx.importer import import_onnx
from dory_onnx.known import read_operators
from dory_onnx.layers import LayersOfFile
from dory_onnx.marks import OTHER_FORMS, holds
from dory_onnx.means import reduced_window
from dory_onnx.model import Node, OnnxModel, load
from dory_onnx.quantised import is_float
from dory_onnx.shapes import reduced_axes, window_of

__all__ = [
    "AddMeaning",
    "Dialect",
    "LayersOfFile",
    "Node",
    "OTHER_FORMS",
    "OnnxModel",
    "Operand",
    "Step",
    "byte_table",
    "clipped",
    "holds",
    "import_onnx",
    "integers",
    "is_float",
    "load",
    "normal_add",
    "read_operators",
    "reduced_axes",
    "reduced_window",
    "requants_of",
    "window_of",
]
