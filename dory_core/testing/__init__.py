"""The conformance kit for targets: subclass its classes in your tests.

:class:`TargetConformance` builds and runs applications, :class:`KernelConformance` kernels alone.

The kit needs pytest; the builders of networks beside it do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dory_core.testing.conformance import Capabilities, TargetConformance
    from dory_core.testing.kernel_conformance import KernelConformance

__all__ = ["Capabilities", "KernelConformance", "TargetConformance"]

_MODULES = {
    "Capabilities": "dory_core.testing.conformance",
    "KernelConformance": "dory_core.testing.kernel_conformance",
    "TargetConformance": "dory_core.testing.conformance",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib
    import sys

    import pytest

    # Plain asserts then say what they compared, as those of test modules do.
    for module in ("dory_core.testing.apps", *sorted(set(_MODULES.values()))):
        if module not in sys.modules:
            pytest.register_assert_rewrite(module)
    return getattr(importlib.import_module(_MODULES[name]), name)
