"""Builders of networks in the dialects of the installed frontends."""

from dory_core.testing.onnx_builder import OnnxBuilder
from dory_nemo.testing import NemoBuilder

__all__ = ["NemoBuilder", "OnnxBuilder"]
