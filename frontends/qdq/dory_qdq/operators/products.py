"""Conv, ConvTranspose, Gemm and MatMul with weights, and their QLinear forms.

Each is a sum of products with a scale in binary32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dory_onnx import window_of

from dory_core.api import Requant, ops, requantisation
from dory_core.importing import Array
from dory_qdq.call import QUANTISE_HINT, Call
from dory_qdq.network import standard_axes
from dory_qdq.numerics import Floats, Integers, product_scales, single
from dory_qdq.values import Constant, Place, QuantisedConstant, Real, Sums

#: Scales of a bias may be rounded otherwise than the product that they are.
_SAME_SCALE = 1e-3
_INT32 = 1 << 31


@dataclass(frozen=True, slots=True, eq=False)
class _Products:
    """What is multiplied and added.

    rows: weights without zero points, shape (Cout, ...). bias: shape (Cout,), the zero point of
    the input taken out. scales: of the sums, one or one per output channel.
    """

    x: Real
    rows: Integers
    bias: Integers
    scales: Floats
    factors: Floats | None

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of the layer that hold weights and bias."""
        bits = 8 if int(self.rows.min()) >= -128 and int(self.rows.max()) <= 127 else 16
        return {"weights": Array(self.rows), "weight_bits": bits, "bias": Array(self.bias)}


def lower_conv(call: Call) -> Place | Sums:
    """Append a convolution."""
    x, weights = call.real(0), weights_of(call, 1)
    shape = weights.values.shape
    if not 3 <= len(shape) <= 4 or 0 in shape or len(x.place.shape) != len(shape):
        raise call.error(
            f"weights of shape {list(shape)} on an input of {list(x.place.shape)}",
            "write a convolution of three dimensions as a sum of such of two" * (len(shape) == 5),
        )
    if weights.axis != 0 and weights.scales.size > 1:
        raise call.error(f"its weights have scales along axis {weights.axis}, not axis 0")
    rows = weights.centred
    rows = rows if rows.ndim == 4 else rows[:, :, None, :]
    kernel = call.attribute("kernel_shape", shape[2:])
    if tuple(kernel) != tuple(shape[2:]):
        raise call.error(f"kernel_shape {list(kernel)} for weights of shape {list(shape)}")
    name = call.image(x.place)
    window = window_of(call.node, shape[2:], x.place.shape[2:])
    if any(window.pads):
        window = replace(window, pad_value=x.x.zero_point)
    found = _products(call, x, rows, weights.scales, 2)
    groups = int(call.attribute("group", 1))
    if groups < 1 or rows.shape[1] * groups != x.place.shape[1]:
        raise call.error(
            f"weights of shape {list(shape)} in {groups} groups on {x.place.shape[1]} channels"
        )
    output = call.emit(
        ops.Conv, name, window=window, groups=groups, requants=_steps(call, found), **found.fields
    )
    _, height, width = call.network.tensors[output].shape
    spatial = (height, width) if len(shape) == 4 else (width,)
    result = (1, len(rows), *spatial)
    place = call.network.placed(output, result, standard_axes(result) or ())
    return _result(call, place, found)


def lower_conv_transpose(call: Call) -> Place:
    """Append a transposed convolution, which onnxruntime computes in reals."""
    x, weights = call.real(0), weights_of(call, 1)
    shape, place = weights.values.shape, x.place
    if not 3 <= len(shape) <= 4 or 0 in shape or len(place.shape) != len(shape):
        raise call.error(f"weights of shape {list(shape)} on an input of {list(place.shape)}")
    groups = int(call.attribute("group", 1))
    if groups < 1 or shape[0] != place.shape[1] or shape[0] % groups:
        raise call.error(
            f"weights of shape {list(shape)} in {groups} groups on {place.shape[1]} channels"
        )
    if weights.axis != 1 and weights.scales.size > 1:
        raise call.error(f"its weights have scales along axis {weights.axis}, not axis 1")
    window = _turned_window(call, shape[2:])
    if groups > 1:
        return _in_groups(call, x, weights, window, groups)
    rows = np.swapaxes(weights.centred, 0, 1)
    rows = rows.reshape(len(rows), shape[0], *window.kernel)
    found = _products(call, x, rows, weights.scales, 2, keeps_zero=True)
    name = call.image(place)
    steps = _steps(call, found)
    fields = found.fields | {"zero_point": x.x.zero_point}
    output = call.emit(ops.ConvTranspose, name, window=window, requants=steps, **fields)
    return _image_of(call, output, len(shape))


def _in_groups(
    call: Call, x: Real, weights: QuantisedConstant, window: ops.Window, groups: int
) -> Place:
    """Append a convolution in groups over the input with its zero point between the elements."""
    centred = weights.centred
    c_in, c_out = centred.shape[0] // groups, centred.shape[1]
    parts = centred.reshape(groups, c_in, c_out, *window.kernel).swapaxes(1, 2)
    rows = parts.reshape(groups * c_out, c_in, *window.kernel)[..., ::-1, ::-1]
    scales = np.tile(weights.scales, groups) if weights.scales.size > 1 else weights.scales
    found = _products(call, x, rows, scales, 2)
    name = call.image(x.place)
    for axis in (1, 0):
        name = _spread(call, name, axis, window.strides[axis], x.x.zero_point)
    reach = [(k - 1) * d for k, d in zip(window.kernel, window.dilations, strict=True)]
    top, left, bottom, right = (
        whole - pad for whole, pad in zip((*reach, *reach), window.pads, strict=True)
    )
    pads = (top, left, bottom - window.strides[0] + 1, right - window.strides[1] + 1)
    _, height, width = call.network.tensors[name].shape
    cut = [max(-pad, 0) for pad in pads]
    rest = (height - cut[0] - cut[2], width - cut[1] - cut[3])
    if any(cut) and min(rest) > 0:
        begin, size = (0, cut[0], cut[1]), (centred.shape[0], *rest)
        name = call.network.append(ops.Slice, call.node.title, (name,), begin=begin, size=size)
    slides = ops.Window(
        kernel=window.kernel,
        dilations=window.dilations,
        pads=tuple(max(pad, 0) for pad in pads),
        pad_value=x.x.zero_point,
    )
    fields = found.fields | {"window": slides, "groups": groups, "requants": _steps(call, found)}
    output = call.emit(ops.Conv, name, **fields)
    return _image_of(call, output, centred.ndim)


def _image_of(call: Call, output: str, rank: int) -> Place:
    """Return the place of an image of rank 3 or 4."""
    channels, height, width = call.network.tensors[output].shape
    result = (1, channels, height, width) if rank == 4 else (1, channels, width)
    return call.network.placed(output, result, standard_axes(result) or ())


def _spread(call: Call, name: str, axis: int, stride: int, value: int) -> str:
    """Return a tensor with ``value`` between its rows (axis 0) or columns (axis 1)."""
    if stride == 1:
        return name
    channels, height, width = call.network.tensors[name].shape

    def append(kind: type[ops.Operator], source: str, **fields: Any) -> str:
        return call.network.append(kind, call.node.title, (source,), **fields)

    flat = (channels * width, height, 1) if axis == 0 else (channels, height * width, 1)
    after = (channels, height * stride, width) if axis == 0 else (channels, height, width * stride)
    lines = append(ops.Reshape, name, shape=flat)
    padded = append(ops.Pad, lines, before=(0, 0, 0), after=(0, 0, stride - 1), value=value)
    return append(ops.Reshape, padded, shape=after)


def _turned_window(call: Call, kernel: tuple[int, ...]) -> ops.Window:
    """Return the window of a ConvTranspose; output_padding is rows and columns at the end."""
    rank = len(kernel)
    if call.attribute("output_shape", ()) or call.attribute("auto_pad", "NOTSET") not in (
        *("NOTSET", b"NOTSET"),
    ):
        raise call.error("output_shape and auto_pad are not supported", "export it with pads")
    strides, dilations, more = (
        tuple(int(v) for v in call.attribute(name, (default,) * rank))
        for name, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    pads = [int(v) for v in call.attribute("pads", (0,) * 2 * rank)]
    if len(pads) != 2 * rank or not len(strides) == len(dilations) == len(more) == rank:
        raise call.error(f"its attributes do not fit a kernel of {rank} dimensions")
    first, last = pads[:rank], [p - m for p, m in zip(pads[rank:], more, strict=True)]
    return ops.Window(
        kernel=_rows_and_columns(kernel, 1),
        strides=_rows_and_columns(strides, 1),
        dilations=_rows_and_columns(dilations, 1),
        pads=(*_rows_and_columns(first, 0), *_rows_and_columns(last, 0)),
    )


def _rows_and_columns(values: Sequence[int], rows: int) -> tuple[int, int]:
    """Return two numbers; rows: the first one where there are only columns."""
    first, second = (rows, *values)[-2:]
    return first, second


def lower_gemm(call: Call) -> Place | Sums:
    """Append a Gemm with constant weights."""
    weights = weights_of(call, 1)
    turned = bool(call.attribute("transB", 0))
    return _matrix(call, weights, not turned, 2)


def lower_with_weights(call: Call) -> Place | Sums:
    """Append a MatMul with constant weights."""
    return _matrix(call, weights_of(call, 1), True, None)


def _matrix(call: Call, weights: QuantisedConstant, turned: bool, bias: int | None) -> Place | Sums:
    """Append a fully connected layer. turned: columns of the weights are output channels."""
    x = call.real(0)
    if weights.values.ndim != 2 or 0 in weights.values.shape:
        raise call.error(f"weights of shape {list(weights.values.shape)} are no matrix")
    axis = weights.axis % 2
    if weights.scales.size > 1 and axis != int(turned):
        raise call.error(f"its weights have scales along axis {axis}, not axis {int(turned)}")
    rows = weights.centred.T if turned else weights.centred
    shape = x.place.shape
    if not shape or shape[-1] != rows.shape[1]:
        raise call.error(f"weights for {rows.shape[1]} inputs on an input of {list(shape)}")
    found = _products(call, x, rows, weights.scales, bias)
    result = (*shape[:-1], len(rows))
    steps = _steps(call, found)
    if all(size == 1 for size in shape[:-1]):
        # Columns follow the elements in memory, so that nothing moves.
        columns = found.rows[:, call.network.positions(x.place)]
        fields = found.fields | {"weights": Array(columns)}
        output = call.emit(ops.Linear, x.place.tensor, requants=steps, **fields)
        place = Place(output, result, (0,) if len(rows) > 1 else ())
        return _result(call, place, found)
    axes = (None,) * (len(shape) - 3) + (1, 2, 0)[-len(shape) :]
    name, _ = call.tensor(x.place, axes)
    fields = found.fields | {"weights": Array(found.rows[:, :, None, None])}
    output = call.emit(ops.Conv, name, window=ops.Window(kernel=(1, 1)), requants=steps, **fields)
    return _result(call, call.network.placed(output, result, axes), found)


def _result(call: Call, place: Place, found: _Products) -> Place | Sums:
    return place if found.factors is not None else Sums(place, found.scales)


def weights_of(call: Call, position: int) -> QuantisedConstant:
    """Return the quantised weights at a position; raises NotSupported for anything else."""
    value = call.inputs[position] if position < len(call.inputs) else None
    if isinstance(value, QuantisedConstant):
        if value.bits > 8:
            raise call.error(f"its weights '{call.node.input(position)}' have {value.bits} bits")
        return value
    if isinstance(value, Constant):
        raise call.error(
            f"its weights '{call.node.input(position)}' are {value.values.dtype}, not quantised",
            QUANTISE_HINT,
        )
    raise call.unquantised(position)


def _products(
    call: Call,
    x: Real,
    rows: Integers,
    scales: Floats,
    bias: int | None,
    *,
    keeps_zero: bool = False,
) -> _Products:
    """Return factors and bias; keeps_zero: the layer subtracts the zero point of the input."""
    sums = np.asarray(single(x.x.scale) * scales).reshape(-1)
    if scales.size not in (1, len(rows)):
        raise call.error(f"{scales.size} scales for {len(rows)} output channels")
    added = np.zeros(len(rows), dtype=np.int64)
    if bias is not None and call.has(bias):
        added = _bias(call, bias, sums, len(rows))
    taken = x.x.zero_point * rows.reshape(len(rows), -1).sum(axis=1)
    total = added if keeps_zero else added - taken
    if int(np.abs(total).max()) >= _INT32:
        raise call.error("its bias exceeds 32 bits")
    factors = None if call.y is None else product_scales(x.x.scale, scales, call.y.scale)
    return _Products(x, rows, total, sums, factors)


def _bias(call: Call, position: int, sums: Floats, channels: int) -> Integers:
    """Return the bias as integers with the scale of the sums."""
    value, name = call.inputs[position], call.node.input(position)
    if isinstance(value, Constant) and value.values.dtype == np.int32:  # of QLinearConv
        given = value.values.astype(np.int64).reshape(-1)
    elif isinstance(value, QuantisedConstant) and _same_scales(value, sums):
        given = value.centred.reshape(-1)
    else:
        reals = call.constant(position).astype(np.float64).reshape(-1)
        given = np.rint(np.clip(reals / sums, -_INT32, _INT32 - 1)).astype(np.int64)
    if given.size not in (1, channels):
        raise call.error(f"its bias '{name}' has {given.size} values for {channels} channels")
    return np.broadcast_to(given, (channels,)).astype(np.int64)


def _same_scales(value: QuantisedConstant, sums: Floats) -> bool:
    if value.bits != 32 or value.scales.size not in (1, sums.size):
        return False
    return bool(np.all(np.abs(value.scales / sums - 1) < _SAME_SCALE))


def _steps(call: Call, found: _Products) -> tuple[Requant, ...]:
    if found.factors is None:
        return ()
    return (scaled(call, found.factors, call.output.zero_point, call.clip()),)


def scaled(
    call: Call, factors: Floats, zero: int, bounds: tuple[int, int], turn: int = 0
) -> Requant:
    """Return the step by factors in binary32; raises NotSupported when there is none."""
    try:
        return requantisation.float_requant(
            [float(f) for f in factors.reshape(-1)], zero, *bounds, turn
        )
    except ValueError as error:
        raise call.error(
            f"the scales of its tensors give a factor that binary32 does not hold ({error})",
            "quantise it again; scales of unused channels may be too small",
        ) from None
