"""The pass of ``--set requant=approximate``: layers get the requantisation of an array.

It changes values, and says so: dory then measures on the test vectors how many outputs differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dory_core.api import Graph, Layer, Pass, Tensor, ops
from dory_core.importing import Array, ranges
from dory_diana.backend.forms import NO_ADC, NO_SHIFT
from dory_diana.requant.common import steps_of
from dory_diana.requant.nearest import Nearest, nearest_adc, nearest_shift

if TYPE_CHECKING:
    from dory_core.api import TargetContext


def approximation(ctx: TargetContext) -> Pass:
    """Return the pass for the engines and converters of ``ctx``."""
    return Pass(
        "diana-approximate-requantisation",
        "gives layers the nearest requantisation that an array has",
        lambda graph: approximate(graph, ctx),
        exact=False,
    )


def approximate(graph: Graph, ctx: TargetContext) -> Graph:
    """Return ``graph`` with replacements of layers that the arrays reject only for requantisation.

    Layers are taken in order, so that each is judged with the ranges that those before it have now.
    """
    inputs = tuple(graph.tensors[name] for name in graph.inputs)
    layers = list(graph.ops)
    current = graph
    for position in range(len(layers)):
        changed = _approximated(current.layer(position), ctx)
        if changed is not None:
            layers[position] = changed
            current = ranges.infer_types(
                graph.name, inputs, tuple(layers), graph.outputs, graph.notes
            )
    return current


def _approximated(layer: Layer, ctx: TargetContext) -> Layer | None:
    """Return a layer that an array takes, None when one takes it as it is, or none would."""
    from dory_diana.backend import array_kernels
    from dory_diana.options import adc_scale

    kind = layer.op
    if not isinstance(kind, (ops.Conv, ops.Linear)):
        return None
    inputs = tuple(_in_bytes(t) for t in layer.inputs)
    layer = replace(layer, inputs=inputs, output=_in_bytes(layer.output))
    reasons = [kernel.accepts(layer) for kernel in array_kernels(ctx, layer)]
    if any(reason is None for reason in reasons):
        return None
    steps = steps_of(layer)
    if steps is None:
        return None
    rows = kind.weights.values.astype(np.int64).reshape(kind.weights.shape[0], -1)
    found: list[Nearest | None] = []
    if any(reason is NO_ADC for reason in reasons):
        found.append(nearest_adc(steps, rows, adc_scale(ctx)))
    if any(reason is NO_SHIFT for reason in reasons):
        found.append(nearest_shift(steps, rows))
    best = min((one for one in found if one is not None), key=lambda one: one.error, default=None)
    if best is None:
        return None
    weights = Array(best.weights.reshape(kind.weights.shape))
    bits = 8 if weights != kind.weights else kind.weight_bits
    return replace(kind, weights=weights, weight_bits=bits, bias=None, requants=best.steps)


def _in_bytes(tensor: Tensor) -> Tensor:
    """Return the tensor as the target stores it: in whole bytes."""
    return replace(tensor, bits=max(tensor.bits, 8))
