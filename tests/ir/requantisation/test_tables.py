"""Layers as tables of a byte: every value that the input may have, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from dory_core.ir import Array, Requant, ops, requant
from dory_core.ir.reference import run_layer
from dory_core.ir.requantisation import byte_table
from dory_core.testing.kernels import alone, typed

STEP = requant([3, 5, 9], 7, 16, -128, 127)
ONE = requant(3, 7, 16, -128, 127, add_negative=5)
NUMBERS = Array(np.array([-9, 4, 77]).reshape(3, 1, 1))
NUMBER = Array(np.array([[[5]]]))


@pytest.mark.parametrize("bounds", [(0, 255), (-128, 127), (-100, 3), (4, 90)])
@pytest.mark.parametrize("kind", [ops.Add, ops.Mul, ops.Maximum, ops.Minimum])
@pytest.mark.parametrize(
    ("constant", "steps", "last", "shape"),
    [
        (NUMBER, (None, None), ONE, (256,)),
        (NUMBER, (ONE, ONE), ONE, (256,)),
        (NUMBER, (STEP, None), ONE, (3, 256)),
        (NUMBERS, (None, ONE), ONE, (3, 256)),
        (NUMBER, (None, None), STEP, (3, 256)),
    ],
)
def test_tables_are_the_reference(
    kind: type[ops.Pairwise],
    bounds: tuple[int, int],
    constant: Array,
    steps: tuple[Requant | None, Requant | None],
    last: Requant,
    shape: tuple[int, ...],
) -> None:
    lo, hi = bounds
    pair = alone(
        kind, inputs=("input",), constant=constant, operand_requants=steps, requants=(last,)
    )
    layer = typed(pair, (3, 1, hi - lo + 1, lo, hi))
    table = byte_table(layer)
    assert table is not None and table.shape == shape
    x = np.arange(lo, hi + 1)
    expected = run_layer(layer, (np.tile(x, (3, 1, 1)),))[:, 0]
    assert np.array_equal(np.broadcast_to(table, (3, 256))[:, x & 255], expected)


def test_other_layers_are_no_tables() -> None:
    """Two tensors, a number for each row, inputs beyond a byte, sums."""
    rows = Array(np.arange(4).reshape(1, 4, 1))
    number = alone(ops.Add, inputs=("input",), constant=NUMBER, requants=(ONE,))
    byte = (3, 4, 2, 0, 255)
    for layer in (
        typed(alone(ops.Add, requants=(ONE,)), byte, byte),
        typed(alone(ops.Add, inputs=("input",), constant=rows, requants=(ONE,)), byte),
        typed(number, (3, 4, 2, 0, 256)),
        typed(number, (3, 4, 2, -1, 128)),
        typed(alone(ops.MaxPool, window=ops.Window(kernel=(1, 1))), byte),
    ):
        assert byte_table(layer) is None
