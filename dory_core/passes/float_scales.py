"""Float scales: requantisations in binary32 become integer steps with the identical staircase."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dory_core.errors import NotSupported
from dory_core.ir import Array, Graph, Layer, LayerRanges, Operator, Requant, requant
from dory_core.ir.kinds.weighted import Weighted
from dory_core.ir.ranges import accumulator_bounds, infer_layer
from dory_core.ir.requantisation import integer_form, staircase


def integer_steps(graph: Graph) -> Graph:
    """Return ``graph`` with integer steps where they give the same for every accumulator.

    A step that stays in binary32 is computed by kernels that name it (``dory_core.ir.features``).
    """
    ops: list[Operator] = []
    ranges: list[LayerRanges] = []
    for layer in graph.layers:
        op, proven = layer.op, layer.ranges
        found = with_integer_step(layer)
        if found is not None:
            try:
                op, (_, proven) = found, infer_layer(found, graph.tensors)
            except NotSupported:  # an accumulator that has no room for the turning point
                op, proven = layer.op, layer.ranges
        ops.append(op)
        ranges.append(proven)
    if all(new is old for new, old in zip(ops, graph.ops, strict=True)):
        return graph
    return replace(graph, ops=tuple(ops), ranges=tuple(ranges))


def with_integer_step(layer: Layer) -> Operator | None:
    """Return the layer with one integer step, None without a float step or without such a step."""
    if len(layer.op.requants) != 1 or not layer.op.requants[0].float32:
        return None
    last = layer.op.requants[0]
    stairs = staircase((last,), *accumulator_bounds(layer.op, layer.inputs))
    found = None if stairs is None else integer_form(stairs)
    if found is None:
        return None
    mul, add, offset = found.mul, found.add, found.offset
    if found.add_negative is None or offset is None:
        step = requant(mul.tolist(), add.tolist(), 1 << found.shift, last.lo, last.hi)
        return replace(layer.op, requants=(step,))
    step = Requant(
        tuple(mul.tolist()),
        tuple(add.tolist()),
        1 << found.shift,
        last.lo,
        last.hi,
        tuple(found.add_negative.tolist()),
    )
    if isinstance(layer.op, Weighted):  # channels turn at their own points
        given = 0 if layer.bias is None else layer.bias.values.astype(np.int64)
        channels = layer.output.channels
        bias = Array(np.broadcast_to(given + offset, (channels,)).copy())
        return replace(layer.op, bias=bias, requants=(_normal(step),))
    if len(offset) > 1:
        return None
    return replace(layer.op, requants=(_normal(step.moved(before=-int(offset[0]))),))


def _normal(step: Requant) -> Requant:
    return requant(step.mul, step.add, step.div, step.lo, step.hi, step.add_negative, step.turn)
