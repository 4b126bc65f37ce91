"""Offsets: signed bytes that are stored as unsigned ones, 128 higher.

Formats whose zero stands for another value than 0 pad with that value. In networks of bytes it is
-128 after nearly every activation, which as an unsigned byte is 0: what kernels pad with. Elements
then are the values of the file plus 128. Everything that reads or writes them is rewritten exactly.
Where the kernels of a target take such padding as it is, nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dory_core.errors import NotSupported
from dory_core.ir import Graph, LayerRanges, Operator, Tensor
from dory_core.ir.kinds.operator import Offsets
from dory_core.ir.ranges import infer_layer
from dory_core.kernels.binding import Candidates, first_accepting

#: What is added: signed bytes become unsigned ones.
OFFSET = 128

_BYTE = 8


def choose_offsets(graph: Graph, kernels: Candidates) -> Graph:
    """Return ``graph`` with bytes stored as unsigned ones where that gives layers better kernels.

    Tried are the inputs of layers that pad with -128, and all tensors that may be stored so. What
    gives the layers the kernels of highest preference is taken, with the fewest changes. Inputs,
    outputs and state of the network stay as they are in the file.
    """
    padded = {op.inputs[0] for op in graph.ops if op.padding == -OFFSET}
    if not padded:
        return graph
    groups = _groups(graph)
    minimal = {name for group in groups if group & padded for name in group}
    if not minimal:
        return graph
    every = {name for group in groups for name in group}
    best, rank = graph, _rank(graph, kernels)
    for names in (minimal, every):
        try:
            moved = with_offsets(graph, names)
        except NotSupported:  # an accumulator that has no room for it
            continue
        found = _rank(moved, kernels)
        if found < rank:
            best, rank = moved, found
    return best


def with_offsets(graph: Graph, names: Iterable[str], offset: int = OFFSET) -> Graph:
    """Return ``graph`` with elements of the named tensors higher by ``offset``, values unchanged.

    Args:
        graph: The network.
        names: Tensors that only operators of known kinds read and write, no inputs or outputs of
            the network, and all or none of those that must have one offset.
        offset: What is added to the elements.
    """
    offsets = dict.fromkeys(names, offset)
    tensors = {name: graph.tensors[name] for name in graph.sources}
    ops: list[Operator] = []
    ranges: list[LayerRanges] = []
    for op in graph.ops:
        moved = _moved(op, offsets)
        known = graph.tensors[op.output]
        output, proven = known, graph.ranges[len(ops)]
        if moved is not op:
            output, proven = infer_layer(moved, tensors)
            more = known.offset + offsets.get(op.output, 0)
            output = replace(
                known,
                lo=output.lo,
                hi=output.hi,
                bits=output.bits,
                signed=output.signed,
                offset=more,
            )
        tensors[op.output] = output
        ops.append(moved)
        ranges.append(proven)
    return replace(graph, ops=tuple(ops), tensors=tensors, ranges=tuple(ranges))


def _rank(graph: Graph, kernels: Candidates) -> int:
    """Return how many preferred kernels the layers do without, in whole bytes."""
    whole = {n: replace(t, bits=max(t.bits, _BYTE)) for n, t in graph.tensors.items()}
    layers = replace(graph, tensors=whole).layers
    return sum(first_accepting(kernels(layer), layer) for layer in layers)


def _groups(graph: Graph) -> list[frozenset[str]]:
    """Return the sets of tensors that may be stored with an offset, each set by itself."""
    groups = {name: frozenset({name}) for name in graph.tensors}
    for op in graph.ops:
        if op.offsets is Offsets.SHARED:
            joined = frozenset().union(*(groups[name] for name in (*op.inputs, op.output)))
            groups.update(dict.fromkeys(joined, joined))
    fixed = {*graph.sources, *graph.sinks}
    for op in graph.ops:
        if op.offsets is Offsets.NONE:
            fixed.update((*op.inputs, op.output))
        elif op.offsets is Offsets.INPUTS:
            fixed.add(op.output)
    return [
        group
        for group in dict.fromkeys(groups.values())
        if not group & fixed and all(_is_signed_byte(graph.tensors[name]) for name in group)
    ]


def _is_signed_byte(tensor: Tensor) -> bool:
    return tensor.signed and tensor.bits == _BYTE and not tensor.offset


def _moved(op: Operator, offsets: Mapping[str, int]) -> Operator:
    """Return ``op`` for elements that are higher by ``offsets`` of their tensors, by name."""
    before = tuple(offsets.get(name, 0) for name in op.inputs)
    after = offsets.get(op.output, 0)
    return op.moved(before, after) if any(before) or after else op
