"""The operators that dialects read, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dory_core.importing import ReadOperator
from dory_onnx.chains import RESHAPES
from dory_onnx.dialect import Dialect
from dory_onnx.movers import RESIZES

_ROUNDING = "requantisation of the layer before"
_CHW = "one image, or one sequence, of batch 1"
_FEEDS = "a layer reads its result"
#: Kinds of layers of the operators that all dialects have.
_BECOMES: Mapping[str, str] = MappingProxyType(
    {
        "Conv": "Conv",
        "Gemm": "Linear; Conv of 1x1 for several rows",
        "MatMul": "MatMul; with a constant Linear, or Conv of 1x1 for several rows",
        **dict.fromkeys(("MaxPool", "GlobalMaxPool", "ReduceMax"), "MaxPool"),
        **dict.fromkeys(("AveragePool", "GlobalAveragePool"), "AvgPool"),
        **dict.fromkeys(("ReduceMean", "ReduceSum"), "AvgPool"),
        "Add": f"Add; {_ROUNDING} with a constant",
        "Sub": f"Add; {_ROUNDING} with a constant",
        "Mul": f"Mul; {_ROUNDING} with a constant",
        "Max": "Maximum",
        "Min": "Minimum",
        **dict.fromkeys(("Div", "Floor", "Cast", "Clip", "Relu"), _ROUNDING),
        "Pad": "pads of a Conv, or Pad",
        "Concat": "Concat",
        "Transpose": "nothing, or Transpose",
        **dict.fromkeys(("Slice", "Split", "Gather"), "Slice"),
        **dict.fromkeys(RESIZES, "Resize"),
        **dict.fromkeys(sorted(RESHAPES), "nothing, or Reshape"),
        **dict.fromkeys(("Identity", "Dropout"), "nothing"),
    }
)
_CONSTRAINTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("Conv", "Gemm"), ("the weights are constant", _CHW)),
        **dict.fromkeys(("Max", "Min"), ("both operands are computed", _FEEDS)),
        **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax"), (_FEEDS,)),
        "Gather": ("the indices are constants at equal distances",),
        **dict.fromkeys(RESIZES, ("rows and columns are repeated by whole factors",)),
    }
)


def read_operators(dialect: Dialect) -> list[ReadOperator]:
    """Return the operators of a dialect: those of all dialects and its own."""
    found = {
        name: ReadOperator(name, becomes, _CONSTRAINTS.get(name, ()))
        for name, becomes in _BECOMES.items()
    }
    own = {name: ReadOperator(name, becomes) for name, becomes in dialect.becomes.items()}
    return [one for _, one in sorted((found | own).items())]
