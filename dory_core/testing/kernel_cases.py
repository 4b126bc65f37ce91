"""Cases that :mod:`kernels` runs: a kernel, a layer that it accepts, a tile and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dory_core.ir import Graph, Layer, Operator, Pairwise, Tensor, storage_for
from dory_core.ir.geometry import (
    extent,
    input_granule,
    make_tile,
    output_granule,
)
from dory_core.ir.kinds.operator import Sample
from dory_core.ir.ranges import infer_types
from dory_core.kernels.binding import rejection_of
from dory_core.kernels.kernel import Kernel

Values = npt.NDArray[np.int64]
_Kind = TypeVar("_Kind", bound=Operator)
_DRAWS = 50  # of tile sizes, until constraints allow them
_UNITS = (1, 1, 1, 2, 4, 8, 16)  # divisors of tile sizes, as in common constraints


@dataclass(frozen=True, slots=True)
class KernelCase:
    """A kernel, a layer that it accepts, values and a tile.

    Attributes:
        kernel: The kernel.
        layer: The layer.
        inputs: Values of the operands, shape (C, H, W).
        tile: Sizes (c_out, h, w, c_in); c_in is used when the kernel accumulates.
    """

    kernel: Kernel
    layer: Layer
    inputs: tuple[Values, ...]
    tile: tuple[int, int, int, int]

    @property
    def cores(self) -> int:
        """Number of cores that call the kernel: its attribute ``cores``, else 1."""
        return int(getattr(self.kernel, "cores", 1))

    @property
    def channels(self) -> int:
        """The input channels that tiles can split: all elements of the input of a Linear."""
        return extent(self.layer).c_in

    @property
    def label(self) -> str:
        """Kernel, layer and tile, for messages."""
        return f"{self.kernel.symbol(self.layer)}: {described(self.layer)}, tile {self.tile}"


def described(layer: Layer) -> str:
    """Return a description of a layer: kind, types, sizes, window, requantisations."""
    op = layer.op
    shapes = (f"{t.type_name} {t.channels}x{t.height}x{t.width}" for t in layer.inputs)
    y = layer.output
    text = f"{op.kind} {', '.join(shapes)} > {y.type_name} {y.channels}x{y.height}x{y.width}"
    for name in ("window", "groups", "counts_padding", "real", "operand_requants"):
        if hasattr(op, name):
            text += f", {name}={getattr(op, name)}"
    if getattr(op, "bias", None) is not None:
        text += ", with bias"
    steps = (
        f"div={s.div} lo={s.lo} hi={s.hi} mul={_few(s.mul)} add={_few(s.add)}"
        + (f" add_negative={_few(s.add_negative)} turn={s.turn}" if s.add_negative else "")
        for s in op.requants
    )
    return text + "".join(f", requant({step})" for step in steps)


def _few(values: Sequence[int]) -> str:
    return ",".join(map(str, values[:2])) + (",..." if len(values) > 2 else "")


def alone(kind: type[_Kind], **fields: Any) -> _Kind:
    """Return a single layer as a network: it reads ``input`` and writes ``layer_00``.

    Args:
        kind: Class of the layer; a class with two operands also reads ``input_1``.
        fields: Other parameters of the class.
    """
    inputs = ("input", "input_1") if issubclass(kind, Pairwise) else ("input",)
    given: dict[str, Any] = {"name": kind.__name__.lower(), "inputs": inputs, **fields}
    return kind(index=0, output="layer_00", **given)


def typed(layer: Operator, *inputs: tuple[int, int, int, int, int], packed: bool = False) -> Layer:
    """Return ``layer`` with its types; inputs are (C, H, W, lo, hi), named as the layer says.

    Args:
        layer: The layer.
        inputs: Shape and range (C, H, W, lo, hi) of each input.
        packed: True to store values in 2 or 4 bits where they fit, False for 8.

    Raises:
        NotSupported: When range analysis refuses the layer.
    """
    least = 2 if packed else 8

    def bits(lo: int, hi: int) -> int:
        return max(storage_for(lo, hi)[0], least)

    tensors = tuple(
        Tensor(name, c, h, w, lo, hi, bits(lo, hi), lo < 0)
        for name, (c, h, w, lo, hi) in zip(layer.inputs, inputs, strict=True)
    )
    found = infer_types("net", tensors, (layer,), (layer.output,)).layer(0)
    y = found.output
    if y.bits > 8 or bits(y.lo, y.hi) == y.bits:
        return found
    # Copies of elements have the storage of their source, also its sign: fewer bits need their own.
    return replace(found, output=replace(y, bits=bits(y.lo, y.hi), signed=y.lo < 0))


def sampled(kind: type[Operator], sample: Sample, name: str, packed: bool = False) -> Layer:
    """Return the layer of a sample. packed: as for :func:`typed`."""
    inputs = ("input", *(f"input_{n}" for n in range(1, len(sample.sources))))
    layer = kind(index=0, name=name, inputs=inputs, output="layer_00", **sample.fields)
    return typed(layer, *sample.sources, packed=packed)


def network_of(kind: type[Operator], sample: Sample, name: str) -> Graph:
    """Return a network of the layer of a sample."""
    layer = sampled(kind, sample, name)
    return infer_types(name, layer.inputs, (layer.op,), (layer.op.output,))


def values_of(tensor: Tensor, random: np.random.Generator) -> Values:
    """Return random values (C, H, W) of the whole range, including its ends."""
    values = random.integers(tensor.lo, tensor.hi + 1, tensor.shape, dtype=np.int64)
    edge = random.random(tensor.shape)
    values[edge < 0.05] = tensor.lo
    values[edge > 0.95] = tensor.hi
    return values


def make_case(
    kernel: Kernel,
    layer: Layer,
    random: np.random.Generator,
    granule: int = 1,
    constrained: bool = True,
) -> KernelCase:
    """Return a case with random values and random tile sizes, some of which are the whole axis.

    Args:
        kernel: The kernel.
        layer: A layer that it accepts.
        random: The random generator.
        granule: Divisor of the output channels of a tile.
        constrained: True for tiles that the kernel's constraints allow, False to add tiles that
            occur only at borders.
    """
    case = whole_case(kernel, layer, random)
    full, traits = extent(layer), kernel.traits(layer)
    if traits.in_place:
        return case
    layouts = [layout for layout in (*traits.inputs, traits.output) if not layout.is_hwc]
    multiples = (layout.channel_multiple for layout in layouts)
    together, step = int(np.lcm.reduce([output_granule(layer), granule])), input_granule(layer)
    together = int(np.lcm.reduce([together, *multiples]))

    def size(total: int, unit: int = 1) -> int:
        if random.random() < 0.4:
            return total
        unit *= int(random.choice(_UNITS)) if constrained else 1
        return min(int(random.integers(1, -(-total // unit) + 1)) * unit, total)

    for _ in range(_DRAWS):
        c_in = -(-full.c_in // (step * int(random.integers(1, 4)))) * step
        width = full.w if layouts else size(full.w)
        sizes = (size(full.c_out, together), size(full.h), width, min(c_in, full.c_in))
        splits = traits.accumulates and not layouts
        sizes = sizes if splits else (*sizes[:3], full.c_in)
        tile = make_tile(layer, *sizes[:3], sizes[3] if splits else None)
        if not constrained or all(c.condition for c in kernel.constraints(layer, tile)):
            return replace(case, tile=sizes)
    return case


def longest_case(kernel: Kernel, layer: Layer, random: np.random.Generator) -> KernelCase:
    """Return a case of one tile, or of random tiles where constraints forbid that one."""
    case = whole_case(kernel, layer, random)
    splits = kernel.traits(layer).accumulates
    tile = make_tile(layer, *case.tile[:3], case.tile[3] if splits else None)
    whole = all(c.condition for c in kernel.constraints(layer, tile))
    return case if whole else make_case(kernel, layer, random)


def takes(kernel: Kernel, layer: Layer) -> bool:
    """Return True when a kernel accepts a layer and has the features for it."""
    return rejection_of(kernel, layer) is None


def whole_case(
    kernel: Kernel,
    layer: Layer,
    inputs: np.random.Generator | tuple[Values, ...] | None = None,
) -> KernelCase:
    """Return a case of one tile; ``inputs`` are values (C, H, W), or a generator of them."""
    rejection = kernel.accepts(layer)
    assert rejection is None, f"{kernel.name} rejects {layer.op.name}: {rejection}"
    if not isinstance(inputs, tuple):
        random = np.random.default_rng(5) if inputs is None else inputs
        inputs = tuple(values_of(x, random) for x in layer.inputs)
    full = extent(layer)
    return KernelCase(kernel, layer, inputs, (full.c_out, full.h, full.w, full.c_in))
