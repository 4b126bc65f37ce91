"""CUMSUM: dimensions of any rank, the most that the interpreter holds, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_tflite.golden import golden_arrays
from dory_tflite.importer import import_model
from dory_tflite.network import file_values
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder

from dory_core.api import NotSupported
from dory_core.testing import run_reference

FILE = Path("net.tflite")


def running_sum(
    shape: tuple[int, ...], axis: int, zero: int, scale: float = 0.5, **flags: bool
) -> tuple[bytes, int]:
    """Return a network of one CUMSUM, whose input has the scale 0.25, and its output."""
    b = TfliteBuilder()
    x, y = b.input(shape, 0.25, zero), b.tensor(shape, scale, 7)
    b.operator("CUMSUM", [x, b.constant(np.int32(axis))], [y], **flags)
    return b.build([y]), y


def is_exact(data: bytes, y: int, values: np.ndarray) -> bool:
    """Compare the output with TensorFlow Lite Micro's."""
    model = model_of(data, FILE)
    expected = golden_arrays(data, model, [{0: values}])[f"run0__t{y}"]
    imported = import_model(model)
    kind = imported.graph.tensors[imported.graph.inputs[0]]
    given = values.astype(np.int64).reshape(kind.height, kind.width, kind.channels)
    found = run_reference(imported.graph, {kind.name: given.transpose(2, 0, 1)})
    bound = imported.tensors[y]
    got = file_values(model.subgraphs[0].tensors[y], bound, found[bound.name])
    return np.array_equal(got, expected)


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
    pytest.importorskip("tflite_micro", reason="the extra golden of dory-tflite is not installed")
    random = np.random.default_rng(len(shape) + axis)
    values = random.integers(-128, 128, shape).astype(np.int8)
    assert is_exact(*running_sum(shape, axis, 9, **flags), values)


@pytest.mark.parametrize(("zero", "least"), [(-128, 15), (127, 15), (0, 31)])
def test_as_many_elements_as_the_interpreter_can_add_up(zero: int, least: int) -> None:
    """At both ends of its 32 bits, and one element more is refused."""
    pytest.importorskip("tflite_micro", reason="the extra golden of dory-tflite is not installed")
    for value in (-128, 127):
        values = np.full((1, least), value, np.int8)
        assert is_exact(*running_sum((1, least), 1, zero, 16.0), values)
    data, _ = running_sum((1, least + 1), 1, zero)
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
def test_other_sums_are_refused(network: tuple[bytes, int], words: str) -> None:
    with pytest.raises(NotSupported) as caught:
        import_model(model_of(network[0], FILE))
    assert words in caught.value.message
