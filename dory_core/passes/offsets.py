"""Offsets: signed bytes that are stored as unsigned ones, 128 higher.

Formats whose zero stands for another value than 0 pad with that value. In networks of bytes it is
-128 behind nearly every activation, which as an unsigned byte is 0: what kernels pad with. Elements
then are the values of the file plus 128. Everything that reads or writes them is rewritten exactly.
Where the kernels of a target take such padding as it is, nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from dory_core.errors import NotSupported
from dory_core.ir import (
    Array,
    AvgPool,
    Concat,
    Conv,
    ConvTranspose,
    Graph,
    LayerRanges,
    Linear,
    Lut,
    MaxPool,
    Op,
    Pad,
    Pairwise,
    Requant,
    Reshape,
    Slice,
    Softmax,
    Tensor,
    Transpose,
    requant,
)
from dory_core.ir.ranges import infer_layer
from dory_core.kernels.binding import Candidates, first_accepting

#: What is added: signed bytes become unsigned ones.
OFFSET = 128

_BYTE = 8
# Kinds whose output has the elements of their inputs, and so their offset.
_ALIKE = (Concat, Pad, Slice, Reshape, Transpose)
_KNOWN = (Conv, ConvTranspose, Linear, MaxPool, AvgPool, Pairwise, Lut, Softmax, *_ALIKE)


def choose_offsets(graph: Graph, kernels: Candidates) -> Graph:
    """Return ``graph`` with bytes stored as unsigned ones where that gives layers better kernels.

    Tried are the inputs of layers that pad with -128, and all tensors that may be stored so. What
    gives the layers the kernels of highest preference is taken, with the fewest changes. Inputs,
    outputs and state of the network stay as they are in the file.
    """
    padded = {op.inputs[0] for op in graph.ops if _pads(op) == -OFFSET}
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

    names: tensors that only operators of known kinds read and write, no inputs or outputs of the
    network, and all or none of those that must have one offset.
    """
    offsets = dict.fromkeys(names, offset)
    tensors = {name: graph.tensors[name] for name in graph.sources}
    ops: list[Op] = []
    ranges: list[LayerRanges] = []
    for op in graph.ops:
        moved = _moved(op, offsets, tensors)
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


def _pads(op: Op) -> int:
    """Return the value that a layer pads with, 0 where it has no padding."""
    if isinstance(op, Conv) or (isinstance(op, AvgPool) and op.counts_padding):
        return op.window.pad_value if any(op.window.pads) else 0
    return 0


def _rank(graph: Graph, kernels: Candidates) -> int:
    """Return how many preferred kernels the layers do without, in whole bytes."""
    whole = {n: replace(t, bits=max(t.bits, _BYTE)) for n, t in graph.tensors.items()}
    layers = replace(graph, tensors=whole).layers
    return sum(first_accepting(kernels(layer), layer) for layer in layers)


def _groups(graph: Graph) -> list[set[str]]:
    """Return the sets of tensors that may be stored with an offset, each set alone."""
    groups = {name: {name} for name in graph.tensors}
    for op in graph.ops:
        if isinstance(op, _ALIKE) or (isinstance(op, MaxPool) and not op.requants):
            joined = set().union(*(groups[name] for name in (*op.inputs, op.output)))
            groups.update(dict.fromkeys(joined, joined))
    fixed = {*graph.sources, *graph.sinks}
    for op in graph.ops:
        if not isinstance(op, _KNOWN):
            fixed.update((*op.inputs, op.output))
        elif not op.requants and not isinstance(op, (*_ALIKE, MaxPool, Lut)):
            fixed.add(op.output)
    unique = {id(group): group for group in groups.values()}
    return [
        group
        for group in unique.values()
        if not group & fixed and all(_is_signed_byte(graph.tensors[name]) for name in group)
    ]


def _is_signed_byte(tensor: Tensor) -> bool:
    return tensor.signed and tensor.bits == _BYTE and not tensor.offset


def _moved(op: Op, offsets: Mapping[str, int], tensors: Mapping[str, Tensor]) -> Op:
    """Return ``op`` for elements that are higher by ``offsets`` of their tensors, by name."""
    before = tuple(offsets.get(name, 0) for name in op.inputs)
    after = offsets.get(op.output, 0)
    if not any(before) and not after:
        return op
    if isinstance(op, Conv):
        window = replace(op.window, pad_value=op.window.pad_value + before[0])
        steps, bias = _steps(op.requants, 0, after), _bias(op, before[0])
        return replace(op, window=window, bias=bias, requants=steps)
    if isinstance(op, Linear):
        return replace(op, bias=_bias(op, before[0]), requants=_steps(op.requants, 0, after))
    if isinstance(op, AvgPool):
        each = before[0]
        if op.real is not None:
            real = replace(op.real, zero_point=op.real.zero_point + each)
            return replace(op, real=real, requants=_steps(op.requants, 0, after))
        if not op.counts_padding:
            steps = _steps(op.requants, each, after)
            return replace(op, requants=steps, origin=op.origin + each)
        window = replace(op.window, pad_value=op.window.pad_value + each)
        steps = _steps(op.requants, each * op.window.taps, after)
        return replace(op, window=window, requants=steps)
    if isinstance(op, Pairwise):
        pairs = zip(op.operand_requants, (*before, 0), strict=False)
        first, second = (_operand(step, each) for step, each in pairs)
        steps = _steps(op.requants, 0, after)
        return replace(op, operand_requants=(first, second), requants=steps)
    if isinstance(op, Lut):
        table = np.roll(op.table.values.astype(np.int64), before[0], axis=-1)
        return replace(op, table=Array(table + after))
    if isinstance(op, ConvTranspose):
        zero_point = op.zero_point + before[0]
        return replace(op, zero_point=zero_point, requants=_steps(op.requants, 0, after))
    if isinstance(op, Softmax):  # only differences of its inputs matter
        return replace(op, requants=_steps(op.requants, 0, after))
    if isinstance(op, Pad):
        return replace(op, value=op.value + before[0])
    if isinstance(op, MaxPool) and op.requants:
        return replace(op, requants=_steps(op.requants, before[0], after))
    return replace(op)


def _steps(steps: tuple[Requant, ...], before: int, after: int) -> tuple[Requant, ...]:
    """Return steps for an accumulator higher by ``before``, whose result is higher by ``after``."""
    if not steps:
        return (requant(1, -before),) if before else ()
    first = (steps[0].moved(before), *steps[1:])
    return (*first[:-1], first[-1].moved(0, after))


def _operand(step: Requant | None, before: int) -> Requant | None:
    """Return the step of an operand that is higher by ``before``."""
    if not before:
        return step
    moved = (requant() if step is None else step).moved(before)
    return None if moved.is_identity else moved


def _bias(op: Conv | Linear, before: int) -> Array | None:
    """Return the bias that takes back what the inputs of a layer are higher by."""
    if not before:
        return op.bias
    weights = op.weights.values.astype(np.int64)
    bias = -before * weights.reshape(len(weights), -1).sum(axis=1)
    return Array(bias if op.bias is None else bias + op.bias.values)
