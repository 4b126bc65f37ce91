"""Operators that are read, what each becomes, and the refusal of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dory_onnx import Node, OnnxModel

from dory_core.api import NotSupported
from dory_qdq.call import Call
from dory_qdq.operators import movers
from dory_qdq.operators.pairs import lower_pair
from dory_qdq.operators.pools import lower_average, lower_mean
from dory_qdq.operators.products import lower_conv, lower_gemm, lower_matmul
from dory_qdq.operators.resize import lower_linear, lower_nearest
from dory_qdq.operators.tables import FUNCTIONS, lower_function, lower_softmax
from dory_qdq.qlinear import FORMS
from dory_qdq.values import Place, Real, Sums

#: Operators that move elements to the nearest place, or compute reals between them.
LINEAR = ("Resize", "Upsample")

#: What an operator of reals becomes once its result is quantised.
LOWERED: Mapping[str, Callable[[Call], Place | Sums]] = MappingProxyType(
    {
        "Conv": lower_conv,
        "Gemm": lower_gemm,
        "MatMul": lower_matmul,
        "Add": lower_pair,
        "Sub": lower_pair,
        "Mul": lower_pair,
        "Div": lower_pair,
        "AveragePool": lower_average,
        "GlobalAveragePool": lower_mean,
        "ReduceMean": lower_mean,
        "Softmax": lower_softmax,
        "Concat": movers.concat,
        **dict.fromkeys(LINEAR, lower_linear),
        **dict.fromkeys(FUNCTIONS, lower_function),
    }
)
#: What moves elements, computed on stored integers.
MOVED: Mapping[str, Callable[[Call, Real], Place]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"), movers.reshape
        ),
        "Transpose": movers.transpose,
        "MaxPool": movers.max_pool,
        "Slice": movers.slice_of,
        "Pad": movers.pad,
        "Resize": lower_nearest,
        "Upsample": lower_nearest,
    }
)
#: Reals behind the last integers, which the host computes.
HEADS = frozenset(["Softmax", "LogSoftmax", "Sigmoid", "ArgMax", "Exp", "Tanh"])
#: Unknown operators that a refusal names.
_MOST_NAMES = 12


def check_operators(model: OnnxModel) -> None:
    """Raise NotSupported where operators are unknown, naming all of them."""
    unknown = [
        node
        for node in model.nodes
        if not _is_known(node.op) and not all(map(model.is_constant, node.outputs))
    ]
    if not unknown:
        return
    hint = "frontends/qdq/README.md lists those that are; replace it and quantise again"
    if len(unknown) == 1:
        raise NotSupported(f"{unknown[0].label}: the operator is not supported", hint)
    shown = ", ".join(node.label for node in unknown[:_MOST_NAMES])
    more = len(unknown) - _MOST_NAMES
    rest = f" and {more} more" if more > 0 else ""
    raise NotSupported(
        f"{len(unknown)} operators are not supported: {shown}{rest}",
        hint.replace("replace it", "replace them"),
    )


def _is_known(op: str) -> bool:
    if (
        op.endswith(("QuantizeLinear", "DequantizeLinear"))
        or op.removeprefix("com.microsoft.") in FORMS
    ):
        return True
    return op in MOVED or op in LOWERED or op in HEADS or op in ("Constant", "Split")


def moves(node: Node) -> bool:
    """Return whether an operator moves elements, and computes none."""
    linear = node.attributes.get("mode", "nearest") in ("linear", "bilinear")
    return node.op in MOVED and not (node.op in LINEAR and linear)
