"""Channels that cannot change: found by range analysis, removed exactly.

Training leaves channels that have one value whatever the input is, such as those that a ReLU clips
everywhere. What they add to later layers is a constant: it goes into the bias, and what no layer
reads any more is not computed. Tensors remember what they lost (``Tensor.removed``), so that dumps
and comparisons have all channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dory_core.hardware.options import KEEP_CONSTANT_CHANNELS
from dory_core.ir import Graph, Tensor
from dory_core.ir.bounds import Interval
from dory_core.ir.channels import stored_channels
from dory_core.ir.intervals import channel_intervals
from dory_core.ir.kinds.channels import Selection
from dory_core.ir.ranges import infer_layer
from dory_core.kernels.binding import Candidates, first_accepting
from dory_core.passes.channel_links import Kept

_BYTE = 8


def remove_constant_channels(
    graph: Graph, multiple: int, kernels: Candidates | None = None
) -> Graph:
    """Return the network without channels that are constant or that no layer reads.

    Network inputs, outputs and state keep their channels, and no layer goes. Of each other tensor a
    multiple of ``multiple`` channels stays, or all; of a narrow one whole groups of that many
    bytes. The notes of the new network say what is gone.

    Args:
        graph: The network.
        multiple: Granule of channels.
        kernels: Candidates of a layer; where the best one would take a layer no more, the layer
            keeps more channels.
    """
    before = graph
    while True:  # fewer channels may be cut where more of them could not, by a new shape
        after = _remove(graph, multiple, kernels)
        if after is graph:
            break
        graph = after
    return (
        before if graph is before else replace(graph, notes=(*before.notes, summary(before, graph)))
    )


def _remove(graph: Graph, multiple: int, kernels: Candidates | None) -> Graph:
    intervals = channel_intervals(graph)
    multiples = {
        name: multiple * max(_BYTE // tensor.bits, 1) for name, tensor in graph.tensors.items()
    }
    while True:
        masks = _masks(graph, intervals, multiples)
        if all(bool(mask.all()) for mask in masks.values()):
            return graph
        after = _without(graph, intervals, masks)
        worse = [] if kernels is None else _worse(graph, after, kernels)
        if not worse:
            return after
        for name in worse:
            multiples[name] *= 2


def _masks(
    graph: Graph, intervals: Mapping[str, Interval], multiples: Mapping[str, int]
) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which channels of each tensor stay."""
    kept = Kept.of(graph)
    filled = True
    while filled:
        kept.grow(graph, intervals)
        filled = kept.fill(graph, multiples, intervals)
    return {name: kept.mask(name) for name in graph.tensors}


def _without(
    graph: Graph,
    intervals: Mapping[str, Interval],
    masks: Mapping[str, npt.NDArray[np.bool_]],
) -> Graph:
    """Return the network with the channels that stay."""
    tensors = {
        name: _shortened(tensor, masks[name], intervals[name])
        for name, tensor in graph.tensors.items()
    }
    ops, ranges = list(graph.ops), list(graph.ranges)
    for position, layer in enumerate(graph.layers):
        op = layer.op
        selection = Selection(tuple(masks[n] for n in op.inputs), masks[op.output], intervals)
        if not selection.all:
            changes = {
                "requants": tuple(selection.of_step(step) for step in op.requants),
                **op.selected(selection, layer.inputs),
            }
            ops[position] = replace(op, **changes)
            ranges[position] = infer_layer(ops[position], tensors)[1]
    return replace(graph, ops=tuple(ops), ranges=tuple(ranges), tensors=tensors)


def _shortened(tensor: Tensor, mask: npt.NDArray[np.bool_], interval: Interval) -> Tensor:
    if mask.all():
        return tensor
    known = np.where(interval.constant, interval.lo - tensor.offset, 0)
    gone = [
        (int(stored_channels(tensor)[c]), int(known[c]) if interval.constant[c] else None)
        for c in np.flatnonzero(~mask)
    ]
    removed = tuple(sorted((*tensor.removed, *gone), key=lambda pair: pair[0]))
    return replace(tensor, channels=int(mask.sum()), removed=removed)


def _worse(before: Graph, after: Graph, kernels: Candidates) -> list[str]:
    """Return the tensors of layers which lost channels and with them the kernel they had."""
    found: list[str] = []
    for old, new in zip(before.layers, after.layers, strict=True):
        if new.op is old.op:
            continue
        rank = first_accepting(kernels(new), new)
        if first_accepting(kernels(old)[:rank], old) < rank:  # asks none that it would not take
            found += [t.name for t in (*new.inputs, new.output) if t.removed]
    return list(dict.fromkeys(found))


def summary(before: Graph, after: Graph) -> str:
    """Return a sentence that says which channels the pass removed."""
    changed = [t for name, t in after.tensors.items() if t.removed != before.tensors[name].removed]
    removed = [value for tensor in changed for _, value in tensor.removed]
    unread = removed.count(None)
    channels = sum(layer.output.channels for layer in before.layers)
    macs = [sum(layer.macs for layer in graph.layers) for graph in (before, after)]
    share = f", {macs[0] - macs[1]} of {macs[0]} MACs" if macs[0] > macs[1] else ""
    nobody = f", {unread} more are read by nobody" if unread else ""
    return (
        f"{len(removed)} of {channels} channels in {len(changed)} tensors are not computed{share}: "
        f"{len(removed) - unread} have the same value for every input{nobody}"
        f" (--set {KEEP_CONSTANT_CHANNELS.name}=yes computes them)"
    )
