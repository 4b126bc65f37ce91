"""Kinds that compute functions of all channels of a pixel: softmax and norms in plain integers."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from math import isqrt

import numpy as np
import pytest

from dory_core.errors import NotSupported
from dory_core.ir import Array, L2Norm, Norm, Op, Shares, reference
from dory_core.ir.fixed_point import inverse_root
from dory_core.testing.kernels import alone, typed, values_of
from dory_core.testing.random_layers import LayerSpace, RandomLayers


def shares_of_pixel(op: Shares, pixel: list[int]) -> list[int]:
    powers = [int(op.table.values[max(pixel) - x]) for x in pixel]
    return [op.factor * e // sum(powers) for e in powers]


def truncated(a: int, b: int) -> int:
    """C's division."""
    return abs(a) // b * (1 if a >= 0 else -1)


def norm_of_pixel(op: Norm, pixel: list[int]) -> list[int]:
    """Deeploy's iLayerNorm and iRMSNorm before their shift, in Python integers."""
    mean = truncated(sum(pixel), len(pixel)) if op.centred else 0
    root = isqrt(sum((x - mean) ** 2 for x in pixel) // len(pixel) + 1)
    bias = [0] * len(pixel) if op.bias is None else op.bias.values.tolist()
    found = []
    for x, weight, summand in zip(pixel, op.weights.values.tolist(), bias, strict=True):
        value = truncated((x - mean) * weight, root) + summand
        if op.wrap_bits:
            value = (value + (1 << op.wrap_bits - 1)) % (1 << op.wrap_bits)
            value -= 1 << op.wrap_bits - 1
        found.append(value)
    return found


@pytest.mark.parametrize(
    ("kind", "of_pixel"), [("shares", shares_of_pixel), ("norm", norm_of_pixel)]
)
def test_functions_of_a_pixel_are_those_of_the_definition(kind: str, of_pixel) -> None:
    draw = RandomLayers(LayerSpace(), seed=3)
    wrapped = 0
    for _ in range(60):
        layer = draw.layer(kind)
        op, ranges = layer.op, layer.ranges
        x = values_of(layer.inputs[0], draw.numbers)
        found = reference.run_layer(layer, (x,))
        for h, w in np.ndindex(x.shape[1:]):
            accumulators = of_pixel(op, x[:, h, w].tolist())
            assert ranges.acc_lo <= min(accumulators) and max(accumulators) <= ranges.acc_hi
            for c, acc in enumerate(accumulators):
                assert found[c, h, w] == reduce(lambda v, s: s.scalar(v, c), op.requants, acc)
            if kind == "norm" and op.wrap_bits:
                wrapped += accumulators != of_pixel(replace(op, wrap_bits=0), x[:, h, w].tolist())
    assert wrapped > 10 or kind != "norm"


def test_bounds_of_a_normalisation_are_reached() -> None:
    """One channel that stands out has the largest quotient; no bound is far from it."""
    weights = Array(np.full(16, 1000, int))
    layer = typed(alone(Norm, weights=weights), (16, 1, 1, -128, 127))
    found = []
    for value in range(128):
        pixel = np.zeros((16, 1, 1), np.int64)
        pixel[3] = value
        found.append(int(reference.run_layer(layer, (pixel,)).max()))
    assert max(found) == layer.ranges.acc_hi


def test_inverse_root_is_that_of_reals() -> None:
    numbers = np.unique(np.geomspace(2, (1 << 31) - 1, 20_000).astype(np.int64))
    mantissa, shift = inverse_root(numbers)
    assert (mantissa < 1 << 31).all() and (shift >= 0).all()
    found = mantissa / 2.0 ** (31 + shift)
    assert np.abs(found * np.sqrt(numbers) - 1).max() < 2e-6


def test_l2_norm_is_that_of_reals_to_an_integer() -> None:
    layer = typed(alone(L2Norm, zero_point=5), (24, 9, 9, -128, 127))
    x = values_of(layer.inputs[0], np.random.default_rng(4))
    real = 128 * (x - 5) / np.sqrt(((x - 5) ** 2).sum(axis=0))
    assert np.abs(reference.run_layer(layer, (x,)) - real).max() < 0.501
    assert layer.ranges.acc_hi == 129
    alone_in_pixel = np.full((24, 9, 9), 5)
    alone_in_pixel[3] = 127
    assert reference.run_layer(layer, (alone_in_pixel,)).max() == 128
    assert reference.run_layer(layer, (np.full((24, 9, 9), 5),)).max() == 0


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (alone(Shares, table=Array(np.ones(255, int)), factor=255), "a table of shape"),
        (alone(Shares, table=Array(np.arange(256)), factor=255), "none for the largest"),
        (alone(Shares, table=Array(np.full(256, 1 << 30)), factor=255), "exceed 32 bits"),
        (alone(L2Norm, zero_point=200), "squares of values in"),
        (alone(Norm, weights=Array([1, 2])), "constants of shape"),
        (alone(Norm, weights=Array([1, 1 << 30, 2])), "products up to 137438953472 exceed"),
        (alone(Norm, weights=Array([1, 1, 2]), wrap_bits=33), "wraps to 33 bits"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(layer: Op, reason: str) -> None:
    with pytest.raises(NotSupported, match=reason) as caught:
        typed(layer, (3, 4, 5, -128, 127))
    assert f"{layer.kind} '{layer.name}'" in caught.value.message
