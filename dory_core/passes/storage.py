"""Storage: in which of the target's widths every activation lies in memory.

The Graph of a frontend names the narrowest width that holds a tensor's values, whatever the chip.
A target has kernels that profit from some of these widths (``MemoryHierarchy.storage_bits``) and
perhaps kernels that take them in some places only. Both are settled here, once, before kernels are
bound: a width is never the reason for a layer to fall to a kernel of lower preference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from dory_core.ir import Graph, Layer, Tensor
from dory_core.kernels.binding import Candidates, first_accepting

_BYTE = 8


def choose_storage(graph: Graph, widths: Sequence[int], kernels: Candidates) -> Graph:
    """Return ``graph`` with the storage of every tensor chosen from ``widths``.

    It is the narrowest that is not narrower than before and with which no layer loses the kernel
    that it has when everything is stored in whole bytes. Where a layer would, those of its tensors
    are widened that cost the fewest bytes.

    Args:
        graph: The network.
        widths: In bits, rising, up to 32 (``MemoryHierarchy.storage_bits``).
        kernels: The candidates of a layer.
    """
    stored = {name: _stored(t, t.bits, widths) for name, t in graph.tensors.items()}
    stored |= _states_alike(graph, stored)
    if any(tensor.bits < _BYTE for tensor in stored.values()):
        whole = {name: _stored(t, max(t.bits, _BYTE), widths) for name, t in stored.items()}
        typed = replace(graph, tensors=whole).layers
        ranks = [first_accepting(kernels(layer), layer) for layer in typed]
        settled = False
        while not settled:  # a tensor that one layer widens may cost a neighbour its kernel
            settled = True
            for layer, rank in zip(typed, ranks, strict=True):
                widened = _widened(_with(layer, stored), rank, widths, kernels)
                settled = settled and not widened
                stored |= widened
                stored |= _states_alike(graph, stored)
    if stored == graph.tensors:
        return graph
    return replace(graph, tensors=stored)


def in_bytes(graph: Graph, widths: Sequence[int]) -> Graph:
    """Return ``graph`` with whole bytes for all activations but its inputs and outputs.

    Kernels that compute on bytes need not take tiles apart then, nor pack them. State that is also
    an input or an output stays as it is, at both ends.

    Args:
        graph: The network.
        widths: As for :func:`choose_storage`.
    """
    kept = {*graph.inputs, *graph.outputs}
    for state in graph.states:
        ends = {state.read, state.written}
        kept |= ends if ends & kept else set()
    wide = {
        name: _stored(tensor, _BYTE, widths)
        for name, tensor in graph.tensors.items()
        if tensor.bits < _BYTE and name not in kept
    }
    return replace(graph, tensors={**graph.tensors, **wide}) if wide else graph


def _states_alike(graph: Graph, stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return both tensors of each state in the wider storage of the two, where they differ."""
    found: dict[str, Tensor] = {}
    for state in graph.states:
        ends = (stored[state.read], stored[state.written])
        bits = max(tensor.bits for tensor in ends)
        found |= {t.name: replace(t, bits=bits) for t in ends if t.bits < bits}
    return found


def _stored(tensor: Tensor, least: int, widths: Sequence[int]) -> Tensor:
    bits = next(width for width in widths if width >= least)
    return tensor if bits == tensor.bits else replace(tensor, bits=bits)


def _with(layer: Layer, tensors: Mapping[str, Tensor]) -> Layer:
    """Return the layer with other storage of its tensors."""
    inputs = tuple(tensors[t.name] for t in layer.inputs)
    return replace(layer, inputs=inputs, output=tensors[layer.output.name])


def _widened(
    layer: Layer, rank: int, widths: Sequence[int], kernels: Candidates
) -> dict[str, Tensor]:
    """Return the tensors that give a layer its kernel back; none when it has not lost it.

    The candidates of a layer may depend on its storage; those in one place of the list are forms of
    one kernel.
    """

    def keeps(one: Layer) -> bool:
        return first_accepting(kernels(one), one) <= rank

    if keeps(layer):
        return {}
    return next(t for t in _wider(layer, widths) if keeps(_with(layer, t)))


def _wider(layer: Layer, widths: Sequence[int]) -> Iterator[dict[str, Tensor]]:
    """Yield the tensors of a layer with some of them widened up to bytes, fewest bytes first.

    The last one has whole bytes everywhere.
    """
    tensors = {t.name: t for t in (*layer.inputs, layer.output)}
    choices = [
        [t, *(replace(t, bits=bits) for bits in widths if t.bits < bits <= _whole(t, widths))]
        for t in tensors.values()
    ]
    found = [dict(zip(tensors, choice, strict=True)) for choice in product(*choices)]
    yield from sorted(found, key=lambda one: sum(t.size_bytes for t in one.values()))[1:]


def _whole(tensor: Tensor, widths: Sequence[int]) -> int:
    return _stored(tensor, max(tensor.bits, _BYTE), widths).bits
