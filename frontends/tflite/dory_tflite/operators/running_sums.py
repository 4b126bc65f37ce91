"""CUMSUM: a 1x1 convolution whose weights are 1 up to the place of the output."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from dory_core.api import ops
from dory_core.importing import Array
from dory_tflite.fixed_point import INT32_MAX, FloorForm, Multiplier, floor_form
from dory_tflite.node import CONVERT, Constraint, Node, Operator
from dory_tflite.operators.common import SAME_TYPE, constant
from dory_tflite.preparation import ADD_SHIFTS, add_factors
from dory_tflite.requantisation import rescaling

_SHIFT = ADD_SHIFTS[8] - 1  # elements are shifted as those of ADD, and halved
_MOST_SUM = INT32_MAX >> _SHIFT
_TURNED = (2, 1, 0)
_HINT = "multiply by a constant triangle of ones (BATCH_MATMUL or FULLY_CONNECTED)"


def _of_shifted(factor: Multiplier) -> FloorForm:
    form = floor_form(factor)
    return replace(form, mul=form.mul << _SHIFT)


def _running_sum(node: Node) -> None:
    """Append the sums along one dimension, which are the channels of a convolution.

    The interpreter's sums begin with the difference between 0 and the zero point.
    """
    source, network = node.input(), node.network
    x, y = node.quantisation(source), node.quantisation(node.output())
    axis = node.integers(1)[0] % len(source.shape)
    size = source.shape[axis]
    before, after = prod(source.shape[:axis]), prod(source.shape[axis + 1 :])
    read = network.tensors[network.flat(source)]
    reach = (
        min(0, size * (read.lo - x.zero_point)) - x.zero_point,
        max(0, size * (read.hi - x.zero_point)) - x.zero_point,
    )
    if reach[0] < -_MOST_SUM or reach[1] > _MOST_SUM:
        raise node.error(
            f"sums of {size} elements are {reach[0]} to {reach[1]}; the interpreter's 32 bits hold"
            f" {-_MOST_SUM} to {_MOST_SUM}",
            _HINT,
        )
    factor = add_factors(x.scale, x.scale, y.scale, 8).output
    if factor.exponent > 0:
        raise node.error("scales that differ by a factor of 2^19 or more", "calibrate it again")
    ones = np.tri(size, k=-1 if node.option("Exclusive") else 0, dtype=np.int64)
    if node.option("Reverse"):
        ones = ones[::-1, ::-1]
    fields = {
        "window": ops.Window(kernel=(1, 1)),
        "weights": Array(ones[:, :, None, None]),
        "bias": Array(-x.zero_point * (1 + ones.sum(axis=1))),
        "requants": (rescaling([factor], [reach], y.zero_point, y.bounds, form_of=_of_shifted),),
    }
    if after == 1:
        name = network.reshaped(source, (size, before, 1))
        network.placed(ops.Conv, node.label, node.output(), (name,), **fields)
        return
    name = network.reshaped(source, (after, before, size))
    name = network.hidden(ops.Transpose, f"{node.label} turned", (name,), perm=_TURNED)
    name = network.hidden(ops.Conv, f"{node.label} sums", (name,), **fields)
    network.placed(ops.Transpose, node.label, node.output(), (name,), perm=_TURNED)


def _is_axis(node: Node) -> bool:
    rank, values = len(node.input().shape), node.integers(1)
    return len(values) == 1 and -rank <= values[0] < rank


OPERATORS = (
    Operator(
        "CUMSUM",
        "Conv of 1x1",
        _running_sum,
        (
            Constraint("the input is INT8", lambda node: node.input().type == "INT8", CONVERT),
            SAME_TYPE,
            constant(1, "the dimension"),
            Constraint("the dimension is one of the input's", _is_axis),
        ),
    ),
)
