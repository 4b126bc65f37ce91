"""The page of an application, in a real browser."""

from __future__ import annotations

import json
import logging
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from dory_report import drawing
from dory_report.application.cards import cards as fit_cards
from dory_report.application.charts import layer_label, timeline
from dory_report.application.memory import KEPT, local_memory, memory_map
from dory_report.application.page import figures, report_page

from dory_core.api import ToolMissing, ops
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import cli, read_plan
from tools.report.tests.looks import hover, load, media, overflow, resize, settle, violations

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
    assert len(parser.found["layers"]) == 1 + layers


@pytest.fixture(scope="module")
def page(app: Path, browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The browser, with the page loaded."""
    text = report_page(read_plan(app), cli.read_timeline(app))
    resize(browser, 1400)
    media(browser, "light")
    return load(browser, text, tmp_path_factory.mktemp("page"))


def keys(page: Any, number: int) -> list[float]:
    cells = page.find_elements("css selector", f"#layers tr.row > :nth-child({number})")
    return [float(cell.get_attribute("data-key") or cell.text) for cell in cells]


def test_page_loads_without_errors_and_without_the_network(page: Any) -> None:
    assert page.get_log("browser") == []
    resources = page.execute_script("return performance.getEntriesByType('resource').length")
    assert resources == 0
    for name in FIGURES:
        chart = page.find_element("css selector", f"#{name} svg.chart")
        assert chart.size["width"] > 1200, "as wide as the page"
        assert chart.size["height"] > 80, name


def test_names_of_the_network_are_text_and_not_markup(page: Any) -> None:
    assert page.find_element("tag name", "h1").text == "a <b> & </script> for toy"


def test_a_heading_sorts_by_its_column_both_ways(page: Any) -> None:
    headings = [h.text.strip() for h in page.find_elements("css selector", "#layers th[scope=col]")]
    number = headings.index("cycles") + 1
    heading = page.find_element("css selector", f"#layers thead th:nth-child({number})")
    before = keys(page, number)
    assert before != sorted(before)
    heading.click()
    assert keys(page, number) == sorted(before)
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.click()
    assert keys(page, number) == sorted(before, reverse=True)
    page.find_element("css selector", "#layers thead th:first-child").click()
    assert keys(page, number) == before, "the first column has the order of execution"


def test_a_row_opens_to_explain_its_tile(page: Any, app: Path) -> None:
    button = page.find_element("css selector", "#layers tr.row button.open")
    name = button.text
    [layer] = [n for n in read_plan(app)["layers"] if name == f"{n['index']:02d} {n['name']}"]
    tiles = layer["tiles"]
    button.send_keys("\n")
    assert button.get_attribute("aria-expanded") == "true"
    details = page.find_element("css selector", "#layers tr.details")
    text = f"{tiles['c_out']} output channels x {tiles['h']} rows x {tiles['w']} columns"
    assert text in details.text
    assert f"accumulator in [{layer['requant']['acc'][0]:,}" in details.text
    for term in layer["terms"]:
        assert f"{term['name']}: {term['value']:,} x " in details.text
        assert f"; value: {term['text']}" in details.text
    button.click()
    assert not page.find_elements("css selector", "#layers tr.details")


def test_four_figures_stand_first(page: Any, app: Path) -> None:
    plan = read_plan(app)
    main = page.find_element("id", "main")
    first, second, *_ = main.find_elements("css selector", ":scope > *")
    assert first.get_attribute("class") == "problem"  # the chip of the tests has no HAL
    assert plan["reason"] in first.text
    assert second.get_attribute("class") == "cards"
    cards = page.find_elements("css selector", ".card")
    assert [c.find_element("tag name", "h2").text.split()[0] for c in cards] == [
        "Memory", "Latency", "Energy", "Rate",
    ]  # fmt: skip
    assert "not deployable" in cards[0].text
    with_hal = fit_cards({**plan, "deployable": True, "reason": ""})
    assert (with_hal[0].value, with_hal[0].state) == ("fits", "good")
    shown = [e.text for e in cards[0].find_elements("css selector", ".who")]
    assert shown == list(plan["memory"])
    [bar] = cards[0].find_elements("css selector", "li:first-child i")
    use = plan["memory"]["L1"]
    length = bar.size["width"] / bar.find_element("xpath", "..").size["width"]
    assert length == pytest.approx(use["used"] / use["budget"], abs=0.02)


def test_a_mark_and_its_row_are_linked_both_ways(page: Any) -> None:
    area = page.find_element("css selector", '#cycles [data-l="1"]')
    row = page.find_element("css selector", '#layers tr[data-l="1"]')
    hover(page, area)
    hot = page.find_elements("css selector", "#layers tr.hot")
    assert hot == [row]
    tip = page.find_element("id", "tip").text
    assert "cycles" in tip and row.find_element("tag name", "th").text in tip
    hover(page, page.find_element("css selector", '#layers tr[data-l="2"]'))
    marked = page.find_elements("css selector", ".chart .hot")
    assert {mark.get_attribute("data-l") for mark in marked} >= {"2"}
    assert all("2" in str(mark.get_attribute("data-l")).split() for mark in marked)
    found = {mark.find_element("xpath", "ancestor::figure").get_attribute("id") for mark in marked}
    assert found == set(FIGURES), "in every chart"


def test_arrow_keys_step_through_a_chart_and_enter_goes_to_the_row(page: Any) -> None:
    chart = page.find_element("css selector", "#cycles svg.chart")
    chart.send_keys("\ue014")  # right
    chart.send_keys("\ue014")
    hot = page.find_elements("css selector", "#layers tr.hot")
    assert [row.get_attribute("data-l") for row in hot] == ["1"]
    chart.send_keys("\ue007")  # enter
    active = page.switch_to.active_element
    assert active.find_element("xpath", "ancestor::tr").get_attribute("data-l") == "1"
    assert not page.find_element("id", "tip").is_displayed()


def test_marks_and_borders_of_the_timeline_are_visible_at_any_zoom(page: Any, app: Path) -> None:
    events, layers = cli.read_timeline(app)["events"], read_plan(app)["layers"]
    paths = page.find_elements("css selector", "#timeline .span path")
    assert sum(path.get_attribute("d").count("m") for path in paths) == len(events)
    border = page.find_element("css selector", "#timeline .border")
    assert border.get_attribute("d").count("M") == len(layers)
    strokes = [p.value_of_css_property("vector-effect") for p in (*paths, border)]
    assert set(strokes) == {"non-scaling-stroke"}, "a pixel wide however short"
    chart = page.find_element("css selector", "#timeline svg.chart")
    before = chart.size["width"]
    page.find_element("css selector", '#timeline [data-zoom="2"]').click()
    assert chart.size["width"] == pytest.approx(2 * before, abs=2)
    chart.send_keys("+")
    assert chart.size["width"] == pytest.approx(4 * before, abs=4)
    assert overflow(page) == 0
    chart.send_keys("0")
    assert chart.size["width"] == before


def test_the_timeline_tells_tiles_under_the_mouse(page: Any, app: Path) -> None:
    path = page.find_element("css selector", '#timeline .span.compute path[data-l="0"]')
    hover(page, path)
    document = cli.read_timeline(app)
    name = document["names"].index("compute")
    own = [e for e in document["events"] if e[1] == name and e[2] == 0]
    tip = page.find_element("id", "tip").text
    assert "compute: " in tip
    assert len(own) == 1 or f" cycles in {len(own)} tiles" in tip


@pytest.mark.sample(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_is_accessible_in_both_colour_schemes(page: Any, scheme: str) -> None:
    media(page, scheme)
    for width in (420, 800, 1400):
        resize(page, width)
        assert overflow(page) == 0, width
        if width != 800:
            assert violations(page) == [], (width, scheme)
    page.find_element("css selector", "#layers button.open").click()
    assert violations(page) == [], "with an open row"
    page.find_element("css selector", "#layers button.open").click()
    assert page.get_log("browser") == []


def test_the_first_column_stays_and_rows_are_usable_on_a_phone(page: Any) -> None:
    resize(page, 420)
    box = page.find_element("css selector", ".wide")
    cell = page.find_element("css selector", "#layers tr.row > th")
    before = cell.location["x"]
    page.execute_script("arguments[0].scrollLeft = 200", box)
    assert page.execute_script("return arguments[0].scrollLeft", box) == 200
    assert cell.location["x"] == before
    assert cell.size["width"] < 210, "half of the page is left for numbers"
    page.execute_script("arguments[0].scrollLeft = 0", box)
    resize(page, 1400)
    columns = page.find_elements("css selector", "#layers thead th")
    right = {c.text: c.location["x"] + c.size["width"] for c in columns}
    for name in ("cycles", "share", "MAC/cycle", "bound", "kernel", "tile CxHxW", "L1"):
        assert right[name] <= 1400, name


def test_paper_is_light_and_shows_all_rows(page: Any) -> None:
    media(page, "dark", "print")
    body = page.find_element("tag name", "body")
    assert body.value_of_css_property("color") == "rgba(26, 31, 41, 1)"
    assert page.find_element("css selector", ".wide").value_of_css_property("overflow") == "visible"
    assert not page.find_element("css selector", ".zoom").is_displayed()
    by_hand = page.find_elements("css selector", ".by-hand")
    assert len(by_hand) == 2, "what a click does: of the timeline and of the layers"
    assert not any(text.is_displayed() for text in by_hand)
    for chosen in ("figure", "section.table", "main > section"):
        found = page.find_elements("css selector", chosen)
        assert {one.value_of_css_property("break-inside") for one in found} == {"avoid"}
    heading = page.find_element("css selector", "thead button")
    assert heading.value_of_css_property("display") == "contents", "else it is on one page only"
    media(page, "light")
    assert all(text.is_displayed() for text in by_hand)


def test_boxes_of_memories_have_names_that_fit(page: Any, app: Path) -> None:
    resize(page, 1400)
    settle(page)
    shown = {e.text for e in page.find_elements("css selector", "#memory-l1 .names text")}
    blocks = {b["name"] for layer in read_plan(app)["layers"] for b in layer["l1_blocks"]}
    assert shown & blocks >= {"x", "y"}
    script = """return [...document.querySelectorAll(".names text")].filter((text) => {
        const box = text.previousElementSibling.getBoundingClientRect();
        return text.textContent && text.getBoundingClientRect().right > box.right + 1;
    }).map((text) => text.textContent)"""
    for width in (420, 1400):
        resize(page, width)
        assert page.execute_script(script) == []


def test_bars_of_a_layer_are_all_cycles_until_its_end(app: Path) -> None:
    """Waiting for L3 before a layer is part of its bar and no part of its cycles."""
    from dory_report.application import charts

    plan = read_plan(app)
    plan["layers"][1]["estimate"]["l3_stall_cycles"] = 12345
    for layer in plan["layers"]:
        estimate = layer["estimate"]
        spent = charts.layer_cycles(layer)
        assert sum(spent.values()) == estimate["cycles"] + estimate["l3_stall_cycles"]
    figure = charts.cycles(plan)
    assert ("wait-l3", "waiting for L3") in figure.legend
    assert "waiting for L3: 12,345" in figure.marks


def test_every_tile_is_in_the_timeline_to_the_cycle(app: Path) -> None:
    document = cli.read_timeline(app)
    found = []
    for d in re.findall(r'<path d="([^"]*)"', timeline(document, read_plan(app)).marks):
        at = 0
        for move, length in re.findall(r"m(-?\d+) 0v1h(-?\d+)v-1z", d):
            at += int(move)
            found.append((at, at + int(length)))
    assert sorted(found) == sorted(
        (round(start), round(start + duration)) for *_, start, duration in document["events"]
    )


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
    columns = re.findall(r'<svg [^>]*data-l="(\d+)">(.*?)</svg>', local_memory(plan).marks)
    assert [layer for layer, boxes in columns if f"{KEPT}: {8 * 6 * 6:,} bytes" in boxes] == ["2"]
    page = report_page(plan, cli.read_timeline(tmp_path / "app"))
    assert "kept in L1 for later layers" in page
    assert plan["layers"][0]["proof"] in page


def test_blocks_of_l2_live_from_their_writer_to_their_last_reader(app: Path) -> None:
    plan = read_plan(app)
    marks = memory_map(plan, "L2").marks
    for block in plan["memory"]["L2"]["blocks"]:
        assert f"{block['name']} \u00b7 {block['size']:,} bytes at {block['offset']:,}" in marks
    [block] = [b for b in plan["memory"]["L2"]["blocks"] if (b["first"], b["last"]) == (0, 1)]
    life = f"from {layer_label(plan['layers'][0])} to {layer_label(plan['layers'][1])}"
    assert re.search(rf'data-l="0 1"><rect [^>]*data-tip="{block["name"]} [^"]*{life}', marks)


def test_images_show_the_same_charts(app: Path) -> None:
    drawn = figures(read_plan(app), cli.read_timeline(app))
    assert tuple(figure.name for figure in drawn) == FIGURES
    for figure in drawn:
        picture = drawing.image(figure, "svg")
        assert picture.startswith(b"<svg") and figure.marks.encode() in picture
        assert drawing.image(figure, "png").startswith(b"\x89PNG")


def test_png_without_its_library_names_the_extra(
    app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    figure = figures(read_plan(app), cli.read_timeline(app))[0]
    with pytest.raises(ToolMissing, match="PNG") as error:
        drawing.image(figure, "png")
    assert "dory-report[png]" in error.value.hint


@pytest.mark.parametrize("how", ["abort", "fail", "nothing"])
def test_a_drawing_library_that_ends_its_process_costs_only_the_picture(
    how: str,
    app: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends = {"abort": "import os; os.abort()", "fail": "1 / 0", "nothing": "pass"}[how]
    monkeypatch.setattr(drawing, "_DRAW", ends)
    monkeypatch.setattr(logging.getLogger("dory"), "propagate", True)  # a command turns it off
    caplog.set_level(logging.WARNING, "dory")  # another one was quiet
    drawn = figures(read_plan(app), cli.read_timeline(app))[:1]
    assert drawing.write_images(tmp_path / "images", "png", drawn) == []
    [record] = caplog.records
    assert "is not drawn: " in record.message and "\n" not in record.message
    assert ("division by zero" in record.message) is (how == "fail")
    assert drawing.write_images(tmp_path / "images", "svg", drawn)


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


def test_a_network_without_a_computed_layer_has_a_page(tmp_path: Path) -> None:
    """All its layers are views: nothing happens on the cores."""
    builder = GraphBuilder((4, 4, 4))
    builder.reshape((64, 1, 1))
    build_app(builder.graph(), "toy", tmp_path)
    assert report_page(read_plan(tmp_path), cli.read_timeline(tmp_path))
