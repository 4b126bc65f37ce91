"""What all tests of this repository share: the marker ``sample``."""

from __future__ import annotations

from collections import Counter

import pytest


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
