"""Summary of pytest: the kernels that the conformance kit ran, with their coverage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

#: Property of a test's report with the kernels that it ran, as JSON.
PROPERTY = "dory kernels"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a section with the kernels that ran; nothing when no test of the kit ran."""
    runs: dict[str, Any] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                _take(runs, getattr(report, "user_properties", ()))
    if runs:
        from dory_core.testing.coverage import coverage_lines

        terminalreporter.section("kernels that ran")
        for line in coverage_lines(list(runs.values())):
            terminalreporter.write_line(line)


def _take(runs: dict[str, Any], properties: Any) -> None:
    for name, value in properties:
        if name == PROPERTY:
            from dory_core.testing.coverage import Ran

            for document in json.loads(value):
                ran = Ran.from_json(document)
                runs.setdefault(ran.kernel, Ran(ran.kernel)).merge(ran)


def register(config: pytest.Config) -> None:
    """Register this plugin when the installed dory-core does not."""
    import sys

    module = sys.modules[__name__]
    if not config.pluginmanager.is_registered(module):
        config.pluginmanager.register(module, "dory")
