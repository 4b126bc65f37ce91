"""Self-contained HTML pages: facts, tables that sort, charts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dory_core.api import quoting
from dory_report.drawing import javascript
from dory_report.tables import Table

_TEMPLATE = Path(__file__).parent / "templates" / "page.html.mako"


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart of the page. name: of its element and of its image file."""

    name: str
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that a page shows.

    facts: (name, value) at its top.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]

    @property
    def specs(self) -> str:
        """The specifications by name, as JSON that may stand inside a script element."""
        content = {figure.name: figure.spec for figure in self.figures}
        return quoting.script(quoting.visible_document(content))


def render(page: Page) -> str:
    """Return the HTML of a page."""
    return str(_template().render(page=page, script=javascript()))


@cache
def _template() -> Any:
    from mako.template import Template

    return Template(
        filename=str(_TEMPLATE),
        strict_undefined=True,
        input_encoding="utf-8",
        imports=["from dory_core.api import quoting"],
        default_filters=["quoting.html"],
    )
