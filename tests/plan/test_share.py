"""Which layers have one form of program, and so one function."""

from __future__ import annotations

from dory_core.expr import Var
from dory_core.plan.share import _Reader


def test_the_number_of_a_part_is_another_one_in_each_layer() -> None:
    """It is the place in the layer's own table; a function of several layers has no such table."""
    part = Var("part", 0, 3)
    keys = [_Reader(step, {}).value(part * 16 + 8) for step in range(200)]
    assert len(set(keys)) == 200


def test_variables_of_tiles_are_alike_in_all_layers() -> None:
    keys = {_Reader(step, {}).value(Var("h", 0, 3) * 16) for step in range(20)}
    assert len(keys) == 1
