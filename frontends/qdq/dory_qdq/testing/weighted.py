"""Random layers of sums of products."""

from __future__ import annotations

from typing import Any

import numpy as np

from dory_qdq.testing.builder import Builder, Tensor
from dory_qdq.testing.elements import activation, like, softmax
from dory_qdq.testing.windows import transposed_window


def _products(b: Builder, rows: int, fan_in: int) -> tuple[Any, Any, Any]:
    """Return random weights (rows, fan_in), scales and a bias as integers."""
    limit = 64 if not b.signed else 127
    values = b.rng.integers(-limit, limit + 1, (rows, fan_in)).astype(np.int8)
    each = b.rng.uniform(0.002, 0.01, rows).astype(np.float32)
    scales = each if b.rng.random() < 0.5 else each[0]
    return values, scales, b.rng.integers(-3000, 3000, rows).astype(np.int32)


def _with_bias(b: Builder, x: Tensor, scales: Any, bias: Any) -> list[str]:
    if b.rng.random() < 0.3:
        return []
    product = np.broadcast_to(np.float32(x.scale) * np.float32(scales), np.shape(scales))
    return [b.weights(bias, product, 0)]


def _size(fan_in: int) -> float:
    return 0.25 * float(np.sqrt(fan_in))


def conv(b: Builder, x: Tensor) -> Tensor:
    """Conv, dense or depthwise."""
    _, channels, height, width = x.shape
    depthwise = b.rng.random() < 0.3
    kernel = [int(b.rng.integers(1, min(4, size + 1))) for size in (height, width)]
    rows = channels if depthwise else int(b.rng.integers(1, 9))
    inner = 1 if depthwise else channels
    values, scales, bias = _products(b, rows, inner * kernel[0] * kernel[1])
    weights = b.weights(values.reshape(rows, inner, *kernel), scales, 0)
    strides = [int(b.rng.integers(1, 3)) for _ in range(2)]
    pads = [int(b.rng.integers(0, k)) for k in (*kernel, *kernel)]
    out = b.node(
        "Conv",
        [x.name, weights, *_with_bias(b, x, scales, bias)],
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
        group=channels if depthwise else 1,
    )
    sizes = [
        (size + pads[n] + pads[n + 2] - kernel[n]) // strides[n] + 1
        for n, size in enumerate((height, width))
    ]
    shape = (1, rows, *sizes)
    return b.quantised(activation(b, out), shape, b.scale(_size(values.shape[1])))


def gemm(b: Builder, x: Tensor) -> Tensor:
    """Gemm with turned weights or not."""
    columns = x.shape[-1]
    values, scales, bias = _products(b, int(b.rng.integers(1, 12)), columns)
    turned = bool(b.rng.random() < 0.5)
    weights = b.weights(
        values if turned else np.ascontiguousarray(values.T), scales, int(not turned)
    )
    inputs = [x.name, weights, *_with_bias(b, x, scales, bias)]
    out = b.node("Gemm", inputs, transB=int(turned))
    return b.quantised(activation(b, out), (1, len(values)), b.scale(_size(columns)))


def matmul(b: Builder, x: Tensor) -> Tensor:
    """MatMul."""
    values, scales, _ = _products(b, int(b.rng.integers(1, 12)), x.shape[-1])
    weights = b.weights(np.ascontiguousarray(values.T), np.float32(np.max(scales)), 0)
    out = b.node("MatMul", [x.name, weights])
    return b.quantised(out, (1, len(values)), b.scale(_size(values.shape[1])))


def product(b: Builder, x: Tensor) -> Tensor:
    """MatMul of the matrices of an image with others: computed or constant, of either side."""
    turned = bool(b.rng.random() < 0.3)
    shape = x.shape
    if turned:
        order = (0, 1, 3, 2)
        name = b.node("Transpose", [x.name], perm=list(order))
        shape = tuple(shape[n] for n in order)
        x = b.quantised(name, shape, x.scale, x.zero)
    is_first, heads, choice = bool(b.rng.random() < 0.5), shape[1], b.rng.random()
    inner, size = shape[3] if is_first else shape[2], int(b.rng.integers(1, 9))
    matrix = (inner, size) if is_first else (size, inner)
    if choice < 0.25:
        values = b.rng.integers(-64, 65, matrix)  # onnxruntime takes no int8 in front of uint8
        plain = values.astype(np.int8) if is_first or b.signed else (values + 64).astype(np.uint8)
        other = b.weights(plain, np.float32(0.01), 0)
    else:
        leading = (1, 1 if choice < 0.5 else heads)
        other = b.input((*leading, *matrix) if choice < 0.9 or heads > 1 else matrix).name
    out = b.node("MatMul", [x.name, other] if is_first else [other, x.name])
    result = (1, heads, shape[2], size) if is_first else (1, heads, size, shape[3])
    return b.quantised(out, result, b.scale(_size(inner)))


def _moved(b: Builder, op: str, x: Tensor, shape: tuple[int, ...], **more: Any) -> Tensor:
    """Reshape or transpose, with the quantisation of the input."""
    inputs = [x.name] if more else [x.name, b.constant(np.array(shape, np.int64))]
    return like(b, x, b.node(op, inputs, **more), shape)


def attention(b: Builder, x: Tensor) -> Tensor:
    """Attention of one or two heads over the rows of an image."""
    _, channels, height, columns = x.shape
    rows, heads = channels * height, 2 - columns % 2
    tokens = _moved(b, "Reshape", x, (1, rows, columns))

    def projected(order: tuple[int, ...]) -> Tensor:
        values, scales, _ = _products(b, columns, columns)
        weights = b.weights(values, np.float32(np.max(scales)), 0)
        out = b.node("MatMul", [tokens.name, weights])
        dense = b.quantised(out, (1, rows, columns), b.scale(_size(columns)))
        split = (1, rows, heads, columns // heads)
        turned = tuple(split[n] for n in order)
        return _moved(b, "Transpose", _moved(b, "Reshape", dense, split), turned, perm=order)

    queries, keys, values = (projected(o) for o in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
    scores = b.node("MatMul", [queries.name, keys.name])
    found = b.quantised(scores, (1, heads, rows, rows), b.scale(2))
    shares = softmax(b, found)
    mixed = b.node("MatMul", [shares.name, values.name])
    joined = b.quantised(mixed, values.shape, b.scale(0.5))
    turned = (1, rows, heads, columns // heads)
    return _moved(b, "Reshape", _moved(b, "Transpose", joined, turned, perm=(0, 2, 1, 3)), x.shape)


def conv_transpose(b: Builder, x: Tensor) -> Tensor:
    """ConvTranspose with random strides, pads, dilations and rows at the end."""
    _, channels, *sizes = x.shape
    rows = int(b.rng.integers(1, 6))
    kernel = [int(b.rng.integers(1, 4)) for _ in range(2)]
    values, scales, bias = _products(b, rows, channels * kernel[0] * kernel[1])
    turned = np.swapaxes(values.reshape(rows, channels, *kernel), 0, 1)
    weights = b.weights(np.ascontiguousarray(turned), scales, 1)
    spread, result = transposed_window(b, kernel, sizes)
    out = b.node("ConvTranspose", [x.name, weights, *_with_bias(b, x, scales, bias)], **spread)
    scaled = _size(values.shape[1])
    return b.quantised(activation(b, out), (1, rows, *result), b.scale(scaled))
