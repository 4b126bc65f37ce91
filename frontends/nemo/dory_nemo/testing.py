"""Building networks as the NEMO quantiser exports them, for tests and examples.

NemoBuilder((3, 32, 32), seed=1).conv(16, 3, pads=1).maxpool(2).conv(32, 3, stride=2, pads=1)
    .linear(10, activation=False).save(path)
"""

from __future__ import annotations

from dory_onnx.testing import IntegerOnnxBuilder


class NemoBuilder(IntegerOnnxBuilder):
    """Networks as the NEMO quantiser exports them: the plain nodes of integer ONNX."""
