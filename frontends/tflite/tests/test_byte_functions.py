"""Tables of functions of one byte: close to the real function, and pinned values of the kernels.

``test_against_tflite_micro.py`` compares them with TensorFlow Lite Micro itself.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from dory_tflite.byte_functions import (
    Quantisation,
    hard_swish_table,
    leaky_relu_table,
    logistic_table,
    prelu_table,
    quantize_table,
    relu_table,
    tanh_table,
)
from dory_tflite.exponentials import softmax, softmax_table

Real = npt.NDArray[np.float64]
SCALES = [0.001, 0.05, 1.5]
TWICE_ROUNDED = 0.76  # by the multiplication and by the shift


def worst(
    x: Quantisation, y: Quantisation, table: npt.NDArray[np.int64], f: Callable[[Real], Real]
) -> float:
    exact = f(x.centred * float(np.float32(x.scale))) / y.scale + y.zero_point
    return float(np.abs(table - np.clip(exact, *y.bounds)).max())


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("zero_point", [-128, -7, 0, 127])
def test_tables_are_the_functions_rounded(scale: float, zero_point: int) -> None:
    x = Quantisation(scale, zero_point)
    y = Quantisation(1 / 256, -128)
    assert worst(x, y, logistic_table(x, y), lambda v: 1 / (1 + np.exp(-v))) < 0.51
    y = Quantisation(1 / 128, 0)
    assert worst(x, y, tanh_table(x, y), np.tanh) < 0.51
    y = Quantisation(scale * 0.7, 5)
    assert worst(x, y, quantize_table(x, y), lambda v: v) < TWICE_ROUNDED
    assert (
        worst(x, y, leaky_relu_table(x, y, 0.3), lambda v: np.where(v < 0, 0.3 * v, v))
        < TWICE_ROUNDED
    )
    alpha = Quantisation(0.01, -3)
    slope = (40 + 3) * 0.01
    prelu = prelu_table(x, y, alpha, 40)
    assert worst(x, y, prelu, lambda v: np.where(v < 0, slope * v, v)) < TWICE_ROUNDED
    y = Quantisation(scale * 0.9, -20)
    relu = relu_table(x, y, -20, 127)
    assert worst(x, y, relu, lambda v: np.maximum(v, 0)) < TWICE_ROUNDED
    assert worst(x, y, hard_swish_table(x, y), lambda v: v * np.clip(v + 3, 0, 6) / 6) < 1.5


def test_one_byte_type_becomes_another() -> None:
    x, y = Quantisation(0.5, 0), Quantisation(0.5, 128, signed=False)
    assert quantize_table(x, y).tolist() == list(range(256))


def test_logistic_saturates_outside_of_its_fixed_point() -> None:
    table = logistic_table(Quantisation(10.0, 0), Quantisation(1 / 256, -128))
    assert table[[0, 126, 127, 129, 130, 255]].tolist() == [-128, -128, -128, 127, 127, 127]
    assert table[128] == -128  # no stored value is inside; the kernel asks for the low end first


def test_hard_swish_refuses_what_the_kernel_refuses() -> None:
    with pytest.raises(ValueError, match="below 1/128"):
        hard_swish_table(Quantisation(1.0, 0), Quantisation(0.003, 0))


@pytest.mark.parametrize("scale", [0.004, 0.06, 0.4])
@pytest.mark.parametrize("size", [1, 2, 10, 400])
def test_softmax_is_close_to_the_real_one(scale: float, size: int) -> None:
    values = np.random.default_rng(size).integers(-128, 128, (7, size))
    found = softmax(values, softmax_table(1.0, scale))
    exact = np.exp(values * scale)
    exact /= exact.sum(axis=-1, keepdims=True)
    assert np.abs(found - np.minimum(exact * 256 - 128, 127)).max() < 0.51


def test_softmax_leaves_out_what_is_too_far() -> None:
    assert softmax([-128, 127, 127], softmax_table(1.0, 0.5)).tolist() == [-128, 0, 0]
    assert softmax_table(1.0, 0.5).exps[63:65] == (0, 0)


@pytest.mark.parametrize("scale", [7.9, 8.0, 16.0, 20.0, 1e9])
def test_scales_beyond_the_radius_of_the_kernels_saturate(scale: float) -> None:
    x = Quantisation(scale, 3)
    table = tanh_table(x, Quantisation(1 / 128, 0))
    below = -128 if scale >= 8 else 0
    assert table[x.values == 3] == below and set(table[x.values > 3]) == {127}
    assert set(table[x.values < 3]) == {-128}
