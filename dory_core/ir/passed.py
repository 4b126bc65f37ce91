"""Outputs of a network that are its inputs: a layer copies each, so that layers make all."""

from __future__ import annotations

from dataclasses import replace

from dory_core.ir.graph import Graph
from dory_core.ir.ops import Operator, Reshape
from dory_core.ir.ranges import infer_layer


def copy_passed_inputs(graph: Graph) -> Graph:
    """Return a network in which no output is an input: such outputs are copies."""
    for name in graph.outputs:
        if name in graph.inputs:
            graph = _copied(graph, name)
    return graph


def is_copy_of_input(graph: Graph, op: Operator) -> bool:
    """Return True when a layer is a copy that :func:`copy_passed_inputs` has appended."""
    return isinstance(op, Reshape) and op.inputs == (op.tensor,) and op.tensor in graph.inputs


def _copied(graph: Graph, name: str) -> Graph:
    position = len(graph.ops)
    output = f"layer_{position:02d}"
    while output in graph.tensors:  # an input of the file is called so
        output += "_"
    source = graph.tensors[name]
    copy = Reshape(
        index=position,
        name=f"Copy of {name}",
        inputs=(name,),
        output=output,
        tensor=name,
        shape=source.shape,
    )
    _, proven = infer_layer(copy, graph.tensors)
    forms = {output: graph.forms[name]} if name in graph.forms else {}
    return replace(
        graph,
        outputs=tuple(output if one == name else one for one in graph.outputs),
        ops=(*graph.ops, copy),
        tensors={**graph.tensors, output: replace(source, name=output)},
        ranges=(*graph.ranges, proven),
        notes=(*graph.notes, f"the network output '{output}' is a copy of the input '{name}'"),
        forms={**graph.forms, **forms},
    )
