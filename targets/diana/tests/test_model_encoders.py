"""The generator's layouts and encoders against the formulas of the contract, written twice."""

from __future__ import annotations

import diana_bytes as contract
import numpy as np
import pytest
from dory_diana.backend.layouts import ANALOG, DIGITAL, DIGITAL_VECTOR
from dory_diana.weights import analog, digital

from dory_core.api import Layout, Tensor

SEEDS = range(20)


def _shape(random: np.random.Generator, most: int) -> tuple[int, int, int, int]:
    k, c = (int(random.integers(1, most)) for _ in range(2))
    fy, fx = (int(random.choice([1, 3, 5, 7])) for _ in range(2))
    return k, c, fy, fx


@pytest.mark.parametrize("seed", SEEDS)
def test_digital_blocks_are_those_of_the_contract(seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = _shape(random, 50)
    weights = random.integers(-128, 128, shape)
    bias = random.integers(-(2**31), 2**31, shape[0])
    assert digital.encode_conv(weights, bias) == contract.conv_weights(weights, bias).tobytes()
    depthwise = contract.depthwise_weights(weights[:, :1], bias).tobytes()
    assert digital.encode_depthwise(weights[:, 0], bias) == depthwise
    rows = random.integers(-128, 128, (shape[0], 16 * shape[1]))
    blocks = [
        contract.linear_weights(rows[n : n + 16], bias[n : n + 16]) for n in range(0, len(rows), 16)
    ]
    assert digital.encode_linear(rows, bias) == np.concatenate(blocks).tobytes()


@pytest.mark.parametrize("seed", SEEDS)
def test_analog_images_are_those_of_the_contract(seed: int) -> None:
    random = np.random.default_rng(seed)
    k, c, fy, fx = _shape(random, 60)
    c = min(contract.up(c, 16), 1152 // (fy * fx) // 16 * 16)
    weights = random.integers(-1, 2, (k, c, fy, fx))
    image = contract.analog_weights(weights).tobytes()
    assert analog.encode_image(weights.reshape(k, -1)) == image
    mul, add = random.integers(-(2**31), 2**31, (2, k))
    assert analog.encode_pairs(mul, add) == contract.analog_requant(mul, add).tobytes()


@pytest.mark.parametrize("seed", SEEDS)
def test_layouts_are_those_of_the_contract(seed: int) -> None:
    random = np.random.default_rng(seed)
    c, h, w = (int(n) for n in random.integers(1, 80, 3))
    values = random.integers(-128, 128, (c, h, w))
    tensor = Tensor("x", c, h, w, -128, 127, 8, True)
    pairs: list[tuple[Layout, np.ndarray]] = [
        (DIGITAL, contract.digital_bytes(values)),
        (DIGITAL_VECTOR, contract.vector_bytes(values)),
        (ANALOG, contract.analog_bytes(values)),
    ]
    for layout, expected in pairs:
        assert layout.size_bytes(tensor) == len(expected), layout.name
        assert bytes(layout.pack(values, tensor)) == expected.tobytes(), layout.name
