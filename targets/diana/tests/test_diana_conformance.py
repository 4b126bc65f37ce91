"""The conformance matrix of dory on Diana."""

from __future__ import annotations

from dory_core.testing import Capabilities, TargetConformance


class TestDianaHost(TargetConformance):
    """The host alone: layers in place in L2."""

    capabilities = Capabilities(target="diana", l1_budgets=(131072,))
