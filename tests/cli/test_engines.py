"""Engines, layouts and memories in what ``dory check``, tables and generated code say."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dory_core.api import Kernel, Layer, OperatingPoint, OutputFile, hookimpl, portable_kernels
from dory_core.cli.tables.check import print_check
from dory_core.cli.tables.plan import print_plan
from dory_core.driver.check import check_network
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.ir import Graph, Window
from dory_core.plan import Plan
from dory_core.plugins.manager import Plugins
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.toy.array import array_chip
from tests.toy.chip import NAME, ToyChip
from tests.toy.frontend import reading

POINT = Window(kernel=(1, 1))


def network() -> Graph:
    b = GraphBuilder((16, 8, 8), name="net")
    b.conv(16, POINT)
    b.max_pool(Window(kernel=(2, 2), strides=(2, 2)))
    b.conv(16, Window(kernel=(3, 3), dilations=(2, 2), pads=(2, 2, 2, 2)))
    b.linear(10)
    return b.graph()


def plan(directory: Path) -> Plan:
    return build_app(network(), NAME, directory / "app", plugins=array_chip().plugins())


def text(show: Any, *arguments: Any) -> str:
    out = StringIO()
    show(*arguments, Console(file=out, width=200))
    return out.getvalue()


def check(chip: ToyChip) -> dict[str, Any]:
    plugins = Plugins.from_objects(toy=chip, built=reading(network()))
    return check_network(CompileOptions(Path(), NAME, "built"), plugins).to_json()


def test_check_names_the_engine_of_each_layer_and_why_others_were_passed_over() -> None:
    document = check(array_chip())
    assert [layer["engine"] for layer in document["layers"]] == ["array", *["cores"] * 3]
    assert [layer["passed_over"] for layer in document["layers"]] == [
        [],
        [{"engine": "array", "reason": "it computes Conv, not MaxPool"}],
        [{"engine": "array", "reason": "it knows no dilation"}],
        [{"engine": "array", "reason": "it requantises once, by a shift, and clips"}],
    ]
    printed = text(print_check, document)
    assert "not array: it knows no dilation" in printed
    assert "L1 weights of the array" in printed


def test_check_of_one_engine_says_nothing_of_engines() -> None:
    report = check(ToyChip())
    assert all(layer["engine"] == "cores" for layer in report["layers"])
    assert "engine" not in text(print_check, report)


def test_the_table_counts_macs_of_engines_and_conversions(tmp_path: Path) -> None:
    made = plan(tmp_path)
    assert made.engines["array"]["macs"] == 16 * 16 * 64
    assert sum(one["macs"] for one in made.engines.values()) == made.macs
    assert sum(one["layers"] for one in made.engines.values()) == 4
    document = json.loads((tmp_path / "app/plan.json").read_text())
    assert document["totals"]["engines"] == made.engines
    printed = text(print_plan, document)
    assert "engines: array 1 layers, 16.4k MAC" in printed
    assert "layouts: 2 conversions, " in printed
    assert "L1 weights of the array" in printed


def test_generated_code_says_what_it_does(tmp_path: Path) -> None:
    plan(tmp_path)
    layer = (tmp_path / "app/src/dory_layer_00.c").read_text()
    assert "layout planes, by blocks" in layer
    assert "fetched by the kernel (memory for array weights)" in layer
    assert "/* input: HWC to planes */" in (tmp_path / "app/src/network.c").read_text()


def only_cores() -> Graph:
    b = GraphBuilder((16, 8, 8))
    b.max_pool(Window(kernel=(2, 2), strides=(2, 2)))
    return b.graph()


def test_an_engine_that_computes_nothing_is_said_to(tmp_path: Path) -> None:
    made = build_app(only_cores(), NAME, tmp_path / "app", plugins=array_chip().plugins())
    printed = text(print_plan, made.to_json())
    assert "array 0 layers, 0 MAC" in printed
    alone = "no layer runs on array: the cores compute the whole network"
    assert alone in printed
    plugins = Plugins.from_objects(toy=array_chip(), built=reading(only_cores()))
    document = check_network(CompileOptions(Path(), NAME, "built"), plugins).to_json()
    assert f"note: {alone}" in text(print_check, document)
    assert "no layer runs on" not in text(print_check, check(array_chip()))
    assert "no layer runs on" not in text(print_check, check(ToyChip()))


def test_energy_is_that_of_the_cores_and_engines_that_work(tmp_path: Path) -> None:
    """A point says on how many cores, and of which engines, its energy was measured."""
    made = plan(tmp_path)
    point = OperatingPoint("measured", 1e6, 1e6, 1e-6, "a test")

    def energy_mj(**fields: Any) -> Any:
        at = replace(made, operating_point=replace(point, **fields))
        return at.to_json()["totals"]["energy_mj"]

    assert energy_mj() == pytest.approx(made.cycles * 1e-3)
    assert energy_mj(cores=4 * made.cores) == pytest.approx(made.cycles * 1e-3 / 4)
    assert energy_mj(cores=made.cores) == energy_mj()
    array = made.engines["array"]["cycles"]
    assert 0 < array < made.cycles
    assert energy_mj(engines=("array",)) == pytest.approx(array * 1e-3)
    assert energy_mj(engines=("another",)) is None
    assert energy_mj(energy_j_per_cycle=0.0) is None


def test_latency_is_that_of_the_clock_of_the_cores(tmp_path: Path) -> None:
    made = plan(tmp_path)
    point = OperatingPoint("measured", 2e6, 1e6, 1e-6, "a test")
    totals = replace(made, operating_point=point).to_json()["totals"]
    assert totals["latency_ms"] == pytest.approx(made.cycles / 2e6 * 1e3)


def test_reasons_of_kernels_are_told_in_two_steps(tmp_path: Path) -> None:
    """First those of kernels for such layers, alike ones together; then those of all kernels."""
    document = plan(tmp_path).to_json()

    def printed(details: int) -> list[str]:
        out = StringIO()
        print_plan(document, Console(file=out, width=200), details=details)
        return [line for line in out.getvalue().splitlines() if line.startswith("not ")]

    assert printed(0) == []
    assert printed(1) and not any("it computes" in line for line in printed(1))
    assert set(printed(1)) < set(printed(2))
    assert any("for layers" in line and "it computes" in line for line in printed(2))


def test_info_says_what_kernels_of_other_plugins_compute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pool = next(kernel for kernel in portable_kernels(1) if kernel.name.endswith("_maxpool"))

    class Mine(type(pool)):  # type: ignore[misc]
        name = "mine"

        def symbol(self, layer: Layer) -> str:
            return pool.symbol(layer)

        def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
            return pool.sources(layer)

    class Extra:
        @hookimpl(target=NAME, first=True)
        def dory_kernels(self) -> list[Kernel]:
            return [Mine()]

    plugins = Plugins.from_objects(toy=array_chip(), extra=Extra(), built=reading(network()))
    options = CompileOptions(Path(), NAME, "built", plan_only=True)
    with caplog.at_level("INFO", "dory"):
        compile_network(options, plugins)
    assert "kernels of plugin extra compute layers 01 (mine)" in caplog.text
