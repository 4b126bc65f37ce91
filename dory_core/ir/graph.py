"""The Graph: layers in the order of the file with typed tensors between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar, overload

from dory_core.expr import Expr, Number
from dory_core.hardware.memories import STORAGE_BITS
from dory_core.ir.array import Array
from dory_core.ir.ops import (
    Add,
    AvgPool,
    Conv,
    ConvTranspose,
    Linear,
    Lstm,
    MaxPool,
    Op,
    Window,
)

_Kind = TypeVar("_Kind", bound=Op)

#: Name of the type of elements that are stored as two halves, and how many of them lie together.
HALVES, HALVES_TOGETHER = "u8x2", 4


@dataclass(frozen=True, slots=True)
class Tensor:
    """An activation tensor of one image.

    channels, height, width: logical shape; HWC in memory unless a kernel declares otherwise.
    lo, hi: range that the values can reach. bits, signed: storage of one element.
    scale, zero_point: what a value of the file means, scale * (value - zero_point); None where the
        format does not say. offset: an element is the value of the file plus this.
    removed: (channel, value) of the channels in the file that are not stored, rising. They have
        this value of the file everywhere; None where nothing reads them and nothing computes them.
        channels counts those that are stored (``dory_core.ir.channels``).
    halves: an element of 16 bits is stored as two unsigned bytes, floor(v / 2) and v minus that: of
        four channels the first halves, then the second ones (``dory_core.passes.halves``).
    channel_scales: one scale per channel where each has its own; ``scale`` is None then, and values
        of different channels do not compare.
    """

    name: str
    channels: int
    height: int
    width: int
    lo: int
    hi: int
    bits: int
    signed: bool
    scale: float | None = None
    zero_point: int = 0
    offset: int = 0
    removed: tuple[tuple[int, int | None], ...] = ()
    halves: bool = False
    channel_scales: tuple[float, ...] = ()

    @property
    def has_scale(self) -> bool:
        """Whether the file says which real numbers the values stand for."""
        return self.scale is not None or bool(self.channel_scales)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W)."""
        return (self.channels, self.height, self.width)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.channels * self.height * self.width

    @property
    def size_bytes(self) -> int:
        """Bytes in HWC layout; every pixel starts on a byte."""
        return self.height * self.width * pixel_bytes(self.channels, self.bits)

    @property
    def type_name(self) -> str:
        """Short element type: u8, i8, u16, i32..., and u8x2 of two halves."""
        if self.halves:
            return HALVES
        return f"{'i' if self.signed else 'u'}{self.bits}"


@overload
def pixel_bytes(channels: int, bits: int) -> int: ...


@overload
def pixel_bytes(channels: Expr, bits: int) -> Expr: ...


def pixel_bytes(channels: Number, bits: int) -> Number:
    """Return the bytes of one pixel of ``channels`` elements of ``bits`` bits.

    channels: a number, an array or an expression.
    """
    return (channels * bits + 7) // 8 if bits < 8 else channels * (bits // 8)


def value_range(bits: int, signed: bool) -> tuple[int, int]:
    """Return the lowest and highest value of a storage."""
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def storage_for(lo: int, hi: int) -> tuple[int, bool]:
    """Return (bits, signed) of the smallest storage that holds every value of [lo, hi].

    Which storage a target uses is chosen later: ``dory_core.passes.storage``.
    Raises OverflowError when 32 bits are not enough.
    """
    signed = lo < 0
    for bits in STORAGE_BITS:
        low, high = value_range(bits, signed)
        if low <= lo and hi <= high:
            return bits, signed
    raise OverflowError(f"values in [{lo}, {hi}] do not fit 32 bits")


@dataclass(frozen=True, slots=True)
class LayerRanges:
    """What range analysis proves about one layer.

    acc_lo, acc_hi: reachable interval of the accumulator over all channels, every partial sum
        included. bits: arithmetic that the requantisations need, 32 or 64 (0: none is applied).
        value_lo, value_hi: interval of all mul * acc + add.
    """

    acc_lo: int
    acc_hi: int
    bits: int
    value_lo: int
    value_hi: int


@dataclass(frozen=True, slots=True)
class Layer:
    """An operator together with its tensors and proven ranges: what a kernel needs to judge it.

    ``conv``, ``linear``, ``add``, ``weighted`` and ``window`` are for code that knows the kind of
    the layer, as a kernel does once it has accepted it: they raise TypeError for another one.
    """

    op: Op
    inputs: tuple[Tensor, ...]
    output: Tensor
    ranges: LayerRanges

    @property
    def conv(self) -> Conv:
        """The layer, which is a Conv."""
        return _known(self.op, Conv)

    @property
    def linear(self) -> Linear:
        """The layer, which is a Linear."""
        return _known(self.op, Linear)

    @property
    def add(self) -> Add:
        """The layer, which is an Add."""
        return _known(self.op, Add)

    def of(self, kind: type[_Kind]) -> _Kind:
        """Return the operator of the layer, which is of a kind."""
        return _known(self.op, kind)

    @property
    def weighted(self) -> Conv | ConvTranspose | Linear:
        """The layer, which is one with weights."""
        return self.op if isinstance(self.op, (ConvTranspose, Linear)) else self.conv

    @property
    def bias(self) -> Array | None:
        """The bias of the layer, None when it has none."""
        return self.op.bias if isinstance(self.op, (Conv, ConvTranspose, Linear)) else None

    @property
    def window(self) -> Window:
        """The window of the layer, which is a Conv or a pool."""
        pools = (MaxPool, AvgPool)
        return self.op.window if isinstance(self.op, pools) else self.conv.window

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a Conv, ConvTranspose, Linear or Lstm; 0 for other kinds."""
        op = self.op
        if isinstance(op, Conv):
            _, c_in, kh, kw = op.weights.shape
            return self.output.elements * c_in * kh * kw
        if isinstance(op, ConvTranspose):
            c_out, _, kh, kw = op.weights.shape
            return self.inputs[0].elements * c_out * kh * kw
        if isinstance(op, Linear):
            return op.weights.values.size
        if isinstance(op, Lstm):
            return self.inputs[0].height * op.weights.values.size
        return 0


def _known(op: Op, kind: type[_Kind]) -> _Kind:
    if not isinstance(op, kind):
        raise TypeError(f"layer '{op.name}' is a {op.kind}, not a {kind.__name__}")
    return op


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that lives from one inference to the next.

    name: in the file. read: the tensor that an inference finds; no layer computes it. written: what
    it leaves for the next one, computed by a layer: same shape as ``read``, and no value that
    ``read`` cannot have. The storage pass gives both the same width. initial: what the first
    inference finds, shape (C, H, W).
    """

    name: str
    read: str
    written: str
    initial: Array


@dataclass(frozen=True, slots=True)
class FileForm:
    """How a tensor stands in the file, where the network itself does not show it.

    order: axes (0 C, 1 H, 2 W) of its elements there, the slowest one first. source: name of the
    input of the file, or of the real numbers that it stands for, where it has no name of its own.
    ties_even: reals become integers with ties to even, else away from zero. apart: by how many
    steps the reference may be from its values, because it computes the layer in real numbers.
    """

    order: tuple[int, int, int] = (1, 2, 0)
    source: str = ""
    ties_even: bool = False
    apart: int = 0


@dataclass(frozen=True, slots=True)
class Graph:
    """An integer network.

    inputs: names of the network inputs. ops: in the order of the file, which is topological.
    outputs: names of the result tensors. tensors, ranges: by tensor name and layer index, from
    range analysis. notes: what the frontend left out or assumed, for the user. reference: whose
    arithmetic "exact" means: the name of a quantiser or an interpreter, for the user. states: what
    lives between inferences. forms: of tensors by name that the file has in another form than the
    usual one, for goldens.
    """

    name: str = field(compare=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ops: tuple[Op, ...]
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

    def consumers(self, tensor: str) -> tuple[Op, ...]:
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
