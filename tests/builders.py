"""Builders of networks in the dialects of the installed frontends."""

from dory_nemo.testing import NemoBuilder

from dory_core.testing.onnx_builder import OnnxBuilder

__all__ = ["NemoBuilder", "OnnxBuilder"]
