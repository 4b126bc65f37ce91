"""``--set requant=approximate``: near, on an array, and never in silence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from array_networks import BYTES, CONVERTER, SEVEN, ArrayBuilder, win
from dory_diana import plugin
from dory_diana.requant.common import Steps
from dory_diana.requant.nearest import nearest_adc, nearest_shift
from hypothesis import given, settings
from hypothesis import strategies as st

from dory_core.api import Graph, ops
from dory_core.importing import ranges, requant
from dory_core.testing import IMPORTED, PASSES, Plugins, Setup, reference, resolve_budgets
from dory_core.testing import run_stages as run


def plugins() -> Plugins:
    return Plugins.from_objects(diana=plugin)


def context(**settings: str) -> Any:
    return plugins().context("diana", settings)


def with_scale(graph: Graph, *muls: int, shift: int = 16) -> Graph:
    """Return the network with multipliers instead of factors."""
    layers = list(graph.ops)
    for n, mul in enumerate(muls):
        step = layers[n].requants[-1]
        scaled = requant(mul, 1 << shift - 1, 1 << shift, step.lo, step.hi)
        layers[n] = replace(layers[n], requants=(*layers[n].requants[:-1], scaled))
    inputs = tuple(graph.tensors[name] for name in graph.inputs)
    return ranges.infer_types(graph.name, inputs, tuple(layers), graph.outputs)


def two_convolutions() -> Graph:
    builder = ArrayBuilder((12, 10, 10), values=BYTES, seed=3)
    builder.digital(20, win())
    builder.digital(16, win(1))
    return with_scale(builder.graph(), 419, 1777)


def passed(graph: Graph, ctx: Any) -> Graph:
    setup = Setup(ctx, resolve_budgets(ctx.memory, {}), plugins())
    return run(graph, setup, after=IMPORTED, until=PASSES)


def engines(graph: Graph, ctx: Any) -> list[str]:
    return [
        next(k.engine for k in plugins().kernels(ctx, layer) if k.accepts(layer) is None)
        for layer in graph.layers
    ]


def test_layers_of_any_scale_come_to_the_digital_array_and_stay_near() -> None:
    graph = two_convolutions()
    assert engines(graph, context()) == ["host", "host"]
    ctx = context(requant="approximate")
    fitted = passed(graph, ctx)
    assert engines(fitted, ctx) == ["digital", "digital"]
    inputs = reference.random_inputs(graph, 1)
    exact, near = reference.run(graph, inputs), reference.run(fitted, inputs)
    for name, most in (("layer_00", 2), ("layer_01", 3)):
        apart = np.abs(exact[name] - near[name])
        assert apart.max() <= most and apart.mean() < 0.5, name
        assert exact[name].std() > 20, "there is something to be near to"


def test_layers_that_an_array_has_exactly_are_left_alone() -> None:
    builder = ArrayBuilder((12, 10, 10), values=BYTES, seed=3)
    builder.digital(20, win())
    graph = builder.graph()
    ctx = context(requant="approximate")
    assert passed(graph, ctx).ops == graph.ops


def test_layers_that_no_array_has_for_another_reason_are_left_alone() -> None:
    builder = ArrayBuilder((12, 10, 10), values=(0, 255), seed=3)
    builder.digital(20, win())
    graph = with_scale(builder.graph(), 419)
    ctx = context(requant="approximate")
    assert passed(graph, ctx).ops == graph.ops
    hosts = context(requant="approximate", engines="host")
    assert passed(two_convolutions(), hosts).ops == two_convolutions().ops


def test_a_ternary_layer_takes_the_array_that_is_nearer() -> None:
    builder = ArrayBuilder((16, 8, 8), values=SEVEN, seed=5)
    builder.ternary(24, win())
    graph = builder.graph()
    assert isinstance(graph.ops[0], ops.Conv)
    fine = replace(graph.ops[0], requants=(requant(1237, 1 << 15, 1 << 16, *SEVEN),))
    inputs = tuple(graph.tensors[name] for name in graph.inputs)
    graph = ranges.infer_types("net", inputs, (fine,), graph.outputs)
    ctx = context(requant="approximate")
    assert engines(passed(graph, ctx), ctx) == ["digital"]
    analog = context(requant="approximate", engines="analog,host")
    fitted = passed(graph, analog)
    assert engines(fitted, analog) == ["analog"]
    assert fitted.ops[0].requants[0] == CONVERTER


def test_the_pass_says_that_it_is_not_exact() -> None:
    assert plugins().passes(context()) == ()
    [step] = plugins().passes(context(requant="approximate"))
    assert not step.exact


STEP = st.builds(
    lambda mul, add, shift: requant(mul, add, 1 << shift, *SEVEN),
    st.integers(1, 2000).flatmap(lambda n: st.sampled_from([n, -n])),
    st.integers(-(1 << 20), 1 << 20),
    st.integers(8, 18),
)


@settings(max_examples=150, deadline=None)
@given(STEP, st.integers(1, 127))
def test_the_nearest_shift_is_within_rounding_of_the_weights(step: Any, weight: int) -> None:
    span = 128 * weight
    steps = Steps((step,), np.array([-span]), np.array([span]))
    found = nearest_shift(steps, np.array([[weight]]))
    if found is None:
        return
    assert int(np.abs(found.weights).max()) <= 127
    [line] = found.steps
    x = np.arange(-128, 129)
    exact = [step.scalar(int(v) * weight, 0) for v in x]
    near = [line.scalar(int(v) * int(found.weights[0, 0]), 0) for v in x]
    # Half a unit of a weight of 63 and more, over inputs up to 128, and the rounding of the bias.
    slope = abs(step.mul[0]) / step.div * weight
    assert max(abs(a - b) for a, b in zip(exact, near, strict=True)) <= 2 + 128 * slope / 126


@pytest.mark.parametrize("scale", [4, 16])
@pytest.mark.parametrize("mul", [60, -60, 500])
def test_the_nearest_line_behind_the_converters_is_within_a_step_of_them(
    mul: int, scale: int
) -> None:
    step = requant(mul, 40 << 10, 1 << 10, *SEVEN)
    reach = 31 * scale
    steps = Steps((step,), np.array([-reach]), np.array([reach]))
    found = nearest_adc(steps, np.ones((1, 4), dtype=np.int64), scale)
    assert found is not None and found.steps[0] == requant(1, 0, scale, -32, 31)
    for acc in range(-reach, reach + 1):
        near = found.steps[1].scalar(found.steps[0].scalar(acc, 0), 0)
        assert abs(near - step.scalar(acc, 0)) <= abs(mul) * scale / 1024 / 2 + 2
