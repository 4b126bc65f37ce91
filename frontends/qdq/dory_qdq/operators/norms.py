"""LayerNormalization over the last dimension, in binary32."""

from __future__ import annotations

import numpy as np

from dory_core.api import ops
from dory_core.importing import Array, requant
from dory_qdq.call import Call
from dory_qdq.numerics import Floats, single
from dory_qdq.values import Place

_LEAST = 8


def lower_layer_norm(call: Call) -> Place:
    """Append a layer normalisation, as onnxruntime's kernel for AVX2 computes it."""
    source, y = call.real(), call.output
    shape = source.place.shape
    last = len(shape) - 1
    if int(call.attribute("axis", -1)) % len(shape) != last:
        raise call.error(
            f"it normalises dimensions of {list(shape)} together with the last one; only the last"
            " one is supported",
            "export it with axis = -1",
        )
    if shape[last] < _LEAST:
        raise call.error(
            f"its rows have {shape[last]} elements; supported are {_LEAST} and more, because"
            " onnxruntime adds up others in another order",
            "leave it in reals behind the last integers",
        )
    weights = _bits(call, 1, shape[last])
    bias = _bits(call, 2, shape[last]) if call.has(2) else None
    others = [n for n, size in enumerate(shape) if size > 1 and n != last]
    if len(others) > 2:
        raise call.error(f"an input of shape {list(shape)} has too many dimensions")
    found = dict(zip(others, (1, 2)[2 - len(others) :], strict=True)) | {last: 0}
    name, axes = call.tensor(source.place, tuple(found.get(n) for n in range(len(shape))))
    output = call.emit(
        ops.LayerNorm,
        name,
        weights=weights,
        bias=bias,
        scale=source.x.scale,
        zero_point=source.x.zero_point,
        epsilon=float(single(call.attribute("epsilon", 1e-5))),
        out_scale=y.scale,
        requants=(requant(1, y.zero_point, 1, *call.clip()),),
    )
    return call.network.placed(output, shape, axes)


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
