"""Looking at a page with the browser of the tests: sizes, colour schemes, accessibility."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

SCHEMES = ("light", "dark")
WIDTHS_PX = (420, 800, 1400)


def load(browser: Any, page: str, folder: Path) -> Any:
    """Show a page as a file; return the browser."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    browser.get(file.as_uri())
    return browser


def resize(browser: Any, width: int, height: int = 900) -> None:
    """Give the page a width and a height in pixels, whatever the window can be."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    settle(browser)


def media(browser: Any, scheme: str, kind: str = "screen") -> None:
    """Show a page as people see it who prefer this colour scheme. kind: ``screen``, ``print``."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": features})
    settle(browser)


def settle(browser: Any) -> None:
    """Wait until the page was drawn twice."""
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));"
    )


def violations(browser: Any) -> list[str]:
    """Return what axe-core finds: rule, target and why."""
    pytest.importorskip(
        "axe_core_python", reason="the extra `test` of dory-report is not installed"
    )
    script = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    browser.execute_script(script)
    found = browser.execute_async_script(
        "const done = arguments[0]; axe.run().then((r) => done(r), (e) => done({error: `${e}`}));"
    )
    assert "error" not in found, found
    assert len(found["passes"]) > 15, "axe has looked at the page"
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def overflow(browser: Any) -> int:
    """Return by how many pixels the page is wider than the window."""
    return int(
        browser.execute_script(
            "const e = document.documentElement; return e.scrollWidth - e.clientWidth"
        )
    )


def hover(browser: Any, element: Any) -> None:
    """Move the mouse to the middle of an element that is brought into view."""
    from selenium.webdriver.common.action_chains import ActionChains

    browser.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element
    )
    ActionChains(browser).move_to_element(element).perform()
