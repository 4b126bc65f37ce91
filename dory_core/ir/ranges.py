"""Range analysis: shapes, reachable values, storage and arithmetic width of every layer.

All bounds follow from the input type and the actual weights. They prove that no accumulator leaves
32 bits in any order of accumulation, and decide whether a requantisation needs 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core import quoting
from dory_core.errors import NotSupported
from dory_core.ir import FileForm, Graph, LayerRanges, Requant, State, Tensor, ops, storage_for
from dory_core.ir.bounds import Accumulator, Bounds, bounds, one
from dory_core.ir.graph import check_states, value_range
from dory_core.ir.shapes import label, output_shape

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

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)

# Beyond what any accumulator holds, and within 64 bits.
_FAR = float(1 << 40)

# Without a requantisation these give their accumulator as 32 bits ...
_SUMS = ops.Conv | ops.ConvTranspose | ops.Linear | ops.AvgPool | ops.ArgMax
# ... and these elements of their inputs, stored as there.
_COPIES = (
    ops.MaxPool
    | ops.Maximum
    | ops.Minimum
    | ops.Concat
    | ops.Slice
    | ops.Pad
    | ops.Resize
    | ops.Transpose
    | ops.Reshape
)


def infer_types(
    name: str,
    inputs: tuple[Tensor, ...],
    layers: tuple[ops.Op, ...],
    outputs: tuple[str, ...],
    notes: tuple[str, ...] = (),
    reference: str = "",
    scales: Mapping[str, tuple[float, int]] | None = None,
    states: tuple[State, ...] = (),
) -> Graph:
    """Return the Graph of ``layers`` with the type and range of every tensor.

    A tensor behind a Clip has the range of the Clip, any other its reachable interval. A Conv,
    ConvTranspose, Linear or AvgPool without requantisation gives its 32-bit signed accumulator, as
    an ArgMax does; copies of elements are stored as the elements. scales: (scale,
    zero point) of computed tensors by name, where the format says them. inputs: all tensors that no
    layer computes, those of states included.

    Raises: NotSupported, naming the layer, when shapes do not fit, an accumulator may leave 32
    bits, or mul * acc + add may leave 64 bits.
    """
    tensors = {tensor.name: tensor for tensor in inputs}
    ranges = []
    for position, layer in enumerate(layers):
        if layer.index != position:
            raise ValueError(f"{label(layer)} has index {layer.index} at position {position}")
        if layer.output in tensors:
            raise ValueError(f"{label(layer)}: tensor '{layer.output}' is computed twice")
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

    names: of the outputs in the file. tensors: of the Graph, for each of them.
    """
    notes = []
    for tensor in dict.fromkeys(tensors):
        shared = [name for name, one in zip(names, tensors, strict=True) if one == tensor]
        if len(shared) > 1:
            quoted = ", ".join(f"'{quoting.shortened(quoting.visible(name))}'" for name in shared)
            notes.append(f"outputs of the file that are one output of the network: {quoted}")
    return tuple(notes)


def infer_layer(layer: ops.Op, tensors: Mapping[str, Tensor]) -> tuple[Tensor, LayerRanges]:
    """Return the output tensor of one layer and what is proven about it.

    tensors: those computed before, by name. Raises: NotSupported like :func:`infer_types`.
    """
    for name in layer.inputs:
        if name not in tensors:
            raise NotSupported(f"{label(layer)}: no layer before it computes its input '{name}'")
    sources = tuple(tensors[name] for name in layer.inputs)
    shape = output_shape(layer, sources)
    widths = _Widths(label(layer))
    acc = _accumulate(layer, sources, widths)
    if acc.partial_lo < INT32[0] or acc.partial_hi > INT32[1]:
        raise NotSupported(
            f"{label(layer)}: its accumulator may reach [{acc.partial_lo}, {acc.partial_hi}],"
            " beyond 32 bits",
            "split the layer, or quantise with fewer bits",
        )
    lo, hi = acc.lo, acc.hi
    for step in layer.requants:
        lo, hi = widths.apply(step, lo, hi)
    low, high = int(lo.min()), int(hi.max())
    try:
        bits, signed = storage_for(low, high)
    except OverflowError as error:
        raise NotSupported(f"{label(layer)}: its output exceeds 32 bits ({error})") from None
    if not layer.requants and isinstance(layer, _SUMS):
        bits, signed = 32, True
    elif not layer.requants and isinstance(layer, _COPIES):
        bits, signed = _storage_of_copies(sources, low, high)
    output = Tensor(layer.output, *shape, low, high, bits, signed)
    return output, LayerRanges(
        acc.partial_lo, acc.partial_hi, widths.bits, widths.value_lo, widths.value_hi
    )


def append_layer(
    layers: list[ops.Op],
    tensors: dict[str, Tensor],
    kind: type[ops.Op],
    name: str,
    inputs: Iterable[str],
    tensor: str = "",
    **fields: Any,
) -> str:
    """Append a layer to a network under construction, and its output to the tensors.

    name: of the layer, for people. tensor: the value of the file that it computes. fields: the
    others of ``kind``. Padding that the storage of the input does not hold is a layer of its own.
    Returns the name of the output. Raises: NotSupported like :func:`infer_types`.
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
    layers: list[ops.Op], tensors: dict[str, Tensor], window: ops.Window, name: str, source: str
) -> str:
    """Append the padding of a window as a layer; returns its output."""
    top, left, bottom, right = window.pads
    around: dict[str, Any] = {"before": (0, top, left), "after": (0, bottom, right)}
    around["value"] = window.pad_value
    return append_layer(layers, tensors, ops.Pad, f"Padding of {name}", (source,), **around)


def accumulator_bounds(
    layer: ops.Op, sources: tuple[Tensor, ...]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (lo, hi): the reachable interval of the accumulator that is requantised.

    Shape (C,), or (1,) when all channels have the same one; int64. A bias is included. sources:
    the tensors of ``layer.inputs``.
    """
    acc = _accumulate(layer, sources, _Widths(label(layer)))
    return acc.lo, acc.hi


def _storage_of_copies(sources: tuple[Tensor, ...], lo: int, hi: int) -> tuple[int, bool]:
    """Return the storage of the sources where they share one that holds [lo, hi]."""
    storages = {(source.bits, source.signed) for source in sources}
    low, high = value_range(*next(iter(storages)))
    if len(storages) == 1 and low <= lo and hi <= high:
        return storages.pop()
    return storage_for(lo, hi)


# --- values -----------------------------------------------------------------------------------


def _accumulate(layer: ops.Op, sources: tuple[Tensor, ...], widths: _Widths) -> Accumulator:
    source = sources[0]
    if isinstance(layer, ops.Conv | ops.Linear):
        return _dot_products(layer, source)
    if isinstance(layer, ops.MaxPool):
        return Accumulator(one(source.lo), one(source.hi), source.lo, source.hi)
    if isinstance(layer, ops.AvgPool):
        count = layer.window.taps
        if layer.real is not None:
            return _real_mean(layer.real, source, bool(any(layer.window.pads)))
        if layer.counts_padding:
            lo, hi = (end * count for end in _seen(layer, layer.window, source))
            return Accumulator(one(lo), one(hi), min(lo, 0), max(hi, 0))
        lo, hi = (end - layer.origin for end in (source.lo, source.hi))
        low, high = min(lo, source.lo, 0) * count, max(hi, source.hi, 0) * count
        return Accumulator(one(source.lo), one(source.hi), low, high)
    return bounds(layer, sources, widths.apply)


def _real_mean(real: ops.RealMean, source: Tensor, padded: bool) -> Accumulator:
    """Return bounds of a mean in binary32; rounding moves it by less than one."""
    factor = real.scale / real.out_scale
    ends = [(end - real.zero_point) * factor for end in (source.lo, source.hi)]
    ends += [0.0] if padded else []
    ends = [min(max(end, -_FAR), _FAR) for end in ends]
    lo, hi = floor(min(ends)) - 1 + real.out_zero, ceil(max(ends)) + 1 + real.out_zero
    return Accumulator(one(lo), one(hi), lo, hi)


def _seen(layer: ops.Op, window: ops.Window, source: Tensor) -> tuple[int, int]:
    """Return the range of the elements under a window, padding included."""
    if not any(window.pads):
        return source.lo, source.hi
    low, high = value_range(source.bits, source.signed)
    if not low <= window.pad_value <= high:
        raise NotSupported(
            f"{label(layer)}: it pads with {window.pad_value}, which {source.type_name} does not"
            " hold",
            "pad with a value that an element of the input can have",
        )
    return min(source.lo, window.pad_value), max(source.hi, window.pad_value)


def _dot_products(layer: ops.Conv | ops.Linear, source: Tensor) -> Accumulator:
    weights = layer.weights.values.reshape(layer.weights.shape[0], -1)
    positive = np.maximum(weights, 0).sum(axis=1, dtype=np.int64)
    negative = np.minimum(weights, 0).sum(axis=1, dtype=np.int64)
    bias = np.zeros(1, dtype=np.int64)
    if layer.bias is not None:
        bias = layer.bias.values.astype(np.int64)
        if int(bias.min()) < INT32[0] or int(bias.max()) > INT32[1]:
            raise NotSupported(f"{label(layer)}: its bias exceeds 32 bits")
    lo, hi = source.lo, source.hi
    if isinstance(layer, ops.Conv):
        lo, hi = _seen(layer, layer.window, source)
    low, high = min(lo, 0), max(hi, 0)
    return Accumulator(
        lo=positive * lo + negative * hi + bias,
        hi=positive * hi + negative * lo + bias,
        partial_lo=int((positive * low + negative * high + np.minimum(bias, 0)).min()),
        partial_hi=int((positive * high + negative * low + np.maximum(bias, 0)).max()),
    )


class _Widths:
    """Follows bounds through the requantisations of one layer and notes the widths needed."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.bits = 0
        self.value_lo = 0
        self.value_hi = 0

    def apply(self, step: Requant, lo: Bounds, hi: Bounds) -> tuple[Bounds, Bounds]:
        """Return the bounds behind ``step``; Raises: NotSupported when it may overflow."""
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
