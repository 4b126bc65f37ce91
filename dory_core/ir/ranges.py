"""Range analysis: shapes, reachable values, storage and arithmetic width of every layer.

All bounds follow from the input type and the actual weights. They prove that no accumulator leaves
32 bits in any order of accumulation, unless it may (``Operator.sum_bits``), and decide whether a
requantisation needs 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core import quoting
from dory_core.errors import NotSupported
from dory_core.ir import FileForm, Graph, LayerRanges, Requant, State, Tensor, ops, storage_for
from dory_core.ir.bounds import INT32, Bounds, one
from dory_core.ir.graph import check_states
from dory_core.ir.kinds.operator import Bare, Operator
from dory_core.ir.tensor import Shape, value_range

__all__ = [
    "FileForm",
    "LayerRanges",
    "append_layer",
    "infer_layer",
    "infer_types",
    "shared_outputs",
    "storage_for",
    "value_range",
]

INT64 = (-(2**63), 2**63 - 1)


def infer_types(
    name: str,
    inputs: tuple[Tensor, ...],
    layers: tuple[Operator, ...],
    outputs: tuple[str, ...],
    notes: tuple[str, ...] = (),
    reference: str = "",
    scales: Mapping[str, tuple[float, int]] | None = None,
    states: tuple[State, ...] = (),
) -> Graph:
    """Return the Graph of ``layers`` with the type and range of every tensor.

    A tensor after a Clip has the range of the Clip, any other its reachable interval. Sums without
    requantisation give their 32-bit signed accumulator; copies of elements are stored as the
    elements (``Operator.bare``).

    Args:
        name: Of the network.
        inputs: All tensors that no layer computes, those of states included.
        layers: In an order in which each one follows those that it reads.
        outputs: Names of the result tensors.
        notes: As in the Graph.
        reference: As in the Graph.
        scales: (scale, zero point) of computed tensors by name, where the format says them.
        states: What lives between inferences.

    Raises:
        NotSupported: Naming the layer, when shapes do not fit, an accumulator may leave 32 bits, or
            mul * acc + add may leave 64 bits.
    """
    tensors = {tensor.name: tensor for tensor in inputs}
    ranges = []
    for position, layer in enumerate(layers):
        if layer.index != position:
            raise ValueError(f"{layer.label} has index {layer.index} at position {position}")
        if layer.output in tensors:
            raise ValueError(f"{layer.label}: tensor '{layer.output}' is computed twice")
        output, proven = infer_layer(layer, tensors)
        if scales and layer.output in scales:
            scale, zero_point = scales[layer.output]
            output = replace(output, scale=scale, zero_point=zero_point)
        tensors[layer.output] = output
        ranges.append(proven)
    missing = [output for output in outputs if output not in tensors]
    if missing:
        raise ValueError(f"output '{missing[0]}' is computed by no layer")
    reads = {state.read for state in states}
    graph = Graph(
        name=name,
        inputs=tuple(tensor.name for tensor in inputs if tensor.name not in reads),
        outputs=outputs,
        ops=layers,
        tensors=tensors,
        ranges=tuple(ranges),
        notes=notes,
        reference=reference,
        states=states,
    )
    check_states(graph)
    return graph


def shared_outputs(names: Sequence[str], tensors: Sequence[str]) -> tuple[str, ...]:
    """Return notes about outputs of the file that one tensor of the Graph serves.

    Args:
        names: Of the outputs in the file.
        tensors: Of the Graph, for each of them.
    """
    notes = []
    for tensor in dict.fromkeys(tensors):
        shared = [name for name, one in zip(names, tensors, strict=True) if one == tensor]
        if len(shared) > 1:
            quoted = ", ".join(f"'{quoting.shortened(quoting.visible(name))}'" for name in shared)
            notes.append(f"outputs of the file that are one output of the network: {quoted}")
    return tuple(notes)


def output_shape(layer: Operator, sources: Sequence[Tensor]) -> Shape:
    """Return (C, H, W) of the output of a layer.

    Raises:
        NotSupported: Naming the layer, when its parameters do not fit the sources.
    """
    expected, count = layer.operands, len(sources)
    if expected is None and count < 1:
        raise layer.refused("it has no input")
    if expected not in (None, count):
        raise layer.refused(f"{count} inputs, expected {expected}")
    shape = layer.output_shape(sources)
    if min(shape) < 1:
        raise layer.refused(f"its output has the shape {shape}")
    for step in layer.steps:
        for name, values in zip(("mul", "add", "add_negative"), step.parameters, strict=False):
            if len(values) not in (1, shape[0]):
                raise layer.refused(f"{len(values)} values of {name} for {shape[0]} channels")
    return shape


def infer_layer(layer: Operator, tensors: Mapping[str, Tensor]) -> tuple[Tensor, LayerRanges]:
    """Return the output tensor of one layer and what is proven about it.

    Args:
        layer: The layer.
        tensors: Those computed before, by name.

    Raises:
        NotSupported: As for :func:`infer_types`.
    """
    for name in layer.inputs:
        if name not in tensors:
            raise NotSupported(f"{layer.label}: no layer before it computes its input '{name}'")
    sources = tuple(tensors[name] for name in layer.inputs)
    shape = output_shape(layer, sources)
    widths = _Widths(layer.label)
    acc = layer.accumulator(sources, widths.apply)
    limit = 1 << layer.sum_bits - 1
    if acc.partial_lo < -limit or acc.partial_hi >= limit:
        raise NotSupported(
            f"{layer.label}: its accumulator may reach [{acc.partial_lo}, {acc.partial_hi}],"
            f" beyond {layer.sum_bits} bits",
            "split the layer, or quantise with fewer bits",
        )
    lo, hi = acc.lo, acc.hi
    for step in layer.requants:
        lo, hi = widths.apply(step, lo, hi)
    low, high = int(lo.min()), int(hi.max())
    try:
        bits, signed = storage_for(low, high)
    except OverflowError as error:
        raise NotSupported(f"{layer.label}: its output exceeds 32 bits ({error})") from None
    if not layer.requants and layer.bare is Bare.ACCUMULATOR:
        bits, signed = 32, True
    elif not layer.requants and layer.bare is Bare.AS_INPUTS:
        bits, signed = _storage_of_copies(sources, low, high)
    output = Tensor(layer.output, *shape, low, high, bits, signed)
    return output, LayerRanges(
        acc.partial_lo, acc.partial_hi, widths.bits, widths.value_lo, widths.value_hi
    )


def append_layer(
    layers: list[Operator],
    tensors: dict[str, Tensor],
    kind: type[Operator],
    name: str,
    inputs: Iterable[str],
    tensor: str = "",
    **fields: Any,
) -> str:
    """Append a layer to a network under construction, and its output to the tensors.

    Padding that the storage of the input does not hold becomes a layer of its own.

    Args:
        layers: Those before; the new one is appended.
        tensors: Their tensors by name; the new one is added.
        kind: Class of the operator.
        name: Of the layer, for people.
        inputs: Names of the tensors that it reads.
        tensor: The value of the file that it computes.
        **fields: The other fields of ``kind``.

    Returns:
        The name of the output.

    Raises:
        NotSupported: As for :func:`infer_types`.
    """
    window: Any = fields.get("window")
    if kind is ops.Conv or (kind is ops.AvgPool and fields.get("counts_padding", True)):
        (source,) = inputs = tuple(inputs)
        if source in tensors and not _holds_padding(window, tensors[source]):
            inputs = (_append_padding(layers, tensors, window, name, source),)
            fields["window"] = replace(window, pads=(0, 0, 0, 0), pad_value=0)
    output = f"layer_{len(layers):02d}"
    layer = kind(
        index=len(layers), name=name, inputs=tuple(inputs), output=output, tensor=tensor, **fields
    )
    tensors[output], _ = infer_layer(layer, tensors)
    layers.append(layer)
    return output


def _holds_padding(window: ops.Window, source: Tensor) -> bool:
    low, high = value_range(source.bits, source.signed)
    return not any(window.pads) or low <= window.pad_value <= high


def _append_padding(
    layers: list[Operator], tensors: dict[str, Tensor], window: ops.Window, name: str, source: str
) -> str:
    """Append the padding of a window as a layer; returns its output."""
    top, left, bottom, right = window.pads
    around: dict[str, Any] = {"before": (0, top, left), "after": (0, bottom, right)}
    around["value"] = window.pad_value
    return append_layer(layers, tensors, ops.Pad, f"Padding of {name}", (source,), **around)


def accumulator_bounds(
    layer: Operator, sources: tuple[Tensor, ...]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (lo, hi): the reachable interval of the accumulator that is requantised.

    Shape (C,), or (1,) when all channels have the same one; int64. A bias is included.

    Args:
        layer: The layer.
        sources: The tensors of ``layer.inputs``.
    """
    acc = layer.accumulator(sources, _Widths(layer.label).apply)
    return acc.lo, acc.hi


def _storage_of_copies(sources: tuple[Tensor, ...], lo: int, hi: int) -> tuple[int, bool]:
    """Return the storage of the sources where they share one that holds [lo, hi]."""
    storages = {(source.bits, source.signed) for source in sources}
    low, high = value_range(*next(iter(storages)))
    if len(storages) == 1 and low <= lo and hi <= high:
        return storages.pop()
    return storage_for(lo, hi)


class _Widths:
    """Follows bounds through the requantisations of one layer and notes the widths needed."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.bits = 0
        self.value_lo = 0
        self.value_hi = 0

    def apply(self, step: Requant, lo: Bounds, hi: Bounds) -> tuple[Bounds, Bounds]:
        """Return the bounds after ``step``.

        Raises:
            NotSupported: When it may overflow.
        """
        if step.float32:
            assert step.lo is not None and step.hi is not None
            self.bits = 64
            return one(step.lo), one(step.hi)
        largest = max(abs(int(lo.min())), abs(int(hi.max())), 1)
        product = largest * max(abs(m) for m in step.mul)
        addends = [a for values in step.addends for a in values]
        value = product + max(abs(a) for a in addends)
        exact: type = np.int64 if value <= INT64[1] else object
        mul: Bounds = np.array(step.mul, dtype=exact)
        ends: tuple[Bounds, Bounds] = (lo.astype(exact) * mul, hi.astype(exact) * mul)
        products = np.minimum(*ends), np.maximum(*ends)
        reached = [
            x * mul + add for x, add in _ends_by_sign(step, lo.astype(exact), hi.astype(exact))
        ]
        values = np.min(reached, axis=0), np.max(reached, axis=0)
        value_lo, value_hi = int(values[0].min()), int(values[1].max())
        if value_lo <= INT64[0] or value_hi > INT64[1]:
            raise NotSupported(
                f"{self.label}: mul * acc + add may reach [{quoting.number(value_lo)},"
                f" {quoting.number(value_hi)}], beyond 64 bits",
                "export with a smaller requantisation factor",
            )
        if step.div > INT64[1]:
            raise NotSupported(
                f"{self.label}: it divides by {quoting.number(step.div)}, beyond 64 bits",
                "export with a smaller divisor",
            )
        first = self.bits == 0
        self.value_lo = value_lo if first else min(self.value_lo, value_lo)
        self.value_hi = value_hi if first else max(self.value_hi, value_hi)
        low = min(*step.mul, *addends, int(products[0].min()), value_lo)
        high = max(*step.mul, *addends, int(products[1].max()), value_hi, step.div)
        fits = INT32[0] <= low and high <= INT32[1]
        self.bits = max(self.bits, 32 if fits else 64)
        if step.lo is not None and step.hi is not None:
            bounds = one(step.lo), one(step.hi)
        else:
            bounds = values[0] // step.div, values[1] // step.div
        out_lo, out_hi = int(bounds[0].min()), int(bounds[1].max())
        if out_lo < INT32[0] or out_hi > INT32[1]:
            raise NotSupported(
                f"{self.label}: a requantised value may reach [{out_lo}, {out_hi}], beyond 32 bits",
                "export with a Clip or a larger divisor",
            )
        return bounds[0].astype(np.int64), bounds[1].astype(np.int64)


def _ends_by_sign(step: Requant, lo: Bounds, hi: Bounds) -> Iterator[tuple[Bounds, Bounds]]:
    """Yield (acc, addend) of the accumulators where a step has its extreme values, per channel.

    Each addend has an interval of its own; where a channel does not reach it, a value of the other
    one stands in.
    """
    add, *other = (np.array(values, dtype=lo.dtype) for values in step.addends)
    if not other:
        yield lo, add
        yield hi, add
        return
    (negative,) = other
    for end in (lo, np.minimum(hi, step.turn - 1), np.maximum(lo, step.turn), hi):
        acc = np.clip(end, lo, hi)
        yield acc, np.where(acc < step.turn, negative, add)
