"""Self-contained HTML pages: large figures, charts and tables that are linked, facts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dory_core.tools import quoting
from dory_report import palette
from dory_report.svg import Figure
from dory_report.tables import Table

_TEMPLATES = Path(__file__).parent / "templates"
#: What every page has near its beginning: such a page may be replaced by a newer one.
MARK = b'<meta name="generator" content="dory">'
#: Characters of a name in a table, on wide and on narrow pages.
_NAME, _BRIEF = 34, 17


@dataclass(frozen=True, slots=True)
class Meter:
    """A bar beside a text. share: of its full length, 0 to 1 or more. full: a class of the bar."""

    label: str
    text: str
    share: float


@dataclass(frozen=True, slots=True)
class Card:
    """A large figure.

    Attributes:
        state: ``good``, ``bad`` or empty.
        notes: Small lines below it.
    """

    title: str
    value: str
    unit: str = ""
    notes: tuple[str, ...] = ()
    meters: tuple[Meter, ...] = ()
    state: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that a page shows.

    Attributes:
        subtitle: Below the title.
        problems: Why it cannot be used as it is.
        first: Charts above the tables, figures: below.
        facts: (name, value) at its end.
    """

    title: str
    subtitle: str
    cards: tuple[Card, ...]
    problems: tuple[str, ...]
    first: tuple[Figure, ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    @property
    def why(self) -> str:
        """What rows say when they are opened, as JSON that may stand inside a script element.

        texts: each once; rows: by their link, lists of the numbers of a title and its lines.
        """
        numbers: dict[str, int] = {}
        rows = {
            row.link: [
                [numbers.setdefault(text, len(numbers)) for text in (title, *lines)]
                for title, lines in row.details
            ]
            for table in self.tables
            for row in table.rows
            if row.details
        }
        return quoting.script(quoting.visible_document({"texts": list(numbers), "rows": rows}))


def render(page: Page) -> str:
    """Return the HTML of a page."""
    return str(_template().render(page=page, style=_style(), script=_file("page.js")))


def short(name: str) -> str:
    """Return a name for a cell; a long one loses its middle."""
    return quoting.shortened(name, _NAME)


def brief(name: str) -> str:
    """Return a name for a cell of a narrow page."""
    return quoting.shortened(name, _BRIEF)


def chart_style() -> str:
    """Return the style sheet of charts, in custom properties."""
    return _file("chart.css") + palette.fills()


def _style() -> str:
    return (
        f":root {{ color-scheme: light dark; {palette.properties(dark=False)} }}\n"
        "@media screen and (prefers-color-scheme: dark) { :root { "
        f"{palette.properties(dark=True)} }} }}\n{_file('page.css')}{chart_style()}"
    )


def _file(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _template() -> Any:
    from mako.template import Template

    return Template(
        filename=str(_TEMPLATES / "page.html.mako"),
        strict_undefined=True,
        input_encoding="utf-8",
        imports=[
            "from dory_core.tools import quoting",
            "from dory_report.page import brief, short",
        ],
        default_filters=["quoting.html"],
    )
