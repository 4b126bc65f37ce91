"""Modules of this folder are skipped where one of the plugins that they need is not loaded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from dory_core.plugins.manager import load_plugins

NEEDED = ("gap8", "nemo", "quantlab")


class _Skipped(pytest.Module):
    def collect(self) -> Iterable[pytest.Item]:
        pytest.skip(f"plugins are needed: {', '.join(NEEDED)}", allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Return a module that is skipped instead of one whose imports or tests fail."""
    loaded = {plugin.entry for plugin in load_plugins().states if plugin.state == "loaded"}
    return None if loaded.issuperset(NEEDED) else _Skipped.from_parent(parent, path=module_path)
