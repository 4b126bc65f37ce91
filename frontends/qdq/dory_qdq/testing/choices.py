"""Random layers of choices between operands, sums along a dimension and other rare operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from dory_qdq.testing.builder import Builder, Tensor
from dory_qdq.testing.elements import integers, like
from dory_qdq.testing.windows import transposed_window

_COMPARISONS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal")


def _branch(b: Builder, x: Tensor) -> Tensor:
    """Return another tensor of the same shape."""
    op = str(b.rng.choice(["Relu", "Neg", "Tanh"]))
    return b.quantised(b.node(op, [x.name]), x.shape, b.scale())


def _smaller(b: Builder, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape that is repeated along some dimensions."""
    return (1, *(size if b.rng.random() < 0.6 else 1 for size in shape[1:]))


def _constant(b: Builder, shape: tuple[int, ...]) -> str:
    """Return a quantised constant."""
    lo, hi = (-128, 128) if b.signed else (0, 256)
    values = b.rng.integers(lo, hi, shape).astype(np.int8 if b.signed else np.uint8)
    zero = np.array(b.rng.integers(lo, hi), values.dtype)
    return b.weights(values, np.float32(b.scale()), 0, zero)


def _one(b: Builder, x: Tensor) -> str:
    """Return a real that the tensor can be near to."""
    return b.constant(np.float32((b.rng.integers(-60, 60)) * x.scale))


def _mask(b: Builder, x: Tensor, shape: tuple[int, ...]) -> str:
    """Return truth values: constants, an input, or comparisons.

    shape: of truth values that are no comparison.
    """
    choice = b.rng.random()
    if choice < 0.3:
        return b.constant(b.rng.random(shape) < 0.5)
    if choice < 0.45:
        return b.truths(shape)
    op = str(b.rng.choice(_COMPARISONS))
    if choice < 0.6:
        other = (
            _branch(b, x) if b.rng.random() < 0.5 else like(b, x, b.node("Neg", [x.name]), x.shape)
        )
        return b.node(op, [x.name, other.name])
    names = [x.name, _one(b, x)]
    found = b.node(op, names if b.rng.random() < 0.5 else names[::-1])
    if choice < 0.7:
        return b.node("Not", [found])
    if choice < 0.8:
        second = _branch(b, x) if b.rng.random() < 0.5 else x
        other_one = b.node("Less", [second.name, _one(b, second)])
        return b.node(str(b.rng.choice(["And", "Or", "Xor"])), [found, other_one])
    return found


def where(b: Builder, x: Tensor) -> Tensor:
    """Where of tensors and constants, by truth values of any kind."""
    branches = [x.name, _branch(b, x).name]
    choice, shape = b.rng.random(), _smaller(b, x.shape)
    if choice < 0.25:
        branches[1], shape = _constant(b, shape), x.shape
    elif choice < 0.5:
        branches[1] = _one(b, x)
    if b.rng.random() < 0.5:
        branches.reverse()
    out = b.node("Where", [_mask(b, x, shape), *branches])
    return b.quantised(out, x.shape, b.scale(2))


def cast(b: Builder, x: Tensor) -> Tensor:
    """Cast of a comparison to reals, or of reals to integers and back."""
    from onnx import TensorProto

    if b.rng.random() < 0.5:
        source = b.node("Greater", [x.name, _one(b, x)])
    else:
        source = b.node("Cast", [x.name], to=TensorProto.INT8)
    return b.quantised(b.node("Cast", [source], to=TensorProto.FLOAT), x.shape, b.scale(2))


def extreme_of_several(b: Builder, x: Tensor) -> Tensor:
    """Max or Min of one operand, three or four."""
    names = [x.name, *(_branch(b, x).name for _ in range(int(b.rng.choice([0, 1, 2]))))]
    if len(names) == 2 or b.rng.random() < 0.4:
        names.insert(0, _constant(b, _smaller(b, x.shape)))
    out = b.node(str(b.rng.choice(["Max", "Min"])), names)
    return b.quantised(b.node("Relu", [out]) if b.rng.random() < 0.5 else out, x.shape, b.scale(2))


def divide(b: Builder, x: Tensor) -> Tensor:
    """Div of two tensors, of which one may be smaller or constant, also by 0."""
    choice = b.rng.random()
    if choice < 0.4:
        other = _branch(b, x).name
    elif choice < 0.6:
        axes = [1] if b.rng.random() < 0.5 else [2, 3]
        shape = tuple(1 if n in axes else size for n, size in enumerate(x.shape))
        largest = b.node("ReduceMax", [x.name], axes=axes, keepdims=1)
        other = like(b, x, largest, shape).name
    else:
        values = b.rng.integers(1, 128, x.shape).astype(np.int8 if b.signed else np.uint8)
        other = b.weights(values, np.float32(b.scale()), 0)
    names = [x.name, other] if b.rng.random() < 0.6 else [other, x.name]
    return b.quantised(b.node("Div", names), x.shape, b.scale(8))


def reduce_min(b: Builder, x: Tensor) -> Tensor:
    """ReduceMin over rows and columns, or over channels."""
    axes = [2, 3] if b.rng.random() < 0.5 else [1]
    shape = tuple(1 if n in axes else size for n, size in enumerate(x.shape))
    return like(b, x, b.node("ReduceMin", [x.name], axes=axes, keepdims=1), shape)


def reduction(b: Builder, x: Tensor) -> Tensor:
    """A reduction over any of four dimensions, of which two are parts of the channels."""
    _, channels, *sizes = x.shape
    part = int(b.rng.choice([n for n in range(1, channels + 1) if channels % n == 0]))
    split = (1, part, channels // part, *sizes)
    axes = sorted(b.rng.choice(4, int(b.rng.integers(1, 5)), replace=False).tolist())
    shape = tuple(1 if n - 1 in axes else size for n, size in enumerate(split))
    wide = b.node("Reshape", [x.name, integers(b, split)])
    op = str(b.rng.choice(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"]))
    dimensions = [axis + 1 for axis in axes]
    if op == "ReduceSum":  # an input since opset 13
        names = [wide, integers(b, dimensions)]
        y = b.quantised(b.node(op, names, keepdims=1), shape, b.scale(8))
    else:
        y = like(b, x, b.node(op, [wide], axes=dimensions, keepdims=1), shape)
    image = (1, shape[1] * shape[2], *shape[3:])
    joined = b.node("Reshape", [y.name, integers(b, image)])
    return b.quantised(joined, image, y.scale, y.zero)


def running_sum(b: Builder, x: Tensor) -> Tensor:
    """CumSum along a dimension."""
    axis = b.constant(np.array(b.rng.integers(1, len(x.shape)), np.int64))
    more: dict[str, Any] = {n: int(b.rng.integers(0, 2)) for n in ("exclusive", "reverse")}
    return b.quantised(b.node("CumSum", [x.name, axis], **more), x.shape, b.scale(3))


def grouped_transpose(b: Builder, x: Tensor) -> Tensor:
    """ConvTranspose in groups."""
    _, channels, *sizes = x.shape
    groups = int(b.rng.choice([n for n in range(1, channels + 1) if channels % n == 0]))
    each, kernel = int(b.rng.integers(1, 4)), [int(b.rng.integers(1, 4)) for _ in range(2)]
    spread, result = transposed_window(b, kernel, sizes)
    limit = 127 if b.signed else 64
    values = b.rng.integers(-limit, limit + 1, (channels, each, *kernel)).astype(np.int8)
    scales = b.rng.uniform(0.002, 0.01, each).astype(np.float32)
    weights = b.weights(values, scales if b.rng.random() < 0.5 else scales[0], 1)
    out = b.node("ConvTranspose", [x.name, weights], group=groups, **spread)
    return b.quantised(out, (1, each * groups, *result), b.scale(0.5))


def requantised(b: Builder, x: Tensor) -> Tensor:
    """Pairs of QuantizeLinear and DequantizeLinear that follow each other, and a Sigmoid."""
    for _ in range(int(b.rng.integers(1, 4))):
        name = b.node("Identity", [x.name]) if b.rng.random() < 0.3 else x.name
        same = b.rng.random() < 0.2
        x = b.quantised(name, x.shape, x.scale if same else b.scale(), x.zero if same else None)
    return b.quantised(b.node("Sigmoid", [x.name]), x.shape, b.scale(0.4))
