"""The Graph under construction: layers, and where each tensor of the file lies in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, Tensor, ops
from dory_core.importing import State, ranges
from dory_tflite.model import FileTensor, Subgraph
from dory_tflite.reals import Reals

Triple = tuple[int, int, int]
Values = npt.NDArray[np.int64]

#: Bounds of what is imported, so that a damaged size costs neither time nor memory.
MOST_PIXELS = 1 << 14
MOST_CHANNELS = 1 << 22

#: Axes of a Graph tensor (C, H, W) in the order of memory.
_MEMORY_ORDER = (1, 2, 0)


def canonical_shape(tensor: FileTensor) -> Triple:
    """Return (C, H, W) of a tensor of the file: its last three dimensions are H, W and C.

    Raises: NotSupported when another dimension is not 1.
    """
    padded = (1, 1, 1, *tensor.shape)
    if any(size != 1 for size in padded[:-3]):
        wide = sum(size != 1 for size in tensor.shape)
        if wide > 3:
            raise NotSupported(
                f"{tensor.label}: shape {list(tensor.shape)} has {wide} dimensions that are not"
                " 1; supported are three",
                "write the layers around it with at most three: height, width and channels",
            )
        raise NotSupported(
            f"{tensor.label}: shape {list(tensor.shape)} has a batch, or four dimensions;"
            " supported are a batch of 1 and height, width and channels as the last three",
            "export the network with a fixed batch of 1",
        )
    height, width, channels = padded[-3:]
    if min(padded) < 1:
        raise NotSupported(f"{tensor.label}: shape {list(tensor.shape)} has no elements")
    if max(height, width) > MOST_PIXELS or channels > MOST_CHANNELS:
        raise NotSupported(
            f"{tensor.label}: shape {list(tensor.shape)} is beyond {MOST_PIXELS} rows and"
            f" columns and {MOST_CHANNELS} channels"
        )
    return channels, height, width


def axis_of(tensor: FileTensor, dimension: int) -> int | None:
    """Return the axis of (C, H, W) of a dimension, which may count from the end; None: size 1."""
    rank = max(len(tensor.shape), 1)
    behind = rank - 1 - (dimension % rank)
    return (0, 2, 1)[behind] if behind < 3 else None


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a tensor of the file lies.

    Attributes:
        name: Tensor of the Graph, which has the same elements.
        axes: None, they have the same order in memory; otherwise per dimension of the file the axis
            of (C, H, W), None for size 1.
        pads: (top, left, bottom, right) elements that the file's tensor has around them, of value
            pad_value.
        real: The reals that the elements of a tensor of reals stand for.
    """

    name: str
    axes: tuple[int | None, ...] | None = None
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0
    real: Reals | None = None


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

    def check_shape(
        self, label: str, tensor: FileTensor, shape: Triple, ordered: bool = True
    ) -> None:
        """Raise NotSupported when a result (C, H, W) has other sizes than the file's tensor."""
        channels, height, width = shape
        found = [size for size in (height, width, channels) if size > 1]
        wanted = [size for size in tensor.shape if size > 1]
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
        if bound.axes is not None:
            bound = self._in_order(tensor, bound)
        return bound.name

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
            and not any(bound.pads)
        }

    def in_order(self, bound: Bound) -> bool:
        """True when the elements lie in the order of the file."""
        shape = self.tensors[bound.name].shape
        wide = [axis for axis in bound.axes or () if axis is not None and shape[axis] > 1]
        return bound.axes is None or wide == [a for a in _MEMORY_ORDER if shape[a] > 1]

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
        narrow = [axis for axis in _MEMORY_ORDER if axis not in wide]
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
        own: int | None = tensor.index
        if bound.real is not None:  # named after the integers, not after their reals
            stored = replace(bound, real=None)
            own = next((index for index, one in self.bound.items() if one == stored), None)
        name = self._append(kind, label, (bound.name,), "" if own is None else f"t{own}", **fields)
        source = self.tensors[bound.name]
        if bound.name in self.scales:
            self.scales[name] = self.scales[bound.name]
        elif source.scale is not None:  # of an input
            self.scales[name] = source.scale, source.zero_point
        self._rebind(tensor, bound, name)
        return self.place(tensor)

    def _rebind(self, tensor: FileTensor, old: Bound, name: str) -> None:
        """Bind a tensor to one in the order of the file, and the reals that lay as it did."""
        stored = replace(old, real=None)
        for index, one in self.bound.items():
            if one.real is not None and replace(one, real=None) == stored:
                self.bound[index] = Bound(name, real=one.real)
        self.bind(tensor, Bound(name, real=old.real))


def file_values(tensor: FileTensor, bound: Bound, values: Values) -> npt.NDArray[Any]:
    """Return a tensor of the file, in its shape, from the Graph's tensor that holds its elements.

    values: shape (C, H, W).
    """
    top, left, bottom, right = bound.pads
    values = np.pad(values, ((0, 0), (top, bottom), (left, right)), constant_values=bound.pad_value)
    if bound.axes is None:
        found = values.transpose(_MEMORY_ORDER)
    else:
        used = [axis for axis in bound.axes if axis is not None]
        rest = [axis for axis in range(3) if axis not in used]
        found = values.transpose(*rest, *used)
    shaped = np.asarray(found).reshape(tensor.shape)
    return shaped if bound.real is None else bound.real.of(shaped)


def graph_values(bound: Bound, shape: Triple, values: npt.NDArray[Any]) -> Values | None:
    """Return the elements of a Graph tensor, shape (C, H, W), from a tensor of the file.

    The inverse of :func:`file_values`; None where the file's tensor has padding or is of reals.
    """
    if any(bound.pads) or bound.real is not None:
        return None
    axes: tuple[int, ...] = _MEMORY_ORDER
    if bound.axes is not None:
        used = [axis for axis in bound.axes if axis is not None]
        axes = (*(axis for axis in range(3) if axis not in used), *used)
    found = values.astype(np.int64).reshape([shape[axis] for axis in axes])
    return found.transpose([axes.index(axis) for axis in range(3)])


def broadcastable(values: Values, shape: Triple) -> bool:
    """True when an array of shape (C, H, W) serves a tensor of this shape."""
    return all(size in (1, whole) for size, whole in zip(values.shape, shape, strict=True))
