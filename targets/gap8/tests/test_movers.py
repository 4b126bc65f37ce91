"""Tables, slices, padding, interpolation and softmax of bytes equal the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dory_gap8.backend import LutKernel, MoveKernel, ResizeKernel, SoftmaxKernel
from gap8_layers import BYTES, byte_cases, cases_of

from dory_core.api import Array, Layer, ops, requant
from dory_core.testing import KernelConformance
from dory_core.testing.kernels import HostLibrary, alone, typed, whole_case

MOVERS = ("lut", "slice", "pad", "resize", "softmax")


class TestMovers(KernelConformance):
    cases = staticmethod(byte_cases)
    kinds = MOVERS

    @pytest.mark.slow
    def test_sanitizers_find_nothing_in_a_sample(self, sanitizer: str, count: int) -> None:
        """Every kind of layer."""
        super().test_sanitizers_find_nothing_in_a_sample(sanitizer, count)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MOVERS)
@pytest.mark.parametrize("cores", range(1, 9))
def test_every_number_of_cores_computes_the_whole_tile(kind: str, cores: int) -> None:
    HostLibrary(cases_of(kind, 100 + cores, 20, cores, space=BYTES)).check()


def lut(shape: tuple[int, int, int]) -> Layer:
    table = np.random.default_rng(1).integers(-128, 128, 256)
    return typed(alone(ops.Lut, table=Array(table)), (*shape, 0, 255))


def test_sizes_that_are_no_words() -> None:
    cases = [whole_case(LutKernel(), lut((c, h, 3))) for c in (1, 2, 5) for h in (1, 7)]
    pads = [((0, 0, 0), (n, 0, 0)) for n in (1, 4, 7)]
    pads += [((n, 1, 2), (0, 2, 1)) for n in (0, 1, 6)]
    for before, after in pads:
        layer = alone(ops.Pad, before=before, after=after, value=-3)
        cases.append(whole_case(MoveKernel(), typed(layer, (9, 4, 5, -128, 127))))
    for begin, size in (((3, 0, 0), (5, 6, 4)), ((0, 2, 1), (9, 3, 2)), ((8, 5, 3), (1, 1, 1))):
        layer = alone(ops.Slice, begin=begin, size=size)
        cases.append(whole_case(MoveKernel(), typed(layer, (9, 6, 4, 0, 255))))
    HostLibrary(cases).check()


def test_softmax_of_one_and_of_many_channels() -> None:
    table = np.minimum(np.floor(np.exp(-np.arange(256) * 0.01) * 2**31), 2**31 - 1)
    step = requant(1, -128, 1, -128, 127)
    cases = []
    for channels in (1, 2, 12, 1001, 4095):
        layer = alone(ops.Softmax, table=Array(table.astype(np.int64)), requants=(step,))
        made = typed(layer, (channels, 1, 1, -128, 127))
        cases.append(whole_case(SoftmaxKernel(), made))
        equal = (np.full((channels, 1, 1), 7),)
        cases.append(replace(whole_case(SoftmaxKernel(), made), inputs=equal))
    HostLibrary(cases).check()


def test_what_they_leave_to_portable_kernels() -> None:
    rows = Array(np.array([[0, 1, 3, 5]] * 4))
    no_step = typed(alone(ops.Resize, rows=rows, columns=rows), (3, 4, 4, 0, 9))
    backwards = alone(ops.Slice, begin=(8, 0, 0), size=(3, 2, 2), step=(-2, 1, 1))
    per_channel = alone(ops.Lut, table=Array(np.zeros((3, 256), int)))
    reasons = [
        (ResizeKernel(), no_step, "its sums are not requantised"),
        (
            MoveKernel(),
            typed(backwards, (9, 2, 2, 0, 255)),
            "it takes neighbours only, not every second element or backwards",
        ),
        (LutKernel(), typed(per_channel, (3, 2, 2, 0, 255)), "it has a table for each channel"),
    ]
    for kernel, layer, reason in reasons:
        assert kernel.accepts(layer).reason == reason
