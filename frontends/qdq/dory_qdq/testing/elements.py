"""Random layers of single elements and of pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dory_qdq.testing.builder import Builder, Tensor

Layer = Callable[[Builder, Tensor], Tensor]


def activation(b: Builder, name: str) -> str:
    """Put a Relu or a Clip after reals, or nothing."""
    choice = b.rng.random()
    if choice < 0.3:
        return b.node("Relu", [name])
    if choice < 0.4:
        bounds = [b.constant(np.float32(v)) for v in (0, 0.9)]
        return b.node("Clip", [name, *bounds])
    return name


def other_tensor(b: Builder, x: Tensor) -> Tensor:
    """Return a second operand: of the same shape, from another branch."""
    return relu(b, x) if b.rng.random() < 0.5 else leaky_relu(b, x)


def add(b: Builder, x: Tensor) -> Tensor:
    """Add of two tensors."""
    out = b.node("Add", [x.name, other_tensor(b, x).name])
    return b.quantised(activation(b, out), x.shape, b.scale(2))


def mul(b: Builder, x: Tensor) -> Tensor:
    """Mul of two tensors."""
    out = b.node("Mul", [x.name, other_tensor(b, x).name])
    return b.quantised(activation(b, out), x.shape, b.scale())


def unary(op: str, size: float = 1.0, **attributes: Any) -> Layer:
    def layer(b: Builder, x: Tensor) -> Tensor:
        return b.quantised(b.node(op, [x.name], **attributes), x.shape, b.scale(size))

    return layer


relu = unary("Relu")


leaky_relu = unary("LeakyRelu", alpha=0.1)


def softmax(b: Builder, x: Tensor) -> Tensor:
    """Softmax over the last dimension."""
    out = b.node("Softmax", [x.name], axis=-1)
    return b.quantised(out, x.shape, 1 / 256, -128 if b.signed else 0)


def layer_norm(b: Builder, x: Tensor) -> Tensor:
    """LayerNormalization over the last dimension, or over rows and columns where that is short."""
    shape, name = x.shape, x.name
    if shape[-1] < 8:  # rows of all rows and columns
        shape = (1, shape[1], shape[2] * shape[3])
        name = b.node("Reshape", [name, b.constant(np.array(shape, np.int64))])
    scale = b.rng.normal(1, 0.4, shape[-1]).astype(np.float32)
    inputs = [name, b.constant(scale)]
    if b.rng.random() < 0.5:
        values = b.rng.integers(-128, 128, shape[-1]).astype(np.int8)
        inputs[1] = b.weights(values, np.float32(0.01), 0)
    if b.rng.random() < 0.7:
        inputs.append(b.constant(b.rng.normal(0, 0.4, shape[-1]).astype(np.float32)))
    epsilon = float(b.rng.choice([1e-5, 1e-12, 1e-3]))
    out = b.node("LayerNormalization", inputs, axis=-1, epsilon=epsilon)
    return b.quantised(activation(b, out), shape, b.scale(3))


def subtract(b: Builder, x: Tensor) -> Tensor:
    """Sub of two tensors, in both orders."""
    names = [x.name, other_tensor(b, x).name]
    out = b.node("Sub", names if b.rng.random() < 0.5 else names[::-1])
    return b.quantised(activation(b, out), x.shape, b.scale(2))


def like(b: Builder, x: Tensor, name: str, shape: tuple[int, ...]) -> Tensor:
    """Quantise a result as its input is."""
    return b.quantised(name, shape, x.scale, x.zero)


def integers(b: Builder, values: Any) -> str:
    return b.constant(np.array(values, np.int64))


def extreme(op: str) -> Layer:
    """Return the function that adds Max or Min of two tensors."""

    def build(b: Builder, x: Tensor) -> Tensor:
        out = b.node(op, [x.name, other_tensor(b, x).name])
        return b.quantised(activation(b, out), x.shape, b.scale())

    return build


def with_constant(op: str) -> Layer:
    """Return the function that adds a pair with a quantised constant of a random shape."""

    def build(b: Builder, x: Tensor) -> Tensor:
        shape = tuple(size if b.rng.random() < 0.6 else 1 for size in x.shape)
        if op in ("PRelu", "Pow"):
            shape = (1, x.shape[1], *(1 for _ in x.shape[2:]))
        lo, hi = (-128, 128) if b.signed else (0, 256)
        values = b.rng.integers(lo, hi, shape).astype(np.int8 if b.signed else np.uint8)
        zero = np.array(b.rng.integers(lo, hi), values.dtype)
        other = b.weights(values, np.float32(b.scale()), 0, zero)
        first = x.name
        if op == "Pow":  # roots of what is not negative, and squares
            other, first = b.constant(np.float32(b.rng.choice([0.5, 2, 3]))), b.node("Abs", [first])
            first = b.quantised(first, x.shape, b.scale(), lo).name
        names = [first, other] if op in ("PRelu", "Pow") or b.rng.random() < 0.5 else [other, first]
        return b.quantised(activation(b, b.node(op, names)), x.shape, b.scale(2))

    return build


def positive(op: str) -> Layer:
    """Return the function that adds an operator of numbers above zero."""

    def build(b: Builder, x: Tensor) -> Tensor:
        above = b.quantised(b.node("Sigmoid", [x.name]), x.shape, 1 / 200, -128 if b.signed else 0)
        one = b.constant(np.float32(0.3))
        shifted = b.node("Add", [above.name, one])
        source = b.quantised(shifted, x.shape, 1 / 150, -128 if b.signed else 0)
        return b.quantised(b.node(op, [source.name]), x.shape, b.scale(2))

    return build
