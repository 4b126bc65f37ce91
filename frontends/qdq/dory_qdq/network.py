"""The Graph under construction: layers, and how values of the file lie in its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from dory_core.api import NotSupported, Tensor, ops
from dory_core.importing import ranges, rearrange
from dory_qdq.grids import refined
from dory_qdq.numerics import Floats, Integers, Quantisation
from dory_qdq.values import FloatInput, Grid, Place, Shape

Triple = tuple[int, int, int]
#: Axis of (C, H, W) of every dimension; None for dimensions of size 1.
Axes = tuple[int | None, ...]

#: Axes of a tensor in the order of memory, the slowest one first.
MEMORY_ORDER = (1, 2, 0)
_STANDARD: Mapping[int, Axes] = MappingProxyType(
    {
        0: (),
        1: (0,),
        2: (None, 0),
        3: (None, 0, 2),
        4: (None, 0, 1, 2),
    }
)


def standard_axes(shape: Shape) -> Axes | None:
    """Return how (N, C, H, W), (N, C, W) or (N, C) lie in (C, H, W); None for other shapes."""
    axes = _STANDARD.get(len(shape))
    if axes is None or any(
        size > 1 for size, axis in zip(shape, axes, strict=True) if axis is None
    ):
        return None
    return axes


def file_order(place: Place) -> Triple:
    """Return the axes of a tensor in the order of the file, the slowest one first."""
    free = [axis for axis in range(3) if axis not in place.order]
    first, second, third = free + list(place.order)
    return first, second, third


class Network:
    """Layers in order, with the types of their tensors. opset: of the file's operators."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.ops: list[ops.Operator] = []
        self.inputs: list[str] = []
        self.shared: set[str] = set()  # inputs whose places several values of the file hold
        self.tensors: dict[str, Tensor] = {}
        self.scales: dict[str, tuple[float, int]] = {}
        self.channel_scales: dict[str, tuple[float, ...]] = {}
        self.notes: list[str] = []
        self.forms: dict[str, ranges.FileForm] = {}
        self.moved: dict[tuple[Place, Axes], str] = {}  # values that lie otherwise in a tensor

    def add_input(self, name: str, shape: Shape, x: Quantisation, axes: Axes) -> Place:
        """Add a network input whose dimensions lie along ``axes``."""
        sizes = [1, 1, 1]
        for size, axis in zip(shape, axes, strict=True):
            if axis is not None:
                sizes[axis] = size
        tensor = Tensor(name, *sizes, *x.bounds, 8, x.signed, x.scale, x.zero_point)
        self.inputs.append(name)
        self.tensors[name] = tensor
        return self.placed(name, shape, axes)

    def placed(self, tensor: str, shape: Shape, axes: Axes) -> Place:
        """Return the place of a value whose dimensions lie along ``axes``."""
        sizes = self.tensors[tensor].shape
        order = tuple(axis for axis in axes if axis is not None and sizes[axis] > 1)
        return Place(tensor, shape, order)

    def grid(self, place: Place) -> Grid:
        """Return how the elements of a value lie in memory."""
        if place.grid is not None:
            return place.grid
        sizes = self.tensors[place.tensor].shape
        order = tuple(MEMORY_ORDER.index(axis) for axis in file_order(place))
        return Grid(tuple(sizes[axis] for axis in MEMORY_ORDER), order)

    def _gathered(self, place: Place, axes: Axes, wanted: Triple) -> str:
        """Return a tensor with the elements of a grid, whose dimensions lie along ``axes``."""
        found = refined(self.grid(place), place.shape)
        grid = self.grid(place) if found is None else found[0]
        order = list(grid.order)
        if found is not None:
            groups = dict(zip(axes, found[1], strict=True))
            order = [n for axis in MEMORY_ORDER for n in groups.get(axis, ())]
        name = rearrange.rearranged(
            self.ops, self.tensors, f"Transpose of {place.tensor}", place.tensor, grid.sizes, order
        )
        if name is None:
            raise NotSupported(
                f"the dimensions {list(grid.sizes)} in the order {order} have too many blocks that"
                " move",
                f"write the transposition with at most {rearrange.MOST_BLOCKS} dimensions",
            )
        if place.tensor in self.scales:
            self.scales.setdefault(name, self.scales[place.tensor])
        shape = wanted if found is not None else (prod(wanted), 1, 1)
        if self.tensors[name].shape != shape:
            name = self.append(ops.Reshape, f"Reshape of {name}", (name,), shape=shape)
        if found is None:
            return self.arranged(Place(name, place.shape, (0,)), axes)
        return name

    def axes(self, place: Place) -> Axes | None:
        """Return the axis of every dimension; None where a dimension is no single axis."""
        sizes, rest = self.tensors[place.tensor].shape, list(place.order)
        found: list[int | None] = []
        for size in place.shape:
            if size == 1:
                found.append(None)
            elif rest and sizes[rest[0]] == size:
                found.append(rest.pop(0))
            else:
                return None
        return tuple(found)

    def arranged(self, place: Place, axes: Axes) -> str:
        """Return a tensor in which the dimensions of a value lie along ``axes``.

        Layers are added where the elements must move for that, once for all readers.
        """
        found = self.moved.get((place, axes))
        if found is None:
            found = self._arranged(place, axes)
            if found != place.tensor:
                self.moved[place, axes] = found
        return found

    def _arranged(self, place: Place, axes: Axes) -> str:
        wanted = [1, 1, 1]
        for size, axis in zip(place.shape, axes, strict=True):
            if axis is not None:
                wanted[axis] = size
            elif size != 1:
                wide = sum(size != 1 for size in place.shape)
                raise NotSupported(
                    f"a value of shape {list(place.shape)} has {wide} dimensions that are not 1,"
                    " or a batch; supported are a batch of 1 and channels, height and width",
                    "write the layers around it with at most three dimensions"
                    if wide > 3
                    else "export the network with a fixed batch of 1",
                )
        order = tuple(axis for axis in axes if axis is not None and wanted[axis] > 1)
        shape = (wanted[0], wanted[1], wanted[2])
        if place.grid is not None:
            return self._gathered(place, axes, shape)
        tensor = self.tensors[place.tensor]
        if tensor.shape == shape and place.order == order:
            return place.tensor
        if self._reshaped_input(place, shape, order):
            return place.tensor
        name = place.tensor
        if _in_memory(place.order, tensor.shape) and _in_memory(order, shape):
            return self.append(ops.Reshape, f"Reshape of {name}", (name,), shape=shape)
        sizes = [tensor.shape[axis] for axis in place.order]
        if sizes == [wanted[axis] for axis in order]:  # axes only change places
            perm = [3, 3, 3]
            for source, axis in zip(place.order, order, strict=True):
                perm[axis] = source
            free = [axis for axis in range(3) if axis not in place.order]
            perm = [free.pop(0) if source == 3 else source for source in perm]
            return self._transposed(name, (perm[0], perm[1], perm[2]))
        slow = [axis for axis in range(3) if axis not in place.order] + list(place.order)
        name = self._transposed(name, (slow[2], slow[0], slow[1]))
        # Memory now has the order of the file: give it the sizes wanted, slowest axis first.
        free = [axis for axis in range(3) if axis not in order] + list(order)
        turned = (wanted[free[2]], wanted[free[0]], wanted[free[1]])
        if self.tensors[name].shape != turned:
            name = self.append(ops.Reshape, f"Reshape of {name}", (name,), shape=turned)
        perm = [0, 0, 0]
        for axis, source in zip(free, (1, 2, 0), strict=True):
            perm[axis] = source
        return self._transposed(name, (perm[0], perm[1], perm[2]))

    def positions(self, place: Place) -> Integers:
        """Return per element in the order of memory its number in the order of the file."""
        grid = self.grid(place)
        numbers = np.arange(prod(grid.sizes)).reshape([grid.sizes[n] for n in grid.order])
        return numbers.transpose([grid.order.index(n) for n in range(len(grid.order))]).reshape(-1)

    def append(
        self,
        kind: type[ops.Operator],
        label: str,
        inputs: Sequence[str],
        tensor: str = "",
        y: Quantisation | None = None,
        **fields: Any,
    ) -> str:
        """Append a layer; returns its output.

        Args:
            tensor: The value of the file that it computes.
            y: Quantisation of the output, by default that of the first input.
        """
        name = ranges.append_layer(self.ops, self.tensors, kind, label, inputs, tensor, **fields)
        if y is not None:
            self.scales[name] = (y.scale, y.zero_point)
        return name

    def named(self, place: Place, value: str) -> None:
        """Say that a tensor holds a value of the file, unless it holds another one."""
        if place.grid is not None:
            return
        for position, op in enumerate(self.ops):
            if op.output == place.tensor and op.tensor in ("", value):
                self.ops[position] = replace(op, tensor=value)
                known, order = self.forms.get(place.tensor), file_order(place)
                reals = known.source if known and known.order == order else ""
                self._form(place.tensor, order=order, source=reals)

    def settled(self, place: Place, value: str) -> Place:
        """Return a place without grid for an output of the file; value: its name."""
        if place.grid is None:
            return place
        axes = standard_axes(place.shape)
        if axes is None:
            place, axes = replace(place, shape=(prod(place.shape),)), (0,)
        found = self.placed(self.arranged(place, axes), place.shape, axes)
        self.named(found, value)
        return found

    def stands_for(self, place: Place, reals: str) -> None:
        """Say that a tensor is integers of reals of the file."""
        self._form(place.tensor, order=file_order(place), source=reals, ties_even=True)

    def dequantised(self, place: Place, reals: str) -> None:
        """Say which reals of the file a computed tensor stands for, if they have its order."""
        if place.grid is not None:
            return
        known, order = self.forms.get(place.tensor), file_order(place)
        if place.tensor not in self.inputs and (
            known is None or (not known.source and known.order == order)
        ):
            self._form(place.tensor, order=order, source=reals)

    def sums(self, tensor: str, scales: Floats, value: str) -> None:
        """Say what 32-bit sums mean: one scale, or one per channel. value: output of the file."""
        known = tuple(float(scale) for scale in scales.reshape(-1))
        if len(set(known)) == 1:
            self.scales[tensor] = (known[0], 0)
            return
        self.channel_scales[tensor] = known
        self.notes.append(
            f"the network output '{value}' is 32-bit sums with a scale per channel: the largest of"
            " them is not the largest real number (ArgMax of them is wrong); plan.json and the"
            " header have the scales, --float-io gives the real numbers"
        )

    def is_apart(self, tensor: str) -> None:
        """Say that onnxruntime may be one step from the values of a tensor."""
        self._form(tensor, apart=1)

    def _form(self, tensor: str, **fields: Any) -> None:
        self.forms[tensor] = replace(self.forms.get(tensor, ranges.FileForm()), **fields)

    def _transposed(self, name: str, perm: Triple) -> str:
        if perm == (0, 1, 2):
            return name
        return self.append(ops.Transpose, f"Transpose of {name}", (name,), perm=perm)

    def _reshaped_input(self, place: Place, shape: Triple, order: tuple[int, ...]) -> bool:
        """Give a network input that nothing has read yet another shape; False where it cannot.

        An input whose elements lie in another order in the file keeps its shape, by which they are
        found.
        """
        name = place.tensor
        if name not in self.inputs or any(name in op.inputs for op in self.ops):
            return False
        if name in self.shared or not _in_memory(place.order, self.tensors[name].shape):
            return False
        form, sizes = self.forms.get(name), self.tensors[name].shape
        turned = form and not _in_memory([n for n in form.order if sizes[n] > 1], sizes)
        if turned or not _in_memory(order, shape):
            return False
        channels, height, width = shape
        self.tensors[name] = replace(
            self.tensors[name], channels=channels, height=height, width=width
        )
        if name in self.forms:
            self.forms[name] = replace(self.forms[name], order=MEMORY_ORDER)
        return True


def _in_memory(order: Sequence[int], shape: Triple) -> bool:
    """Return True when axes are those of a tensor that are larger than 1, in order of memory."""
    return list(order) == [axis for axis in MEMORY_ORDER if shape[axis] > 1]


def input_axes(value: FloatInput) -> tuple[int | None, ...]:
    """Return the axes of a network input in memory: (1, H, W, C) with a Transpose for it."""
    perms = [tuple(n.attributes.get("perm", ())) for n, _ in value.moves if n.op == "Transpose"]
    shape = value.shape
    if len(shape) == 4 and perms[:1] == [(0, 3, 1, 2)] and shape[0] == 1:
        return (None, 1, 2, 0)
    axes = standard_axes(shape)
    if axes is None:
        wide = [n for n, size in enumerate(shape) if size > 1]
        if len(wide) > 3:
            raise NotSupported(
                f"network input '{value.name}' has the shape {list(shape)}",
                "export the network with a fixed batch of 1",
            )
        found = dict(zip(wide, (1, 2, 0)[3 - len(wide) :], strict=True))
        axes = tuple(found.get(n) for n in range(len(shape)))
    return axes
