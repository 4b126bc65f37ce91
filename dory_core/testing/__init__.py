"""The conformance kit for targets: subclass :class:`TargetConformance` in your tests.

The kit needs pytest; the builders of networks beside it do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dory_core.testing.conformance import Capabilities, TargetConformance

__all__ = ["Capabilities", "TargetConformance"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import sys

    import pytest

    # Plain asserts then say what they compared, as those of test modules do.
    for module in ("dory_core.testing.apps", "dory_core.testing.conformance"):
        if module not in sys.modules:
            pytest.register_assert_rewrite(module)
    from dory_core.testing import conformance

    return getattr(conformance, name)
