"""Names on a page are text: they add no element, end no script and turn no direction."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest
from dory_report.drawing import image
from dory_report.page import Card, Meter, Page, brief, render, short
from dory_report.svg import Figure, label, tag
from dory_report.tables import Cell, Row, Table, label_cell

NAMES = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\" onmouseover='x' `",
    "\u202egpj.exe \x1b[31m",
    "${x} % if x:\n% endif",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_holds_the_same_elements_whatever_names_are(name: str) -> None:
    plain, evil = (render(_page(text)) for text in ("n" * len(name), name))
    assert _elements(evil) == _elements(plain)
    assert "\u202e" not in evil and "\x1b" not in evil
    why = re.search(r"^const why = (.*);$", evil, re.MULTILINE)
    assert why is not None
    assert json.loads(why[1])["rows"] == {"7": [[0, 0]]}


@pytest.mark.parametrize("name", NAMES)
def test_an_image_is_xml_whatever_names_are(name: str) -> None:
    root = ElementTree.fromstring(image(_figure(name), "svg"))
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert tags == [
        element.tag.rpartition("}")[2]
        for element in ElementTree.fromstring(image(_figure("name"), "svg")).iter()
    ]


def test_long_names_lose_their_middle() -> None:
    name = "model/activation/Relu;model/batch_normalization/FusedBatchNormV3;model/conv2d/BiasAdd"
    assert (short("Conv_0"), brief("Conv_0")) == ("Conv_0", "Conv_0")
    assert short(name).startswith("model/activ") and short(name).endswith("d/BiasAdd")
    assert len(short(name)) == 34 and len(brief(name)) == 17
    assert name in render(_page(name)), "all of it is there for the mouse and screen readers"


def _elements(page: str) -> list[str]:
    """Return the elements of a page without those that show short names."""
    return [e for e in re.findall(r"<[/!]?[a-zA-Z-]+", page) if not e.endswith("span")]


def _figure(name: str) -> Figure:
    marks = label(name, x=0) + tag("rect", data_tip=name)
    return Figure("chart", name, name, 50, marks, legend=(("compute", name),), zooms=True)


def _page(name: str) -> Page:
    row = Row((Cell(name, 0, head=True), label_cell(name, name)), ((name, (name,)),), "7")
    return Page(
        title=name,
        subtitle=name,
        cards=(Card(name, name, name, (name,), (Meter(name, name, 2.0),)),),
        problems=(name,),
        first=(_figure(name),),
        tables=(Table("t", name, (name, "kind"), (row,), {name: name}),),
        figures=(),
        facts=((name, name),),
        notes=(name,),
    )
