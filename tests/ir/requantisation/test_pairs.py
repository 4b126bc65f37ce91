"""Residual sums as one line over both operands: the same results for all pairs of bytes."""

from __future__ import annotations

import numpy as np
import pytest

from dory_core.ir import Add, Graph, Requant, Tensor, reference, requant
from dory_core.ir.ranges import infer_types
from dory_core.ir.requantisation.pairs import pair_line
from dory_core.passes.offsets import with_offsets
from dory_core.passes.sums import simplify_sums
from dory_core.testing.kernels import alone

ALL = np.arange(-128, 128)
LEFT = 20


def multiplier(scale: float) -> tuple[int, int]:
    """Return (m, s), scale = m * 2^(s - 31), as TensorFlow Lite prepares a multiplier."""
    fraction, exponent = np.frexp(scale)
    return round(float(fraction) * 2**31), int(exponent)


def rounded(m: int, shift: int, left: int = 0, turn: int = 0) -> Requant:
    """Two roundings, ties of the second away from zero, of (acc - turn) << left."""
    right = -shift
    assert right >= 0
    half, small = 1 << 30 + right, (1 << 30) if right else 0
    add, negative = (half + small, half - small) if right else (half, half)
    factor = m << left
    moved = factor * turn
    div = 1 << 31 + right
    return requant(factor, add - moved, div, add_negative=negative - moved, turn=turn)


def tflite_sum(scales: tuple[float, float, float], zeros: tuple[int, int, int]) -> Graph:
    """An ADD of int8 as TensorFlow Lite Micro computes it (add.h)."""
    twice = 2 * max(scales[:2])
    operands = tuple(
        rounded(*multiplier(s / twice), LEFT, z) for s, z in zip(scales[:2], zeros[:2], strict=True)
    )
    step = rounded(*multiplier(twice / (2**LEFT * scales[2]))).moved(0, zeros[2])
    step = Requant(step.mul, step.add, step.div, -128, 127, step.add_negative, step.turn)
    layer = alone(Add, operand_requants=operands, requants=(step,))
    tensors = tuple(Tensor(name, 1, 256, 256, -128, 127, 8, True) for name in layer.inputs)
    return infer_types("sum", tensors, (layer,), (layer.output,))


def every_pair() -> dict[str, np.ndarray]:
    first, second = np.meshgrid(ALL, ALL, indexing="ij")
    return {"input": first[None], "input_1": second[None]}


CASES = [
    ((0.0235, 0.0511, 0.0544), (-128, -128, -128)),
    ((0.1, 0.033, 0.07), (3, -7, 20)),
    ((0.021, 0.0213, 0.0307), (-3, 11, -128)),
    ((0.5, 0.004, 0.3), (0, 0, 0)),
    ((0.5, 0.5, 1.0), (0, 0, 0)),
]


@pytest.mark.parametrize(("scales", "zeros"), CASES)
def test_one_line_has_the_results_of_all_pairs(
    scales: tuple[float, float, float], zeros: tuple[int, int, int]
) -> None:
    graph = tflite_sum(scales, zeros)
    assert pair_line(graph.layer(0)) is not None
    simple = simplify_sums(graph)
    (op,) = simple.ops
    assert all(step.add_negative is None for step in op.steps)
    assert simple.ranges[0].bits == 32
    before = reference.run(graph, every_pair())[op.output]
    assert np.array_equal(before, reference.run(simple, every_pair())[op.output])
    moved = with_offsets(simple, [op.output])
    assert np.array_equal(before, reference.run(moved, every_pair())[op.output])


def test_where_no_line_has_all_results_nothing_changes() -> None:
    """A hole in the middle: rounding that no line has."""
    layer = alone(Add, requants=(requant(1, 0, 4, -128, 127, add_negative=-3),))
    tensors = tuple(Tensor(name, 1, 2, 2, -128, 127, 8, True) for name in layer.inputs)
    graph = infer_types("sum", tensors, (layer,), (layer.output,))
    assert pair_line(graph.layer(0)) is None
    assert simplify_sums(graph) is graph


def test_constant_sums_and_steps_of_other_networks() -> None:
    constant = alone(Add, requants=(requant(1, 0, 1, -3, -3, add_negative=1),))
    tensors = tuple(Tensor(name, 1, 2, 2, 0, 9, 8, False) for name in constant.inputs)
    graph = infer_types("sum", tensors, (constant,), (constant.output,))
    assert pair_line(graph.layer(0)) is not None
    floor = alone(Add, requants=(requant(77, 0, 256, 0, 255),))
    graph = infer_types("sum", tensors, (floor,), (floor.output,))
    assert simplify_sums(graph) is graph  # one addend everywhere: nothing to gain


@pytest.mark.parametrize("count", [255, 256])
def test_only_bytes_are_tried(count: int) -> None:
    layer = alone(Add, requants=(requant(77, 0, 256, 0, 255, add_negative=9),))
    tensors = tuple(Tensor(name, 1, 2, 2, 0, count, 16, False) for name in layer.inputs)
    graph = infer_types("sum", tensors, (layer,), (layer.output,))
    assert (pair_line(graph.layer(0)) is None) == (count == 256)
