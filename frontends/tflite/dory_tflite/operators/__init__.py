"""Operators by name; each module has those of one family."""

from __future__ import annotations

from collections.abc import Mapping

from dory_core.importing import ReadOperator
from dory_tflite.node import Operator
from dory_tflite.operators import (
    border,
    choices,
    convolution,
    functions,
    gathers,
    islands,
    lstm,
    matmul,
    movers,
    pairwise,
    phases,
    pools,
    quotients,
    running_sums,
    state,
    svdf,
    tables,
)

_FAMILIES = (
    *(convolution, matmul, phases, pools, pairwise, tables, functions, movers, gathers),
    *(choices, quotients, running_sums, border, state, svdf, lstm),
)

OPERATORS: Mapping[str, Operator] = {
    operator.code: operator for module in _FAMILIES for operator in module.OPERATORS
}


def read_operators() -> list[ReadOperator]:
    """Return the operators with the sentences of the constraints that the importer checks."""
    found = {
        code: ReadOperator(code, one.becomes, tuple(c.sentence for c in one.constraints))
        for code, one in OPERATORS.items()
    }
    between = ("it stands between a DEQUANTIZE and a QUANTIZE",)
    for code in islands.FUNCTIONS - found.keys():
        found[code] = ReadOperator(code, "Lut", between)
    left = ("it stands behind the last integers",)
    found["CUSTOM"] = ReadOperator("CUSTOM", "nothing: left to the application", left)
    return [found[code] for code in sorted(found)]
