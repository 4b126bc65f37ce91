"""The conformance kit for targets: subclass :class:`TargetConformance` in your tests."""

from dory_core.testing.conformance import Capabilities, TargetConformance

__all__ = ["Capabilities", "TargetConformance"]
