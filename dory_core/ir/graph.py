"""The Graph: layers in the order of the file with typed tensors between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from dory_core.ir.array import Array
from dory_core.ir.bounds import INT32
from dory_core.ir.features import Feature
from dory_core.ir.kinds.conv import Conv
from dory_core.ir.kinds.operator import Operator, Places
from dory_core.ir.kinds.weighted import Weighted
from dory_core.ir.kinds.window import Window
from dory_core.ir.tensor import Tensor

_Kind = TypeVar("_Kind", bound=Operator)


@dataclass(frozen=True, slots=True)
class LayerRanges:
    """What range analysis proves about one layer.

    Attributes:
        acc_lo, acc_hi: Reachable interval of the accumulator over all channels, every partial sum
            included.
        bits: Arithmetic that the requantisations need, 32 or 64 (0: none is applied).
        value_lo, value_hi: Interval of all mul * acc + add.
    """

    acc_lo: int
    acc_hi: int
    bits: int
    value_lo: int
    value_hi: int


@dataclass(frozen=True, slots=True)
class Layer:
    """An operator together with its tensors and proven ranges: what a kernel needs to judge it.

    ``of`` is for code that knows the kind of the layer, as a kernel does once it has accepted it;
    ``weighted`` and ``window`` are what several kinds have. They raise TypeError for another one.

    Attributes:
        op: The operator with its parameters.
        inputs, output: Its tensors.
        ranges: What is proven about its arithmetic.
    """

    op: Operator
    inputs: tuple[Tensor, ...]
    output: Tensor
    ranges: LayerRanges

    def of(self, kind: type[_Kind]) -> _Kind:
        """Return the operator of the layer, which is of a kind.

        Raises:
            TypeError: When it is of another one.
        """
        if not isinstance(self.op, kind):
            name = self.op.name
            raise TypeError(f"layer '{name}' is a {self.op.kind}, not a {kind.__name__}")
        return self.op

    @property
    def weighted(self) -> Weighted:
        """The operator of the layer, which is one of the kinds that have weights."""
        return self.op if isinstance(self.op, Weighted) else self.of(Conv)

    @property
    def bias(self) -> Array | None:
        """The bias of the layer, None when it has none."""
        return self.op.bias if isinstance(self.op, Weighted) else None

    @property
    def window(self) -> Window:
        """The window of the layer, which is a Conv or a pool."""
        return self.op.sliding or self.of(Conv).window

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a Conv, ConvTranspose, Linear or Lstm; 0 for other kinds."""
        return self.op.macs(self.inputs, self.output)

    @property
    def features(self) -> frozenset[Feature]:
        """What a kernel has to compute for the layer beyond the plain arithmetic."""
        steps, found = self.op.steps, set(self.op.features(self.inputs))
        if any(tensor.halves for tensor in (*self.inputs, self.output)):
            found.add(Feature.HALVES)
        if any(step.add_negative is not None for step in steps):
            found.add(Feature.TWO_ADDENDS)
        if any(step.float32 for step in steps):
            found.add(Feature.FLOAT32)
        if self.ranges.acc_lo < INT32[0] or self.ranges.acc_hi > INT32[1]:
            found.add(Feature.WIDE_SUMS)
        if any(step.turn for step in steps):
            found.add(Feature.TURN)
        return frozenset(found)

    def places(self, axis: int) -> Places | None:
        """Return the input elements that outputs along an axis read; see ``Operator.places``.

        Args:
            axis: 0 rows, 1 columns.
        """
        return self.op.places(axis, self.inputs[0], self.output)

    def whole_axes(self, operand: int) -> tuple[bool, bool, bool]:
        """Return of which axes a tile takes all of an input (``Operator.whole_axes``)."""
        return self.op.whole_axes(operand, self.inputs[operand], self.output)

    def is_local(self, axis: int) -> bool:
        """Return True when stripes along an axis are layers of the same kind with fewer rows.

        A row then needs the same row of all inputs, or all of an operand that has one row.
        """
        return self.places(axis) is None and self.op.is_alike(axis)

    @property
    def byte_offsets(self) -> tuple[int, ...] | None:
        """Where the smaller tensors begin in the larger one, in bytes, of a view.

        Of a Concat all inputs in the output, of a Slice or Reshape the output in the input. None
        when they are no ranges of bytes of it, or the layer does more than to name them.
        """
        y = self.output
        if any((t.bits, t.offset) != (y.bits, y.offset) for t in self.inputs):
            return None  # elements are widened, as those of signed and unsigned bytes are
        return self.op.byte_offsets(self.inputs, y)


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that lives from one inference to the next.

    Attributes:
        name: In the file.
        read: The tensor that an inference finds; no layer computes it.
        written: What it leaves for the next one, computed by a layer: same shape as ``read``, and
            no value that ``read`` cannot have. The storage pass gives both the same width.
        initial: What the first inference finds, shape (C, H, W).
    """

    name: str
    read: str
    written: str
    initial: Array


@dataclass(frozen=True, slots=True)
class FileForm:
    """How a tensor stands in the file, where the network itself does not show it.

    Attributes:
        order: Axes (0 C, 1 H, 2 W) of its elements there, the slowest one first.
        source: Name of the input of the file, or of the real numbers that it stands for, where it
            has no name of its own.
        ties_even: Reals become integers with ties to even, else away from zero.
        apart: By how many steps the reference may be from its values, because it computes the layer
            in real numbers.
    """

    order: tuple[int, int, int] = (1, 2, 0)
    source: str = ""
    ties_even: bool = False
    apart: int = 0


@dataclass(frozen=True, slots=True)
class Graph:
    """An integer network.

    Attributes:
        name: Of the network; it takes no part in equality.
        inputs: Names of the network inputs.
        outputs: Names of the result tensors.
        ops: In the order of the file, which is topological.
        tensors: Every tensor, by name.
        ranges: What is proven about each layer, by its index.
        notes: What the frontend left out or assumed, for the user.
        reference: Whose arithmetic "exact" means: the name of a quantiser or an interpreter, for
            the user.
        states: What lives between inferences.
        forms: Of tensors by name that the file has in another form than the usual one, for goldens.
    """

    name: str = field(compare=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ops: tuple[Operator, ...]
    tensors: Mapping[str, Tensor]
    ranges: tuple[LayerRanges, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)
    reference: str = field(default="", compare=False)
    states: tuple[State, ...] = ()
    forms: Mapping[str, FileForm] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))
        object.__setattr__(self, "forms", MappingProxyType(dict(self.forms)))

    def form(self, tensor: str) -> FileForm:
        """Return how a tensor stands in the file."""
        return self.forms.get(tensor, FileForm())

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the tensors that no layer computes: network inputs, and state as it is read."""
        return (*self.inputs, *(state.read for state in self.states))

    @property
    def sinks(self) -> tuple[str, ...]:
        """Names of the tensors that outlive the last layer: outputs, and state as it is left."""
        return tuple(dict.fromkeys((*self.outputs, *(state.written for state in self.states))))

    def layer(self, position: int) -> Layer:
        """Return the operator at ``position`` in ``ops`` with its tensors and ranges."""
        op = self.ops[position]
        return Layer(
            op,
            tuple(self.tensors[name] for name in op.inputs),
            self.tensors[op.output],
            self.ranges[position],
        )

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All operators with their tensors and ranges."""
        return tuple(self.layer(n) for n in range(len(self.ops)))

    def consumers(self, tensor: str) -> tuple[Operator, ...]:
        """Return the operators that read ``tensor``, in order."""
        return tuple(op for op in self.ops if tensor in op.inputs)


def check_states(graph: Graph) -> None:
    """Raise ValueError unless the state of a network is as :class:`State` says."""
    computed = {op.output for op in graph.ops}
    names = [state.name for state in graph.states]
    reads = [state.read for state in graph.states]
    if len(set(names)) < len(names) or len(set(reads)) < len(reads):
        raise ValueError("two states have one name, or are read as one tensor")
    for state in graph.states:
        if state.read in computed or state.read not in graph.tensors:
            raise ValueError(f"state '{state.name}': tensor '{state.read}' is not read alone")
        if state.read in graph.inputs or state.read in graph.outputs:
            raise ValueError(f"state '{state.name}': '{state.read}' is an input or output, too")
        if state.written not in computed:
            raise ValueError(f"state '{state.name}': no layer computes '{state.written}'")
        before, behind = graph.tensors[state.read], graph.tensors[state.written]
        if (before.shape, before.offset) != (behind.shape, behind.offset):
            raise ValueError(f"state '{state.name}': it is read and written in different forms")
        if behind.lo < before.lo or before.hi < behind.hi:
            raise ValueError(f"state '{state.name}': a value is left that is not expected")
        values = state.initial.values
        if values.shape != before.shape or values.min() < before.lo or before.hi < values.max():
            raise ValueError(f"state '{state.name}': it cannot have its initial values")
