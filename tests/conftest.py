"""Tests of the core run without our plugins; those in ``system`` alone may use them.

While a test of the core is imported and run, the packages of frontends, targets and tools cannot be
imported, and ``DORY_PLUGINS`` chooses the toy plugins, which lie in ``toy/site`` as an installer
would leave them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent
SYSTEM = TESTS / "system"
SITE = TESTS / "toy" / "site"
OURS = frozenset(path.parent.name for path in TESTS.parent.glob("*/*/dory_*/__init__.py"))
TOYS = "toy,plain"

sys.path.append(str(SITE))

# A shell's background job ignores interrupts, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


class _Refuse(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.partition(".")[0] in OURS:
            raise ImportError(f"tests of the core do not import {fullname}")


@contextmanager
def without_our_plugins() -> Iterator[None]:
    """Hide the modules of our plugins and refuse to import them; load the toy plugins instead."""
    hidden = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in OURS}
    for name in hidden:
        del sys.modules[name]
    finder = _Refuse()
    sys.meta_path.insert(0, finder)
    selection = os.environ.get("DORY_PLUGINS")
    os.environ["DORY_PLUGINS"] = TOYS
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        sys.modules.update(hidden)
        if selection is None:
            del os.environ["DORY_PLUGINS"]
        else:
            os.environ["DORY_PLUGINS"] = selection


def _is_of_the_core(path: Path) -> bool:
    return path.is_relative_to(TESTS) and not path.is_relative_to(SYSTEM)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Import the modules of the core's tests."""
    if not _is_of_the_core(collector.path):
        return (yield)
    with without_our_plugins():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run a test with its fixtures."""
    if not _is_of_the_core(item.path):
        return (yield)
    with without_our_plugins():
        return (yield)


@pytest.fixture(scope="module")
def tiles_of_the_objective() -> Iterator[None]:
    """Layers have the best tiles by the objective, though others may be faster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dory_core.tiling.tiler._WALKS", 0)
        yield
