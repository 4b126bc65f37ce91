"""The conformance matrix of dory on GAP8."""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.testing import Capabilities, TargetConformance
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.cases import Case, network_cases


@pytest.mark.sample(6)
class TestGap8(TargetConformance):
    """GAP8 computes everything, down to 16 KiB of L1."""

    capabilities = Capabilities(target="gap8", l1_budgets=(16384, 56208))


@pytest.mark.slow
@pytest.mark.sample(3)
class TestGap8OneCore(TargetConformance):
    """The same application for a single core."""

    capabilities = Capabilities(target="gap8", settings=(("cores", "1"),), l1_budgets=(16384,))


@pytest.mark.sample(15)
@pytest.mark.parametrize("case", network_cases(), ids=str)
def test_networks_are_exact_on_one_core(case: Case, tmp_path: Path) -> None:
    build_app(case.build(), "gap8", tmp_path / "app", budgets={1: 16384}, settings={"cores": "1"})
    assert_exact(tmp_path / "app", dma=("random",))
