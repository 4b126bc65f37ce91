"""Steps in binary32: staircases, and integer steps with the same ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dory_core.ir import Requant, float_requant
from dory_core.ir.parse import parse_graph
from dory_core.ir.reference import run
from dory_core.ir.requantisation import integer_form, staircase
from dory_core.ir.text import graph_text
from dory_core.passes.float_scales import integer_steps
from tests.ir.requantisation.test_requantisation import check_stairs


def as_onnxruntime(acc: int, scale: float, zero: int, lo: int, hi: int) -> int:
    product = np.float32(acc) * np.float32(scale)
    return int(np.clip(np.rint(product), lo - zero, hi - zero)) + zero


scales = st.tuples(st.integers(2**23, 2**24 - 1), st.integers(24, 40)).map(
    lambda pair: float(pair[0] * 2.0 ** -pair[1])
)


@given(scales, st.integers(0, 255), st.integers(-(2**31), 2**31 - 1))
def test_the_step_is_that_of_onnxruntime(scale: float, zero: int, acc: int) -> None:
    step = float_requant([scale], zero, 0, 255)
    assert step.scalar(acc, 0) == as_onnxruntime(acc, scale, zero, 0, 255)


@given(scales, st.integers(0, 255), st.integers(-99, 99), st.integers(-9, 9), st.integers(-9, 9))
def test_moving_changes_nothing(scale: float, zero: int, acc: int, before: int, after: int) -> None:
    step = float_requant([scale], zero, 0, 255, turn=5)
    moved = step.moved(before, after)
    assert moved.scalar(acc + before, 0) == step.scalar(acc, 0) + after


@given(
    st.lists(st.sampled_from([0.5, 0.25, 0.3, 0.7071, 1.5, 0.01]), min_size=1, max_size=3),
    st.integers(-128, 127),
    st.integers(-90, 90),
    st.integers(-500, 300),
    st.integers(0, 300),
)
@settings(max_examples=60, deadline=None)
def test_thresholds_are_where_the_output_changes(
    given_scales: list[float], zero: int, turn: int, lo: int, width: int
) -> None:
    single = [float(np.float32(scale)) for scale in given_scales]
    check_stairs([float_requant(single, zero, -128, 127, turn)], lo, lo + width)


def same_everywhere(step: Requant, lo: int, hi: int) -> int | None:
    """Return how many addends the integer form has, which is compared at every threshold."""
    ends = np.array([lo]), np.array([hi])
    stairs = staircase([step], *ends)
    assert stairs is not None
    found = integer_form(stairs)
    if found is None:
        return None
    near = stairs.thresholds.reshape(-1)
    acc = np.unique(np.clip(np.concatenate([near - 1, near, [lo, hi]]), lo, hi))
    x = acc if found.offset is None else acc + found.offset
    add = found.add
    if found.add_negative is not None:
        add = np.where(x < 0, found.add_negative, found.add)
    y = np.clip((x * found.mul + add) >> found.shift, step.lo, step.hi)
    assert (y == step.apply(acc[None])[0]).all()
    return 1 if found.add_negative is None else 2


@given(scales, st.integers(0, 255), st.sampled_from([1000, 2**17, 2**22, 2**30]))
@settings(max_examples=60, deadline=None)
def test_integer_steps_are_exact(scale: float, zero: int, reach: int) -> None:
    same_everywhere(float_requant([scale], zero, 0, 255), -reach, reach + 17)


def test_most_scales_have_an_integer_step() -> None:
    random = np.random.default_rng(5)
    found = []
    for _ in range(60):
        scale = float(np.float32(random.uniform(0.0003, 0.01)))
        found.append(same_everywhere(float_requant([scale], 120, 0, 255), -300000, 300000))
    assert found.count(1) >= 50
    assert found.count(2) >= 1


def test_ties_of_a_power_of_two_have_none() -> None:
    assert same_everywhere(float_requant([0.125], 0, -128, 127), -2000, 2000) is None


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e-42, 0.1])
def test_other_scales_are_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="no positive normal number"):
        float_requant([scale], 0, 0, 255)


TEXT = """
network toy
input input: u8 (2, 4, 4) [0, 255]
layer_00 = Conv(input) 3x3 pads 1,1,1,1 of 7
    weights (3, 2, 3, 3) = random(3, -128, 127)
    bias (3) = 1000 -2000 77
    f32 (acc * [9123457, 9123457, 13456789] + 4294967296) / 2^32 clip [0, 255]
layer_01 = AvgPool(layer_00) 4x4
    f32 (acc * 8912345 + 10737418240 below 30) / 2^30 clip [-128, 127]
output layer_01
"""


def test_text_of_a_float_step_is_parsed_again() -> None:
    graph = parse_graph(TEXT)
    first, second = (op.requants[0] for op in graph.ops)
    assert first.float32 and first.scales.tolist()[0] == np.float32(9123457 / 2**32)
    assert second.turn == 30
    assert parse_graph(graph_text(graph, constants=True)) == graph


def test_the_pass_keeps_every_value() -> None:
    graph = parse_graph(TEXT)
    found = integer_steps(graph)
    assert not any(step.float32 for op in found.ops for step in op.steps)
    values = np.random.default_rng(1).integers(0, 256, (2, 4, 4))
    before, after = run(graph, {"input": values}), run(found, {"input": values})
    for name in ("layer_00", "layer_01"):
        assert np.array_equal(before[name], after[name])


def test_a_step_without_integer_form_stays() -> None:
    graph = parse_graph(TEXT.replace("8912345", "8388608"))
    step = integer_steps(graph).ops[1].requants[0]
    assert step.float32 and step == graph.ops[1].requants[0]
    assert replace(step, float32=False) != step
