"""Operators by name; each module has those of one family."""

from __future__ import annotations

from collections.abc import Mapping

from dory_tflite.node import Operator
from dory_tflite.operators import (
    border,
    convolution,
    lstm,
    movers,
    pairwise,
    pools,
    state,
    svdf,
    tables,
)

OPERATORS: Mapping[str, Operator] = {
    operator.code: operator
    for module in (convolution, pools, pairwise, tables, movers, border, state, svdf, lstm)
    for operator in module.OPERATORS
}
