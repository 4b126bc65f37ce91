"""Operators that are read, what each becomes, and the refusal of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dory_onnx import Node, OnnxModel

from dory_core.api import NotSupported
from dory_core.importing import ReadOperator
from dory_qdq.call import Call
from dory_qdq.constraints import CONSTRAINTS, check
from dory_qdq.operators import movers
from dory_qdq.operators.choices import lower_cast, lower_where
from dory_qdq.operators.comparisons import TRUTHS
from dory_qdq.operators.constants import lower_two
from dory_qdq.operators.matrices import lower_matmul, lower_running_sum
from dory_qdq.operators.norms import (
    lower_instance_norm,
    lower_layer_norm,
    lower_lp_norm,
    lower_rms_norm,
)
from dory_qdq.operators.pools import lower_average, lower_largest, lower_mean, lower_smallest
from dory_qdq.operators.products import lower_conv, lower_conv_transpose, lower_gemm
from dory_qdq.operators.resize import lower_linear, lower_nearest
from dory_qdq.operators.tables import FUNCTIONS, lower_function, lower_softmax
from dory_qdq.qlinear import FORMS
from dory_qdq.values import Place, Real, Sums

#: Operators that move elements to the nearest place, or compute reals between them.
LINEAR = ("Resize", "Upsample")

#: What an operator of reals becomes once its result is quantised.
_LOWERED: Mapping[str, Callable[[Call], Place | Sums]] = MappingProxyType(
    {
        "Conv": lower_conv,
        "ConvTranspose": lower_conv_transpose,
        "Gemm": lower_gemm,
        "MatMul": lower_matmul,
        **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Pow"), lower_two),
        "AveragePool": lower_average,
        "GlobalAveragePool": lower_mean,
        "ReduceMean": lower_mean,
        "ReduceSum": lower_mean,
        "Softmax": lower_softmax,
        "LayerNormalization": lower_layer_norm,
        **dict.fromkeys(("RMSNormalization", "SimplifiedLayerNormalization"), lower_rms_norm),
        "LpNormalization": lower_lp_norm,
        "InstanceNormalization": lower_instance_norm,
        "Concat": movers.concat,
        "Where": lower_where,
        "Cast": lower_cast,
        "CumSum": lower_running_sum,
        **dict.fromkeys(LINEAR, lower_linear),
        **dict.fromkeys(FUNCTIONS, lower_function),
    }
)
#: What moves elements, computed on stored integers.
_MOVED: Mapping[str, Callable[[Call, Real], Place]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"), movers.reshape
        ),
        "Transpose": movers.transpose,
        "MaxPool": movers.max_pool,
        "GlobalMaxPool": movers.max_pool,
        "Slice": movers.slice_of,
        "Pad": movers.pad,
        **dict.fromkeys(("Tile", "Expand", "Gather"), movers.repeated),
        **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), movers.blocks),
        "ReduceMax": lower_largest,
        "ReduceMin": lower_smallest,
        "Resize": lower_nearest,
        "Upsample": lower_nearest,
    }
)
#: Reals after the last integers, which the host computes.
HEADS = frozenset(["Softmax", "LogSoftmax", "Sigmoid", "ArgMax", "ArgMin", "TopK", "Exp", "Tanh"])
#: Operators that quantise, or that the import knows by itself.
_OTHERS = ("QuantizeLinear", "DequantizeLinear", "Split", "Constant", *sorted(TRUTHS))
#: Kinds of layers; an operator that is left out becomes a table of one byte.
_BECOMES: Mapping[str, str] = MappingProxyType(
    {
        "QuantizeLinear": "network input, rounding of a layer, or Lut",
        "DequantizeLinear": "nothing",
        "Constant": "nothing",
        "Conv": "Conv",
        "ConvTranspose": "ConvTranspose",
        "Gemm": "Linear; Conv of 1x1 for several rows",
        "MatMul": "MatMul; with a constant Linear, or Conv of 1x1 for several rows",
        "Add": "Add; Lut with a constant",
        "Mul": "Mul; Lut with a constant",
        **dict.fromkeys(("AveragePool", "GlobalAveragePool", "ReduceMean", "ReduceSum"), "AvgPool"),
        "Softmax": "Softmax",
        **dict.fromkeys(
            (
                *("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"),
                "LpNormalization",
            ),
            "LayerNorm",
        ),
        "InstanceNormalization": "InstanceNorm",
        "Concat": "Concat; Lut for inputs of another scale",
        "MaxPool": "MaxPool",
        "GlobalMaxPool": "MaxPool",
        "Sub": "Add; Lut with a constant",
        "Div": "Quotient; Lut with a constant",
        "Max": "Maximum; Lut with a constant",
        "Min": "Minimum; Lut with a constant",
        "Split": "Slice",
        "Slice": "Slice",
        "Pad": "Pad; Resize for a mode other than constant",
        "ReduceMax": "MaxPool",
        "ReduceMin": "MaxPool between Luts",
        "Where": "Minimum and Maximum",
        "CumSum": "Conv of 1x1",
        **dict.fromkeys(TRUTHS, "nothing, or Add: a table of what reads it"),
        **dict.fromkeys(("Tile", "Expand", "Gather"), "Resize"),
        **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), "Slice and Concat, or Transpose"),
        **dict.fromkeys(LINEAR, "Resize"),
        **dict.fromkeys(("Relu", "Clip"), "bounds of the layer before, or Lut"),
        "Transpose": "nothing, or Transpose",
        **dict.fromkeys(
            ("Reshape", "Flatten", "Squeeze", "Unsqueeze"), "nothing, or Transpose and Reshape"
        ),
        **dict.fromkeys(("Identity", "Dropout"), "nothing"),
        **dict.fromkeys(("ArgMax", "ArgMin", "LogSoftmax", "TopK"), "nothing: left to the host"),
    }
)
_AT_THE_END = "it stands behind the last integers"
_HEAD_HINT = "let no QuantizeLinear read its result: the application computes it"
_OTHERS_HINT = (
    "`dory --list-operators --frontend qdq` lists those that are; replace it and quantise again"
)
#: What does the same as an operator that is not read.
_WAYS_OUT: Mapping[str, str] = MappingProxyType(
    {
        "GroupNormalization": "quantise the float network with `dory quantize`, which writes it as"
        " Reshape to (1, groups, -1), InstanceNormalization, Reshape, Mul and Add",
        **dict.fromkeys(
            ("GRU", "LSTM", "RNN"),
            "quantise the float network with `dory quantize`, which writes it as one cell after the"
            " other",
        ),
        "BatchNormalization": "quantise the float network with `dory quantize`, which folds it into"
        " a convolution, or write it as Mul and Add",
        "Sum": "write it as one Add after the other",
        "Mean": "write it as Add, and a Mul by a constant",
        "Einsum": "write it as Transpose, Reshape and MatMul",
        "GatherND": "take elements by constant places with Gather or Slice",
        "GatherElements": "take elements by constant places with Gather or Slice",
        "Trilu": "multiply by a constant of zeros and ones",
        "ReduceL2": "write it as a Mul by itself, ReduceSum and Sqrt, each quantised, or normalise"
        " with LpNormalization",
        "ReduceSumSquare": "write it as a Mul by itself and ReduceSum, each quantised",
        "ReduceL1": "write it as Abs and ReduceSum, each quantised",
        **dict.fromkeys(
            ("NonMaxSuppression", "RoiAlign", "OneHot", "NonZero", "ScatterND", "Hardmax"),
            "let the network end before it: the application computes it",
        ),
        **dict.fromkeys(
            ("LpPool", "GlobalLpPool"), "use AveragePool or MaxPool, and train the network with it"
        ),
        "LRN": "train the network with batch normalisation, which goes into the weights: no"
        " integers reproduce the powers of LRN",
    }
)
#: Unknown operators that a refusal names.
_MOST_NAMES = 12


def check_operators(model: OnnxModel, left: frozenset[Node]) -> None:
    """Raise NotSupported where operators are unknown, naming all of them.

    left: those that the application may compute.
    """
    unknown = [
        node
        for node in model.nodes
        if node not in left
        and not _is_known(node.op)
        and not all(map(model.is_constant, node.outputs))
    ]
    if not unknown:
        return
    hint = next((_WAYS_OUT[node.op] for node in unknown if node.op in _WAYS_OUT), _OTHERS_HINT)
    if len(unknown) == 1:
        raise NotSupported(f"{unknown[0].label}: the operator is not supported", hint)
    shown = ", ".join(node.label for node in unknown[:_MOST_NAMES])
    more = len(unknown) - _MOST_NAMES
    rest = f" and {more} more" if more > 0 else ""
    raise NotSupported(
        f"{len(unknown)} operators are not supported: {shown}{rest}",
        hint.replace("replace it", "replace them"),
    )


def check_stored(node: Node) -> None:
    """Raise NotSupported where an operator of reals computes with stored integers."""
    if node.op in HEADS:
        return
    what = "a linear Resize" if node.op in LINEAR else "the operator"
    nearest = ", or resize to the nearest neighbour" if node.op in LINEAR else ""
    raise NotSupported(
        f"{node.label}: {what} of stored integers ('{node.input(0)}') is not supported",
        f"put a DequantizeLinear in front of it and a QuantizeLinear behind it{nearest}",
    )


def _is_known(op: str) -> bool:
    if (
        op.endswith(("QuantizeLinear", "DequantizeLinear"))
        or op.removeprefix("com.microsoft.") in FORMS
    ):
        return True
    return is_lowered(op) or op in _MOVED or op in HEADS or op in _OTHERS


def is_lowered(op: str) -> bool:
    """Return True when an operator of reals becomes layers once its result is quantised."""
    return op in _LOWERED


def lower(call: Call) -> Place | Sums:
    """Append the layers of an operator of reals; raises NotSupported."""
    if not is_lowered(call.node.op):
        raise call.error(f"supported only if {_AT_THE_END}", _HEAD_HINT)
    check(call)
    return _LOWERED[call.node.op](call)


def move(call: Call, source: Real) -> Place:
    """Move stored integers; raises NotSupported."""
    check(call)
    return _MOVED[call.node.op](call, source)


def read_operators() -> list[ReadOperator]:
    """Return the operators that are read, with the constraints that the import checks."""
    plain = sorted({*_LOWERED, *_MOVED, *HEADS, *_OTHERS})
    forms = {name: form.op for name, form in FORMS.items()}
    return [_row(name, name) for name in plain] + [_row(*item) for item in sorted(forms.items())]


def _row(name: str, op: str) -> ReadOperator:
    sentences = [constraint.sentence for constraint in CONSTRAINTS.get(op, ())]
    if op in HEADS and not is_lowered(op):
        sentences.append(_AT_THE_END)
    if name in FORMS:
        sentences.append("channels_last is 0")
    return ReadOperator(name, _BECOMES.get(op, "Lut"), tuple(sentences))


def moves(node: Node) -> bool:
    """Return True when an operator moves elements, and computes none."""
    linear = node.attributes.get("mode", "nearest") in ("linear", "bilinear")
    return node.op in _MOVED and not (node.op in LINEAR and linear)
