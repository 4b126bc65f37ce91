"""The application as the SDK builds it, on models of what the SDK and the cluster do.

``sdk/`` stands for the SDK: its rules, the names of its headers, and models of event unit, DMA, RAM
and flash behind them. The program is the one for the chip: main, HAL, network and kernels.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dory_core.application import run_application
from dory_core.ir import Graph
from dory_core.plugins import load_plugins
from dory_core.simulate.result import RunResult
from dory_core.testing.apps import build_app
from dory_core.testing.cases import network_cases

SDK = Path(__file__).parent / "sdk"

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None or shutil.which("make") is None,
    reason="make and a compiler called cc stand for those of the SDK",
)


def graph(name: str) -> Graph:
    return next(case for case in network_cases() if case.name == name).build()


@pytest.fixture(autouse=True)
def sdk_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RULES_DIR", str(SDK / "rules"))


def run(app: Path, **options: object) -> RunResult:
    return run_application(app, plugins=load_plugins(), runner="gvsoc", **options)


def make(app: Path, *goals: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *goals, "platform=gvsoc", "PMSIS_OS=pulpos"],
        cwd=app,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize(
    "budgets", [{1: 6000}, {1: 6000, 2: 9000}, {}], ids=["tiles", "three-levels", "whole-layers"]
)
def test_every_layer_is_exact_with_late_transfers(
    tmp_path: Path, cores: int, budgets: dict[int, int]
) -> None:
    plan = build_app(
        graph("residual"),
        "gap8",
        tmp_path / "app",
        budgets=budgets,
        settings={"cores": str(cores)},
        seeds=(3, 4),
    )
    assert bool(plan.transfers) == (2 in budgets)
    result = run(tmp_path / "app")
    assert result.runner == "gvsoc"
    assert len(result.runs) == 2
    assert result.exact
