"""Functions of elements of 16 bits: rescalings, pairs of them, and straight pieces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dory_core.api import Requant, ops
from dory_core.importing import Array, requant
from dory_tflite.curves import Curve, exponentials, inverses, logistic_curve, tanh_curve
from dory_tflite.fixed_point import INT32_MAX, Multiplier, quantize_multiplier
from dory_tflite.node import Node
from dory_tflite.operators.lstm import sigmoid_table
from dory_tflite.preparation import quantized
from dory_tflite.requantisation import negated, rescaling

_LARGEST = 1 << 15


def by_type(
    of_bytes: Callable[[Node], None], of_words: Callable[[Node], None]
) -> Callable[[Node], None]:
    """Return the function that lowers an operator of bytes, or of 16 bits."""
    return lambda node: (of_words if node.output().type == "INT16" else of_bytes)(node)


def relu(node: Node) -> None:
    """Append a RELU, with its own rescaling."""
    factor = _multiplier(node, _ratio(node))
    bounds = (0, node.quantisation(node.output()).bounds[1])
    _emit(node, rescaling([factor], [(-_LARGEST, _LARGEST)], 0, bounds))


def relu6(node: Node) -> None:
    """Append a RELU6, which only clips."""
    top = quantized(6.0, node.quantisation(node.input()).scale, 0)
    _emit(node, requant(1, 0, 1, 0, min(top, _LARGEST - 1)))


def leaky_relu(node: Node) -> None:
    """Append a LEAKY_RELU: the sum of a rescaling of each sign, where the other one is 0."""
    slope = _ratio(node) * node.option("Alpha")
    lo, hi = node.quantisation(node.output()).bounds
    above = _one_sided(_multiplier(node, _ratio(node)), (0, hi))
    below = _one_sided(_multiplier(node, abs(slope)), (lo, 0))
    if slope < 0:
        below = replace(negated(replace(below, lo=None, hi=None)), lo=0, hi=hi)
    _pair(node, ops.Add, (above, below), requant(1, 0, 1, lo, hi))


def absolute(node: Node) -> None:
    """Append an ABS: the larger one of an element and its negative, rescaled."""
    x, y = (node.quantisation(tensor) for tensor in (node.input(), node.output()))
    step = requant(1, 0, 1, *y.bounds)
    if x.scale != y.scale:
        factor = _multiplier(node, _ratio(node))
        step = rescaling([factor], [(0, _LARGEST)], 0, y.bounds)
    _pair(node, ops.Maximum, (None, requant(-1)), step)


def logistic(node: Node) -> None:
    """Append a LOGISTIC."""
    _curve(node, logistic_curve(node.quantisation(node.input()).scale, sigmoid_table()))


def tanh(node: Node) -> None:
    """Append a TANH."""
    _curve(node, tanh_curve(node.quantisation(node.input()).scale, sigmoid_table()))


def _curve(node: Node, curve: Curve) -> None:
    node.emit(
        ops.Piecewise,
        node.output(),
        node.network.value(node.input()),
        table=Array(curve.table),
        piece_bits=curve.piece_bits,
        argument=(curve.argument,),
        requants=(requant(1, 0, 1 << curve.shift, -_LARGEST, _LARGEST - 1),),
    )


def softmax(node: Node) -> None:
    """Append a SOFTMAX."""
    # Differences to the largest channel as 65535ths of ten, counted from -10.
    last = 2 * _LARGEST - 1
    factor = node.quantisation(node.input()).scale * node.option("Beta") / (10 / last)
    argument = rescaling([_multiplier(node, factor, last)], [(-last, 0)], last, (0, last))
    node.emit(
        ops.WideSoftmax,
        node.output(),
        node.network.value(node.input()),
        exps=Array(exponentials()),
        inverses=Array(inverses()),
        argument=(argument,),
        requants=(requant(1, 0, 1, 0, _LARGEST - 1),),
    )


def gives_fractions(node: Node) -> bool:
    """Return True when the output has the scale 2^-15, nearly, and zero points are 0."""
    scale = node.quantisation(node.output()).scale
    zeros = (*node.input().zero_points, *node.output().zero_points)
    return not any(zeros) and abs(float(np.log2(np.float32(scale))) + 15) < 1e-3


def _ratio(node: Node) -> float:
    x, y = (node.quantisation(tensor) for tensor in (node.input(), node.output()))
    return x.scale / y.scale


def _multiplier(node: Node, factor: float, largest: int = _LARGEST) -> Multiplier:
    """Return the fixed-point form of a factor; refuse what wraps in the interpreter."""
    found = quantize_multiplier(factor)
    if largest << found.left_shift > INT32_MAX:
        raise node.error(f"the factor {factor:.6g} brings its values beyond 32 bits")
    return found


def _one_sided(factor: Multiplier, bounds: tuple[int, int]) -> Requant:
    return rescaling([factor], [(-_LARGEST, _LARGEST)], 0, bounds)


def _emit(node: Node, step: Requant) -> None:
    name = node.network.value(node.input())
    window = ops.Window(kernel=(1, 1))
    node.emit(ops.AvgPool, node.output(), name, window=window, requants=(step,))


def _pair(
    node: Node,
    kind: type[ops.Operator],
    steps: tuple[Requant | None, Requant | None],
    step: Requant,
) -> None:
    name = node.network.value(node.input())
    node.emit(kind, node.output(), name, name, operand_requants=steps, requants=(step,))
