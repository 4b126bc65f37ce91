"""Functions of one byte as tables, and Softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import erf, pi, prod
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dory_core.api import ops
from dory_core.importing import Array, requant
from dory_qdq.call import QUANTISE_HINT, Call
from dory_qdq.numerics import Floats, Integers, Quantisation, dequantise, quantise_to, single
from dory_qdq.values import Place

# What onnxruntime keeps free of the exponents of binary32, as a logarithm.
_RESERVE = 5
# Before, a Softmax takes all dimensions after its axis together.
_OPSET_OF_ONE_DIMENSION = 13

_SELU_ALPHA, _SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
_QUICK = 1.702

Wide = npt.NDArray[np.float64]
Function = Callable[[Call, Floats], Floats]


def by_byte(table: Integers, x: Quantisation) -> Array:
    """Return a table for rising stored values as one for the bytes that store them."""
    return Array(np.roll(table, x.bounds[0], axis=-1))


def requantised(
    call: Call, name: str, x: Quantisation, y: Quantisation, clip: tuple[int, int]
) -> str:
    """Return stored values of another quantisation; the tensor itself where it is the same."""
    tensor = call.network.tensors[name]
    if x == y and clip[0] <= tensor.lo and tensor.hi <= clip[1]:
        return name
    table = quantise_to(dequantise(x.values, x), y, clip)
    return call.network.append(ops.Lut, call.node.title, (name,), "", y, table=by_byte(table, x))


def lower_function(call: Call) -> Place:
    """Append the table of a function of one operand."""
    source = call.real()
    name, axes = call.tensor(source.place)
    with np.errstate(all="ignore"):
        reals = FUNCTIONS[call.node.op.split(".")[-1].removeprefix("QLinear")](
            call, dequantise(source.x.values, source.x)
        )
    check_numbers(call, name, source.x, reals)
    table = quantise_to(reals, call.output, call.clip())
    output = call.emit(ops.Lut, name, table=by_byte(table, source.x))
    return call.network.placed(output, source.place.shape, axes)


def clip_stored(call: Call, place: Place, x: Quantisation) -> Place:
    """Clip stored integers, as Brevitas writes types of fewer than 8 bits (QCDQ)."""
    bounds = [call.constant(n).reshape(-1) if call.has(n) else None for n in (1, 2)]
    if any(b is not None and (b.size != 1 or b.dtype.kind not in "iu") for b in bounds):
        raise call.error("its bounds are no integers", QUANTISE_HINT)
    lo, hi = (end if b is None else int(b[0]) for b, end in zip(bounds, x.bounds, strict=True))
    table = by_byte(np.clip(x.values, lo, hi), x)
    return replace(place, tensor=call.emit(ops.Lut, place.tensor, table=table))


def check_numbers(call: Call, name: str, x: Quantisation, reals: Floats) -> None:
    """Raise NotSupported when a stored value that the tensor can have gives no number.

    reals: results by rising stored value, along the last axis.
    """
    read, least = call.network.tensors[name], x.bounds[0]
    reached = dequantise(x.values, x)[read.lo - least : read.hi - least + 1]
    missing = np.isnan(reals[..., read.lo - least : read.hi - least + 1])
    if missing.any():
        at = reached[np.nonzero(missing.reshape(-1, reached.size).any(axis=0))[0][0]]
        raise call.error(
            f"its result for {at:g}, which its input can be, is no number",
            "clip its input, or calibrate the network again",
        )


def lower_softmax(call: Call) -> Place:
    """Append QLinearSoftmax over one dimension, or over all after ``axis`` before opset 13."""
    source = call.real()
    place, axis = _over_one_dimension(call, source.place)
    x, y, rank = source.x, call.output, len(place.shape)
    others = [n for n, size in enumerate(place.shape) if size > 1 and n != axis]
    if len(others) > 2:
        raise call.error(f"an input of shape {list(place.shape)} has too many dimensions")
    found = dict(zip(others, (1, 2), strict=False)) | {axis: 0}
    axes: tuple[int | None, ...] = tuple(found.get(n) for n in range(rank))
    name, axes = call.tensor(place, axes)
    factor = int(np.floor(single(1) / single(y.scale)))
    if place.shape[axis] == 1:  # an exponential by itself
        alone = int(np.clip(factor + y.zero_point, *call.clip()))
        output = call.emit(ops.Lut, name, table=Array(np.full(256, alone, dtype=np.int64)))
    else:
        output = _softmax(call, name, x, factor, place.shape[axis])
    return replace(call.network.placed(output, place.shape, axes), shape=source.place.shape)


def _over_one_dimension(call: Call, place: Place) -> tuple[Place, int]:
    """Return the input of a Softmax in a shape of which it takes one dimension, and that one."""
    shape = place.shape
    grouped = int(call.attribute("opset", call.network.opset)) < _OPSET_OF_ONE_DIMENSION
    axis = int(call.attribute("axis", 1 if grouped else -1))
    if not -len(shape) <= axis < len(shape):
        raise call.error(f"axis {axis} of shape {list(shape)}")
    axis %= len(shape)
    if not grouped:
        return place, axis
    return replace(place, shape=(prod(shape[:axis]), prod(shape[axis:]))), 1


def _softmax(call: Call, name: str, x: Quantisation, factor: int, size: int) -> str:
    """Append a Softmax over ``size`` channels; factor: what onnxruntime multiplies shares by."""
    y = call.output
    with np.errstate(over="ignore"):
        most = np.finfo(np.float32).max / np.float32(size)
        room = float(single(np.log(float(most)))) - _RESERVE  # onnxruntime's logarithm is binary32
        powers = single(np.exp(max(0.0, room) - np.arange(256) * x.scale))
        finite = bool(np.isfinite(powers[0] * single(factor)))
    if factor < 1:
        raise call.error(f"the scale {y.scale} of its result is above 1")
    if not finite:
        raise call.error(f"the scale {y.scale} of its result is too small for binary32")
    step = requant(1, y.zero_point, 1, *call.clip())
    table = Array(powers.view(np.int32).astype(np.int64))
    return call.emit(ops.Softmax, name, table=table, factor=factor, requants=(step,))


def _sigmoid(call: Call, x: Floats) -> Floats:
    return single(1 / (1 + np.exp(-x.astype(np.float64))))


def _leaky(call: Call, x: Floats) -> Floats:
    return np.where(x >= 0, x, x * single(call.attribute("alpha", 0.01)))


def _elu(call: Call, x: Floats) -> Floats:
    alpha = float(call.attribute("alpha", 1.0))
    return single(np.where(x >= 0, x, alpha * np.expm1(x.astype(np.float64))))


def _hard_sigmoid(call: Call, x: Floats) -> Floats:
    alpha, beta = single(call.attribute("alpha", 0.2)), single(call.attribute("beta", 0.5))
    return np.clip(alpha * x + beta, 0, 1)


def _hard_swish(call: Call, x: Floats) -> Floats:
    sixth = single(1 / 6)
    return np.asarray(x * np.clip(sixth * x + single(0.5), 0, 1), dtype=np.float32)


def _clip(call: Call, x: Floats) -> Floats:
    lo, hi = clip_bounds(call)
    return np.clip(x, -np.inf if lo is None else lo, np.inf if hi is None else hi)


def clip_bounds(call: Call) -> tuple[float | None, float | None]:
    """Return the bounds of a Relu, Relu6 or Clip."""
    if call.node.op == "Relu":
        return 0.0, None
    found = []
    for position, name in enumerate(("min", "max"), 1):
        value = call.node.attributes.get(name)
        if value is None and call.has(position):
            value = call.constant(position).reshape(-1)[0]
        found.append(None if value is None else float(value))
    return found[0], found[1]


def _gelu(call: Call, x: Floats) -> Floats:
    wide = x.astype(np.float64)
    if call.attribute("approximate", "none") in ("tanh", b"tanh"):
        inner = (2 / pi) ** 0.5 * (wide + 0.044715 * wide**3)
        return single(wide * 0.5 * (1 + np.tanh(inner)))
    return single(wide * 0.5 * (1 + np.array([erf(v / 2**0.5) for v in wide])))


def _wide(function: Callable[[Wide], Wide]) -> Function:
    """Return a function that is computed in double and rounded once."""
    return lambda call, x: single(function(x.astype(np.float64)))


def _softplus(x: Wide) -> Wide:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def _selu(call: Call, x: Floats) -> Floats:
    alpha = float(call.attribute("alpha", _SELU_ALPHA))
    gamma = float(call.attribute("gamma", _SELU_GAMMA))
    wide = x.astype(np.float64)
    return single(gamma * np.where(wide > 0, wide, alpha * np.expm1(wide)))


def _celu(call: Call, x: Floats) -> Floats:
    alpha, wide = float(call.attribute("alpha", 1.0)), x.astype(np.float64)
    return single(np.maximum(0, wide) + np.minimum(0, alpha * np.expm1(wide / alpha)))


def _thresholded(call: Call, x: Floats) -> Floats:
    return np.where(x > single(call.attribute("alpha", 1.0)), x, single(0))


def _shrink(call: Call, x: Floats) -> Floats:
    limit, bias = (single(call.attribute(name, v)) for name, v in (("lambd", 0.5), ("bias", 0)))
    above, below = np.where(x > limit, x - bias, 0), np.where(x < -limit, x + bias, 0)
    return np.asarray(above + below, np.float32)


def _swish(call: Call, x: Floats) -> Floats:
    default = _QUICK if call.node.op.endswith("QuickGelu") else 1.0
    alpha, wide = float(call.attribute("alpha", default)), x.astype(np.float64)
    return single(wide / (1 + np.exp(-alpha * wide)))


def _erf(x: Wide) -> Wide:
    return np.array([erf(value) for value in x])


FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "Sigmoid": _sigmoid,
        "LeakyRelu": _leaky,
        "Elu": _elu,
        "HardSigmoid": _hard_sigmoid,
        "HardSwish": _hard_swish,
        "Relu": _clip,
        "Clip": _clip,
        "Gelu": _gelu,
        "Selu": _selu,
        "Celu": _celu,
        "ThresholdedRelu": _thresholded,
        "Swish": _swish,
        "QuickGelu": _swish,
        "Tanh": _wide(np.tanh),
        "Exp": _wide(np.exp),
        "Log": _wide(np.log),
        "Erf": _wide(_erf),
        "Sin": _wide(np.sin),
        "Cos": _wide(np.cos),
        "Tan": _wide(np.tan),
        "Atan": _wide(np.arctan),
        "Sinh": _wide(np.sinh),
        "Cosh": _wide(np.cosh),
        "Asinh": _wide(np.arcsinh),
        "Shrink": _shrink,
        "Softplus": _wide(_softplus),
        "Mish": _wide(lambda x: x * np.tanh(_softplus(x))),
        "Softsign": lambda call, x: np.asarray(x / (1 + np.abs(x)), np.float32),
        "Sqrt": lambda call, x: np.sqrt(x),
        "Reciprocal": lambda call, x: np.asarray(single(1) / x, np.float32),
        "Abs": lambda call, x: np.abs(x),
        "Neg": lambda call, x: np.asarray(-x),
        "Floor": lambda call, x: np.floor(x),
        "Ceil": lambda call, x: np.ceil(x),
        "Round": lambda call, x: np.rint(x),
        "Sign": lambda call, x: np.sign(x),
    }
)
