"""Integer layers with exact semantics, independent of dialect and chip.

Activations have logical shape (C, H, W); 1-D data is H = 1. A layer owns everything that follows it
up to the next layer: its requantisations are part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dory_core.ir.array import Array
from dory_core.ir.requant import Requant


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """What all layers share.

    index: position in ONNX node order, the N of ``layer_NN`` in goldens and dumps.
    name: name of the ONNX node, for messages; it does not take part in equality.
    inputs, output: names of tensors: ``input`` and ``layer_NN`` after their producer.
    requants: the requantisation steps applied in sequence to the accumulator; none leaves the
        32-bit accumulator as the output. Two are never merged without proof.
    """

    index: int
    name: str = field(compare=False)
    inputs: tuple[str, ...]
    output: str
    requants: tuple[Requant, ...] = ()

    @property
    def kind(self) -> str:
        """Name of the layer kind, as printed in reports."""
        return type(self).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A sliding window. All pairs are (vertical, horizontal).

    pads: (top, left, bottom, right), zeros, may be asymmetric.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def taps(self) -> int:
        """Number of elements that the window sees in one channel."""
        return self.kernel[0] * self.kernel[1]

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Return (height, width) of the output for an input of the given size."""
        (kh, kw), (sh, sw), (dh, dw) = self.kernel, self.strides, self.dilations
        top, left, bottom, right = self.pads
        return (
            (height + top + bottom - (kh - 1) * dh - 1) // sh + 1,
            (width + left + right - (kw - 1) * dw - 1) // sw + 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv(Op):
    """Convolution, 2-D or 1-D (H = 1), any groups.

    weights: shape (Cout, Cin / groups, kh, kw). bias: shape (Cout,), added to the accumulator.
    """

    weights: Array
    window: Window
    weight_bits: int = 8
    bias: Array | None = None
    groups: int = 1

    @property
    def is_depthwise(self) -> bool:
        """One filter per input channel and one output channel per filter."""
        return self.groups > 1 and self.weights.shape[:2] == (self.groups, 1)

    @property
    def is_pointwise(self) -> bool:
        """A dense 1x1 filter, whatever the stride."""
        return self.groups == 1 and self.window.kernel == (1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(Op):
    """Fully connected layer over the whole input tensor.

    weights: shape (Cout, H * W * C), columns in the HWC order of the input tensor.
    """

    weights: Array
    weight_bits: int = 8
    bias: Array | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool(Op):
    """Maximum over a window; padding never wins."""

    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class AvgPool(Op):
    """Sum over a window (the accumulator); the division is part of the requantisation."""

    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Add(Op):
    """Element-wise sum of two tensors of one shape.

    operand_requants: a step per operand, applied before the sum; None for identity.
    """

    operand_requants: tuple[Requant | None, Requant | None] = (None, None)
