"""Sums: residual sums of bytes that round three times become one line over both operands."""

from __future__ import annotations

from dataclasses import replace

from dory_core.ir import Add, Graph, LayerRanges, Operator
from dory_core.ir.ranges import infer_layer
from dory_core.ir.requantisation.pairs import with_pair_line


def simplify_sums(graph: Graph) -> Graph:
    """Return ``graph`` with cheaper arithmetic in sums that have two addends somewhere.

    The results are the same for every pair of values (``dory_core.ir.requantisation.pairs``). Where
    there is no such line, a layer stays as it is.
    """
    ops: list[Operator] = []
    ranges: list[LayerRanges] = []
    for layer in graph.layers:
        op, proven = layer.op, layer.ranges
        rounds = any(step.add_negative is not None for step in op.steps)
        found = with_pair_line(layer) if isinstance(op, Add) and rounds else None
        if found is not None:
            op, (_, proven) = found, infer_layer(found, graph.tensors)
        ops.append(op)
        ranges.append(proven)
    if all(new is old for new, old in zip(ops, graph.ops, strict=True)):
        return graph
    return replace(graph, ops=tuple(ops), ranges=tuple(ranges))
