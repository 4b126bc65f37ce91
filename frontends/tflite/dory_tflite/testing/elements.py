"""Random operators of elements: pairs, reductions, functions of one value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dory_tflite.testing.draft import Draft

_EXTREMES = ("MAXIMUM", "MINIMUM")
#: Pairs without a fused activation.
_PLAIN = (*_EXTREMES, "SQUARED_DIFFERENCE")


def _second(draft: Draft, x: int, same: bool) -> int:
    """Return another operand: an input, x itself, a constant, or of other sizes where one is 1."""
    shape, choice = draft.shape(x), draft.number(0, 3)
    scale, zero_point = draft.quantisation(x) if same else (draft.scale(), draft.zero_point())
    if choice == 0:
        return x
    if choice == 1:
        return draft.input(shape, scale, zero_point)
    other = (draft.number(1, 3) if n == 1 else n if draft.flag() else 1 for n in shape[1:])
    size = (shape, (1, 1, 1, shape[3]), (1, *other))[draft.number(0, 2)]
    values = draft.stored(size)
    if choice == 2:
        return draft.builder.constant(values, [scale], [zero_point])
    return draft.input(size, scale, zero_point)


def pair(code: str) -> Callable[[Draft, int], int]:
    """Return the function that adds an operator with two operands."""

    def build(draft: Draft, x: int) -> int:
        same = code in _EXTREMES
        other = _second(draft, x, same)
        first, second = draft.quantisation(x)[0], draft.quantisation(other)[0]
        spread = 100 * (first + second)
        if code in ("MUL", "SQUARED_DIFFERENCE"):
            spread = 100 * 100 * first * second if code == "MUL" else spread * spread / 4
        shapes = zip(draft.shape(x), draft.shape(other), strict=True)
        shape = tuple(map(max, shapes))
        y = draft.like(x, shape) if same else draft.output(shape, spread)
        operands = [x, other] if draft.flag() else [other, x]
        fused = {} if code in _PLAIN else {"FusedActivationFunction": draft.activation()}
        draft.builder.operator(code, operands, [y], **fused)
        return y

    return build


def reduction(code: str, axes: Sequence[tuple[int, ...]]) -> Callable[[Draft, int], int]:
    """Return the function that adds a reduction over one of these sets of axes."""

    def build(draft: Draft, x: int) -> int:
        chosen = axes[draft.number(0, len(axes) - 1)]
        shape = tuple(1 if n in chosen else size for n, size in enumerate(draft.shape(x)))
        y = draft.output(shape, 60 * draft.quantisation(x)[0])
        if draft.flag() or code in ("REDUCE_MAX", "REDUCE_MIN"):
            y = draft.like(x, shape)
        dimensions = draft.builder.constant(np.array(chosen, np.int32))
        draft.builder.operator(code, [x, dimensions], [y], KeepDims=True)
        return y

    return build


def unary(code: str, fixed: tuple[float, int] | None = None) -> Callable[[Draft, int], int]:
    """Return the function that adds a unary operator; ``fixed`` is its output's quantisation."""

    def build(draft: Draft, x: int) -> int:
        shape = draft.shape(x)
        y = (
            draft.output(shape, 60 * draft.quantisation(x)[0])
            if fixed is None
            else draft.tensor(shape, *fixed)
        )
        options = {"Alpha": float(draft.random.uniform(0.0, 0.9))} if code == "LEAKY_RELU" else {}
        if code == "SOFTMAX":
            options = {"Beta": 1.0}
        draft.builder.operator(code, [x], [y], **options)
        return y

    return build


def rsqrt(draft: Draft, x: int) -> int:
    """Add an RSQRT of values from zero on."""
    shape, (scale, _) = draft.shape(x), draft.quantisation(x)
    above = draft.builder.tensor(shape, scale, -128)
    draft.builder.operator("RELU", [x], [above])
    y = draft.output(shape, 4 / (128 * scale) ** 0.5)
    draft.builder.operator("RSQRT", [above], [y])
    return y


def choice(draft: Draft, x: int) -> int:
    """Add a choice between two functions of x, by a comparison of x with a constant."""
    shape = draft.shape(x)
    if draft.quantisation(x)[0] >= 1:  # TensorFlow Lite Micro ends the process at such a comparison
        wide, x = x, draft.tensor(shape, draft.scale(), draft.zero_point())
        draft.builder.operator("QUANTIZE", [wide], [x])

    def constant() -> int:
        values = draft.random.integers(-128, 127, (), endpoint=True).astype(np.int8)
        return draft.builder.constant(values, [draft.scale()], [draft.zero_point()])

    holds, y = draft.builder.plain(shape, "BOOL"), draft.like(x, shape)
    codes = ("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "EQUAL", "NOT_EQUAL")
    draft.builder.operator(str(draft.random.choice(codes)), [x, constant()], [holds])
    product, low = draft.like(x, shape), draft.like(x, shape)
    draft.builder.operator("MUL", [x, constant()], [product])
    draft.builder.operator("LEAKY_RELU", [product], [low], Alpha=0.3)
    parts = [low, x] if draft.flag() else [x, low]
    draft.builder.operator("SELECT_V2", [holds, *parts], [y])
    return y


def quotient(draft: Draft, x: int) -> int:
    """Add a DIV by 1 + |x|, as Softsign is written, by a constant, or of a constant."""
    shape, scale = draft.shape(x), draft.scale()
    one = draft.builder.constant(np.array(127, np.int8), [scale / 255], [-128])
    operands = [x, one] if draft.flag() else [one, x]
    if draft.number(0, 2):
        size = draft.tensor(shape, draft.quantisation(x)[0], -128)
        draft.builder.operator("ABS", [x], [size])
        below = draft.tensor(shape, draft.quantisation(x)[0] + scale / 255, -128)
        draft.builder.operator("ADD", [size, one], [below])
        operands = [x, below]
    first, second = (draft.quantisation(tensor)[0] for tensor in operands)
    # The interpreter's shifts stay below 32 bits where the factor is 64 at least.
    y = draft.tensor(shape, first / second / draft.number(64, 400), draft.zero_point())
    fused = {"FusedActivationFunction": draft.activation()}
    draft.builder.operator("DIV", operands, [y], **fused)
    return y


def quotient_of_two(draft: Draft, x: int) -> int:
    """Add a DIV by another input, which is repeated along some dimensions."""
    shape = draft.shape(x)
    # A whole factor has ties, and zero points at the ends have products beyond 32 bits.
    above = draft.tensor(shape, draft.scale(), draft.number(-20, 20))
    draft.builder.operator("QUANTIZE", [x], [above])
    part = [size if draft.flag() else 1 for size in shape]
    below = draft.input(part, draft.scale(), draft.zero_point())
    first, second = (draft.quantisation(tensor)[0] for tensor in (above, below))
    y = draft.tensor(shape, first / second / draft.random.uniform(65, 400), draft.number(-20, 20))
    draft.builder.operator("DIV", [above, below], [y])
    return y


def relu6(draft: Draft, x: int) -> int:
    """Add a RELU6."""
    y = draft.like(x, draft.shape(x))
    draft.builder.operator("RELU6", [x], [y])
    return y


def prelu(draft: Draft, x: int) -> int:
    """Add a PReLU with a slope for each channel."""
    shape = draft.shape(x)
    slopes = draft.random.integers(-128, 127, (1, 1, shape[3]), endpoint=True).astype(np.int8)
    alpha = draft.builder.constant(slopes, [0.01], [draft.number(-20, 20)])
    y = draft.output(shape, 60 * draft.quantisation(x)[0])
    draft.builder.operator("PRELU", [x, alpha], [y])
    return y
