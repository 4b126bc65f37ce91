"""Random normalisations that onnxruntime computes in reals."""

from __future__ import annotations

import numpy as np

from dory_qdq.testing.builder import Builder, Tensor

_EPSILONS = (1e-5, 1e-12, 1e-3)


def _reals(b: Builder, size: int, middle: float) -> str:
    return b.constant(b.rng.normal(middle, 0.4, size).astype(np.float32))


def _rounded(b: Builder, x: Tensor, name: str, shape: tuple[int, ...]) -> Tensor:
    """Quantise a result, sometimes after a Relu."""
    return b.quantised(b.node("Relu", [name]) if b.rng.random() < 0.3 else name, shape, b.scale(3))


def simplified_norm(b: Builder, x: Tensor) -> Tensor:
    """RMSNormalization as onnxruntime calls it."""
    return _rms(b, x, "SimplifiedLayerNormalization")


def rms_norm(b: Builder, x: Tensor) -> Tensor:
    """RMSNormalization, of opset 23."""
    return _rms(b, x, "RMSNormalization")


def _rms(b: Builder, x: Tensor, op: str) -> Tensor:
    """Normalise over the last dimension or all pixels.

    onnxruntime 1.32 does not move QuantizeLinear of int8 over a Reshape of opset 23.
    """
    shape, name = x.shape, x.name
    if b.rng.random() < 0.5 and not (b.signed and op == "RMSNormalization"):
        shape = (1, shape[1], shape[2] * shape[3])
        name = b.node("Reshape", [name, b.constant(np.array(shape, np.int64))])
    weights = _reals(b, shape[-1], 1)
    out = b.node(op, [name, weights], axis=-1, epsilon=float(b.rng.choice(_EPSILONS)))
    return _rounded(b, x, out, shape)


def written_out(b: Builder, x: Tensor) -> Tensor:
    """A normalisation by the root of the mean square, as operators of their own."""
    shape, name = x.shape, x.name
    if shape[-1] % 4:
        size = -(-int(np.prod(shape[1:])) // 4) * 4
        flat = b.node("Reshape", [name, b.constant(np.array([1, -1], np.int64))])
        flat = b.quantised(flat, (1, int(np.prod(shape[1:]))), x.scale, x.zero).name
        pads = b.constant(np.array([0, 0, 0, size - int(np.prod(shape[1:]))], np.int64))
        shape, name = (1, size), b.node("Pad", [flat, pads])
        name = b.quantised(name, shape, x.scale, x.zero).name
    squares = [name, b.constant(np.float32(2))] if b.rng.random() < 0.5 else [name, name]
    square = b.node("Pow" if len({*squares}) > 1 else "Mul", squares)
    mean = b.node("ReduceMean", [square], axes=[-1], keepdims=1)
    root = b.node("Sqrt", [b.node("Add", [mean, b.constant(np.float32(1e-5))])])
    if b.rng.random() < 0.5:
        normal = b.node("Div", [name, root])
    else:
        normal = b.node("Mul", [name, b.node("Reciprocal", [root])])
    return _rounded(b, x, b.node("Mul", [_reals(b, shape[-1], 1), normal]), shape)


def lp_norm(b: Builder, x: Tensor) -> Tensor:
    """LpNormalization over one dimension."""
    out = b.node("LpNormalization", [x.name], axis=int(b.rng.choice([1, 2, 3, -1])), p=2)
    return b.quantised(out, x.shape, b.scale(0.5))


def _instance(b: Builder, x: Tensor, shape: tuple[int, ...]) -> str:
    inputs = [x.name, _reals(b, shape[1], 1), _reals(b, shape[1], 0)]
    if b.rng.random() < 0.4:
        values = b.rng.integers(-128, 128, shape[1]).astype(np.int8)
        inputs[1] = b.weights(values, np.float32(0.01), 0)
    return b.node("InstanceNormalization", inputs, epsilon=float(b.rng.choice(_EPSILONS)))


def instance_norm(b: Builder, x: Tensor) -> Tensor:
    """InstanceNormalization."""
    return _rounded(b, x, _instance(b, x, x.shape), x.shape)


def group_norm(b: Builder, x: Tensor) -> Tensor:
    """A group normalisation as torch writes it."""
    channels = x.shape[1]
    groups = int(b.rng.choice([n for n in range(1, channels + 1) if channels % n == 0]))
    size = int(np.prod(x.shape)) // groups
    whole = b.constant(np.array([1, groups, size], np.int64))
    parts = b.quantised(b.node("Reshape", [x.name, whole]), (1, groups, size), x.scale, x.zero)
    inputs = [parts.name, b.constant(np.ones(groups, np.float32))]
    inputs.append(b.constant(np.zeros(groups, np.float32)))
    out = b.node("InstanceNormalization", inputs, epsilon=1e-5)
    normal = b.quantised(out, (1, groups, size), b.scale(3))
    image = b.constant(np.array(x.shape, np.int64))
    back = b.quantised(b.node("Reshape", [normal.name, image]), x.shape, normal.scale, normal.zero)
    for op in ("Mul", "Add"):
        values = b.rng.integers(-128, 128, (channels, 1, 1)).astype(np.int8)
        kind = values if b.signed else (values.astype(np.int16) + 128).astype(np.uint8)
        zero = np.array(0 if b.signed else 128, kind.dtype)
        other = b.weights(kind, np.float32(0.01), 0, zero)
        back = b.quantised(b.node(op, [back.name, other]), x.shape, b.scale(3))
    return back
