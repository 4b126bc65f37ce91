"""Engines and layouts in what page and comparison say."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from dory_report.application.page import report_page
from dory_report.comparison.points import Comparison, Point, outcome_of
from dory_report.comparison.tables import print_comparison
from rich.console import Console

from dory_core.api import Graph, ops
from dory_core.testing import Plan
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.toy.array import array_chip
from tests.toy.chip import NAME


def network() -> Graph:
    b = GraphBuilder((16, 8, 8), name="net")
    b.conv(16, ops.Window(kernel=(1, 1)))
    b.max_pool(ops.Window(kernel=(2, 2), strides=(2, 2)))
    b.conv(16, ops.Window(kernel=(3, 3), dilations=(2, 2), pads=(2, 2, 2, 2)))
    b.linear(10)
    return b.graph()


def plan(directory: Path) -> Plan:
    return build_app(network(), NAME, directory / "app", plugins=array_chip().plugins())


def test_the_page_explains_layouts_and_engines(tmp_path: Path) -> None:
    made = plan(tmp_path)
    page = report_page(made.to_json(), made.timeline_json())
    assert "input: HWC to planes, 5,120 cycles" in page
    assert "not array: it knows no dilation" in page
    assert "conversions before it" in page


def test_a_comparison_shows_what_each_engine_computes(tmp_path: Path) -> None:
    outcome = outcome_of(Point(NAME), plan(tmp_path))
    assert [layer["engine"] for layer in outcome.layers] == ["array", *["cores"] * 3]
    out = StringIO()
    document = Comparison("net", "testing", (outcome,)).to_json()
    print_comparison(document, Console(file=out, width=200))
    assert "toy: array 16.4k MAC" in out.getvalue()
