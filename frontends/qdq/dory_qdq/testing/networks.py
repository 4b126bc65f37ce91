"""Random networks of one operator or of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from dory_qdq.testing import choices, norms
from dory_qdq.testing.builder import Builder, Tensor
from dory_qdq.testing.windows import transposed_window

# One of this number of networks has its input among its outputs.
_PASSED = 7

Layer = Callable[[Builder, Tensor], Tensor]


def random_network(seed: int, operators: int = 1, operator: str = "") -> bytes:
    """Return a QDQ file; the input of every seventh file is also an output.

    operator: name of the operator in :data:`OPERATORS`, empty for a random one.
    """
    rng = np.random.default_rng(seed)
    b = Builder(rng, signed=bool(rng.random() < 0.4))
    if operator in _FLAT or (operators == 1 and not operator and rng.random() < 0.2):
        shape: tuple[int, ...] = (1, int(rng.integers(1, 20)))
    else:
        shape = (1, int(rng.integers(1, 9)), int(rng.integers(3, 9)), int(rng.integers(3, 9)))
    first = last = b.input(shape)
    names = list(OPERATORS)
    done = 0
    while done < operators:
        name = operator or str(rng.choice(names))
        if (name in _FLAT) != (len(last.shape) == 2) and name not in _ANY:
            if operator or operators == 1:
                name = "gemm" if len(last.shape) == 2 else "conv"
            elif len(last.shape) == 2 or rng.random() < 0.8:
                continue
            else:
                last = flatten(b, last)
        last = (OPERATORS | MORE_OPERATORS)[name](b, last)
        done += 1
    outputs, opset = [(last.stored, last.shape)], 23 if operator in _NEW else 17
    if seed % _PASSED == 0:
        outputs.append((b.node("Identity", [first.stored]), first.shape))
    return b.model(outputs, opset)


def _activation(b: Builder, name: str) -> str:
    """Put a Relu or a Clip after reals, or nothing."""
    choice = b.rng.random()
    if choice < 0.3:
        return b.node("Relu", [name])
    if choice < 0.4:
        bounds = [b.constant(np.float32(v)) for v in (0, 0.9)]
        return b.node("Clip", [name, *bounds])
    return name


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
    return b.quantised(_activation(b, out), shape, b.scale(_size(values.shape[1])))


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
    return b.quantised(_activation(b, out), (1, len(values)), b.scale(_size(columns)))


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
    return _like(b, x, b.node(op, inputs, **more), shape)


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


def _other(b: Builder, x: Tensor) -> Tensor:
    """Return a second operand: of the same shape, from another branch."""
    return relu(b, x) if b.rng.random() < 0.5 else leaky_relu(b, x)


def add(b: Builder, x: Tensor) -> Tensor:
    """Add of two tensors."""
    out = b.node("Add", [x.name, _other(b, x).name])
    return b.quantised(_activation(b, out), x.shape, b.scale(2))


def mul(b: Builder, x: Tensor) -> Tensor:
    """Mul of two tensors."""
    out = b.node("Mul", [x.name, _other(b, x).name])
    return b.quantised(_activation(b, out), x.shape, b.scale())


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


def _unary(op: str, size: float = 1.0, **attributes: Any) -> Layer:
    def layer(b: Builder, x: Tensor) -> Tensor:
        return b.quantised(b.node(op, [x.name], **attributes), x.shape, b.scale(size))

    return layer


relu = _unary("Relu")
leaky_relu = _unary("LeakyRelu", alpha=0.1)


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
    return b.quantised(_activation(b, out), shape, b.scale(3))


def concat(b: Builder, x: Tensor) -> Tensor:
    """Concat with a branch of another scale."""
    out = b.node("Concat", [x.name, _other(b, x).name], axis=1)
    return b.quantised(out, (1, 2 * x.shape[1], *x.shape[2:]), b.scale())


def transpose(b: Builder, x: Tensor) -> Tensor:
    """Transpose of rows, columns and channels, in front of a Relu."""
    perm = [0, *(int(p) + 1 for p in b.rng.permutation(3))]
    out = b.node("Transpose", [x.name], perm=perm)
    return relu(b, b.quantised(out, tuple(x.shape[p] for p in perm), x.scale, x.zero))


def slice_of(b: Builder, x: Tensor) -> Tensor:
    """Slice of rows with a step."""
    step, begin = int(b.rng.choice([1, 2])), min(1, x.shape[2] - 1)
    values = ([begin], [x.shape[2]], [2], [step])
    out = b.node("Slice", [x.name, *(b.constant(np.array(v, np.int64)) for v in values)])
    rows = len(range(begin, x.shape[2], step))
    return b.quantised(out, (*x.shape[:2], rows, x.shape[3]), x.scale, x.zero)


def pad(b: Builder, x: Tensor) -> Tensor:
    """Pad with zeros."""
    pads = np.array([0, 0, 1, 0, 0, 0, 0, 2], np.int64)
    out = b.node("Pad", [x.name, b.constant(pads), b.constant(np.float32(0))])
    return b.quantised(out, (*x.shape[:2], x.shape[2] + 1, x.shape[3] + 2), x.scale, x.zero)


def resize(b: Builder, x: Tensor) -> Tensor:
    """Resize to the nearest neighbour."""
    scales = b.constant(np.array([1, 1, 2, 2], np.float32))
    mode = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    out = b.node("Resize", [x.name, "", scales], mode="nearest", **mode)
    return b.quantised(out, (*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]), x.scale, x.zero)


def resize_linear(b: Builder, x: Tensor) -> Tensor:
    """Resize between neighbours, to sizes or by scales."""
    how = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    mode = {"coordinate_transformation_mode": str(b.rng.choice(how))}
    sizes = [int(b.rng.integers(1, 2 * size + 2)) for size in x.shape[2:]]
    given = b.constant(np.array([*x.shape[:2], *sizes], np.int64))
    inputs = [x.name, "", "", given]
    if b.rng.random() < 0.5:
        sizes = [2 * size for size in x.shape[2:]]
        inputs = [x.name, "", b.constant(np.array([1, 1, 2, 2], np.float32))]
    out = b.node("Resize", inputs, mode="linear", **mode)
    same = b.rng.random() < 0.6
    shape = (*x.shape[:2], *sizes)
    return b.quantised(out, shape, x.scale if same else b.scale(), x.zero if same else None)


def flatten(b: Builder, x: Tensor) -> Tensor:
    """Reshape to one dimension."""
    size = int(np.prod(x.shape))
    shape = b.constant(np.array([1, -1], np.int64))
    out = b.node("Reshape", [x.name, shape])
    return b.quantised(out, (1, size), x.scale, x.zero)


def subtract(b: Builder, x: Tensor) -> Tensor:
    """Sub of two tensors, in both orders."""
    names = [x.name, _other(b, x).name]
    out = b.node("Sub", names if b.rng.random() < 0.5 else names[::-1])
    return b.quantised(_activation(b, out), x.shape, b.scale(2))


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


def _like(b: Builder, x: Tensor, name: str, shape: tuple[int, ...]) -> Tensor:
    """Quantise a result as its input is."""
    return b.quantised(name, shape, x.scale, x.zero)


def _integers(b: Builder, values: Any) -> str:
    return b.constant(np.array(values, np.int64))


def depth_to_space(b: Builder, x: Tensor) -> Tensor:
    """Padding to whole blocks, DepthToSpace in both modes, sometimes SpaceToDepth."""
    size = int(b.rng.integers(2, 4))
    _, channels, height, width = x.shape
    whole = -(-channels // (size * size)) * size * size
    pads = _integers(b, [0, 0, 0, 0, 0, whole - channels, 0, 0])
    x = _like(b, x, b.node("Pad", [x.name, pads]), (1, whole, height, width))
    mode = str(b.rng.choice(["DCR", "CRD"]))
    out = b.node("DepthToSpace", [x.name], blocksize=size, mode=mode)
    shape = (1, whole // (size * size), height * size, width * size)
    if b.rng.random() < 0.5:
        return _like(b, x, out, shape)
    x = _like(b, x, out, shape)
    out = b.node("SpaceToDepth", [x.name], blocksize=size)
    return relu(b, _like(b, x, out, (1, whole, height, width)))


def shuffle(b: Builder, x: Tensor) -> Tensor:
    """An order of five or six dimensions between reshapes."""
    _, channels, height, width = x.shape
    groups = next(n for n in (4, 3, 2, 1) if channels % n == 0)
    rows = next(n for n in (3, 2, 1) if height % n == 0)
    split = [1, groups, channels // groups, height // rows, rows, width]
    if b.rng.random() < 0.5:
        split[3:5] = [height]
    parts = b.node("Reshape", [x.name, _integers(b, split)])
    order = [0, *(1 + b.rng.permutation(len(split) - 1)).tolist()]
    turned = b.node("Transpose", [parts], perm=order)
    sizes = [split[n] for n in order]
    shape = (1, int(np.prod(sizes[1:-2])), sizes[-2], sizes[-1])
    return relu(b, _like(b, x, b.node("Reshape", [turned, _integers(b, shape)]), shape))


def tile(b: Builder, x: Tensor) -> Tensor:
    """Tile along some dimensions."""
    times = [1, *b.rng.integers(1, 4, 3).tolist()]
    shape = tuple(s * n for s, n in zip(x.shape, times, strict=True))
    return relu(b, _like(b, x, b.node("Tile", [x.name, _integers(b, times)]), shape))


def expand(b: Builder, x: Tensor) -> Tensor:
    """Expand of the largest elements of some dimensions."""
    axes = sorted({int(n) for n in b.rng.integers(1, 4, 2)})
    small = tuple(1 if n in axes else size for n, size in enumerate(x.shape))
    x = _like(b, x, b.node("ReduceMax", [x.name], axes=axes, keepdims=1), small)
    shape = tuple(int(b.rng.integers(1, 5)) if n in axes else s for n, s in enumerate(small))
    return relu(b, _like(b, x, b.node("Expand", [x.name, _integers(b, shape)]), shape))


def gather(b: Builder, x: Tensor) -> Tensor:
    """Gather of places, some of them twice or from the end."""
    axis = int(b.rng.integers(1, 4))
    size = x.shape[axis]
    places = b.rng.integers(-size, size, int(b.rng.integers(1, 6)))
    shape = tuple(len(places) if n == axis else s for n, s in enumerate(x.shape))
    return relu(b, _like(b, x, b.node("Gather", [x.name, _integers(b, places)], axis=axis), shape))


def pad_inside(b: Builder, x: Tensor) -> Tensor:
    """Pad with elements of the input."""
    mode = str(b.rng.choice(["reflect", "edge"]))
    pads = [int(n) for n in b.rng.integers(0, 3, 4)]
    shape = (*x.shape[:2], x.shape[2] + pads[0] + pads[2], x.shape[3] + pads[1] + pads[3])
    given = _integers(b, [0, 0, *pads[:2], 0, 0, *pads[2:]])
    return relu(b, _like(b, x, b.node("Pad", [x.name, given], mode=mode), shape))


def reduce_sum(b: Builder, x: Tensor) -> Tensor:
    """ReduceSum over rows and columns, or over channels."""
    axes = [int(n) for n in ((2, 3), (1,), (2,))[int(b.rng.integers(0, 3))]]
    out = b.node("ReduceSum", [x.name, _integers(b, axes)], keepdims=1)
    shape = tuple(1 if n in axes else size for n, size in enumerate(x.shape))
    return b.quantised(out, shape, b.scale(8))


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
    return b.quantised(_activation(b, out), (1, rows, *result), b.scale(scaled))


def extreme(op: str) -> Layer:
    """Return the function that adds Max or Min of two tensors."""

    def build(b: Builder, x: Tensor) -> Tensor:
        out = b.node(op, [x.name, _other(b, x).name])
        return b.quantised(_activation(b, out), x.shape, b.scale())

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
        return b.quantised(_activation(b, b.node(op, names)), x.shape, b.scale(2))

    return build


def _positive(op: str) -> Layer:
    """Return the function that adds an operator of numbers above zero."""

    def build(b: Builder, x: Tensor) -> Tensor:
        above = b.quantised(b.node("Sigmoid", [x.name]), x.shape, 1 / 200, -128 if b.signed else 0)
        one = b.constant(np.float32(0.3))
        shifted = b.node("Add", [above.name, one])
        source = b.quantised(shifted, x.shape, 1 / 150, -128 if b.signed else 0)
        return b.quantised(b.node(op, [source.name]), x.shape, b.scale(2))

    return build


OPERATORS: Mapping[str, Layer] = MappingProxyType(
    {
        "conv": conv,
        "gemm": gemm,
        "matmul": matmul,
        "add": add,
        "mul": mul,
        "max_pool": max_pool,
        "average_pool": average_pool,
        "global_average_pool": global_average_pool,
        "reduce_mean": reduce_mean,
        "relu": relu,
        "leaky_relu": leaky_relu,
        "sigmoid": _unary("Sigmoid", 0.4),
        "hard_swish": _unary("HardSwish"),
        "hard_sigmoid": _unary("HardSigmoid", 0.4),
        "tanh": _unary("Tanh"),
        "softmax": softmax,
        "concat": concat,
        "transpose": transpose,
        "slice": slice_of,
        "pad": pad,
        "resize": resize,
        "resize_linear": resize_linear,
    }
)
#: Functions of one number of any sign.
_FUNCTIONS = (
    *("Abs", "Ceil", "Celu", "Cos", "Elu", "Erf", "Exp", "Floor", "Neg", "Round", "Selu"),
    *("Sign", "Sin", "Softplus", "Softsign", "ThresholdedRelu"),
    *("Asinh", "Atan", "Cosh", "Shrink", "Sinh", "Tan"),
)
#: Operators that :func:`random_network` makes only by name, so that seeds keep their networks.
MORE_OPERATORS: Mapping[str, Layer] = MappingProxyType(
    {
        "subtract": subtract,
        "product": product,
        "attention": attention,
        "max_pool_up": max_pool_up,
        "average_pool_up": average_pool_up,
        "global_max_pool": global_max_pool,
        "layer_norm": layer_norm,
        "rms_norm": norms.rms_norm,
        "simplified_norm": norms.simplified_norm,
        "norm_written_out": norms.written_out,
        "lp_norm": norms.lp_norm,
        "instance_norm": norms.instance_norm,
        "group_norm": norms.group_norm,
        "conv_transpose": conv_transpose,
        "depth_to_space": depth_to_space,
        "shuffle": shuffle,
        "tile": tile,
        "expand": expand,
        "gather": gather,
        "pad_inside": pad_inside,
        "reduce_sum": reduce_sum,
        "div": choices.divide,
        "reduce_min": choices.reduce_min,
        "reduction": choices.reduction,
        "where": choices.where,
        "cast": choices.cast,
        "cumsum": choices.running_sum,
        "extreme_of_several": choices.extreme_of_several,
        "grouped_transpose": choices.grouped_transpose,
        "requantised": choices.requantised,
        "max": extreme("Max"),
        "min": extreme("Min"),
        **{
            f"{op.lower()}_constant": with_constant(op)
            for op in ("Add", "Sub", "Mul", "Max", "Min", "PRelu", "Pow")
        },
        **{op.lower(): _positive(op) for op in ("Sqrt", "Reciprocal", "Log")},
        **{op.lower(): _unary(op) for op in _FUNCTIONS},
    }
)
_FLAT = frozenset(["gemm", "matmul", "softmax"])
_NEW = frozenset(["rms_norm"])
_ANY = frozenset(
    ["relu", "leaky_relu", "sigmoid", "hard_swish", "hard_sigmoid", "tanh", "add", "mul"]
)
