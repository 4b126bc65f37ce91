"""The page of a comparison, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dory_report.comparison.page import compare_figures, compare_page
from dory_report.comparison.points import Comparison, Outcome, Point

from dory_core.tools import read_plan
from tools.report.tests.looks import hover, load, media, overflow, resize, violations

CLOCK = {"name": "slow", "core_hz": 5e7, "io_hz": 1e7, "source": "a data sheet"}


def outcome(app: Path, l1: str, scale: int) -> Outcome:
    """Return a column whose totals are ``scale`` times those of the application."""
    plan = read_plan(app)
    totals = {**plan["totals"], "cycles": plan["totals"]["cycles"] * scale}
    totals["macs_per_cycle"] = plan["totals"]["macs_per_cycle"] / scale
    point = Point("toy", (("l1", l1),))
    return Outcome(
        point,
        True,
        True,
        totals=totals,
        operating_point=CLOCK,
        memory=plan["memory"],
        layers=tuple(plan["layers"]),
    )


@pytest.fixture(scope="module")
def document(app: Path) -> dict[str, Any]:
    """Two columns that fit and one that does not."""
    refused = Outcome(Point("toy", (("l1", "64"),)), True, False, "too small for <L1>", "more")
    columns = (outcome(app, "8192", 3), outcome(app, "16384", 1), refused)
    return Comparison("net", "testing", columns).to_json()


def test_page_of_a_comparison_loads_sorts_and_says_why_not(
    document: dict[str, Any], browser: Any, tmp_path: Path
) -> None:
    figures = [figure.name for figure in compare_figures(document)]
    assert figures == ["rate", "layers-cycles-0", "layers-cycles-1"], "no operating point"
    resize(browser, 1400)
    load(browser, compare_page(document), tmp_path)
    charts = browser.find_elements("css selector", "figure svg.chart")
    assert len(charts) == len(figures)
    assert browser.get_log("browser") == []
    rows = browser.find_elements("css selector", "#totals tr.row")
    assert [row.find_elements("tag name", "td")[1].text for row in rows] == [
        "fits",
        "fits",
        "does not fit",
    ]
    body = browser.find_element("tag name", "body").text
    assert "toy l1=64: too small for <L1>; hint: more" in body
    assert "all estimates are at slow (cores 50 MHz, I/O 10 MHz); source: a data sheet" in body
    assert [row.find_elements("tag name", "td")[0].text for row in rows] == ["8k", "16k", "64"]
    browser.find_element("css selector", "#totals thead th:nth-child(4)").click()
    cells = browser.find_elements("css selector", "#totals tr.row td:nth-child(4)")
    keys = [float(cell.get_attribute("data-key")) for cell in cells]
    assert keys == sorted(keys)
    assert keys[2] == 3 * keys[1] > 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_comparison_fits_and_is_accessible_in_both_colour_schemes(
    document: dict[str, Any], browser: Any, tmp_path: Path, scheme: str
) -> None:
    load(browser, compare_page(document), tmp_path)
    media(browser, scheme)
    for width in (420, 800, 1400):
        resize(browser, width)
        assert overflow(browser) == 0, width
    assert violations(browser) == []
    cards = [card.text for card in browser.find_elements("css selector", ".card")]
    assert len(cards) == 4
    assert "2 of 3" in cards[0] and "does not fit" in cards[0]
    media(browser, "light")


def test_a_layer_is_marked_in_the_chart_of_every_plan(
    document: dict[str, Any], browser: Any, tmp_path: Path
) -> None:
    load(browser, compare_page(document), tmp_path)
    resize(browser, 1400)
    hover(browser, browser.find_element("css selector", '#layers tr[data-l="1"]'))
    marked = browser.find_elements("css selector", ".chart .hot")
    assert [mark.get_attribute("data-l") for mark in marked] == ["1", "1"]
    hover(browser, browser.find_element("css selector", '#layers-cycles-1 [data-l="0"]'))
    hot = browser.find_elements("css selector", "tr.hot")
    assert [row.get_attribute("data-l") for row in hot] == ["0"]
