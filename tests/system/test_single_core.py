"""The benchmark of figure 12: its layers, and what it says about a few of them."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from types import ModuleType

import pytest

from dory_core.plugins.manager import load_plugins

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    pytest.importorskip("dory_stm32h7")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        return importlib.import_module("bench_single_core")


def test_44_layers_over_six_orders_of_magnitude(bench: ModuleType) -> None:
    cases = bench.cases()
    kinds = [case.kind for case in cases]
    assert (len(cases), kinds.count("conv"), kinds.count("depthwise")) == (44, 22, 22)
    assert len({case.name for case in cases}) == 44
    macs = [case.network.graph().layer(0).macs for case in cases]
    assert math.log10(max(macs) / min(macs)) > 5.5


@pytest.mark.parametrize("name", ["64x8x8 > 64, 3x3 /1", "64x32x32, 3x3 /1"])
def test_data_beyond_the_cache_is_faster_from_tiles(bench: ModuleType, name: str) -> None:
    case = next(case for case in bench.cases() if case.name == name)
    row = bench.measure(case, load_plugins(), "builtin")
    order = ["STM32H7, no cache", "STM32H7, D-cache", "STM32H7, DTCM", "GAP8, one core"]
    rates = [row[chip] for chip in order]
    assert rates == sorted(rates)
    assert row["no cache, scratch in SRAM"] <= row["STM32H7, no cache"]


def test_what_fits_the_cache_gains_nothing_from_tiles(bench: ModuleType) -> None:
    case = next(case for case in bench.cases() if case.name == "16x16x16 > 16, 3x3 /1")
    row = bench.measure(case, load_plugins(), "builtin")
    assert row["STM32H7, DTCM"] == pytest.approx(row["STM32H7, D-cache"], rel=0.03)
    assert row["STM32H7, no cache"] < 0.7 * row["STM32H7, D-cache"]


def test_summary_has_the_paper_beside_the_estimates(bench: ModuleType) -> None:
    cases = [case for case in bench.cases() if "16x16" in case.name]
    plugins = load_plugins()
    rows = [bench.measure(case, plugins, "builtin") for case in cases]
    text = bench.findings(rows, "builtin")
    assert "| no cache | -58.5 ± 5.5 % | -" in text
    assert text.count("\n|") == 7
    left, right = bench.spec(rows)["hconcat"]
    assert len(left["data"]["values"]) == 4 * len(rows)
    assert {point["chip"] for point in right["data"]["values"]} == set(bench.CHIPS) - {
        bench.BASELINE
    }
