"""Pools: a convolution computes the maxima of its outputs where a kernel does both at once."""

from __future__ import annotations

from dataclasses import replace

from dory_core.ir import Conv, Graph, Layer, MaxPool, PooledConv
from dory_core.kernels.binding import Candidates, first_accepting


def join_pools(graph: Graph, kernels: Candidates) -> Graph:
    """Return ``graph`` with convolutions in the pools that read them, where a kernel takes both.

    The pool's blocks do not overlap and have no padding, nothing else reads the convolution, and
    its requantisation rises with the sum: then that of the largest sum is the largest output. The
    layer has index and output of the pool; the tensor between them is no longer there.
    """
    layers = {layer.output.name: layer for layer in graph.layers}
    for layer in graph.layers:
        before = layers.get(layer.inputs[0].name)
        if before is None or not _is_alone(graph, before):
            continue
        joined = _joined(before, layer)
        if joined is not None and _has_kernel(joined, kernels):
            layers[layer.output.name] = joined
            del layers[before.output.name]
    if len(layers) == len(graph.ops):
        return graph
    found = layers.values()
    return replace(
        graph,
        ops=tuple(layer.op for layer in found),
        ranges=tuple(layer.ranges for layer in found),
        tensors={n: graph.tensors[n] for n in (*graph.sources, *layers)},
        forms={n: form for n, form in graph.forms.items() if n in layers or n in graph.sources},
    )


def _is_alone(graph: Graph, layer: Layer) -> bool:
    """Whether one layer reads the output of a layer, and nothing else does."""
    name = layer.output.name
    return len(graph.consumers(name)) == 1 and name not in graph.sinks


def _has_kernel(layer: Layer, kernels: Candidates) -> bool:
    candidates = kernels(layer)
    return first_accepting(candidates, layer) < len(candidates)


def _joined(before: Layer, pool: Layer) -> Layer | None:
    """Return two layers as one; None where they are no convolution and maximum of blocks."""
    conv, op = before.op, pool.op
    if not (isinstance(conv, Conv) and isinstance(op, MaxPool)) or op.requants:
        return None
    window, source, output = op.window, before.output, pool.output
    blocks = window.kernel == window.strides and window.dilations == (1, 1)
    plain = conv.groups == 1 and conv.window.dilations == (1, 1)
    alike = (source.type_name, source.offset) == (output.type_name, output.offset)
    rises = all(step.rises for step in conv.requants)
    if any(window.pads) or not (blocks and plain and alike and rises):
        return None
    names = {"index": op.index, "name": op.name, "output": op.output, "tensor": op.tensor}
    joined = PooledConv.of(conv, window.kernel, **names)
    return Layer(joined, before.inputs, output, before.ranges)
