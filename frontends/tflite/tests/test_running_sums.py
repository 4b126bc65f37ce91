"""CUMSUM: dimensions of any rank, the most that the interpreter holds, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder

from dory_core.api import NotSupported
from frontends.tflite.tests.test_against_tflite_micro import differing

FILE = Path("net.tflite")


def running_sum(
    shape: tuple[int, ...], axis: int, zero: int, scale: float = 0.5, **flags: bool
) -> bytes:
    """Return a network of one CUMSUM, whose input has the scale 0.25."""
    b = TfliteBuilder()
    x, y = b.input(shape, 0.25, zero), b.tensor(shape, scale, 7)
    b.operator("CUMSUM", [x, b.constant(np.int32(axis))], [y], **flags)
    return b.build([y])


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((11,), 0), ((1, 9), -1), ((4, 7), 0), ((3, 2, 4, 2, 5), 2), ((3, 2, 4, 2, 5), 0)],
)
@pytest.mark.parametrize(
    "flags", [{}, {"Exclusive": True}, {"Reverse": True}, {"Exclusive": True, "Reverse": True}]
)
def test_sums_along_any_dimension(
    shape: tuple[int, ...], axis: int, flags: dict[str, bool]
) -> None:
    random = np.random.default_rng(len(shape) + axis)
    values = random.integers(-128, 128, shape).astype(np.int8)
    assert differing(running_sum(shape, axis, 9, **flags), inputs={0: values}) == []


@pytest.mark.parametrize(("zero", "least"), [(-128, 15), (127, 15), (0, 31)])
def test_as_many_elements_as_the_interpreter_can_add_up(zero: int, least: int) -> None:
    """At both ends of its 32 bits, and one element more is refused."""
    for value in (-128, 127):
        values = np.full((1, least), value, np.int8)
        assert differing(running_sum((1, least), 1, zero, 16.0), inputs={0: values}) == []
    data = running_sum((1, least + 1), 1, zero)
    with pytest.raises(NotSupported) as caught:
        import_model(model_of(data, FILE))
    assert f"sums of {least + 1} elements are" in caught.value.message
    assert "the interpreter's 32 bits hold -4095 to 4095" in caught.value.message
    assert "multiply by a constant triangle of ones" in caught.value.hint


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (running_sum((1, 9), 2, 0), "supported only if the dimension is one of the input's"),
        (running_sum((1, 9), 1, 0, 2.0**-22), "scales that differ by a factor of 2^19 or more"),
    ],
)
def test_other_sums_are_refused(network: bytes, words: str) -> None:
    with pytest.raises(NotSupported) as caught:
        import_model(model_of(network, FILE))
    assert words in caught.value.message
