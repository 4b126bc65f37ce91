"""Storage form of tensors: round trip for every type, and the exact bytes of small examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dory_core.ir import Tensor
from dory_core.ir.packing import pack, pack_rows, unpack, unpack_rows


def tensor(channels: int, height: int, width: int, bits: int, signed: bool) -> Tensor:
    lo, hi = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return Tensor("layer_00", channels, height, width, lo, hi, bits, signed)


@given(
    bits=st.sampled_from([2, 4, 8, 16, 32]),
    signed=st.booleans(),
    shape=st.tuples(*[st.integers(1, 9)] * 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_unpack_is_the_inverse_of_pack(
    bits: int, signed: bool, shape: tuple[int, int, int], seed: int
) -> None:
    described = tensor(*shape, bits, signed)
    rng = np.random.default_rng(seed)
    size = (described.height, described.width, described.channels)
    values = rng.integers(described.lo, described.hi, size, dtype=np.int64, endpoint=True)
    values.flat[0], values.flat[-1] = described.lo, described.hi
    data = pack(values, described)
    assert len(data) == described.size_bytes
    np.testing.assert_array_equal(unpack(data, described), values)


@pytest.mark.parametrize(
    ("values", "bits", "signed", "packed"),
    [
        ([1, 2, 3, 0, 1], 2, False, [0b00111001, 0b01]),
        ([-1, -2, 1], 2, True, [0b011011]),
        ([1, 15, 7], 4, False, [0xF1, 0x07]),
        ([-1, -8, 7], 4, True, [0x8F, 0x07]),
        ([-1, 2], 8, True, [0xFF, 0x02]),
        ([0x1234, 1], 16, False, [0x34, 0x12, 1, 0]),
        ([-2], 32, True, [0xFE, 0xFF, 0xFF, 0xFF]),
        ([2**32 - 1], 32, False, [0xFF] * 4),
    ],
)
def test_bytes_of_a_row(values: list[int], bits: int, signed: bool, packed: list[int]) -> None:
    assert pack_rows(np.array(values), bits, signed).tolist() == packed
    assert unpack_rows(np.array(packed), len(values), bits, signed).tolist() == values


def test_every_pixel_starts_on_a_byte() -> None:
    values = np.array([[[1, 2, 3], [4, 5, 6]]])
    assert pack(values, tensor(3, 1, 2, 4, False)) == bytes([0x21, 0x03, 0x54, 0x06])


@pytest.mark.parametrize(("value", "signed"), [(16, False), (-1, False), (8, True), (-9, True)])
def test_value_outside_the_storage_is_refused(value: int, signed: bool) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        pack_rows(np.array([0, value]), 4, signed)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(1, 2, 3\)"):
        pack(np.zeros((3, 1, 2), int), tensor(3, 1, 2, 8, False))
    with pytest.raises(ValueError, match="takes 6 bytes, not 7"):
        unpack(bytes(7), tensor(3, 1, 2, 8, False))
    with pytest.raises(ValueError, match="take 2 bytes, not 3"):
        unpack_rows(np.zeros(3), 3, 4, False)


def test_floats_are_refused() -> None:
    with pytest.raises(TypeError, match="integers"):
        pack_rows(np.array([1.5]), 8, True)


def test_halves_of_four_channels_lie_together() -> None:
    halved = Tensor("sum", 8, 1, 1, 0, 510, 16, False, halves=True)
    values = np.array([0, 1, 2, 255, 256, 509, 510, 7]).reshape(1, 1, 8)
    data = pack(values, halved)
    assert list(data[:8]) == [0, 0, 1, 127, 0, 1, 1, 128]
    assert list(data[8:]) == [128, 254, 255, 3, 128, 255, 255, 4]
    np.testing.assert_array_equal(unpack(data, halved), values)
    every = Tensor("sum", 512, 1, 1, 0, 510, 16, False, halves=True)
    numbers = np.arange(512).clip(0, 510).reshape(1, 1, 512)
    np.testing.assert_array_equal(unpack(pack(numbers, every), every), numbers)


def test_what_two_bytes_do_not_hold_is_no_halves() -> None:
    halved = Tensor("sum", 4, 1, 1, 0, 510, 16, False, halves=True)
    with pytest.raises(ValueError, match="do not fit"):
        pack(np.array([0, 511, 0, 0]).reshape(1, 1, 4), halved)
