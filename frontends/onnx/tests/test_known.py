"""The operators that dialects list are those that the import knows."""

from __future__ import annotations

from dory_onnx import read_operators
from dory_onnx.chains import RESHAPES
from dory_onnx.dialect import Dialect
from dory_onnx.means import REDUCTIONS
from dory_onnx.movers import MOVERS
from dory_onnx.operators import LAYER_OPERATORS


def test_every_operator_of_the_import_is_listed() -> None:
    known = {"Max", "Min", "Pad"} | LAYER_OPERATORS | REDUCTIONS | MOVERS | RESHAPES
    found = {one.name for one in read_operators(Dialect())}
    assert found == known | Dialect.arithmetic
