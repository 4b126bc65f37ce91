"""Kinds of layers: integer arithmetic with exact semantics, independent of dialect and chip.

Activations have logical shape (C, H, W); 1-D data is H = 1. A layer owns everything that follows it
up to the next layer: its requantisations are part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.ir.array import Array
from dory_core.ir.requant import Requant

#: Of (C, H, W).
Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """What all layers share.

    index: position in the order of the file, the N of ``layer_NN`` in goldens and dumps.
    name: name of the node, for messages; it does not take part in equality.
    inputs, output: names of tensors: ``input`` and ``layer_NN`` after their producer.
    tensor: name or index of its result in the file, where the format has such; for people and
        goldens, it does not take part in equality.
    requants: the requantisation steps applied in sequence to the accumulator; none leaves the
        32-bit accumulator as the output. Two are never merged without proof.
    """

    index: int
    name: str = field(compare=False)
    inputs: tuple[str, ...]
    output: str
    requants: tuple[Requant, ...] = ()
    tensor: str = field(default="", compare=False)

    @property
    def steps(self) -> tuple[Requant, ...]:
        """Every requantisation of the layer, those of operands first."""
        return self.requants

    @property
    def kind(self) -> str:
        """Name of the layer kind, as printed in reports."""
        return type(self).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A sliding window. All pairs are (vertical, horizontal).

    pads: (top, left, bottom, right), may be asymmetric. pad_value: the element that stands there;
    maxima do not see it.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0

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


@dataclass(frozen=True, slots=True)
class RealMean:
    """A mean that is computed in binary32, ties of every operation to even.

    Elements mean f32(scale * (element - zero_point)). They are added one after the other, row by
    row; the accumulator is even(f32(f32(mean / out_scale) + out_zero)). Source: onnxruntime,
    QLinearAveragePool.
    """

    scale: float
    zero_point: int
    out_scale: float
    out_zero: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AvgPool(Op):
    """Sum over a window (the accumulator); the division is part of the requantisation.

    counts_padding: padding belongs to the window. Otherwise the accumulator is the mean of the
        elements of the window that lie in the image, rounded with ties away from ``origin``:
        origin + round(sum of (element - origin) / their number). Frontends use it only where that
        number varies.
    real: the mean is that of reals instead, of as many as ``counts_padding`` says; padding is 0.
    """

    window: Window
    counts_padding: bool = True
    origin: int = 0
    real: RealMean | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvTranspose(Op):
    """Transposed convolution: every input element adds its filter to the output.

    Input row r adds tap k to output row r * stride + k * dilation - top, likewise for columns; taps
    that fall outside of the output are lost. The output has (H - 1) * stride + (kh - 1) * dilation
    + 1 - top - bottom rows. bottom and right may be negative: rows and columns that nothing reaches
    get the bias alone.

    weights: shape (Cout, Cin, kh, kw). bias: shape (Cout,). zero_point: subtracted from every input
    element, because the number of elements that an output sees depends on its place.
    """

    weights: Array
    window: Window
    weight_bits: int = 8
    bias: Array | None = None
    zero_point: int = 0

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Return (height, width) of the output for an input of the given size."""
        (kh, kw), (sh, sw), (dh, dw) = (
            self.window.kernel,
            self.window.strides,
            self.window.dilations,
        )
        top, left, bottom, right = self.window.pads
        return (
            (height - 1) * sh + (kh - 1) * dh + 1 - top - bottom,
            (width - 1) * sw + (kw - 1) * dw + 1 - left - right,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairwise(Op):
    """Element-wise function of two operands, whose accumulator is requantised.

    The first operand has the shape of the output. The second one has 1 or the same size along each
    axis; where it has 1, its element serves the whole axis.

    operand_requants: a step per operand, applied before; None for identity. It subtracts a zero
    point where there is one. constant: the second operand, shape (C or 1, H or 1, W or 1), when it
    is no tensor; the layer then has one input.
    """

    operand_requants: tuple[Requant | None, Requant | None] = (None, None)
    constant: Array | None = None

    @property
    def steps(self) -> tuple[Requant, ...]:
        """Every requantisation of the layer, those of operands first."""
        return (*(step for step in self.operand_requants if step is not None), *self.requants)


@dataclass(frozen=True, slots=True, kw_only=True)
class Add(Pairwise):
    """Sum. A difference is a sum whose second step has negative multipliers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mul(Pairwise):
    """Product: (x1 - z1) * (x2 - z2) with the operand steps ``requant(add=-z)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maximum(Pairwise):
    """The larger one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimum(Pairwise):
    """The smaller one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lut(Op):
    """A function of one byte: ``y = table[c, x & 255]``, without requantisations.

    Values of the input lie in [0, 255] or in [-128, 127]; the index is the byte that stores them.
    table: shape (256,), or (C, 256) with a function per channel.
    """

    table: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(Op):
    """Softmax over the channels of each pixel, in the integers of TensorFlow Lite.

    With e[c] = table[max(x) - x[c]], sum = sum of round(e[c] / 2^12), n = leading zeros of sum in
    32 bits and r = the fixed-point reciprocal of sum * 2^n (``dory_core.ir.fixed_point``), the
    accumulator is round(high(r * e[c]) / 2^(43 - share_bits - n)): 2^share_bits times the share of
    c, at most 2^share_bits. The requantisation adds the zero point and clips. Source: TensorFlow
    Lite, reference/softmax.h.

    table: shape (256,), exp(-difference) in Q0.31, falling from at most 2^31 - 1; 0 where the
    reference skips the element. The largest value of the input is at most 255 above the lowest.
    factor: 0; or the accumulator is even(f32(f32(e[c] * factor) / sum)) in binary32, with the sum
    of e in the order of the channels, and the table holds e as bits of binary32. Source:
    onnxruntime, QLinearSoftmax.
    share_bits: 8, or 16 for results of 16 bits.
    """

    table: Array
    factor: int = 0
    share_bits: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSoftmax(Op):
    """Logarithm of the softmax over the channels of each pixel, in the integers of TensorFlow Lite.

    With n = max(x) - x[c] and sum = sum of table[0, n], the accumulator is round((table[1, n] -
    log(sum)) / 2^22), halves away from zero, with the fixed-point logarithm in Q5.26 of a sum in
    Q12.19 (``dory_core.ir.fixed_point``): sixteenths, at most 0. The requantisation adds the zero
    point and clips. Source: TensorFlow Lite, reference/log_softmax.h.

    table: shape (2, 256). First exp(-difference) in Q12.19, falling from 2^19, 0 where the
    reference skips the element; then minus the difference in Q5.26, falling from 0 to at least
    -20 * 2^26. The largest value of the input is at most 255 above the lowest.
    """

    table: Array


#: What the steps of an Lstm follow: the sums over the input for the gates in the order of the
#: weights, those over the hidden state, then the four values of a cell.
LSTM_STEPS = ("xi", "xf", "xg", "xo", "hi", "hf", "hg", "ho", "kept", "added", "argument", "hidden")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lstm(Op):
    """Long short-term memory over the rows of the input, in the integers of TensorFlow Lite.

    Inputs: x of shape (F, T, 1) and the state of shape (S, 3, 1), output of shape (S, T + 2, 1).
    The state's rows are the hidden state, and the low and the high byte of the cell: 256 * high +
    (low & 255). The first T rows of the output are the hidden state behind each row of x, the last
    three are the state for the next inference.

    Per row, with S-vectors and ``step_NAME`` the steps of ``LSTM_STEPS``: gate k is step_xk(weights
    of x @ x + bias) + step_hk(weights of h @ h + bias), clipped to 16 bits; then
    cell = step_kept(sigmoid(f) * cell) + step_added(sigmoid(i) * tanh(g)), clipped to 16 bits and
    to [-clip, clip] unless clip is 0; then h = step_hidden(tanh(step_argument(cell)) * sigmoid(o)).
    Arguments of tanh are those of :func:`dory_core.ir.recurrence.tanh`; the gate's is three times
    the gate. Source: tflite-micro, kernels/lstm_eval.h.

    weights: shape (4, S, F + S), gates in the order input, forget, cell, output. bias: shape
    (2, 4, S), of the sums over x and of those over h. gates: twelve steps. table: shape (256,), the
    sigmoid of n / 24 in Q0.16.
    """

    weights: Array
    bias: Array
    gates: tuple[Requant, ...]
    table: Array
    clip: int = 0

    @property
    def steps(self) -> tuple[Requant, ...]:
        """Every requantisation of the layer, in the order of ``LSTM_STEPS``."""
        return (*self.gates, *self.requants)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgMax(Op):
    """Index of the largest channel of each pixel, the first one of equals; output (1, H, W)."""


# -- layers that move elements: no arithmetic, or that of interpolation ---------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat(Op):
    """The inputs one after another along an axis: 0 channels, 1 rows, 2 columns.

    Their elements are copied: all inputs have the same quantisation. The other axes agree.
    """

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Op):
    """``y[i] = x[begin + i * step]`` along every axis, with ``size`` elements.

    Steps may be negative, never 0. A split is several of them.
    """

    begin: Triple
    size: Triple
    step: Triple = (1, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad(Op):
    """``before`` and ``after`` elements of ``value`` around the input along every axis."""

    before: Triple
    after: Triple
    value: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(Op):
    """Interpolation from two rows and two columns of the input; the requantisation divides.

    Output row h is rows[h] = (first, second, weight of first, weight of second), likewise for
    columns. The accumulator is the sum of the four elements times both their weights. The nearest
    neighbour has weights 1 and 0, and needs no requantisation.

    rows: shape (height, 4). columns: shape (width, 4).
    """

    rows: Array
    columns: Array

    @property
    def taps(self) -> npt.NDArray[Any]:
        """The taps of all rows, then of all columns: shape (height + width, 4)."""
        return np.concatenate([self.rows.values, self.columns.values])

    @property
    def is_gather(self) -> bool:
        """Every output is one element of the input."""
        return all(
            bool((taps.values[:, 2] == 1).all() and (taps.values[:, 3] == 0).all())
            for taps in (self.rows, self.columns)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose(Op):
    """Axis a of the output is axis ``perm[a]`` of the input; axes are 0 C, 1 H, 2 W."""

    perm: Triple


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape(Op):
    """Another shape (C, H, W) of the elements, which keep their order in memory (HWC)."""

    shape: Triple
