"""Engines, layouts and memories in what ``dory check``, tables and generated code say."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from dory_core.check import check_network
from dory_core.cli.tables.check import print_check
from dory_core.cli.tables.plan import print_plan
from dory_core.compiler import CompileOptions
from dory_core.ir import Graph, Window
from dory_core.plan import Plan
from dory_core.plugins import Plugins
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
