"""Tests of plans compile without optimisation: their programs run for a moment.

Others compile the same kernels and layers as users do.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def quick_to_compile() -> Iterator[None]:
    """The host simulation is compiled without optimisation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dory_core.simulate.build.LEVEL", "-O0")
        yield
