"""Fused networks whose sums are exact on every processor.

Without VNNI, x86 processors add products of uint8 and int8 in pairs that saturate at 16 bits.
onnxruntime makes uint8 of such weights on demand (session.x64quantprecision), but gives up where
two nodes share a constant; here each node gets its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Positions of the zero point of the activations, of the weights, and of their zero point.
_PLACES = {"QGemm": (2, 3, 5), "QLinearMatMul": (2, 3, 5), "QLinearConv": (2, 3, 5)}


def with_wide_sums(proto: Any) -> Any:
    """Return a fused network (an onnx.ModelProto) with uint8 weights beside uint8 activations.

    128 is added to weights and to their zero points, so that all products stay the same.
    """
    from onnx import numpy_helper

    copied = type(proto)()
    copied.CopyFrom(proto)
    constants = {one.name: numpy_helper.to_array(one) for one in copied.graph.initializer}
    for number, node in enumerate(copied.graph.node):
        if node.op_type not in _PLACES:
            continue
        activations, weights, zero = _PLACES[node.op_type]
        of_activations = constants.get(node.input[activations])
        values, zeros = constants.get(node.input[weights]), constants.get(node.input[zero])
        if of_activations is None or of_activations.dtype != np.uint8:
            continue
        if values is None or values.dtype != np.int8 or (zeros is None and node.input[zero]):
            continue
        shifted = {weights: values, zero: np.zeros((), np.int8) if zeros is None else zeros}
        for place, array in shifted.items():
            name = f"dory_{number}_{place}"
            unsigned = (array.astype(np.int16) + 128).astype(np.uint8)
            copied.graph.initializer.append(numpy_helper.from_array(unsigned, name))
            node.input[place] = name
    return copied
