"""Random pools and reductions."""

from __future__ import annotations

from typing import Any

from dory_qdq.testing.builder import Builder, Tensor
from dory_qdq.testing.elements import integers


def max_pool(b: Builder, x: Tensor) -> Tensor:
    """MaxPool, whose result has the scale of its input."""
    kernel = [int(b.rng.integers(1, min(4, size + 1))) for size in x.shape[2:]]
    out = b.node("MaxPool", [x.name], kernel_shape=kernel, strides=[1, 2])
    sizes = [
        (s - k) // stride + 1 for s, k, stride in zip(x.shape[2:], kernel, (1, 2), strict=True)
    ]
    return b.quantised(out, (1, x.shape[1], *sizes), x.scale, x.zero)


def average_pool(b: Builder, x: Tensor) -> Tensor:
    """AveragePool, with and without padding."""
    kernel = [int(b.rng.integers(1, min(5, size + 1))) for size in x.shape[2:]]
    pads = [int(b.rng.integers(0, k)) if b.rng.random() < 0.4 else 0 for k in (*kernel, *kernel)]
    attributes = {"count_include_pad": int(b.rng.integers(0, 2))}
    out = b.node("AveragePool", [x.name], kernel_shape=kernel, pads=pads, **attributes)
    sizes = [s + pads[n] + pads[n + 2] - kernel[n] + 1 for n, s in enumerate(x.shape[2:])]
    same = b.rng.random() < 0.4
    shape = (1, x.shape[1], *sizes)
    return b.quantised(out, shape, x.scale if same else b.scale(), x.zero if same else None)


def global_average_pool(b: Builder, x: Tensor) -> Tensor:
    """GlobalAveragePool."""
    out = b.node("GlobalAveragePool", [x.name])
    return b.quantised(out, (1, x.shape[1], 1, 1), b.scale(0.5))


def reduce_mean(b: Builder, x: Tensor) -> Tensor:
    """ReduceMean over rows and columns."""
    out = b.node("ReduceMean", [x.name], axes=[2, 3], keepdims=1)
    return b.quantised(out, (1, x.shape[1], 1, 1), b.scale(0.5))


def _ceiled(b: Builder, x: Tensor) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Return attributes of a pool with ceil_mode and the shape of its result."""
    kernel = [int(b.rng.integers(2, min(4, size + 1))) for size in x.shape[2:]]
    strides = [int(b.rng.integers(2, 4)) for _ in range(2)]
    pads = [int(b.rng.integers(0, 2)) for _ in range(4)]
    sizes = []
    for n, size in enumerate(x.shape[2:]):
        steps = -(-(size + pads[n] + pads[n + 2] - kernel[n]) // strides[n])
        sizes.append(steps + (steps * strides[n] < size + pads[n]))
    form = {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": 1}
    return form, (1, x.shape[1], *sizes)


def max_pool_up(b: Builder, x: Tensor) -> Tensor:
    """MaxPool with ceil_mode."""
    form, shape = _ceiled(b, x)
    return b.quantised(b.node("MaxPool", [x.name], **form), shape, x.scale, x.zero)


def average_pool_up(b: Builder, x: Tensor) -> Tensor:
    """AveragePool with ceil_mode, which counts padding or not."""
    form, shape = _ceiled(b, x)
    form["count_include_pad"] = int(b.rng.integers(0, 2))
    return b.quantised(b.node("AveragePool", [x.name], **form), shape, b.scale())


def global_max_pool(b: Builder, x: Tensor) -> Tensor:
    """GlobalMaxPool, whose result has the scale of its input."""
    out = b.node("GlobalMaxPool", [x.name])
    return b.quantised(out, (1, x.shape[1], 1, 1), x.scale, x.zero)


def reduce_sum(b: Builder, x: Tensor) -> Tensor:
    """ReduceSum over rows and columns, or over channels."""
    axes = [int(n) for n in ((2, 3), (1,), (2,))[int(b.rng.integers(0, 3))]]
    out = b.node("ReduceSum", [x.name, integers(b, axes)], keepdims=1)
    shape = tuple(1 if n in axes else size for n, size in enumerate(x.shape))
    return b.quantised(out, shape, b.scale(8))
