"""Halves: sums of bytes that are stored as two bytes each, which byte arithmetic multiplies.

A sum of two unsigned bytes has up to nine bits. Stored in 16 bits, it is multiplied two elements at
a time; as floor(v / 2) and v minus that, both unsigned bytes, four at a time and with the same
weights. It takes no more memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dory_core.ir import Graph, Layer, Tensor
from dory_core.ir.tensor import HALVES_TOGETHER
from dory_core.kernels.binding import Candidates, first_accepting

#: The largest value that two bytes add up to.
MOST = 510


def choose_halves(graph: Graph, kernels: Candidates) -> Graph:
    """Return ``graph`` with sums stored as two halves where all their layers have kernels for it.

    A kernel that takes halves (``Feature.HALVES``) profits from them. No layer loses the kernel
    that it has. Inputs, outputs and state of the network stay as they are.
    """
    kept = {*graph.sources, *graph.sinks}
    tensors = dict(graph.tensors)
    for name, tensor in graph.tensors.items():
        if name in kept or not _has_halves(tensor):
            continue
        layers = [
            layer
            for layer in graph.layers
            if name in (layer.output.name, *(x.name for x in layer.inputs))
        ]
        halved = tensors | {name: replace(tensor, halves=True)}
        if all(_keeps_kernel(layer, tensors, halved, kernels) for layer in layers):
            tensors = halved
    return graph if tensors == graph.tensors else replace(graph, tensors=tensors)


def _has_halves(tensor: Tensor) -> bool:
    return (
        (tensor.bits, tensor.signed) == (16, False)
        and tensor.hi <= MOST
        and tensor.channels % HALVES_TOGETHER == 0
    )


def _keeps_kernel(
    layer: Layer, before: Mapping[str, Tensor], after: Mapping[str, Tensor], kernels: Candidates
) -> bool:
    old, new = (_with(layer, tensors) for tensors in (before, after))
    return first_accepting(kernels(new), new) <= first_accepting(kernels(old), old)


def _with(layer: Layer, tensors: Mapping[str, Tensor]) -> Layer:
    inputs = tuple(tensors[x.name] for x in layer.inputs)
    return replace(layer, inputs=inputs, output=tensors[layer.output.name])
