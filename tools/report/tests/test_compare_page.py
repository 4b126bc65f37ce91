"""The page of a comparison, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dory_report.comparison.page import compare_figures, compare_page
from dory_report.comparison.points import Comparison, Outcome, Point

from dory_core.api import read_plan

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
    file = tmp_path / "compare.html"
    file.write_text(compare_page(document), encoding="utf-8")
    browser.get(file.as_uri())
    from selenium.webdriver.support.ui import WebDriverWait

    figures = [figure.name for figure in compare_figures(document)]
    assert figures == ["rate", "layers-cycles"], "the chip of the tests has no operating point"
    WebDriverWait(browser, 30).until(
        lambda driver: len(driver.find_elements("css selector", "figure canvas")) == len(figures)
    )
    assert browser.get_log("browser") == []
    rows = browser.find_elements("css selector", "#totals tr.row")
    assert [row.find_elements("tag name", "td")[2].text for row in rows] == [
        "fits",
        "fits",
        "does not fit",
    ]
    body = browser.find_element("tag name", "body").text
    assert "toy l1=64: too small for <L1>; hint: more" in body
    assert "estimates at slow (cores 50 MHz, I/O 10 MHz); source: a data sheet" in body
    assert [row.find_elements("tag name", "td")[1].text for row in rows] == ["8k", "16k", "64"]
    browser.find_element("css selector", "#totals th:nth-child(4)").click()
    cells = browser.find_elements("css selector", "#totals tr.row td:nth-child(4)")
    keys = [float(cell.get_attribute("data-key")) for cell in cells]
    assert keys == sorted(keys)
    assert keys[2] == 3 * keys[1] > 0
