"""DIV of bytes: every quotient, tables of them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_tflite.byte_functions import quotients
from dory_tflite.golden import golden_arrays
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder

from dory_core.api import NotSupported

SHAPE = (1, 4, 4, 3)
FILE = Path("net.tflite")
BYTES = np.arange(-128, 128, dtype=np.int8)


def softsign(b: TfliteBuilder, x: int) -> int:
    """Append x / (1 + |x|) as Keras' converter writes it."""
    one = b.constant(np.array(127, np.int8), [1 / 255], [-128])
    size, below, y = (b.tensor(SHAPE, *q) for q in ((0.03, -128), (0.034, -128), (1 / 128, 0)))
    b.operator("ABS", [x], [size])
    b.operator("ADD", [size, one], [below])
    b.operator("DIV", [x, below], [y])
    return y


@pytest.mark.parametrize("zeros", [(3, -20, 5), (-128, -128, -128), (127, 0, -7)])
@pytest.mark.parametrize("scales", [(0.05, 0.02, 0.01), (0.01, 0.01, 2.0**-7), (0.3, 0.003, 0.1)])
def test_every_quotient_of_two_bytes_is_that_of_the_interpreter(
    scales: tuple[float, float, float], zeros: tuple[int, int, int]
) -> None:
    """Those over 0, too."""
    pytest.importorskip("tflite_micro", reason="the extra golden of dory-tflite is not installed")
    b = TfliteBuilder()
    first, second, third = ((float(np.float32(s)), z) for s, z in zip(scales, zeros, strict=True))
    above, below = (b.input((1, 256, 256, 1), *q) for q in (first, second))
    y = b.tensor((1, 256, 256, 1), *third)
    b.operator("DIV", [above, below], [y])
    data = b.build([y])
    pairs = np.meshgrid(BYTES, BYTES, indexing="ij")
    given = {n: values.reshape(1, 256, 256, 1) for n, values in enumerate(pairs)}
    expected = golden_arrays(data, model_of(data, FILE), [given])[f"run0__t{y}"].reshape(256, 256)
    centred = [v.astype(np.int64) - q[1] for v, q in zip(pairs, (first, second), strict=True)]
    found = quotients(centred[0], centred[1], first[0] / second[0] / third[0]) + third[1]
    assert np.array_equal(np.clip(found, -128, 127), expected)


def test_softsign_is_one_table() -> None:
    b = TfliteBuilder()
    data = b.build([softsign(b, b.input(SHAPE, 0.03, 5))])
    graph = import_model(model_of(data, FILE)).graph
    assert [(op.kind, op.index) for op in graph.ops] == [("Lut", 0)]


def _two_tensors(b: TfliteBuilder, x: int) -> list[int]:
    return [x, b.input(SHAPE, 0.02, 4)]


def _constant_of_channels(b: TfliteBuilder, x: int) -> list[int]:
    return [x, b.constant(np.array([5, 6, 7], np.int8), [0.02])]


def _repeated(b: TfliteBuilder, x: int) -> list[int]:
    return [b.input((1, 1, 1, 3), 0.02, 4), b.constant(np.array(5, np.int8), [0.02])]


def _small_quotients(b: TfliteBuilder, x: int) -> list[int]:
    return [x, b.constant(np.array(127, np.int8), [2.0])]


@pytest.mark.parametrize(
    ("operands", "words"),
    [
        (_two_tensors, "both operands are computed, and no byte decides both"),
        (_constant_of_channels, "it has a constant of several values; supported is one"),
        (_repeated, "one operand is repeated"),
        (_small_quotients, "scales that bring quotients to a factor of 0.25"),
    ],
)
def test_other_quotients_are_refused(operands: object, words: str) -> None:
    assert callable(operands)
    b = TfliteBuilder()
    inputs, y = operands(b, b.input(SHAPE, 0.01, 3)), b.tensor(SHAPE, 0.02, 0)
    b.operator("DIV", inputs, [y])
    with pytest.raises(NotSupported) as caught:
        import_model(model_of(b.build([y]), FILE))
    assert words in caught.value.message
