"""The Graph under construction: layers, and where each tensor of the file lies in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, Tensor, ops
from dory_core.importing import State, ranges, rearrange
from dory_tflite.grids import MEMORY_ORDER, Grid, Triple, axis_of, canonical_shape, is_grid
from dory_tflite.model import FileTensor, Subgraph
from dory_tflite.places import Bound


@dataclass(slots=True)
class Variables:
    """State of the file: what is kept from one inference to the next.

    Attributes:
        handles: Name of the variable by the tensor that names it.
        values: Tensor with the value of each read.
        read: Tensor of the file with the state of the previous inference, by variable.
        assigned: Tensor of the file that an inference leaves, by variable.
        initial: Initial state, by variable.
        own: State of operators with a state of their own.
    """

    handles: dict[int, str] = field(default_factory=dict)
    values: dict[str, Bound] = field(default_factory=dict)
    read: dict[str, FileTensor] = field(default_factory=dict)
    assigned: dict[str, FileTensor] = field(default_factory=dict)
    initial: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    own: list[State] = field(default_factory=list)


class Network:
    """Layers in order, with the types of their tensors."""

    def __init__(self, subgraph: Subgraph) -> None:
        self.file = list(subgraph.tensors)
        self.ops: list[ops.Operator] = []
        self.inputs: list[str] = []
        self.states: list[str] = []
        self.tensors: dict[str, Tensor] = {}
        self.scales: dict[str, tuple[float, int]] = {}
        self.bound: dict[int, Bound] = {}
        self.phases: dict[int, tuple[int, int]] = {}  # blocks of SPACE_TO_BATCH_ND
        self.notes: list[str] = []
        self.variables = Variables()

    def add_input(self, tensor: FileTensor, lo: int, hi: int) -> None:
        """Make a tensor of the file an input of the network."""
        self.inputs.append(self._add_source(tensor, lo, hi))

    def add_state(self, tensor: FileTensor, lo: int, hi: int) -> None:
        """Make a tensor of the file one that an inference finds as the one before has left it."""
        self.states.append(self._add_source(tensor, lo, hi))

    def _add_source(self, tensor: FileTensor, lo: int, hi: int) -> str:
        name = f"t{tensor.index}"
        shape = canonical_shape(tensor)
        scale, zero_point = tensor.scales[0], tensor.zero_points[0]
        bits, signed = ranges.storage_for(lo, hi)
        found = Tensor(name, *shape, lo, hi, bits, signed, scale, zero_point)
        self.tensors[name] = found
        self.bind(tensor, Bound(name))
        return name

    def kept(self, tensor: FileTensor, shape: Triple, bounds: tuple[int, int]) -> str:
        """Add state (C, H, W) of an operator; tensor: that of the file that it keeps."""
        name = f"t{tensor.index}_kept"  # not as it stands in the file
        if name in self.tensors:
            raise NotSupported(f"{tensor.label} is the state of two operators")
        bits, signed = ranges.storage_for(*bounds)
        scale, zero_point = tensor.scales[0], tensor.zero_points[0]
        self.tensors[name] = Tensor(name, *shape, *bounds, bits, signed, scale, zero_point)
        self.states.append(name)
        return name

    def hidden(
        self, kind: type[ops.Operator], label: str, inputs: Sequence[str], **fields: Any
    ) -> str:
        """Append a layer whose output is no tensor of the file; returns the output's name."""
        return self._append(kind, label, inputs, **fields)

    def bind(self, tensor: FileTensor, bound: Bound) -> None:
        """Say where a tensor of the file lies."""
        self.bound[tensor.index] = bound

    def place(self, tensor: FileTensor) -> Bound:
        """Return where a tensor lies; raises NotSupported when no layer computes it."""
        if tensor.index not in self.bound:
            raise NotSupported(f"{tensor.label} is read, but no operator before computes it")
        return self.bound[tensor.index]

    def emit(
        self,
        kind: type[ops.Operator],
        label: str,
        tensor: FileTensor,
        inputs: Sequence[str],
        *,
        ordered: bool = True,
        **fields: Any,
    ) -> str:
        """Append a layer whose output is a tensor of the file; returns the output's name.

        ordered: the dimensions of the file are those of the result in the order H, W, C.
        Raises: NotSupported when the file's tensor has other sizes than the layer's result.
        """
        name = self._append(kind, label, inputs, f"t{tensor.index}", **fields)
        self.check_shape(label, tensor, self.tensors[name].shape, ordered)
        if tensor.scales:
            self.scales[name] = (tensor.scales[0], tensor.zero_points[0])
        self.bind(tensor, Bound(name))
        return name

    def placed(
        self,
        kind: type[ops.Operator],
        label: str,
        tensor: FileTensor,
        inputs: Sequence[str],
        **fields: Any,
    ) -> None:
        """Append a layer whose output has the elements of a tensor of the file in another shape."""
        name = self._append(kind, label, inputs, f"t{tensor.index}", **fields)
        if self.tensors[name].elements != tensor.elements:
            raise NotSupported(
                f"{label}: its result has {self.tensors[name].elements} elements, {tensor.label}"
                f" has the shape {list(tensor.shape)}",
                "the file is damaged; export it again",
            )
        if tensor.scales:
            self.scales[name] = (tensor.scales[0], tensor.zero_points[0])
        self.bind(tensor, Bound(name))

    def check_shape(
        self, label: str, tensor: FileTensor, shape: Triple, ordered: bool = True
    ) -> None:
        """Raise NotSupported when a result (C, H, W) has other sizes than the file's tensor."""
        channels, height, width = shape
        found = [size for size in (height, width, channels) if size > 1]
        wanted = [size for size in tensor.shape if size > 1]
        if is_grid(tensor):
            wanted = [size for size in np.roll(canonical_shape(tensor), -1).tolist() if size > 1]
        if found != wanted and (ordered or sorted(found) != sorted(wanted)):
            raise NotSupported(
                f"{label}: its result has the shape {[height, width, channels]}, {tensor.label} has"
                f" {list(tensor.shape)}",
                "the file is damaged; export it again",
            )

    def value(self, tensor: FileTensor) -> str:
        """Return the Graph's tensor with the elements and the shape of a tensor of the file.

        Layers are added where the elements must move for that.
        """
        self.flat(tensor)
        bound = self.place(tensor)
        shape = canonical_shape(tensor)
        if self.tensors[bound.name].shape != shape and not self._reshaped_source(bound.name, shape):
            bound = self._moved(bound, ops.Reshape, tensor, shape=shape)
        return bound.name

    def flat(self, tensor: FileTensor) -> str:
        """Return the Graph's tensor with the elements in the order of the file, in some shape."""
        bound = self.place(tensor)
        if any(bound.pads):
            self.pad(tensor)
            bound = self.place(tensor)
        if bound.grid is not None:
            self._straightened(tensor, bound, bound.grid)
        elif bound.axes is not None:
            self._in_order(tensor, bound)
        return self.place(tensor).name

    def grid(self, tensor: FileTensor) -> Grid:
        """Return the order of the elements of a tensor with more dimensions than axes."""
        if self.place(tensor).grid is None:
            self.flat(tensor)
        sizes = tuple(tensor.shape)
        return self.place(tensor).grid or Grid(sizes, tuple(range(len(sizes))))

    def _straightened(self, tensor: FileTensor, bound: Bound, grid: Grid) -> None:
        """Bring the elements of a tensor into the order of the file."""
        label, file = f"Transpose of tensor {tensor.index}", self._stored_name(tensor, bound)
        name = rearrange.rearranged(
            self.ops, self.tensors, label, bound.name, grid.sizes, grid.order, file
        )
        if name is None:
            raise NotSupported(
                f"{tensor.label}: the dimensions {list(grid.sizes)} in the order"
                f" {list(grid.order)} have too many blocks that move",
                f"write the transposition with at most {rearrange.MOST_BLOCKS} dimensions",
            )
        self._rebind(tensor, bound, name)

    def turned(self, tensor: FileTensor) -> str:
        """Return a tensor with the elements of one whose last two dimensions change places.

        A layer is added only where they do not lie so already.
        """
        *front, rows, columns = self.axes(tensor)
        bound = replace(self.place(tensor), axes=(*front, columns, rows))
        name, label = bound.name, f"Transpose of tensor {tensor.index}"
        if not self.in_order(bound):
            name = self.hidden(ops.Transpose, label, (name,), perm=self._to_order(bound))
        *leading, first, second = tensor.shape
        shape = canonical_shape(replace(tensor, shape=(*leading, second, first)))
        if self.tensors[name].shape != shape:
            name = self.hidden(ops.Reshape, label, (name,), shape=shape)
        return name

    def pad(self, tensor: FileTensor) -> None:
        """Compute padding that was left to the reader."""
        bound = self.place(tensor)
        top, left, bottom, right = bound.pads
        before, after = (0, top, left), (0, bottom, right)
        self._moved(bound, ops.Pad, tensor, before=before, after=after, value=bound.pad_value)

    def _reshaped_source(self, name: str, shape: Triple) -> bool:
        """Give an input or state that nothing has read yet another shape; False where it cannot."""
        if name not in (*self.inputs, *self.states) or any(name in op.inputs for op in self.ops):
            return False
        if any(one.name == name and one.axes is not None for one in self.bound.values()):
            return False  # its axes are named there
        channels, height, width = shape
        self.tensors[name] = replace(
            self.tensors[name], channels=channels, height=height, width=width
        )
        return True

    def reshaped(self, tensor: FileTensor, shape: Triple) -> str:
        """Return the elements of a tensor in the order of the file and in another shape."""
        name = self.flat(tensor)
        if self.tensors[name].shape == shape or self._reshaped_source(name, shape):
            return name
        return self._renamed(name, tensor, shape)

    def shaped(self, name: str, shape: Triple) -> str:
        """Return a tensor of the Graph in another shape, its elements in the same order."""
        if self.tensors[name].shape == shape:
            return name
        return self._append(ops.Reshape, f"Reshape of {name}", (name,), shape=shape)

    def computed(self, name: str, tensor: FileTensor) -> str:
        """Return a tensor that a layer computes with the elements of ``name``."""
        if name not in (*self.inputs, *self.states):
            return name
        return self._renamed(name, tensor, self.tensors[name].shape)

    def _renamed(self, name: str, tensor: FileTensor, shape: Triple) -> str:
        return self._append(
            ops.Reshape,
            f"Reshape of tensor {tensor.index}",
            (name,),
            f"t{tensor.index}",
            shape=shape,
        )

    def unnamed(self, name: str) -> None:
        """Say that a layer's output has another order of elements than the file's tensor."""
        position = next(n for n, op in enumerate(self.ops) if op.output == name)
        self.ops[position] = replace(self.ops[position], tensor="")

    def forms(self) -> dict[str, ranges.FileForm]:
        """Return which reals of the file tensors stand for, by their names in the Graph."""
        return {
            bound.name: ranges.FileForm(source=f"t{index}")
            for index, bound in self.bound.items()
            if bound.real is not None
            and bound.real.is_plain
            and bound.axes is None
            and bound.grid is None
            and not any(bound.pads)
        }

    def in_order(self, bound: Bound) -> bool:
        """True when the elements lie in the order of the file."""
        shape = self.tensors[bound.name].shape
        wide = [axis for axis in bound.axes or () if axis is not None and shape[axis] > 1]
        return bound.axes is None or wide == [a for a in MEMORY_ORDER if shape[a] > 1]

    def axes(self, tensor: FileTensor) -> tuple[int | None, ...]:
        """Return per dimension of the file the axis of the Graph's tensor that it lies along."""
        if self.place(tensor).axes is None:
            self.value(tensor)
        bound = self.place(tensor)
        if bound.axes is not None:
            return bound.axes
        return tuple(axis_of(tensor, d) for d in range(len(tensor.shape)))

    def _in_order(self, tensor: FileTensor, bound: Bound) -> Bound:
        assert bound.axes is not None
        if self.in_order(bound):
            self._rebind(tensor, bound, bound.name)
            return self.place(tensor)
        return self._moved(bound, ops.Transpose, tensor, perm=self._to_order(bound))

    def _to_order(self, bound: Bound) -> Triple:
        """Return the order of a Transpose after which elements lie in the order of the file."""
        shape = self.tensors[bound.name].shape
        wide = [axis for axis in bound.axes or () if axis is not None and shape[axis] > 1]
        narrow = [axis for axis in MEMORY_ORDER if axis not in wide]
        height, width, channels = (*narrow, *wide)
        return channels, height, width

    def _append(
        self,
        kind: type[ops.Operator],
        label: str,
        inputs: Sequence[str],
        tensor: str = "",
        **fields: Any,
    ) -> str:
        return ranges.append_layer(self.ops, self.tensors, kind, label, inputs, tensor, **fields)

    def _moved(
        self, bound: Bound, kind: type[ops.Operator], tensor: FileTensor, **fields: Any
    ) -> Bound:
        label = f"{kind.__name__} of tensor {tensor.index}"
        file = self._stored_name(tensor, bound)
        self._rebind(tensor, bound, self._append(kind, label, (bound.name,), file, **fields))
        return self.place(tensor)

    def _stored_name(self, tensor: FileTensor, bound: Bound) -> str:
        """Return the name of a moved tensor: that of the integers, not of their reals."""
        if bound.real is None:
            return f"t{tensor.index}"
        stored = replace(bound, real=None)
        own = next((index for index, one in self.bound.items() if one == stored), None)
        return "" if own is None else f"t{own}"

    def _rebind(self, tensor: FileTensor, old: Bound, name: str) -> None:
        """Bind a tensor to one in the order of the file, and the reals that lay as it did."""
        stored, source = replace(old, real=None), self.tensors[old.name]
        if name != old.name and old.name in self.scales:
            self.scales[name] = self.scales[old.name]
        elif name != old.name and source.scale is not None:  # of an input
            self.scales[name] = source.scale, source.zero_point
        for index, one in self.bound.items():
            if one.real is not None and replace(one, real=None) == stored:
                self.bound[index] = Bound(name, real=one.real)
        self.bind(tensor, Bound(name, real=old.real))
