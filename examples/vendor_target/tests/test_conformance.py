"""The conformance kit on Kite."""

from __future__ import annotations

from dory_core.testing import Capabilities, KernelConformance, TargetConformance


class TestKite(TargetConformance):
    """Every layer and network of the matrix, with two sizes of L1."""

    capabilities = Capabilities(target="kite", l1_budgets=(24 * 1024, 6 * 1024))


class TestKiteKernels(KernelConformance):
    """The 3x3 convolution, on layers that it accepts, in random tiles."""

    target = "kite"
