"""Tables, slices, padding, interpolation and softmax of bytes equal the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dory_gap8.backend import (
    ConcatKernel,
    LutKernel,
    MoveKernel,
    PairKernel,
    ResizeKernel,
    SoftmaxKernel,
)
from gap8_layers import BYTES, byte_cases, cases_of, fewer_first

from dory_core.api import Layer, ops
from dory_core.importing import Array, requant
from dory_core.testing import KernelConformance
from dory_core.testing.kernels import HostLibrary, alone, typed, whole_case

MOVERS = (
    *("lut", "concat", "mul", "maximum", "minimum"),
    *("slice", "pad", "transpose", "resize", "softmax", "matmul"),
)


@pytest.mark.sample(2)  # of two seeds the first
class TestMovers(KernelConformance):
    cases = staticmethod(fewer_first(byte_cases))
    kinds = MOVERS

    @pytest.mark.slow
    def test_sanitizers_find_nothing_in_a_sample(self, sanitizer: str, count: int) -> None:
        """Every kind of layer."""
        super().test_sanitizers_find_nothing_in_a_sample(sanitizer, count)

    @pytest.mark.slow
    def test_other_compilers_compute_the_same(self, count: int) -> None:
        """Each installed compiler."""
        super().test_other_compilers_compute_the_same(count)


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


def test_a_table_for_each_channel() -> None:
    table = np.random.default_rng(2).integers(-128, 128, (7, 256))
    cases = []
    for h, w in ((1, 1), (3, 2), (5, 9)):
        layer = typed(alone(ops.Lut, table=Array(table)), (7, h, w, -128, 127))
        cases.append(whole_case(LutKernel(), layer))
        cases.append(replace(cases[-1], tile=(3, h, w, 3)))
    HostLibrary(cases).check()


@pytest.mark.parametrize(
    ("lo", "hi"), [(0, 40000), (-300, 300), (0, (1 << 31) - 1), (-(1 << 31), (1 << 31) - 1)]
)
def test_tables_of_larger_elements_than_bytes(lo: int, hi: int) -> None:
    """Of a QDQ sum whose roundings no line has: fractions that are added afterwards."""
    random = np.random.default_rng(hi % 97)
    cases = []
    for table in (random.integers(lo, hi + 1, 256), random.integers(lo, hi + 1, (7, 256))):
        for h, w in ((1, 1), (3, 2), (5, 9)):
            layer = typed(alone(ops.Lut, table=Array(table)), (7, h, w, -128, 127))
            assert LutKernel().accepts(layer) is None
            cases.append(whole_case(LutKernel(), layer))
    HostLibrary(cases).check()


def test_sums_of_large_elements() -> None:
    step = requant(1, 1 << 13, 1 << 14, 0, 255)
    layer = alone(ops.Add, inputs=("a", "b"), requants=(step,))
    made = typed(layer, (5, 4, 3, 0, 4_000_000), (5, 4, 3, -70_000, 90_000))
    assert [x.type_name for x in made.inputs] == ["u32", "i32"]
    assert PairKernel().accepts(made) is None
    HostLibrary([whole_case(PairKernel(), made)]).check()


@pytest.mark.parametrize("kind", (ops.Add, ops.Mul, ops.Maximum, ops.Minimum))
def test_pairs_with_one_number_are_tables(kind: type[ops.Pairwise]) -> None:
    steps = (requant(2, -9, 1), requant(-3, 5, 1))
    layer = alone(
        kind,
        inputs=("input",),
        constant=Array(np.full((1, 1, 1), 31)),
        operand_requants=steps,
        requants=(requant(77, 300, 1 << 9, -128, 127),),
    )
    HostLibrary([whole_case(LutKernel(), typed(layer, (5, 4, 7, 0, 255)))]).check()


def test_inputs_one_after_the_other_along_each_axis() -> None:
    cases = []
    for axis in range(3):
        for widest in (1, 7):
            sizes = [[5, 3, 6], [5, 3, 6], [5, 3, 6]]
            for n, one in enumerate(sizes):
                one[axis] = (widest, 1, 4)[n]
            names = ("input", "input_1", "input_2")
            layer = alone(ops.Concat, inputs=names, axis=axis)
            made = typed(layer, *((*one, -128, 127) for one in sizes))
            case = whole_case(ConcatKernel(), made)
            cases.append(case)
            c, h, w, _ = case.tile
            cases.append(replace(case, tile=(min(c, 4), min(h, 2), min(w, 3), case.tile[3])))
    HostLibrary(cases).check()


_NO_TABLE = "it computes functions of one byte only"
_NO_BYTES = "its inputs and its output are not of one size, in whole bytes"


def test_what_they_leave_to_portable_kernels() -> None:
    rows = Array(np.array([[0, 1, 3, 5]] * 4))
    no_step = typed(alone(ops.Resize, rows=rows, columns=rows), (3, 4, 4, 0, 9))
    backwards = alone(ops.Slice, begin=(8, 0, 0), size=(3, 2, 2), step=(-2, 1, 1))
    mixed = alone(ops.Concat, inputs=("input", "input_1"), axis=0)
    reasons = [
        (ResizeKernel(), no_step, "its sums are not requantised"),
        (
            MoveKernel(),
            typed(backwards, (9, 2, 2, 0, 255)),
            "it takes neighbours only, not every second element or backwards",
        ),
        (LutKernel(), typed(alone(ops.Mul), *[(3, 2, 2, 0, 9)] * 2), _NO_TABLE),
        (ConcatKernel(), typed(mixed, (3, 2, 2, 0, 255), (3, 2, 2, 0, 999)), _NO_BYTES),
    ]
    for kernel, layer, reason in reasons:
        assert kernel.accepts(layer).reason == reason
