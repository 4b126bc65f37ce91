"""The hooks of the report: two commands, functions for Python, the page of each application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dory_core.api import hookimpl

if TYPE_CHECKING:
    import typer

    from dory_core.api import OutputFile

DORY_API = 1
PAGE = "report.html"


@hookimpl
def dory_commands(app: typer.Typer) -> None:
    """Add ``dory compare`` and ``dory report``."""
    from dory_report.application.command import report
    from dory_report.comparison.command import compare_

    app.command("compare")(compare_)
    app.command()(report)


@hookimpl
def dory_functions() -> list[Callable[..., Any]]:
    """Return ``dory.compare``, and what draws the pictures of a compiled network."""
    from dory_report.application.page import pictures
    from dory_report.comparison.function import compare

    return [compare, pictures]


@hookimpl
def dory_reports(plan: Mapping[str, Any], timeline: Mapping[str, Any]) -> list[OutputFile]:
    """Return the page of an application."""
    from dory_core.api import OutputFile
    from dory_report.application.page import report_page

    return [OutputFile(PAGE, report_page(plan, timeline))]
