"""An application to report on, and a browser to look at it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dory_core.api import ops
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.cli.command_line import TOYS
from tests.toy.chip import NAME, ToyChip
from tests.toy.fixtures import application, golden, net, network, pipeline

sys.path.append(str(TOYS))  # the toy plugins are installed for this process

__all__ = ["application", "app", "browser", "golden", "net", "network", "pipeline"]

_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--window-size=1300,2400",
)


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network on the chip of the tests, whose name HTML could stumble over."""
    net = GraphBuilder((8, 12, 12), seed=3, name="a <b> & </script>")
    net.conv(16, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    net.conv(8, ops.Window(kernel=(1, 1)))
    net.linear(5)
    folder = tmp_path_factory.mktemp("report") / "app"
    build_app(net.graph(), NAME, folder, plugins=ToyChip().plugins(), budgets={1: 4000})
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium with an empty profile, driven by its own driver."""
    profile = tmp_path_factory.mktemp("profile")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed (Debian: chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for option in (*_OPTIONS, f"--user-data-dir={profile}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    found = webdriver.Chrome(options=options, service=service)
    try:
        yield found
    finally:
        found.quit()
