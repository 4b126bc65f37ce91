"""Vectors: a convolution of one window is a fully connected layer."""

from __future__ import annotations

from dataclasses import fields, replace

from dory_core.ir import Conv, Graph, Layer, Linear
from dory_core.ir.array import Array
from dory_core.kernels.binding import Candidates, first_accepting
from dory_core.kernels.portable_base import Portable

_FIELDS = tuple(one.name for one in fields(Linear) if one.name != "weights")


def connect_vectors(graph: Graph, kernels: Candidates) -> Graph:
    """Return ``graph`` with convolutions whose only window is the input as fully connected layers.

    Their kernels read each weight once, and some read it where it is linked. A layer does not
    change where only portable C would compute it.
    """
    found = tuple(_connected(layer, kernels) for layer in graph.layers)
    ops = tuple(layer.op for layer in found)
    return graph if ops == graph.ops else replace(graph, ops=ops)


def _connected(layer: Layer, kernels: Candidates) -> Layer:
    conv, [x, *_] = layer.op, layer.inputs
    if not isinstance(conv, Conv) or conv.groups > 1 or any(conv.window.pads):
        return layer
    one_window = (layer.output.height, layer.output.width) == (1, 1)
    if not one_window or conv.window.kernel != (x.height, x.width):
        return layer
    rows = conv.weights.values.transpose(0, 2, 3, 1).reshape(layer.output.channels, -1)
    given = {name: getattr(conv, name) for name in _FIELDS}
    linear = replace(layer, op=Linear(**given, weights=Array(rows)))
    worse = _in_portable_c(linear, kernels) and not _in_portable_c(layer, kernels)
    return layer if worse else linear


def _in_portable_c(layer: Layer, kernels: Candidates) -> bool:
    candidates = kernels(layer)
    first = first_accepting(candidates, layer)
    return first == len(candidates) or isinstance(candidates[first], Portable)
