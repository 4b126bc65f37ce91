"""Weights of 4 bits, two in a byte of the file: every tensor equals TensorFlow Lite Micro's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_tflite.importer import import_model
from dory_tflite.reader import model_of
from dory_tflite.testing import TfliteBuilder, random_network

from dory_core.api import NotSupported
from frontends.tflite.tests.test_against_tflite_micro import differing
from frontends.tflite.tests.test_sixteen_bits import assert_application_is_exact, imported

pytest.importorskip("tflite_micro", reason="the extra golden is not installed")

OPERATORS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def test_numbers_are_those_of_the_bytes() -> None:
    """Five numbers in three bytes, the low half of each first."""
    b = TfliteBuilder()
    values = np.array([[-8, 7, -1, 0, 5]])
    found = model_of(b.build([b.nibbles(values, (0.1,))]), Path("net.tflite"))
    [tensor] = found.subgraphs[0].tensors
    assert tensor.data is not None
    assert (tensor.type, tensor.data.dtype, tensor.data.tolist()) == (
        "INT4",
        np.int8,
        values.tolist(),
    )


def test_a_buffer_of_another_size_is_damage() -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 5), 0.1, 0), b.tensor((1, 3), 0.1, 0)
    weights = b.constant(np.zeros((3, 5), np.int8), (0.1,))
    b.tensors[weights] = type(b.tensors[weights])(
        "", (3, 5), "INT4", bytes(7), (0.1,), (0,)
    )  # 15 numbers are 8 bytes
    b.operator("FULLY_CONNECTED", (x, weights), (y,))
    with pytest.raises(NotSupported, match=r"INT4 of shape .* has a buffer of 7 bytes"):
        imported(b.build((y,)))


@pytest.mark.parametrize("operation", OPERATORS)
def test_single_operators(operation: str) -> None:
    for seed in range(6):
        data = random_network(seed, only=operation, packed=True)
        assert differing(data, seed) == [], seed
        assert imported(data).layers[-1].weighted.weight_bits == 4


@pytest.mark.parametrize(
    ("operation", "target"),
    [("CONV_2D", "gap8"), ("DEPTHWISE_CONV_2D", "stm32h7"), ("FULLY_CONNECTED", "diana")],
)
def test_operator_is_exact_in_an_application(operation: str, target: str, tmp_path: Path) -> None:
    data = random_network(7, only=operation, packed=True)
    assert_application_is_exact(data, tmp_path, target)


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(3))
def test_networks_of_several_operators(seed: int, tmp_path: Path) -> None:
    data = random_network(seed, operations=6, packed=True)
    assert differing(data, seed) == []
    assert_application_is_exact(data, tmp_path, "gap8")


@pytest.mark.parametrize(
    ("code", "scales", "kind"),
    [
        ("FULLY_CONNECTED", (0.1, 0.2, 0.1), "INT8"),  # the interpreter takes one scale
        ("FULLY_CONNECTED", (0.1,), "INT16"),
        ("FULLY_CONNECTED", (0.1,), "UINT8"),
    ],
)
def test_what_the_interpreter_does_not_compute_is_refused(
    code: str, scales: tuple[float, ...], kind: str
) -> None:
    b = TfliteBuilder()
    x, y = b.input((1, 5), 0.1, 0, kind), b.tensor((1, 3), 0.1, 0, kind)
    b.operator(code, (x, b.nibbles(np.ones((3, 5), int), scales)), (y,))
    with pytest.raises(NotSupported, match=r"supported only if weights of 4 bits have activations"):
        import_model(model_of(b.build((y,)), Path("net.tflite")))
