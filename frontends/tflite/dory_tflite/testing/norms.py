"""Random normalisations as Keras writes them: of single operators, with a negation of reals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dory_tflite.testing.draft import Draft


def normalisation(axes: tuple[int, ...]) -> Callable[[Draft, int], int]:
    """Return the function that adds the normalisation over some dimensions.

    y = x * r + (-mean) * r with r = gamma / sqrt(variance + epsilon), each operator quantised.
    """

    def build(draft: Draft, x: int) -> int:
        b, shape, scale = draft.builder, draft.shape(x), draft.quantisation(x)[0]
        small = tuple(1 if n in axes else size for n, size in enumerate(shape))
        mean = _averaged(draft, x, axes, draft.output(small, 50 * scale))
        squares = b.tensor(shape, _near(draft, 80 * scale * scale), -128)
        b.operator("SQUARED_DIFFERENCE", [x, mean], [squares])
        variance = b.tensor(small, _near(draft, 40 * scale * scale), -128)
        _averaged(draft, squares, axes, variance)
        step = draft.quantisation(variance)[0]
        epsilon = b.constant(np.array(127, np.int8), [float(np.float32(step / 200))], [-128])
        above = b.tensor(small, step, -128)
        b.operator("ADD", [variance, epsilon], [above])
        root = b.tensor(small, _near(draft, 0.02 / (60 * step) ** 0.5), -128)
        b.operator("RSQRT", [above], [root])
        gamma = draft.random.integers(0, 127, (1, 1, 1, shape[3]), endpoint=True).astype(np.int8)
        factor = draft.output((*small[:3], shape[3]), 60 * draft.quantisation(root)[0])
        b.operator("MUL", [root, b.constant(gamma, [1 / 255], [-128])], [factor])
        ends = [_product(draft, each, factor) for each in (_negated(draft, mean), x)]
        y = draft.output(shape, sum(60 * draft.quantisation(end)[0] for end in ends))
        b.operator("ADD", [ends[1], ends[0]], [y])
        return y

    return build


def _near(draft: Draft, value: float) -> float:
    return float(np.float32(value * np.exp(draft.random.uniform(-0.5, 0.5))))


def _averaged(draft: Draft, x: int, axes: tuple[int, ...], y: int) -> int:
    dimensions = draft.builder.constant(np.array(axes, np.int32))
    draft.builder.operator("MEAN", [x, dimensions], [y], KeepDims=True)
    return y


def _negated(draft: Draft, x: int) -> int:
    shape, (scale, zero) = draft.shape(x), draft.quantisation(x)
    real, negative = (draft.builder.plain(shape, "FLOAT32") for _ in range(2))
    y = draft.builder.tensor(shape, scale, max(-zero - 1, -128))
    draft.builder.operator("DEQUANTIZE", [x], [real])
    draft.builder.operator("NEG", [real], [negative])
    draft.builder.operator("QUANTIZE", [negative], [y])
    return y


def _product(draft: Draft, x: int, factor: int) -> int:
    shapes = zip(draft.shape(x), draft.shape(factor), strict=True)
    spread = 60 * 60 * draft.quantisation(x)[0] * draft.quantisation(factor)[0]
    y = draft.output(tuple(map(max, shapes)), spread)
    draft.builder.operator("MUL", [x, factor], [y])
    return y
