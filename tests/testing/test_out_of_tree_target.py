"""A target outside the repository passes the whole conformance matrix."""

from __future__ import annotations

import pytest

from dory_core.plugins.manager import Plugins
from dory_core.testing import Capabilities, TargetConformance
from tests.toy.chip import L1_BYTES, NAME, ToyChip


@pytest.mark.sample(6)
class TestToyChip(TargetConformance):
    """Plain C on one core, 11 KB of L1; core 0 moves all data."""

    capabilities = Capabilities(target=NAME, l1_budgets=(L1_BYTES - 1000,))

    @pytest.fixture
    def plugins(self) -> Plugins:
        return ToyChip().plugins()
