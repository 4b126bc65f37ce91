"""Why an interpreter of LiteRT computes another value than TensorFlow Lite Micro.

For sums of products the interpreter's formula is computed here and compared with its result, which
proves the sentence for these elements. For other operators it says how the kernel differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Layer, Requant
from dory_core.importing import desktop
from dory_tflite.model import FileOperator, Subgraph

Array = npt.NDArray[Any]

_SUMS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
_SOURCE = {"TRANSPOSE_CONV": 2}
_MICRO = "Micro multiplies integers and rounds twice, ties away from zero"


@dataclass(frozen=True, slots=True)
class Sums:
    """Accumulators (C, H, W) of a layer, and what makes bytes of them.

    scales: of input, weights (one, or one per channel) and output.
    """

    accumulators: Array
    step: Requant
    zero_point: int
    scales: tuple[np.float32, Array, np.float32]

    def clipped(self, values: Array) -> Array:
        """Return values that count from the zero point as they are stored."""
        assert self.step.lo is not None and self.step.hi is not None
        moved = values.astype(np.int64) + self.zero_point
        return np.clip(moved, self.step.lo, self.step.hi)


def _float_ties_even(sums: Sums) -> Array:
    x, weights, y = sums.scales
    factors = ((x * weights) / y).astype(np.float32).reshape(-1, 1, 1)
    return sums.clipped(np.rint(sums.accumulators.astype(np.float32) * factors))


def _double_ties_away(sums: Sums) -> Array:
    x, weights, y = sums.scales
    factors = (float(x) * weights.astype(np.float64) / float(y)).reshape(-1, 1, 1)
    scaled = sums.accumulators * factors
    return sums.clipped(np.copysign(np.floor(np.abs(scaled) + 0.5), scaled))


def _ties_up(sums: Sums) -> Array:
    return replace(sums.step, add_negative=None, turn=0).apply(sums.accumulators)


@dataclass(frozen=True, slots=True)
class _Formula:
    compute: Callable[[Sums], Array]
    sentence: str


_FORMULAS = (
    _Formula(_ties_up, "it rounds ties up"),
    _Formula(_float_ties_even, "it multiplies the sum by a float32, ties to even"),
    _Formula(_double_ties_away, "it multiplies the sum by a double, rounds once"),
)
#: The formula that an interpreter should have: tried first, since others may agree by chance.
_USUAL = {"AUTO": 1, "BUILTIN_WITHOUT_DEFAULT_DELEGATES": 0, "BUILTIN_REF": 2}

#: Other operators, by interpreter (empty: all) and code.
_KERNELS = {
    ("AUTO", "QUANTIZE"): "XNNPACK requantises in float32 and rounds ties to even",
    ("", "QUANTIZE"): "its kernel for this processor rounds once, ties up",
    ("AUTO", "MUL"): "XNNPACK multiplies the product by a float32 and rounds ties to even",
    ("AUTO", "ADD"): "XNNPACK adds both operands with factors of about 21 bits and rounds once",
    ("AUTO", "SUB"): "XNNPACK subtracts with factors of about 21 bits and rounds once",
    ("", "ADD"): "its kernel for this processor rounds ties up",
    ("", "MUL"): "its kernel for this processor rounds ties up",
    ("", "SUB"): "its kernel for this processor rounds ties up",
    ("AUTO", "AVERAGE_POOL_2D"): "XNNPACK computes the mean in float32",
    ("AUTO", "MEAN"): "XNNPACK computes the mean in float32, Micro divides within its multiplier",
    ("", "MEAN"): "its kernel folds count and zero point into a bias, Micro into its multiplier",
    ("", "SOFTMAX"): "its kernel takes exponentials from a table of float32",
    ("", "LOGISTIC"): "its table is computed in float32, Micro's in fixed point",
    ("", "TANH"): "its table is computed in float32, Micro's in fixed point",
    ("", "HARD_SWISH"): "its kernel has other roundings than Micro's 16-bit fixed point",
    ("", "LEAKY_RELU"): "its kernel rounds its factors or ties in another way",
    ("", "PRELU"): "its kernel rounds its factors or ties in another way",
    ("", "RESIZE_BILINEAR"): "its kernel interpolates with other fractions than Micro's 10 bits",
    ("", "DEPTHWISE_CONV_2D"): "its kernel for this processor rounds ties in another way",
}


def reason(
    resolver: str, subgraph: Subgraph, layer: Layer, operands: Sequence[Array], got: Array
) -> str:
    """Return one sentence on why the result of a layer is another one.

    Args:
        resolver: Resolver of the interpreter's operators.
        operands, got: Operands and result, shape (C, H, W).
    """
    written = ((op, index) for op in subgraph.operators for index in op.outputs)
    op = next((op for op, index in written if f"t{index}" == layer.op.tensor), None)
    if op is None:
        return "not known"
    sums = _sums(subgraph, op, layer, operands)
    if sums is not None:
        usual = _FORMULAS[_USUAL[resolver]]
        for formula in (usual, *(f for f in _FORMULAS if f is not usual)):
            if np.array_equal(formula.compute(sums), got):
                return f"{formula.sentence}; {_MICRO} (its formula gives every element here)"
    known = _KERNELS.get((resolver, op.code)) or _KERNELS.get(("", op.code))
    return known or "its kernel rounds in another way; the formula is not known here"


def _sums(
    subgraph: Subgraph, op: FileOperator, layer: Layer, operands: Sequence[Array]
) -> Sums | None:
    if op.code not in _SUMS or len(layer.op.requants) != 1:
        return None
    source = subgraph.tensors[op.inputs[_SOURCE.get(op.code, 0)]]
    weights, output = subgraph.tensors[op.inputs[1]], subgraph.tensors[op.outputs[0]]
    if not (source.scales and weights.scales and output.scales):
        return None
    bare = replace(layer, op=replace(layer.op, requants=()))
    return Sums(
        desktop.run_layer(bare, tuple(operands)),
        layer.op.requants[0],
        output.zero_points[0],
        (
            np.float32(source.scales[0]),
            np.array(weights.scales, np.float32),
            np.float32(output.scales[0]),
        ),
    )
