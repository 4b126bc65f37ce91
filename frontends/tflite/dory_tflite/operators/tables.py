"""Functions of one byte, SOFTMAX, LOG_SOFTMAX, L2_NORMALIZATION, ARG_MAX and ARG_MIN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dory_core.api import ops
from dory_core.importing import Array, requant
from dory_tflite.byte_functions import (
    Quantisation,
    hard_swish_table,
    leaky_relu_table,
    logistic_table,
    prelu_table,
    quantize_table,
    relu_table,
    tanh_table,
)
from dory_tflite.exponentials import log_softmax_tables, softmax_table
from dory_tflite.fixed_point import INT32_MAX, Integers
from dory_tflite.grids import canonical_shape
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators import words
from dory_tflite.operators.common import (
    DIMENSIONS,
    SAME_TYPE,
    activations,
    byte_tensors,
    constant,
    option_is,
)
from dory_tflite.preparation import quantized

_BYTE = 256


def by_byte(table: Integers, x: Quantisation) -> Array:
    """Return a table for ascending stored values as one for the bytes that store them."""
    return Array(np.roll(table, x.bounds[0], axis=-1))


def falling_table(x: Quantisation) -> Array:
    """Return the table that turns the order of stored values around."""
    return by_byte(x.values[::-1], x)


def _unary(
    function: Callable[[Node, Quantisation, Quantisation], Integers],
) -> Callable[[Node], None]:
    def lower(node: Node) -> None:
        x, y = node.quantisation(node.input()), node.quantisation(node.output())
        table = function(node, x, y)
        node.emit(ops.Lut, node.output(), node.network.value(node.input()), table=by_byte(table, x))

    return lower


def _relu_table(node: Node, x: Quantisation, y: Quantisation) -> Integers:
    lo, hi = y.bounds
    if node.op.code == "RELU":
        return relu_table(x, y, max(lo, y.zero_point), hi)
    top = quantized(6.0, x.scale, x.zero_point)
    return np.clip(x.values, max(lo, x.zero_point), min(hi, top))


def _six_fits(node: Node) -> bool:
    """Return True when the interpreter can convert the clip bound."""
    return quantized(6.0, node.quantisation(node.input()).scale, 0) <= INT32_MAX


def _prelu(node: Node) -> None:
    x, y = node.quantisation(node.input()), node.quantisation(node.output())
    tensor = node.input(1)
    alpha = node.quantisation(tensor)
    stored = node.stored_constant(tensor)
    if stored.shape[1:] != (1, 1):
        raise node.error(f"slopes of shape {list(tensor.shape)} are not one per channel")
    rows = [prelu_table(x, y, alpha, int(value)) for value in stored[:, 0, 0]]
    whole = canonical_shape(node.input())[0]
    if len(rows) not in (1, whole):
        raise node.error(f"{len(rows)} slopes for {whole} channels")
    table = np.stack(rows) if len(rows) > 1 else rows[0]
    node.emit(ops.Lut, node.output(), node.network.value(node.input()), table=by_byte(table, x))


def _softmax(node: Node) -> None:
    x, y = node.quantisation(node.input()), node.quantisation(node.output(), wide=True)
    table = softmax_table(node.option("Beta"), x.scale)
    node.emit(
        ops.Softmax,
        node.output(),
        node.network.value(node.input()),
        table=Array(np.array(table.exps, np.int64)),
        share_bits=y.bits,
        requants=(requant(1, y.zero_point, 1, *y.bounds),),
    )


def _log_softmax(node: Node) -> None:
    x, y = node.quantisation(node.input()), node.quantisation(node.output())
    node.emit(
        ops.LogSoftmax,
        node.output(),
        node.network.value(node.input()),
        table=Array(log_softmax_tables(x.scale)),
        requants=(requant(1, y.zero_point, 1, *y.bounds),),
    )


def _l2_norm(node: Node) -> None:
    x, y = node.quantisation(node.input()), node.quantisation(node.output())
    node.emit(
        ops.L2Norm,
        node.output(),
        node.network.value(node.input()),
        zero_point=x.zero_point,
        requants=(requant(1, 0, 1, *y.bounds),),
    )


def _arg_max(node: Node) -> None:
    rank = len(node.input().shape)
    if [dimension % rank for dimension in node.integers(1)] != [rank - 1]:
        raise node.error("it looks along another dimension than the last one")
    name = node.network.value(node.input())
    if node.op.code == "ARG_MIN":
        table = falling_table(node.quantisation(node.input()))
        name = node.network.hidden(ops.Lut, f"{node.label} falling", (name,), table=table)
    node.emit(ops.ArgMax, node.output(), name)


def _output_is(scale: float, zero_point: dict[str, int], is_of_words: bool = False) -> Constraint:
    def holds(node: Node) -> bool:
        y = node.quantisation(node.output())
        if is_of_words and node.output().type == "INT16":
            return words.gives_fractions(node)
        wanted = zero_point.get(node.output().type)
        return abs(y.scale - scale) <= 1e-3 * scale and y.zero_point == wanted

    values = " or ".join(f"{zero} ({kind})" for kind, zero in zero_point.items())
    sentence = f"the output has scale 1/{round(1 / scale)} and zero point {values}"
    return Constraint(sentence + (", or scale 1/32768 (INT16)" if is_of_words else ""), holds)


def _is_share(node: Node) -> bool:
    if node.input().type == "INT16":
        return words.gives_fractions(node)
    y = node.quantisation(node.output(), wide=True)
    return abs(y.scale * (1 << y.bits) - 1) <= 1e-3 and y.zero_point == y.bounds[0]


_SOFTMAX_TYPES = {
    *(("INT8", "INT8"), ("UINT8", "UINT8"), ("INT8", "INT16"), ("INT16", "INT16")),
}
_COMMON = (byte_tensors(), SAME_TYPE)
_SIGNED_OR_WORDS = Constraint(
    "the input is INT8 or INT16", lambda node: node.input().type in ("INT8", "INT16")
)
_SIGNED = Constraint("the input is INT8", lambda node: node.input().type == "INT8")


def _table(
    code: str, function: Callable[[Node, Quantisation, Quantisation], Integers], *more: Constraint
) -> Operator:
    return Operator(code, "Lut", _unary(function), (*_COMMON, *more))


def _function(
    code: str,
    becomes: str,
    function: Callable[[Node, Quantisation, Quantisation], Integers],
    of_words: Callable[[Node], None],
    *more: Constraint,
) -> Operator:
    """Return an operator of bytes, by a table, and of 16 bits."""
    lower = words.by_type(_unary(function), of_words)
    return Operator(code, becomes, lower, (activations(), SAME_TYPE, _SIGNED_OR_WORDS, *more))


OPERATORS = (
    _function(
        "LOGISTIC",
        "Lut, or Piecewise for INT16",
        lambda node, x, y: logistic_table(x, y),
        words.logistic,
        _output_is(1 / 256, {"INT8": -128}, is_of_words=True),
    ),
    _function(
        "TANH",
        "Lut, or Piecewise for INT16",
        lambda node, x, y: tanh_table(x, y),
        words.tanh,
        _output_is(1 / 128, {"INT8": 0}, is_of_words=True),
    ),
    _table("HARD_SWISH", lambda node, x, y: hard_swish_table(x, y), _SIGNED),
    _function(
        "LEAKY_RELU",
        "Lut, or Add for INT16",
        lambda node, x, y: leaky_relu_table(x, y, node.option("Alpha")),
        words.leaky_relu,
    ),
    _function("RELU", "Lut, or AvgPool of one element for INT16", _relu_table, words.relu),
    _function(
        "RELU6",
        "Lut, or AvgPool of one element for INT16",
        _relu_table,
        words.relu6,
        Constraint("six has 32 bits in steps of the input", _six_fits),
    ),
    Operator(
        "PRELU", "Lut per channel", _prelu, (*_COMMON, _SIGNED, constant(1, "the tensor of slopes"))
    ),
    Operator(
        "SOFTMAX",
        "Softmax, or WideSoftmax for INT16",
        lambda node: (words.softmax if node.input().type == "INT16" else _softmax)(node),
        (
            Constraint(
                "input and output are INT8, UINT8 or INT16 both, or INT8 and INT16",
                lambda node: (node.input().type, node.output().type) in _SOFTMAX_TYPES,
                "convert the network with full integer quantisation",
            ),
            Constraint(
                "the output has scale 1/256 and zero point -128 (INT8) or 0 (UINT8), or scale"
                " 1/65536 and zero point -32768 (INT16), or 1/32768 and 0 of an input of INT16",
                _is_share,
            ),
            Constraint("beta is positive", lambda node: node.option("Beta") > 0),
        ),
    ),
    Operator(
        "LOG_SOFTMAX",
        "LogSoftmax",
        _log_softmax,
        (*_COMMON, _SIGNED, _output_is(1 / 16, {"INT8": 127})),
    ),
    Operator(
        "L2_NORMALIZATION",
        "L2Norm",
        _l2_norm,
        (
            *_COMMON,
            _SIGNED,
            _output_is(1 / 128, {"INT8": 0}),
            option_is("FusedActivationFunction", ("NONE",), "there is no fused activation"),
        ),
    ),
    *(
        Operator(
            code,
            becomes,
            _arg_max,
            (
                Constraint(
                    "the input is INT8 or UINT8", lambda n: n.input().type in ("INT8", "UINT8")
                ),
                constant(1, "the dimension"),
                DIMENSIONS,
            ),
        )
        for code, becomes in (("ARG_MAX", "ArgMax"), ("ARG_MIN", "Lut and ArgMax"))
    ),
)

quantize_lower = _unary(lambda node, x, y: quantize_table(x, y))
