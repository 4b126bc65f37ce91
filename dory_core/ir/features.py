"""What layers may need beyond the plain arithmetic, which every kernel is expected to have.

A kernel names those that it computes (``Kernel.features``); binding refuses it for layers that need
more. So a kernel that was written before a feature existed never computes a layer wrongly.
"""

from __future__ import annotations

from enum import StrEnum


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
    #: Sums that leave 32 bits (``Weighted.wide``, ``MatMul.wide``).
    WIDE_SUMS = "sums beyond 32 bits"
    #: A second operand of another shape than the first, or a constant (``Pairwise``).
    OTHER_OPERAND = "a second operand that is smaller than the first, or a constant"


#: All of them.
FEATURES = frozenset(Feature)
