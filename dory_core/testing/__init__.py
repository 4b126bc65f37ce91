"""The conformance kit for targets: subclass its classes in your tests.

:class:`TargetConformance` builds and runs applications, :class:`KernelConformance` kernels alone.

The kit needs pytest; the builders of networks beside it do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dory_core.reference import run as run_reference
    from dory_core.testing.conformance import Capabilities, TargetConformance
    from dory_core.testing.integer_onnx import IntegerOnnxBuilder
    from dory_core.testing.kernel_conformance import KernelConformance
    from dory_core.testing.onnx_builder import OnnxBuilder

__all__ = [
    "Capabilities",
    "IntegerOnnxBuilder",
    "KernelConformance",
    "OnnxBuilder",
    "TargetConformance",
    "run_reference",
]

_HOMES = {
    "Capabilities": ("dory_core.testing.conformance", "Capabilities"),
    "IntegerOnnxBuilder": ("dory_core.testing.integer_onnx", "IntegerOnnxBuilder"),
    "KernelConformance": ("dory_core.testing.kernel_conformance", "KernelConformance"),
    "OnnxBuilder": ("dory_core.testing.onnx_builder", "OnnxBuilder"),
    "TargetConformance": ("dory_core.testing.conformance", "TargetConformance"),
    "run_reference": ("dory_core.reference", "run"),
}
# Modules with assertions; plain asserts then say what they compared, as those of test modules do.
_ASSERTING = (
    "dory_core.testing.apps",
    "dory_core.testing.conformance",
    "dory_core.testing.kernel_conformance",
)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib
    import sys

    module, attribute = _HOMES[name]
    if module in _ASSERTING:
        import pytest

        for asserting in _ASSERTING:
            if asserting not in sys.modules:
                pytest.register_assert_rewrite(asserting)
    return getattr(importlib.import_module(module), attribute)
