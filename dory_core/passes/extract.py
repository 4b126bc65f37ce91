"""One layer as a network of its own (``dory --layer N``)."""

from __future__ import annotations

from dataclasses import replace

from dory_core.errors import UsageError
from dory_core.ir import Graph


def extract_layer(graph: Graph, index: int) -> Graph:
    """Return the Graph that consists only of layer ``index``; its inputs become network inputs.

    The layer keeps its index, so dumps and goldens keep their names.

    Raises:
        UsageError: When there is no such layer.
    """
    position = next((n for n, layer in enumerate(graph.ops) if layer.index == index), None)
    if position is None:
        raise UsageError(
            f"{graph.name} has no layer {index}",
            f"layers are numbered in the order of the file, 0 to {len(graph.ops) - 1}",
        )
    op = graph.ops[position]
    names = tuple(dict.fromkeys(op.inputs))
    return replace(
        graph,
        name=f"{graph.name}_layer_{index:02d}",
        inputs=names,
        outputs=(op.output,),
        ops=(op,),
        tensors={name: graph.tensors[name] for name in (*names, op.output)},
        ranges=(graph.ranges[position],),
        states=(),
    )
