"""What layers may need beyond the plain arithmetic, which every kernel is expected to have.

A kernel names those that it computes (``Kernel.features``); binding refuses it for layers that need
more. So a kernel that was written before a feature existed never computes a layer wrongly.
"""

from __future__ import annotations

from enum import StrEnum

from dory_core.ir.graph import Layer
from dory_core.ir.ops import AvgPool, Conv, Pairwise, Softmax


class Feature(StrEnum):
    """What a kernel may compute beyond the plain arithmetic (``Kernel.features``)."""

    #: A requantisation with another addend for negative accumulators (``Requant.add_negative``).
    TWO_ADDENDS = "a second addend for accumulators below zero"
    #: The same with accumulators that count from elsewhere (``Requant.turn``).
    TURN = "a second addend for accumulators below another value than zero"
    #: A requantisation in binary32 (``Requant.float32``).
    FLOAT32 = "a requantisation that rounds as binary32"
    #: Padding that is not zero (``Window.pad_value``).
    PAD_VALUE = "padding with another value than zero"
    #: A mean over the part of the window in the image (``AvgPool.counts_padding``).
    MEAN_INSIDE = "averages over the part of the window that lies in the image"
    #: A mean or a softmax in binary32 (``AvgPool.real``, ``Softmax.factor``).
    REALS = "sums of reals in binary32"
    #: A softmax with shares of more than 8 bits (``Softmax.share_bits``).
    WIDE_SHARES = "shares of a softmax in 16 bits"
    #: An input or an output whose elements are stored as two bytes (``Tensor.halves``).
    HALVES = "elements that are stored as two halves"
    #: A second operand of another shape than the first, or a constant (``Pairwise``).
    OTHER_OPERAND = "a second operand that is smaller than the first, or a constant"


#: All of them.
FEATURES = frozenset(Feature)


def features_of(layer: Layer) -> frozenset[Feature]:
    """Return the features that a layer needs."""
    op = layer.op
    found: set[Feature] = set()
    if isinstance(op, Pairwise):
        shapes = {x.shape for x in layer.inputs}
        if op.constant is not None or len(shapes) > 1:
            found.add(Feature.OTHER_OPERAND)
    if any(tensor.halves for tensor in (*layer.inputs, layer.output)):
        found.add(Feature.HALVES)
    if any(step.add_negative is not None for step in op.steps):
        found.add(Feature.TWO_ADDENDS)
    if any(step.float32 for step in op.steps):
        found.add(Feature.FLOAT32)
    if any(step.turn for step in op.steps):
        found.add(Feature.TURN)
    if (isinstance(op, AvgPool) and op.real) or (isinstance(op, Softmax) and op.factor):
        found.add(Feature.REALS)
    if isinstance(op, Softmax) and op.share_bits > 8:
        found.add(Feature.WIDE_SHARES)
    if isinstance(op, AvgPool) and not op.counts_padding:
        found.add(Feature.MEAN_INSIDE)
    elif isinstance(op, Conv | AvgPool) and op.window.pad_value and any(op.window.pads):
        found.add(Feature.PAD_VALUE)
    return frozenset(found)
