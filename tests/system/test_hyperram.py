"""Networks whose activations do not fit L2, from the file to exact applications on GAP8."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import bench_hyperram as benchmark

from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plugins.manager import load_plugins
from dory_core.testing.apps import assert_exact
from tests.planning.symbolic import check_plan


@pytest.mark.slow
def test_a_small_mobilenet_v2_is_exact_with_layers_that_take_turns(tmp_path: Path) -> None:
    network = benchmark.mobilenet_v2(64, 0.5, classes=10, blocks=3).save(tmp_path / "net.onnx")
    plugins, options = load_plugins(), {"input_bits": 8, "budgets": {2: 40 * 1024}}
    compiled = compile_network(
        CompileOptions(network, "gap8", "nemo", tmp_path / "app", **options), plugins
    )
    plan = compiled.plan
    passing = [step.output.place.tensor for step in plan.steps if step.output.place.passing]
    assert passing and max(step.chain for step in plan.steps) >= 2
    assert plan.levels[1].used <= 40 * 1024
    check_plan(plan)
    assert len(benchmark.rows(plan)) == len(plan.steps)
    assert_exact(tmp_path / "app", plugins=plugins)
