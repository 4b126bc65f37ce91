"""An application to report on, and a browser to look at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dory_core.ir import Window
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.report.browser import open_browser
from tests.toy.chip import NAME, ToyChip


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network on the chip of the tests, whose name HTML could stumble over."""
    net = GraphBuilder((8, 12, 12), seed=3, name="a <b> & </script>")
    net.conv(16, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    net.conv(8, Window(kernel=(1, 1)))
    net.linear(5)
    folder = tmp_path_factory.mktemp("report") / "app"
    build_app(net.graph(), NAME, folder, plugins=ToyChip().plugins(), budgets={1: 4000})
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium."""
    yield from open_browser(tmp_path_factory.mktemp("profile"))
