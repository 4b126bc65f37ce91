"""The worked examples of docs/contract.md, byte by byte, and data laid out wrongly."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import diana_bytes as layout
import numpy as np
import pytest
from diana_layers import KINDS, SCALE
from diana_machine import BrokenRule, Machine

CONTRACT = (Path(__file__).parents[1] / "docs" / "contract.md").read_text()


def example(heading: str) -> bytes:
    """Return the bytes that the section's example shows: lines of an offset and bytes, or bytes."""
    section = CONTRACT.split(heading, 1)[1].split("Example", 1)[1]
    data = bytearray()
    started = False
    for line in section.splitlines()[1:]:
        if not line.startswith("    "):
            if started:
                break
            continue
        started = True
        text = re.sub(r"^(plane \d+:|planes .*|\d+ {2,})", "", line.strip()).strip()
        filled = re.fullmatch(r"(\d+) bytes 00", text)
        if filled:
            data += bytes(int(filled[1]))
            continue
        for group in text.split("   "):
            shown = re.sub(r"\.\. 00 \((\d+) bytes\)", r"*\1", group)
            head, _, size = shown.partition("*")
            part = bytes.fromhex(head)
            data += part.ljust(int(size), b"\0") if size else part
    return bytes(data)


def shown(data: np.ndarray, heading: str) -> None:
    expected = example(heading)
    assert expected, heading
    assert bytes(data[: len(expected)]) == expected, heading
    assert not data[len(expected) :].any()


def test_examples_of_activations_are_what_the_formulas_say() -> None:
    values = np.array([[[1, 2, 3]], [[11, 12, 13]]])
    shown(layout.digital_bytes(values), "### digital\n")
    shown(layout.vector_bytes(np.arange(1, 6).reshape(5, 1, 1)), "### digital vector")
    pixels = np.array([[1, 2, 3], [4, 5, 6]]).T.reshape(3, 1, 2)
    shown(layout.analog_bytes(pixels), "### analog\n")


def test_examples_of_constants_are_what_the_formulas_say() -> None:
    weights = np.arange(1, 17).reshape(16, 1, 1, 1)
    bias = np.zeros(16, np.int64)
    bias[:2] = 0x01020304, -2
    shown(layout.conv_weights(weights, bias), "### Digital convolution")
    depthwise = layout.depthwise_weights(
        np.arange(1, 5).reshape(4, 1, 1, 1), np.array([5, 0, 0, 0])
    )
    shown(depthwise, "### Digital depthwise convolution")
    rows = np.zeros((2, 16), np.int64)
    rows[0] = np.arange(1, 17)
    rows[1, 0] = -1
    shown(layout.linear_weights(rows, np.zeros(2, np.int64)), "### Digital fully connected")
    ternary = np.zeros((1, 16, 1, 1), np.int64)
    ternary[0, 0] = 1
    shown(layout.analog_weights(ternary), "### Analog weights")
    shown(layout.analog_requant(np.array([3]), np.array([-8])), "### Analog requantisation")


# --- seeded faults ---------------------------------------------------------------------------

Wrong = Callable[[np.ndarray], np.ndarray]


def in_memory_order(data: np.ndarray) -> np.ndarray:
    """Bytes that nobody reversed in groups of 4."""
    return data.reshape(-1, 4)[:, ::-1].reshape(-1)


def planes_reversed(data: np.ndarray) -> np.ndarray:
    """The most significant byte of the last block's bias first."""
    return np.concatenate([data[:-64], data[-64:].reshape(4, 16)[::-1].reshape(-1)])


def words(data: np.ndarray) -> np.ndarray:
    """Biases of the last block as 32-bit words."""
    planes = in_memory_order(data[-64:]).reshape(4, 16)
    return np.concatenate([data[:-64], planes.T.reshape(-1)])


def big_endian(data: np.ndarray) -> np.ndarray:
    """The first column in the last bit of a word's first byte, as another host would store it."""
    return data.reshape(-1, 4)[:, ::-1].reshape(-1)


def planes_swapped(data: np.ndarray) -> np.ndarray:
    """The plane of -1 first."""
    return data.reshape(-1, 2, 16)[:, ::-1].reshape(-1)


def shifted(data: np.ndarray) -> np.ndarray:
    """Everything four bytes too late."""
    return np.roll(data, 4)


FAULTS: list[tuple[str, str, Wrong]] = [
    ("conv", "digital_bytes", in_memory_order),
    ("conv", "digital_bytes", shifted),
    ("conv", "conv_weights", in_memory_order),
    ("conv", "conv_weights", planes_reversed),
    ("conv", "conv_weights", words),
    ("depthwise", "digital_bytes", in_memory_order),
    ("depthwise", "depthwise_weights", in_memory_order),
    ("depthwise", "depthwise_weights", shifted),
    ("linear", "vector_bytes", in_memory_order),
    ("linear", "linear_weights", in_memory_order),
    ("linear", "linear_weights", planes_reversed),
    ("linear", "linear_weights", words),
    ("sum", "digital_bytes", shifted),
    ("analog_conv", "analog_weights", big_endian),
    ("analog_conv", "analog_weights", planes_swapped),
    ("analog_conv", "analog_weights", shifted),
    ("analog_conv", "analog_bytes", in_memory_order),
    ("analog_conv", "analog_requant", shifted),
    ("analog_linear", "analog_weights", planes_swapped),
]


@pytest.mark.parametrize(
    ("kind", "packing", "wrong"), FAULTS, ids=[f"{k}-{p}-{w.__name__}" for k, p, w in FAULTS]
)
def test_data_laid_out_wrongly_is_found(
    kind: str, packing: str, wrong: Wrong, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a few random layers a fault of the model or a wrong number shows it."""
    right = getattr(layout, packing)
    monkeypatch.setattr(layout, packing, lambda *values: wrong(right(*values)))
    make, run = KINDS[kind]
    random = np.random.default_rng(11)
    found = 0
    for _ in range(6):
        case = make(random)
        try:
            found += not np.array_equal(run(case, Machine(adc_scale=SCALE), random), case.expected)
        except BrokenRule:
            found += 1
    assert found >= 3
