"""Sums of products with weights: their fields, and the steps after the interpreter's accumulators.

Activations of 8 bits have accumulators of 32 bits. Those of 16 bits have 64, and another rounding,
unless a bias of 32 bits says otherwise. Source: ``Eval`` of the kernels in
``tensorflow/lite/micro/kernels``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dory_core.api import Requant
from dory_core.importing import Array, requant
from dory_tflite.fixed_point import FactorError, Integers, quantize_multiplier, wide_form
from dory_tflite.node import Constraint, Node
from dory_tflite.requantisation import rescaling, two_divisions, two_roundings

_NARROW = (-128, 127)
_INT32 = (-(1 << 31), (1 << 31) - 1)
_LARGEST_PRODUCTS = {8: 255 * 255, 16: 1 << 30}
MOST_WIDE = 1 << 47  # accumulators that the interpreter's function takes
#: Types of a bias with activations of 16 bits; that of a TRANSPOSE_CONV of 16 bits is converted.
_BIASES = {
    "CONV_2D": ("INT64", "INT32"),
    "FULLY_CONNECTED": ("INT64", "INT32"),
    "DEPTHWISE_CONV_2D": ("INT64",),
    "TRANSPOSE_CONV": ("INT64", "INT16"),
}


def bias_of(node: Node, position: int, channels: int) -> Integers:
    """Return a bias that may be missing; raises NotSupported for one of another size."""
    if not node.has(position):
        return np.zeros(channels, np.int64)
    values = node.constant(position)
    if values.dtype.kind != "i" or values.size != channels:
        raise node.error(f"{node.input(position).label} is no bias of {channels} integers")
    return values.reshape(-1).astype(np.int64)


def weight_fields(weights: Integers, bias: Integers, bits: int = 8) -> dict[str, Any]:
    """Return the fields of a layer with weights and a bias.

    bits: of the weights in the file; without their zero point they may need 16.
    """
    fits = _NARROW[0] <= int(weights.min()) and int(weights.max()) <= _NARROW[1]
    return {
        "weights": Array(weights),
        "weight_bits": bits if fits else 16,
        "bias": Array(bias) if bias.any() else None,
    }


def sum_fields(
    node: Node,
    weights: Integers,
    bias: Integers,
    reach: tuple[int, int],
    factors: list[float],
    bias_position: int = 2,
) -> dict[str, Any]:
    """Return the fields of a layer of sums.

    Args:
        weights: Shape (Cout, ...), zero point subtracted.
        bias: Shape (Cout,).
        reach: Lowest and highest input.
        factors: One per channel, or one for all.
        bias_position: Which input is the bias.
    """
    rows = weights.reshape(len(weights), -1)
    positive, negative = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
    lows = positive * reach[0] + negative * reach[1] + bias
    highs = positive * reach[1] + negative * reach[0] + bias
    ends = list(zip(lows.tolist(), highs.tolist(), strict=True))
    if _has_wide_sums(node, bias_position):
        return _wide_fields(node, weights, bias, ends, factors)
    bits = 4 if "INT4" in {tensor.type for tensor in node.inputs} else 8
    return {"requants": _steps(node, ends, factors), **weight_fields(weights, bias, bits)}


def product_steps(node: Node, count: int, factor: float) -> tuple[Requant, ...]:
    """Return the steps after sums of ``count`` products of two computed tensors."""
    y = node.quantisation(node.output())
    largest = count * _LARGEST_PRODUCTS[y.bits]
    if y.bits == 8:
        return _steps(node, [(-largest, largest)], [factor])
    return _wide_steps(node, [(-largest, largest)], [factor])


def _steps(node: Node, ends: list[tuple[int, int]], factors: list[float]) -> tuple[Requant, ...]:
    """Return the steps after an accumulator of 32 bits."""
    y, bounds = node.quantisation(node.output()), node.clip(node.output())
    multipliers = [quantize_multiplier(factor) for factor in factors]
    if y.bits == 8:
        return (rescaling(multipliers, ends, y.zero_point, bounds),)
    for number, (lo, hi) in enumerate(ends):
        factor = multipliers[min(number, len(factors) - 1)]
        if max(abs(lo), abs(hi)) << factor.left_shift > _INT32[1]:
            raise node.error("its scales bring sums beyond 32 bits", "calibrate it again")
    try:
        return (rescaling(multipliers, ends, y.zero_point, bounds),)
    except FactorError:
        return two_roundings(multipliers, bounds)


def _wide_steps(
    node: Node, ends: list[tuple[int, int]], factors: list[float], several: bool = False
) -> tuple[Requant, ...]:
    """Return the steps after an accumulator of 64 bits. several: two, where one had room."""
    multipliers = [quantize_multiplier(factor) for factor in factors]
    for number, (lo, hi) in enumerate(ends):
        form = wide_form(multipliers[min(number, len(factors) - 1)])
        if max(-lo, hi) >= MOST_WIDE or not _INT32[0] <= form.at(lo) <= form.at(hi) <= _INT32[1]:
            raise node.error("its scales bring sums beyond 32 bits", "calibrate it again")
    bounds = node.clip(node.output())
    try:
        step = rescaling(multipliers, ends, 0, bounds, form_of=wide_form)
    except FactorError:
        return two_divisions(multipliers, bounds)
    return two_divisions(multipliers, bounds) if several else (step,)


def _wide_fields(
    node: Node,
    weights: Integers,
    bias: Integers,
    ends: list[tuple[int, int]],
    factors: list[float],
) -> dict[str, Any]:
    """Return the fields with an accumulator of 64 bits.

    A bias beyond 32 bits becomes part of the addend, which has 64.
    """
    steps = _wide_steps(node, ends, factors)
    if not _INT32[0] <= int(bias.min()) <= int(bias.max()) <= _INT32[1]:
        if steps[0].add_negative is not None:  # its turn would be another for each channel
            steps = _wide_steps(node, ends, factors, several=True)
        steps = (with_bias(steps[0], bias), *steps[1:])
        bias = np.zeros_like(bias)
    return {"requants": steps, "wide": True, **weight_fields(weights, bias)}


def with_bias(step: Requant, bias: Integers) -> Requant:
    """Return the step that adds a bias first."""
    muls, adds = (values * (len(bias) // len(values)) for values in (step.mul, step.add))
    found = [m * b + a for m, b, a in zip(muls, bias.tolist(), adds, strict=True)]
    return requant(muls, found, step.div, step.lo, step.hi)


def _has_wide_sums(node: Node, position: int) -> bool:
    """Return True when the interpreter's accumulator has 64 bits."""
    if node.output().type != "INT16":
        return False
    if node.has(position):
        return node.input(position).type != "INT32"
    return node.op.options.get("QuantizedBiasType") != "INT32"


def _bias_type(node: Node) -> bool:
    position = 3 if node.op.code == "TRANSPOSE_CONV" else 2
    kinds = _BIASES[node.op.code] if node.output().type == "INT16" else ("INT32",)
    return not node.has(position) or node.input(position).type in kinds


def _weight_type(node: Node) -> bool:
    weights, y = node.input(1), node.output()
    if weights.type == "INT4":
        one = node.op.code != "FULLY_CONNECTED" or len(weights.scales) == 1
        packed = node.op.code != "TRANSPOSE_CONV" and y.type == "INT8" and one
        return packed and not any(weights.zero_points)
    return y.type != "INT16" or (weights.type == "INT8" and not any(weights.zero_points))


#: Weights and biases, by the type of activations.
WEIGHTS = (
    Constraint(
        "weights of 4 bits have activations of INT8 (not TRANSPOSE_CONV) and the zero point 0, in"
        " FULLY_CONNECTED one scale; with INT16 weights are INT8 with the zero point 0",
        _weight_type,
    ),
    Constraint(
        "a bias of activations of 8 bits is INT32, with INT16 it is INT64, or INT32 (not"
        " DEPTHWISE_CONV_2D, TRANSPOSE_CONV)",
        _bias_type,
    ),
)
