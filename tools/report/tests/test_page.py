"""The page of an application, in a real browser."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from dory_report import drawing
from dory_report.application.charts import KEPT, local_memory
from dory_report.application.page import report_page
from dory_report.vega import layer_label

from dory_core.api import cli, ops, read_plan
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder

FIGURES = ("cycles", "timeline", "memory-l2", "memory-l1")


class _Rows(HTMLParser):
    """The number of cells in every row of every table, by the id of the table."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[int]] = {}
        self._table = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "table":
            self._table = str(named["id"])
            self.found[self._table] = []
        elif tag == "tr":
            self.found[self._table].append(0)
        elif tag in ("td", "th"):
            self.found[self._table][-1] += int(named.get("colspan") or 1)


def test_every_row_has_a_cell_for_each_column(app: Path) -> None:
    parser = _Rows()
    parser.feed(report_page(read_plan(app), cli.read_timeline(app)).partition("<script>")[0])
    assert list(parser.found) == ["layers", "memory"]
    for table, counts in parser.found.items():
        assert set(counts) == {counts[0]}, table
    layers = len(read_plan(app)["layers"])
    assert len(parser.found["layers"]) == 1 + 2 * layers, "headings, a row and its explanation"


@pytest.fixture(scope="module")
def page(app: Path, browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The browser, with the page loaded and all charts drawn."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(report_page(read_plan(app), cli.read_timeline(app)), encoding="utf-8")
    browser.get(file.as_uri())
    from selenium.webdriver.support.ui import WebDriverWait

    def drawn(driver: Any) -> bool:
        return len(driver.find_elements("css selector", "figure canvas")) == len(FIGURES)

    WebDriverWait(browser, 30).until(drawn)
    return browser


def column(page: Any, number: int) -> list[float]:
    cells = page.find_elements("css selector", f"#layers tr.row td:nth-child({number})")
    return [float(cell.get_attribute("data-key")) for cell in cells]


def test_page_loads_without_errors_and_without_the_network(page: Any) -> None:
    assert page.get_log("browser") == []
    resources = page.execute_script("return performance.getEntriesByType('resource').length")
    assert resources == 0
    for name in FIGURES:
        canvas = page.find_element("css selector", f"#{name} canvas")
        assert canvas.size["width"] > 800, name
        assert canvas.size["height"] > 80, name


def test_names_of_the_network_are_text_and_not_markup(page: Any) -> None:
    assert page.find_element("tag name", "h1").text == "a <b> & </script> for toy"


def test_a_heading_sorts_by_its_column_both_ways(page: Any) -> None:
    headings = [h.text.strip() for h in page.find_elements("css selector", "#layers th")]
    number = headings.index("cycles") + 1
    heading = page.find_element("css selector", f"#layers th:nth-child({number})")
    before = column(page, number)
    assert before != sorted(before)
    heading.click()
    assert column(page, number) == sorted(before)
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.click()
    assert column(page, number) == sorted(before, reverse=True)


def test_a_row_opens_to_explain_its_tile(page: Any, app: Path) -> None:
    row = page.find_element("css selector", "#layers tr.row")
    details = page.execute_script("return arguments[0].nextElementSibling", row)
    assert not details.is_displayed()
    row.click()
    assert details.is_displayed()
    name = row.find_elements("tag name", "td")[1].text
    [layer] = [n for n in read_plan(app)["layers"] if n["name"] == name]
    tiles = layer["tiles"]
    text = f"{tiles['c_out']} output channels x {tiles['h']} rows x {tiles['w']} columns"
    assert text in details.text
    assert f"accumulator in [{layer['requant']['acc'][0]:,}" in details.text
    for term in layer["terms"]:
        assert f"{term['name']}: {term['value']:,} x " in details.text
        assert f"; value: {term['text']}" in details.text


def test_the_mouse_over_a_bar_tells_its_numbers(page: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    canvas = page.find_element("css selector", "#cycles canvas")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    found = ""
    for share in range(-8, 9):
        offset = share * canvas.size["width"] // 20
        height = canvas.size["height"] // 4
        ActionChains(page).move_to_element_with_offset(canvas, offset, height).perform()
        shown = page.find_elements("css selector", "#vg-tooltip-element.visible")
        if shown:
            found = shown[0].text
            break
    assert "cycles" in found and "Conv" in found


def test_bars_of_a_layer_are_all_cycles_until_its_end(app: Path) -> None:
    """Waiting for L3 before a layer is part of its bar and no part of its cycles."""
    from dory_report.application import charts

    plan = read_plan(app)
    plan["layers"][1]["estimate"]["l3_stall_cycles"] = 12345
    values = charts.cycles(plan)["data"]["values"]
    for layer in plan["layers"]:
        own = [value for value in values if value["layer"] == layer_label(layer)]
        estimate = layer["estimate"]
        assert sum(v["cycles"] for v in own) == estimate["cycles"] + estimate["l3_stall_cycles"]
    assert {"layer": "01 Conv", "what": "waiting for L3", "cycles": 12345}.items() <= next(
        value for value in values if value["what"] == "waiting for L3"
    ).items()


def test_tensors_that_stay_in_l1_are_shown_beside_the_layers_that_leave_them_alone(
    tmp_path: Path,
) -> None:
    b = GraphBuilder((8, 6, 6), name="residual")
    stem = b.conv(8, ops.Window(kernel=(1, 1)))
    b.conv(8, ops.Window(kernel=(1, 1)))
    b.add(stem, b.conv(8, ops.Window(kernel=(1, 1))))
    build_app(b.graph(), "toy", tmp_path / "app")
    plan = read_plan(tmp_path / "app")
    kept = [{t["name"] for t in layer["kept"]} for layer in plan["layers"]]
    assert kept == [{"layer_00"}, {"layer_00", "layer_01"}, {"layer_00", "layer_02"}, set()]
    values = local_memory(plan)["data"]["values"]
    assert [(v["layer"], v["bytes"]) for v in values if v["buffer"] == KEPT] == [
        (layer_label(plan["layers"][2]), 8 * 6 * 6)
    ]
    page = report_page(plan, cli.read_timeline(tmp_path / "app"))
    assert "kept in L1 for later layers" in page
    assert plan["layers"][0]["proof"] in page


def test_images_show_the_same_charts(app: Path) -> None:
    from dory_report.application.page import figures

    drawn = figures(read_plan(app), cli.read_timeline(app))
    assert tuple(figure.name for figure in drawn) == FIGURES
    for figure in drawn:
        assert drawing.image(figure.spec, "svg").startswith(b"<svg")
        assert drawing.image(figure.spec, "png").startswith(b"\x89PNG")


def test_trace_events_are_those_of_the_timeline(app: Path) -> None:
    from dory_report.application.trace import trace_json

    timeline = cli.read_timeline(app)
    trace = json.loads(json.dumps(trace_json(timeline, "toy", 50e6)))
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(spans) == len(timeline["events"]) > 10
    end_us = max(event["ts"] + event["dur"] for event in spans)
    assert end_us == pytest.approx(timeline["cycles"] / 50, rel=1e-3)
    lanes = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert lanes == {"cores", "L2-L1"}
