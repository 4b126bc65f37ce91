"""Functions of one byte that are tables of reals, and those in the fixed point of ABS and RSQRT.

ELU, ABS and RSQRT are TensorFlow Lite Micro's. It has no EXP, LOG, GELU, RELU_N1_TO_1 and
RELU_0_TO_1 of bytes: these are LiteRT's, and a note says so.
"""

from __future__ import annotations

from collections.abc import Callable

from dory_core.api import ops
from dory_tflite.byte_functions import Quantisation, abs_table, relu_between_table, rsqrt_table
from dory_tflite.fixed_point import Integers
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators import words
from dory_tflite.operators.common import SAME_TYPE, activations, byte_tensors
from dory_tflite.operators.tables import by_byte
from dory_tflite.reals import UNARY, NoNumberError, table_of

_ENDS = {"RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
Reached = slice


def _table(
    function: Callable[[Node, Quantisation, Quantisation, Reached], Integers],
) -> Callable[[Node], None]:
    def lower(node: Node) -> None:
        x, y = node.quantisation(node.input()), node.quantisation(node.output())
        name = node.network.value(node.input())
        read, least = node.network.tensors[name], x.bounds[0]
        reached = slice(read.lo - least, read.hi - least + 1)
        try:
            table = function(node, x, y, reached)
        except NoNumberError as error:
            raise node.error(str(error), "clip what it reads, or calibrate again") from None
        node.emit(ops.Lut, node.output(), name, table=by_byte(table, x))

    return lower


def _of_lite(lower: Callable[[Node], None]) -> Callable[[Node], None]:
    """Return the function for an operator that only LiteRT has for bytes."""

    def noted(node: Node) -> None:
        lower(node)
        note = f"{node.op.code} of bytes is LiteRT's: TensorFlow Lite Micro has no such operator"
        if note not in node.network.notes:
            node.network.notes.append(note)

    return noted


def _reals(node: Node, x: Quantisation, y: Quantisation, reached: Reached) -> Integers:
    function, options = UNARY[node.op.code], node.op.options
    return table_of(lambda values: function(values, options), x, y, reached)


def _rsqrt(node: Node, x: Quantisation, y: Quantisation, reached: Reached) -> Integers:
    least = x.values[reached][0]
    if least < x.zero_point:
        raise node.error(
            f"its input may be {least - x.zero_point} steps below zero, where it has no root",
            "add the epsilon of the normalisation before it, or calibrate the network again",
        )
    return rsqrt_table(x, y)


def _between(node: Node, x: Quantisation, y: Quantisation, reached: Reached) -> Integers:
    return relu_between_table(x, y, *_ENDS[node.op.code])


_COMMON = (
    byte_tensors(),
    SAME_TYPE,
    Constraint("the input is INT8", lambda node: node.input().type == "INT8"),
)

OPERATORS = (
    Operator(
        "ABS",
        "Lut, or Maximum for INT16",
        words.by_type(_table(lambda node, x, y, reached: abs_table(x, y)), words.absolute),
        (
            activations(),
            SAME_TYPE,
            Constraint(
                "the input is INT8 or INT16", lambda node: node.input().type in ("INT8", "INT16")
            ),
        ),
    ),
    Operator("ELU", "Lut", _table(_reals), _COMMON),
    Operator("RSQRT", "Lut", _table(_rsqrt), _COMMON),
    *(Operator(code, "Lut", _of_lite(_table(_reals)), _COMMON) for code in ("EXP", "GELU", "LOG")),
    *(Operator(code, "Lut", _of_lite(_table(_between)), _COMMON) for code in _ENDS),
)
