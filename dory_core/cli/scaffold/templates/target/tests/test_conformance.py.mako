"""The conformance matrix of dory on ${n.name}."""

from __future__ import annotations

from dory_core.testing import Capabilities, TargetConformance


class Test${n.title}(TargetConformance):
    """Declare here, in one place, what the target refuses."""

    capabilities = Capabilities(target="${n.name}", l1_budgets=(16384,))
