"""Names on a page are text: they add no element, end no script and turn no direction."""

from __future__ import annotations

import json
import re

import pytest
from dory_report.page import Figure, Page, render
from dory_report.tables import Row, Table, label_cell

NAMES = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\" onmouseover='x' `",
    "\u202egpj.exe \x1b[31m",
    "${x} % if x:\n% endif",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_holds_the_same_elements_whatever_names_are(name: str) -> None:
    pages = [render(_page(text)) for text in ("name", name)]
    plain, evil = (re.findall(r"<[/!]?[a-zA-Z-]+", page) for page in pages)
    assert evil == plain
    assert "\u202e" not in pages[1] and "\x1b" not in pages[1]
    specs = re.search(r"^const specs = (.*);$", pages[1], re.MULTILINE)
    assert specs is not None
    assert json.loads(specs[1])["chart"]["data"]


def _page(name: str) -> Page:
    row = Row((label_cell(name, name),), ((name, (name,)),))
    figures = (Figure("chart", {"data": {"values": [{name: name}]}}),)
    return Page(name, ((name, name),), (Table("t", (name,), (row,)),), figures, (name,))
