"""Random functions and moves of reals between a DEQUANTIZE and a QUANTIZE."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dory_tflite.testing.draft import Draft


def _real(draft: Draft, shape: tuple[int, ...]) -> int:
    return draft.builder.plain(shape, "FLOAT32")


def _of_one(code: str, **options: float) -> Callable[[Draft, int], int]:
    def build(draft: Draft, x: int) -> int:
        y = _real(draft, draft.shape(x))
        draft.builder.operator(code, [x], [y], **options)
        return y

    return build


def _with_constant(code: str, low: float, high: float) -> Callable[[Draft, int], int]:
    def build(draft: Draft, x: int) -> int:
        value = np.float32(draft.random.uniform(low, high))
        operands = [x, draft.builder.constant(np.array(value, np.float32))]
        y = _real(draft, draft.shape(x))
        fused = {"FusedActivationFunction": draft.activation()} if code != "MAXIMUM" else {}
        draft.builder.operator(code, operands, [y], **fused)
        return y

    return build


def _gated(draft: Draft, x: int) -> int:
    """x * logistic(x)."""
    gate, y = _of_one("LOGISTIC")(draft, x), _real(draft, draft.shape(x))
    draft.builder.operator("MUL", [x, gate], [y])
    return y


def _chosen(draft: Draft, x: int) -> int:
    """The larger half of a function, as SELU is written."""
    shape = draft.shape(x)
    limit = draft.builder.constant(np.array(draft.random.uniform(-0.5, 0.5), np.float32))
    is_above, y = draft.builder.plain(shape, "BOOL"), _real(draft, shape)
    draft.builder.operator("GREATER", [x, limit], [is_above])
    draft.builder.operator("SELECT_V2", [is_above, x, _of_one("TANH")(draft, x)], [y])
    return y


def _root(draft: Draft, x: int) -> int:
    return _of_one("SQRT")(draft, _of_one("ABS")(draft, x))


def _logarithm(draft: Draft, x: int) -> int:
    return _of_one("LOG")(draft, _with_constant("ADD", 0.2, 1)(draft, _of_one("ABS")(draft, x)))


def _transposed(draft: Draft, x: int) -> int:
    order = [0, *(int(p) + 1 for p in draft.random.permutation(3))]
    y = _real(draft, tuple(draft.shape(x)[axis] for axis in order))
    draft.builder.operator("TRANSPOSE", [x, draft.builder.constant(np.array(order, np.int32))], [y])
    return y


def _part(draft: Draft, x: int) -> int:
    """Half of the channels, where their number is even."""
    shape = draft.shape(x)
    if shape[3] % 2:
        return x
    parts = [_real(draft, (*shape[:3], shape[3] // 2)) for _ in range(2)]
    dimension = draft.builder.constant(np.array(3, np.int32))
    draft.builder.operator("SPLIT", [dimension, x], parts, NumSplits=2)
    return parts[draft.number(0, 1)]


_STEPS: Mapping[str, Callable[[Draft, int], int]] = {
    **{
        code: _of_one(code)
        for code in (
            *("ABS", "CEIL", "COS", "ELU", "FLOOR", "HARD_SWISH", "LOGISTIC", "NEG", "RELU"),
            *("RELU6", "ROUND", "SIN", "SQUARE", "TANH"),
        )
    },
    "LEAKY_RELU": _of_one("LEAKY_RELU", Alpha=0.3),
    "ADD": _with_constant("ADD", -1, 1),
    "SUB": _with_constant("SUB", -1, 1),
    "MUL": _with_constant("MUL", -2, 2),
    "DIV": _with_constant("DIV", 0.5, 2),
    "MAXIMUM": _with_constant("MAXIMUM", -1, 1),
    "gate": _gated,
    "SELECT_V2": _chosen,
    "SQRT": _root,
    "LOG": _logarithm,
    "TRANSPOSE": _transposed,
    "SPLIT": _part,
}


def island(draft: Draft, x: int) -> int:
    """Add one to three functions of reals, and moves between them."""
    real = _of_one("DEQUANTIZE")(draft, x)
    for _ in range(draft.number(1, 3)):
        real = _STEPS[str(draft.random.choice(list(_STEPS)))](draft, real)
    y = draft.output(draft.shape(real), 60 * draft.quantisation(x)[0])
    draft.builder.operator("QUANTIZE", [real], [y])
    return y
