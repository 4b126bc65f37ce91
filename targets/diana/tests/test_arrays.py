"""Layers on the arrays, from the Graph to the application that runs on their functional model."""

from __future__ import annotations

from pathlib import Path

import pytest
from array_networks import ArrayCase, layer_cases, network_cases

from dory_core.api import DoesNotFit, ToolMissing, simulate
from dory_core.testing import probe_sanitizer
from dory_core.testing.apps import assert_exact, build_app

SMALL_L1 = 6144


def engines(plan: object) -> tuple[str, ...]:
    return tuple(step.kernel.engine for step in sorted(plan.steps, key=lambda s: s.index))


@pytest.mark.sample(22)
@pytest.mark.parametrize("case", layer_cases(), ids=str)
@pytest.mark.parametrize("l1_bytes", [None, SMALL_L1])
def test_layers_are_exact_on_their_array(
    case: ArrayCase, l1_bytes: int | None, tmp_path: Path
) -> None:
    budgets = {} if l1_bytes is None else {1: l1_bytes}
    graph = case.build()
    try:
        plan = build_app(graph, "diana", tmp_path / "app", budgets=budgets, seeds=(0, 1))
    except DoesNotFit as error:
        assert l1_bytes is not None and str(l1_bytes) in error.message
        return
    if l1_bytes is None:
        assert engines(plan) == case.engines
    assert_exact(tmp_path / "app")


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", network_cases(), ids=str)
def test_networks_are_exact(case: ArrayCase, tmp_path: Path) -> None:
    plan = build_app(case.build(), "diana", tmp_path / "app", seeds=(0, 1, 2))
    assert engines(plan) == case.engines
    assert_exact(tmp_path / "app")


@pytest.mark.sample(5)
@pytest.mark.sanitizer
@pytest.mark.parametrize("case", network_cases(), ids=str)
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(case: ArrayCase, sanitizer: str, tmp_path: Path) -> None:
    try:
        probe_sanitizer(simulate.find_compiler(), sanitizer)
    except ToolMissing as missing:
        pytest.skip(f"sanitizer missing: {missing.message}")
    build_app(case.build(), "diana", tmp_path / "app", budgets={1: 16384})
    assert_exact(tmp_path / "app", sanitize=sanitizer, dma=("random",))
