"""Constants as the arrays read them: the examples of the contract, and single bytes."""

from __future__ import annotations

import numpy as np
import pytest
from dory_diana.weights import analog, digital
from hypothesis import given, settings
from hypothesis import strategies as st

KERNELS = st.tuples(st.sampled_from([1, 3, 5, 7]), st.sampled_from([1, 3, 5, 7]))
SEEDS = st.integers(0, 2**32 - 1)


def int32(random: np.random.Generator, count: int) -> np.ndarray:
    return random.integers(-(1 << 31), 1 << 31, count)


# -- the digital array --------------------------------------------------------------------------


def test_convolution_of_the_contract() -> None:
    weights = np.zeros((16, 1, 1, 1), dtype=np.int64)
    weights[:, 0, 0, 0] = range(1, 17)
    bias = np.zeros(16, dtype=np.int64)
    bias[:2] = 0x01020304, -2
    data = digital.encode_conv(weights, bias)
    assert len(data) == 320
    assert data[:16].hex() == "04030201080706050c0b0a09100f0e0d"
    assert not any(data[16:256])
    planes = ["0000fe04", "0000ff03", "0000ff02", "0000ff01"]
    assert data[256:].hex() == "".join(f"{plane}{'0' * 24}" for plane in planes)


def test_depthwise_convolution_of_the_contract() -> None:
    weights = np.array([1, 2, 3, 4]).reshape(4, 1, 1)
    data = digital.encode_depthwise(weights, np.array([5, 0, 0, 0]))
    assert len(data) == 4 * 80
    assert data[:16].hex() == "00000001000000020000000300000004"
    assert data[16:32].hex() == "00000005" + "0" * 24
    assert not any(data[32:])


def test_fully_connected_layer_of_the_contract() -> None:
    weights = np.zeros((2, 16), dtype=np.int64)
    weights[0] = range(1, 17)
    weights[1, 0] = -1
    data = digital.encode_linear(weights, np.zeros(2, dtype=np.int64))
    assert len(data) == 320
    assert data[:32].hex() == "04030201080706050c0b0a09100f0e0d000000ff" + "0" * 24
    assert not any(data[32:])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), KERNELS, SEEDS)
def test_every_weight_of_a_convolution_is_where_the_contract_says(
    outputs: int, channels: int, kernel: tuple[int, int], seed: int
) -> None:
    random = np.random.default_rng(seed)
    weights = random.integers(-128, 128, (outputs, channels, *kernel))
    bias = int32(random, outputs)
    data = digital.encode_conv(weights, bias)
    size = digital.conv_block_bytes(channels, kernel[0] * kernel[1])
    assert len(data) == -(-outputs // 16) * size
    for _ in range(20):
        k, c, i, j = (int(random.integers(n)) for n in weights.shape)
        place = k // 16 * size + ((((c * kernel[0] + i) * kernel[1] + j) * 16 + k % 16) ^ 3)
        assert np.int8(np.uint8(data[place])) == weights[k, c, i, j]
        planes = [data[k // 16 * size + size - 64 + ((p * 16 + k % 16) ^ 3)] for p in range(4)]
        assert int.from_bytes(bytes(planes), "little", signed=True) == bias[k]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 70), KERNELS, SEEDS)
def test_weights_of_depthwise_blocks_are_where_the_contract_says(
    count: int, kernel: tuple[int, int], seed: int
) -> None:
    random = np.random.default_rng(seed)
    weights, bias = random.integers(-128, 128, (count, *kernel)), int32(random, count)
    data = digital.encode_depthwise(weights, bias)
    size = digital.depthwise_block_bytes(kernel[0] * kernel[1])
    assert len(data) == -(-count // 16) * 4 * size
    c, i, j = (int(random.integers(n)) for n in weights.shape)
    place = c // 4 * size + (((i * kernel[1] + j) * 16 + 4 * (c % 4)) ^ 3)
    assert np.int8(np.uint8(data[place])) == weights[c, i, j]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 20), SEEDS)
def test_weights_of_fully_connected_blocks_are_where_the_contract_says(
    outputs: int, sixteens: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    weights = random.integers(-128, 128, (outputs, 16 * sixteens))
    bias = int32(random, outputs)
    data = digital.encode_linear(weights, bias)
    size = digital.linear_block_bytes(16 * sixteens)
    k, c = (int(random.integers(n)) for n in weights.shape)
    place = k // 16 * size + (((c // 16 * 16 + k % 16) * 16 + c % 16) ^ 3)
    assert np.int8(np.uint8(data[place])) == weights[k, c]


def test_numbers_that_do_not_fit_are_refused() -> None:
    zero = np.zeros(1, dtype=np.int64)
    with pytest.raises(OverflowError, match="8 bits"):
        digital.encode_conv(np.full((1, 1, 1, 1), 128), zero)
    with pytest.raises(OverflowError, match="32 bits"):
        digital.encode_linear(np.zeros((1, 16), dtype=np.int64), np.array([1 << 31]))


# -- the analog array ---------------------------------------------------------------------------


def test_image_of_the_contract() -> None:
    weights = np.zeros((1, 16), dtype=np.int64)
    weights[0, 0] = 1
    data = analog.encode_image(weights)
    assert len(data) == 9216
    assert data[9200:9204].hex() == "00000080"
    assert not any(data[:9200]) and not any(data[9204:])


def test_pairs_of_the_contract() -> None:
    assert analog.encode_pairs(np.array([3]), np.array([-8])).hex() == "03000000f8ffffff"


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 300), st.integers(1, 1152), SEEDS)
def test_every_bit_of_an_image_is_where_the_contract_says(
    outputs: int, inputs: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    weights = random.integers(-1, 2, (outputs, inputs))
    data = analog.encode_image(weights)
    rows, columns = -(-inputs // 288) * 288, -(-outputs // 128) * 128
    assert len(data) == rows * columns // 4
    words = np.frombuffer(data, "<u4").reshape(rows, 2, columns // 32)
    for _ in range(50):
        k, r = int(random.integers(outputs)), int(random.integers(inputs))
        m = rows - 1 - r
        b = m // 64
        turned = not 6 <= b <= 11 if k % 2 == 0 else b <= 8
        plus, minus = (int(words[m, p, k // 32]) >> 31 - k % 32 & 1 for p in (0, 1))
        assert (minus - plus if turned else plus - minus) == weights[k, r]


def test_numbers_that_the_analog_array_does_not_know_are_refused() -> None:
    with pytest.raises(ValueError, match="-1, 0 and 1"):
        analog.encode_image(np.full((100, 200), 2))
    with pytest.raises(OverflowError, match="32 bits"):
        analog.encode_pairs(np.array([1]), np.array([1 << 31]))
