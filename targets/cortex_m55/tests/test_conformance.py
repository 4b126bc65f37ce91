"""The conformance matrix of dory on the Cortex-M55."""

from __future__ import annotations

import pytest

from dory_core.testing import Capabilities, TargetConformance


@pytest.mark.sample(16)
class TestCortexM55(TargetConformance):
    """One core, DTCM down to 16 KiB, the core moves all data."""

    capabilities = Capabilities(target="cortex_m55", l1_budgets=(16384, 102400))
