"""Modules of this folder are skipped where one of the plugins that they need is not installed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest

NEEDED = ("dory_gap8", "dory_nemo", "dory_quantlab")
MISSING = [name for name in NEEDED if find_spec(name) is None]


class _Skipped(pytest.Module):
    def collect(self) -> Iterable[pytest.Item]:
        pytest.skip(f"not installed: {', '.join(MISSING)}", allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Return a module that says what is missing instead of one whose imports fail."""
    return _Skipped.from_parent(parent, path=module_path) if MISSING else None
