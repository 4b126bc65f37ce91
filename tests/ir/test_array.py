"""Arrays of integers: their bounds, whatever they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from dory_core.ir import Array


@pytest.mark.parametrize("values", [[[-7, 3], [120, 0]], [5], [-(2**40), 2**33], [True, False], []])
def test_bounds_are_the_least_and_the_greatest_value(values: list[object]) -> None:
    every = np.asarray(values, dtype=np.int64).ravel().tolist()
    array = Array(np.asarray(values, dtype=None if values else np.int64))
    assert array.bounds == (min(every, default=0), max(every, default=0))
    assert all(type(bound) is int for bound in array.bounds)


def test_bounds_stay_as_they_are() -> None:
    array = Array([1, 2])
    with pytest.raises(AttributeError):
        array.bounds = (0, 0)
    assert array.bounds == (1, 2)
