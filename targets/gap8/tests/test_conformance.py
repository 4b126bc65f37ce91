"""The conformance matrix of dory on GAP8."""

from __future__ import annotations

from dory_core.testing import Capabilities, TargetConformance


class TestGap8(TargetConformance):
    """GAP8 computes everything, down to 16 KiB of L1."""

    capabilities = Capabilities(target="gap8", l1_budgets=(16384, 38236))


class TestGap8OneCore(TargetConformance):
    """The same application for a single core."""

    capabilities = Capabilities(target="gap8", settings=(("cores", "1"),), l1_budgets=(16384,))
