"""Normalisations in binary32: over one dimension, or over the image of a channel."""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from dory_core.api import ops
from dory_core.importing import Array, requant
from dory_qdq.call import Call
from dory_qdq.decomposed import BY
from dory_qdq.network import standard_axes
from dory_qdq.numerics import Floats, single
from dory_qdq.values import Place, Real

_LEAST = 8
_LEAST_RMS = 16
_PACKET = 4
_EPSILON = 1e-5
_PACKED = MappingProxyType({"Div": ops.NormForm.PACKED_RMS, "Mul": ops.NormForm.PACKED_INVERSE})


def lower_layer_norm(call: Call) -> Place:
    """Append a layer normalisation, as onnxruntime's kernel for AVX2 computes it."""
    length = _last_size(call)
    if length < _LEAST:
        raise call.error(
            f"its rows have {length} elements; supported are {_LEAST} and more, because"
            " onnxruntime adds up others in another order",
            "leave it in reals behind the last integers",
        )
    bias = _bits(call, 2, length) if call.has(2) else None
    return _over_one_dimension(call, -1, weights=_bits(call, 1, length), bias=bias)


def lower_rms_norm(call: Call) -> Place:
    """Append a normalisation by the root of the mean square, which has no bias."""
    length = _last_size(call)
    if call.has(2):
        raise call.error("it has a bias", "add it behind the normalisation")
    form = ops.NormForm.RMS if length >= _LEAST_RMS else ops.NormForm.SHORT_RMS
    if BY in call.node.attributes:
        if length % _PACKET:
            raise call.error(
                f"its rows have {length} elements; supported are multiples of {_PACKET} where the"
                " root mean square is written as operators of their own",
                "export it with opset 23, as RMSNormalization",
            )
        form = _PACKED[call.attribute(BY, "")]
    return _over_one_dimension(call, -1, weights=_bits(call, 1, length), form=form)


def lower_lp_norm(call: Call) -> Place:
    """Append LpNormalization by the Euclidean norm."""
    axis, shape = int(call.attribute("axis", -1)), call.real().place.shape
    if not -len(shape) <= axis < len(shape):
        raise call.error(f"axis {axis} of shape {list(shape)}")
    ones = np.ones(shape[axis], np.float32).view(np.int32)
    form = ops.NormForm.L2
    return _over_one_dimension(call, axis, weights=Array(ones), form=form, epsilon=0.0)


def _last_size(call: Call) -> int:
    """Return the size of the last dimension, which must be the one that is normalised."""
    shape = call.real().place.shape
    if int(call.attribute("axis", -1)) % len(shape) != len(shape) - 1:
        raise call.error(
            f"it normalises dimensions of {list(shape)} together with the last one; only the last"
            " one is supported",
            "export it with axis = -1",
        )
    return shape[-1]


def _over_one_dimension(call: Call, axis: int, **fields: Any) -> Place:
    """Append a LayerNorm whose rows lie along a dimension."""
    source = call.real()
    shape = source.place.shape
    dimension = axis % len(shape)
    others = [n for n, size in enumerate(shape) if size > 1 and n != dimension]
    if len(others) > 2:
        raise call.error(f"an input of shape {list(shape)} has too many dimensions")
    found = dict(zip(others, (1, 2)[2 - len(others) :], strict=True)) | {dimension: 0}
    name, axes = call.tensor(source.place, tuple(found.get(n) for n in range(len(shape))))
    output = call.emit(ops.LayerNorm, name, **(_of_reals(call, source) | fields))
    return call.network.placed(output, shape, axes)


def lower_instance_norm(call: Call) -> Place:
    """Append a normalisation of each channel over its rows and columns."""
    source = call.real()
    shape = source.place.shape
    if len(shape) not in (3, 4) or shape[0] != 1:
        raise call.error(f"an input of shape {list(shape)} is no image")
    name = call.image(source.place)
    elements = prod(shape[2:])
    output = call.emit(
        ops.InstanceNorm,
        name,
        weights=_bits(call, 1, shape[1]),
        bias=_bits(call, 2, shape[1]),
        # Packets begin at places in memory that are multiples of their size.
        starts=Array(-np.arange(shape[1]) * elements % _PACKET),
        **_of_reals(call, source),
    )
    return call.network.placed(output, shape, standard_axes(shape) or ())


def _of_reals(call: Call, source: Real) -> dict[str, Any]:
    """Return the fields that say what stored values mean."""
    y = call.output
    return {
        "scale": source.x.scale,
        "zero_point": source.x.zero_point,
        "epsilon": float(single(call.attribute("epsilon", _EPSILON))),
        "out_scale": y.scale,
        "requants": (requant(1, y.zero_point, 1, *call.clip()),),
    }


def _bits(call: Call, position: int, length: int) -> Array:
    """Return a constant with a real for each element of a row, as bits of binary32."""
    values = call.constant(position)
    reals: Floats = single(values).reshape(-1)
    if values.dtype.kind != "f" or reals.size != length or not np.isfinite(reals).all():
        raise call.error(
            f"'{call.node.input(position)}' of shape {list(values.shape)} is not one real for each"
            f" of {length} elements"
        )
    return Array(reals.view(np.int32))
