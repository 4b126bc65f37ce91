"""Networks of integer ONNX for tests: builders, and an evaluator that shares no code with import.

Tests of frontends subclass :class:`OnnxBuilder` or :class:`IntegerOnnxBuilder` for what their
exporter writes, and compare what they import with :func:`evaluate`.
"""

from dory_onnx.testing.builder import OnnxBuilder
from dory_onnx.testing.evaluator import evaluate, write_golden
from dory_onnx.testing.integer import IntegerOnnxBuilder

__all__ = ["IntegerOnnxBuilder", "OnnxBuilder", "evaluate", "write_golden"]
