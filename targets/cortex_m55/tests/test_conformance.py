"""The conformance matrix of dory on the Cortex-M55."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dory_core.testing import Capabilities, TargetConformance
from dory_core.testing.cases import Case


@pytest.mark.sample(16)
class TestCortexM55(TargetConformance):
    """One core, DTCM down to 16 KiB, the core moves all data."""

    capabilities = Capabilities(target="cortex_m55", l1_budgets=(16384, 102400))

    @pytest.mark.slow
    def test_sanitizers_find_nothing(
        self, network_case: Case, sanitizer: str, plugins: Any, tmp_path: Path
    ) -> None:
        """Kernels run under the sanitizers in tests of their own, which are fast."""
        super().test_sanitizers_find_nothing(network_case, sanitizer, plugins, tmp_path)
