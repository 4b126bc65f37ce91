"""The conformance matrix of dory on Diana. What the arrays take is in test_arrays.py."""

from __future__ import annotations

import pytest
from array_networks import BYTES, ArrayBuilder, layer_cases, win

from dory_core.api import DoesNotFit
from dory_core.testing import (
    IMPORTED,
    Capabilities,
    Case,
    Plan,
    Setup,
    TargetConformance,
    resolve_budgets,
    setup_for,
)
from dory_core.testing import run_stages as run
from dory_core.tools import load_plugins


@pytest.mark.sample(6)
class TestDiana(TargetConformance):
    """Layers of unsigned bytes and any scale: most of them are the host's, in place in L2."""

    capabilities = Capabilities(target="diana", l1_budgets=(131072,))
    # Weights of -1, 0 and 1, inputs of 7 bits.
    cases = tuple(
        Case(case.name, frozenset(), case.build)
        for case in layer_cases()
        if case.name in ("digital_depthwise", "digital_linear", "analog_3x3_odd", "analog_linear")
    )


@pytest.mark.parametrize("name", ["digital_3x3", "digital_depthwise", "analog_3x3"])
def test_l1_that_is_too_small_is_refused_with_the_bytes_that_are_missing(name: str) -> None:
    plugins = load_plugins()
    engine = name.partition("_")[0]
    ctx = plugins.context("diana", {"engines": engine})
    graph = next(case for case in layer_cases() if case.name == name).build()

    def plan(l1_bytes: int) -> Plan:
        budgets = resolve_budgets(ctx.memory, {1: l1_bytes})
        return run(graph, Setup(ctx, budgets, plugins), after=IMPORTED)

    with pytest.raises(DoesNotFit) as caught:
        plan(64)
    needed = caught.value.needed_bytes
    assert needed is not None and f"{needed} bytes, 64 are available" in caught.value.message
    assert plan(needed).steps[0].l1_bytes <= needed
    with pytest.raises(DoesNotFit, match=f"{needed} bytes, {needed - 1} are available"):
        plan(needed - 1)


def test_weights_come_in_tiles_that_fit_their_memory() -> None:
    plan = planned("digital_weights_in_tiles", "digital")
    [step] = plan.steps
    blocks = [t.size for chunk in step.weights.chunks for row in chunk.tiles for t in row]
    assert len(blocks) > 1 and max(blocks) <= 65536 < sum(blocks)


def test_sixteen_outputs_whose_weights_exceed_the_memory_are_the_hosts() -> None:
    builder = ArrayBuilder((464, 3, 3), values=BYTES)
    builder.digital(16, win())
    plugins = load_plugins()
    for engines, expected in (("digital,host", "host"), ("digital", None)):
        ctx = plugins.context("diana", {"engines": engines})
        budgets = resolve_budgets(ctx.memory, {})
        if expected is None:
            with pytest.raises(DoesNotFit, match="digital weights"):
                run(builder.graph(), Setup(ctx, budgets, plugins), after=IMPORTED)
            continue
        [step] = run(builder.graph(), Setup(ctx, budgets, plugins), after=IMPORTED).steps
        assert step.kernel.engine == expected
        assert any("65536" in r.reason or "weights" in r.reason for r in step.rejections)


def planned(name: str, engines: str) -> Plan:
    plugins = load_plugins()
    graph = next(case for case in layer_cases() if case.name == name).build()
    return run(graph, setup_for(plugins, "diana", {"engines": engines}), after=IMPORTED)
