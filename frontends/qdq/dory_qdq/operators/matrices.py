"""MatMul of two computed tensors, and of a constant matrix with one."""

from __future__ import annotations

import numpy as np

from dory_core.api import Requant, ops
from dory_core.importing import Array
from dory_qdq.call import Call
from dory_qdq.network import Axes
from dory_qdq.numerics import Floats, product_scales, single
from dory_qdq.operators.products import lower_with_weights, scaled, weights_of
from dory_qdq.values import Constant, Place, QuantisedConstant, Real, Shape, Sums

#: Axes of matrices: a matrix per row, its rows along the columns of the image.
_MATRICES = (1, 2, 0)
_TURNED = (1, 0, 2)
#: Elements of a running sum, whose weights are the square of that.
_MOST_SUMMED = 1024
_SHAPES = "export it with fixed shapes, as matrices of two dimensions or more"


def lower_matmul(call: Call) -> Place | Sums:
    """Append a MatMul: with constant weights, of two tensors, or of a constant with a tensor."""
    constant = [isinstance(call.inputs[n], Constant | QuantisedConstant) for n in (0, 1)]
    if constant[1]:
        return lower_with_weights(call)
    return _of_constant(call) if constant[0] else _of_tensors(call)


def _of_tensors(call: Call) -> Place | Sums:
    factors, x = call.real(0), call.real(1)
    shapes = factors.place.shape, x.place.shape
    _check(call, *shapes)
    try:
        front = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
    except ValueError:
        raise _mismatch(call, *shapes) from None
    names = [_matrices(call, value, _MATRICES) for value in (x, factors)]
    scale = np.float64(x.x.scale)
    output = call.emit(
        ops.MatMul,
        *names,
        zero_points=(x.x.zero_point, factors.x.zero_point),
        requants=_steps(call, factors.x.scale, scale),
    )
    shape = (*front, shapes[0][-2], shapes[1][-1])
    return _result(call, output, shape, _MATRICES, single(factors.x.scale) * single(scale))


def _of_constant(call: Call) -> Place | Sums:
    """Append a 1x1 convolution, whose output channels are the rows of the constant."""
    weights, x = weights_of(call, 0), call.real(1)
    shapes = weights.values.shape, x.place.shape
    _check(call, *shapes)
    if weights.values.ndim != 2 or weights.scales.size > 1:
        raise call.error(
            f"a constant of shape {list(shapes[0])} with {weights.scales.size} scales in front of a"
            " computed tensor",
            "multiply with one matrix of one scale",
        )
    rows, scale = weights.centred, weights.scales.reshape(-1)[0]
    output = call.emit(
        ops.Conv,
        _matrices(call, x, _TURNED),
        window=ops.Window(kernel=(1, 1)),
        weights=Array(rows[:, :, None, None]),
        weight_bits=8 if int(np.abs(rows).max()) < 128 else 16,
        bias=Array(-x.x.zero_point * rows.sum(axis=1)),
        requants=_steps(call, x.x.scale, scale),
    )
    shape = (*shapes[1][:-2], shapes[0][0], shapes[1][-1])
    return _result(call, output, shape, _TURNED, single(x.x.scale) * single(scale))


def _check(call: Call, first: Shape, second: Shape) -> None:
    """Raise NotSupported unless matrices of these shapes can be multiplied."""
    if min(len(first), len(second)) < 2 or 0 in (*first, *second):
        raise call.error(
            f"it multiplies shapes {list(first)} and {list(second)}, no matrices", _SHAPES
        )
    if first[-1] != second[-2]:
        raise _mismatch(call, first, second)


def _mismatch(call: Call, first: Shape, second: Shape) -> Exception:
    return call.error(
        f"matrices of shapes {list(first)} and {list(second)} cannot be multiplied", _SHAPES
    )


def _matrices(call: Call, value: Real, order: tuple[int, int, int]) -> str:
    """Return the tensor of a value whose last dimensions lie along axes in this order."""
    return call.tensor(value.place, _axes(len(value.place.shape), order))[0]


def _axes(rank: int, order: tuple[int, int, int]) -> Axes:
    return (*(None,) * (rank - 3), *order[-min(rank, 3) :])


def _steps(call: Call, first: float, second: Floats) -> tuple[Requant, ...]:
    if call.y is None:
        return ()
    factors = product_scales(first, second, call.y.scale)
    return (scaled(call, factors, call.output.zero_point, call.clip()),)


def _result(
    call: Call, output: str, shape: Shape, order: tuple[int, int, int], scale: Floats
) -> Place | Sums:
    place = call.network.placed(output, shape, _axes(len(shape), order))
    return place if call.y is not None else Sums(place, np.asarray(scale).reshape(-1))


def lower_running_sum(call: Call) -> Place:
    """Append CumSum: a 1x1 convolution whose weights are 1 up to the place of the output."""
    source, y = call.real(), call.output
    shape, x = source.place.shape, source.x
    given = call.integers(1) or []
    if len(given) != 1 or not -len(shape) <= given[0] < len(shape):
        raise call.error(f"axis {given} of {list(shape)}")
    dimension = given[0] % len(shape)
    size = shape[dimension]
    others = [n for n, other in enumerate(shape) if other > 1 and n != dimension]
    if size > _MOST_SUMMED or len(others) > 2:
        raise call.error(
            f"dimension {dimension} of {list(shape)}; supported are sums of at most {_MOST_SUMMED}"
            " elements, beside two other dimensions",
            "add up fewer elements, or write it as a MatMul with a constant",
        )
    found = dict(zip(others, (1, 2)[2 - len(others) :], strict=True)) | {dimension: 0}
    name, axes = call.tensor(source.place, tuple(found.get(n) for n in range(len(shape))))
    rows = np.tri(size, k=-1 if call.attribute("exclusive", 0) else 0, dtype=np.int64)
    if call.attribute("reverse", 0):
        rows = rows[::-1, ::-1]
    output = call.emit(
        ops.Conv,
        name,
        window=ops.Window(kernel=(1, 1)),
        weights=Array(rows[:, :, None, None]),
        bias=Array(-x.zero_point * rows.sum(axis=1)),
        requants=(scaled(call, single(x.scale) / single(y.scale), y.zero_point, call.clip()),),
    )
    return call.network.placed(output, shape, axes)
