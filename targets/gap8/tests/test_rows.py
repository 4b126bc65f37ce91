"""Layer normalisation and softmax of plain integers equal the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dory_gap8.backend import NormKernel, SharesKernel
from gap8_layers import BYTES, byte_cases, cases_of

from dory_core.api import Layer, ops
from dory_core.importing import Array, requant
from dory_core.testing import KernelConformance
from dory_core.testing.kernels import HostLibrary, alone, typed, whole_case

ROWS = ("norm", "shares")
BYTE = (-128, 127)


@pytest.mark.sample(2)  # of two seeds the first
class TestRows(KernelConformance):
    cases = staticmethod(byte_cases)
    kinds = ROWS


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("cores", range(1, 9))
def test_every_number_of_cores_computes_the_whole_tile(kind: str, cores: int) -> None:
    HostLibrary(cases_of(kind, 100 + cores, 20, cores, space=BYTES)).check()


def norm(channels: int, most: int, clip: tuple[int, int] = BYTE, **fields: object) -> Layer:
    weights = np.random.default_rng(channels).integers(-most, most, channels, endpoint=True)
    step = requant(1, 0, 1 << 16, *clip)
    layer = alone(ops.Norm, weights=Array(weights), requants=(step,), **fields)
    return typed(layer, (channels, 2, 3, -128, 127))


def test_norms_with_the_largest_products_and_all_roots() -> None:
    """A row of one value has the least root, one of the ends of a byte the largest."""
    cases = []
    for centred, most in ((False, (2**31 - 1) // 128), (True, (2**31 - 1) // 255)):
        for channels in (1, 2, 3, 12, 1001):
            layer = norm(channels, most, centred=centred)
            case = whole_case(NormKernel(), layer)
            cases.append(case)
            rng = np.random.default_rng(7)
            for reach in (0, 1, 2, 5, 60, 127):
                values = rng.choice([-reach - 1, reach], (channels, 2, 3))
                cases.append(replace(case, inputs=(values,)))
            cases.append(replace(case, inputs=(np.zeros((channels, 2, 3), np.int64),)))
    HostLibrary(cases).check()


def test_shares_of_one_and_of_many_channels() -> None:
    cases = []
    for most, factor in ((1, 1), (256, 255), (2_000_000, 255), (8_000_000, 127)):
        falling = np.ceil(most * np.exp(-np.arange(256) * 0.03)).astype(np.int64)
        for channels in (1, 2, 12, 255):
            layer = alone(ops.Shares, table=Array(falling), factor=factor)
            made = typed(layer, (channels, 1, 2, *BYTE))
            case = whole_case(SharesKernel(), made)
            equal = (np.full((channels, 1, 2), 7),)
            cases += [case, replace(case, inputs=equal)]
    HostLibrary(cases).check()


def test_what_they_leave_to_portable_kernels() -> None:
    table = Array(np.full(256, 1 << 23))
    twice = (requant(1, 0, 16, *BYTE), requant(3, 0, 4, *BYTE))
    weights = Array(np.ones(3, np.int64))
    shape = (3, 2, 2, *BYTE)
    reasons = [
        (NormKernel(), alone(ops.Norm, weights=weights, requants=twice), "more than a shift"),
        (NormKernel(), alone(ops.Norm, weights=weights), "more than a shift"),
        (SharesKernel(), alone(ops.Shares, table=table, factor=256), "exceed 31 bits"),
        (
            SharesKernel(),
            alone(ops.Shares, table=Array(np.ones(256, int)), factor=9, requants=(requant(3),)),
            "more than a sum and a clip",
        ),
        (SharesKernel(), alone(ops.Norm, weights=weights), "shares of integers only"),
        (NormKernel(), alone(ops.Lut, table=Array(np.zeros(256, int))), "in integers only"),
    ]
    for kernel, layer, reason in reasons:
        assert reason in kernel.accepts(typed(layer, shape)).reason
