"""What all tests of this repository share: the marker ``sample``, and what fast tests compile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent
#: Tests of plans, formats and targets, whose programs run for a moment.
SHORT_PROGRAMS = tuple(
    ROOT / name
    for name in ("tests/planning", "tests/plan", "tests/networks", "frontends", "targets")
)
KITS = {"KernelConformance", "TargetConformance"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow all but one in n instances of a test with the marker ``sample(n)``."""
    seen: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("sample")
        if marker is not None:
            function = item.nodeid.partition("[")[0]
            if seen[function] % marker.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[function] += 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Compile single kernels and short programs of fast tests without optimisation.

    That takes a fifth of the time. Slow tests, those of the conformance kits and applications of
    whole networks are compiled with optimisation.
    """
    bases = getattr(getattr(item, "cls", None), "__mro__", ())
    if (
        not KITS.isdisjoint(base.__name__ for base in bases)
        or item.get_closest_marker("slow") is not None
    ):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dory_core.testing.kernels.LEVEL", "-O0")
        if any(item.path.is_relative_to(folder) for folder in SHORT_PROGRAMS):
            patch.setattr("dory_core.simulate.build.LEVEL", "-O0")
        return (yield)
