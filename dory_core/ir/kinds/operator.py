"""What an operator is: the interface of all kinds of layers.

A kind is a frozen dataclass that derives from :class:`Operator`, in a file of its own. It adds the
fields that it needs and says in methods what the compiler asks: the shape of its output, the values
that its accumulator reaches, what it computes, which input an output needs. What has a default
below is the answer of a kind that is cautious: nothing is tiled apart, moved or left out.
Methods of a kind have docstrings where they say more than those here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dory_core.errors import NotSupported
from dory_core.ir.bounds import Accumulator, Apply, Interval
from dory_core.ir.features import Feature
from dory_core.ir.kinds.channels import Links, Mask, Selection, same_channels
from dory_core.ir.kinds.random_parts import RandomParts, Source
from dory_core.ir.kinds.window import Window
from dory_core.ir.requant import Requant, requant
from dory_core.ir.tensor import Shape, Tensor

Values = npt.NDArray[np.int64]
Tensors = Sequence[Tensor]
Intervals = Sequence[Interval]
#: Of (C, H, W).
Triple = tuple[int, int, int]
#: Which of (C, H, W).
Axes = tuple[bool, bool, bool]
#: First and last input element of every output element, beyond the borders as well.
Places = tuple[tuple[int, int], ...]


class Bare(Enum):
    """How an output without requantisation is stored."""

    #: In the fewest bits that hold its values.
    NARROW = "narrow"
    #: As a signed accumulator of 32 bits.
    ACCUMULATOR = "accumulator"
    #: As the inputs, whose elements it has.
    AS_INPUTS = "as inputs"


class Offsets(Enum):
    """Which tensors of an operator may be stored higher by an offset (``dory_core.passes``)."""

    #: None of them.
    NONE = "none"
    #: Its inputs.
    INPUTS = "inputs"
    #: All of them, each by its own offset.
    EACH = "each"
    #: All of them, by one offset.
    SHARED = "shared"


class Loads(NamedTuple):
    """Elements that are loaded for one output element.

    Attributes:
        inputs: Elements of each input.
        constants: Constants of the layer; 0 where they are in registers.
    """

    inputs: int
    constants: int


@dataclass(frozen=True, slots=True)
class Sample:
    """A layer for tests: its fields, and what it reads.

    Attributes:
        fields: Fields of the operator, without its names.
        sources: Shape and range (C, H, W, lo, hi) of each input.
    """

    fields: Mapping[str, Any]
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Operator(ABC):
    """What all layers share, and what the compiler asks of each.

    Attributes:
        index: Position in the order of the file, the N of ``layer_NN`` in goldens and dumps.
        name: Name of the node, for messages; it does not take part in equality.
        inputs: Names of the tensors that it reads, ``input`` and ``layer_NN`` after their producer.
        output: Name of the tensor that it computes.
        requants: The requantisation steps applied in sequence to the accumulator; none leaves the
            accumulator as the output. Two are never merged without proof.
        tensor: Name or index of its result in the file, where the format has such; for people and
            goldens, it does not take part in equality.
        bare: How its output is stored where it has no requantisation; of the class.
        reads_vector: It reads its input as one vector, in the order of memory (HWC); of the class.
        is_view: Its tensors may be parts of one another in memory (:meth:`byte_offsets`); of the
            class.
        holds_inputs: The output of a view is the larger tensor, of which its inputs are parts; of
            the class.
        is_channelwise: Each output channel is computed of the same channel of the inputs; of the
            class.
        has_channel_groups: Its constants may be fetched in groups of output channels; of the class.
        has_offsets: Its tensors may be stored higher by an offset, each by its own (:meth:`moved`);
            of the class.
        samples: Names of the random layers that :meth:`random` draws; of the class.
    """

    index: int
    name: str = field(compare=False)
    inputs: tuple[str, ...]
    output: str
    requants: tuple[Requant, ...] = ()
    tensor: str = field(default="", compare=False)

    bare: ClassVar[Bare] = Bare.NARROW
    reads_vector: ClassVar[bool] = False
    is_view: ClassVar[bool] = False
    holds_inputs: ClassVar[bool] = False
    is_channelwise: ClassVar[bool] = False
    has_channel_groups: ClassVar[bool] = False
    has_offsets: ClassVar[bool] = False
    samples: ClassVar[tuple[str, ...]] = ()

    # -- names ------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """Name of the layer kind, as printed in reports and in the text of a Graph."""
        return type(self).__name__

    @property
    def title(self) -> str:
        """How comments of the generated code name the operation."""
        return self.kind

    @property
    def label(self) -> str:
        """How messages name the layer."""
        return f"{self.kind} '{self.name}'"

    def refused(self, reason: str, hint: str = "") -> NotSupported:
        """Return the error that says why the layer cannot be."""
        return NotSupported(f"{self.label}: {reason}", hint)

    @property
    def steps(self) -> tuple[Requant, ...]:
        """Every requantisation of the layer, those of operands first."""
        return self.requants

    @property
    def sum_bits(self) -> int:
        """Bits that its accumulator may have; beyond 32 a requantisation follows."""
        return 32

    # -- values -----------------------------------------------------------------------------------

    @property
    def operands(self) -> int | None:
        """The number of its inputs; None for one or more."""
        return 1

    @abstractmethod
    def output_shape(self, sources: Tensors) -> Shape:
        """Return (C, H, W) of the output.

        Args:
            sources: The inputs, as many as :attr:`operands` says.

        Raises:
            NotSupported: When the fields do not fit the sources (:meth:`refused`).
        """

    @abstractmethod
    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        """Return the values that the accumulator can reach, a bias included.

        Args:
            sources: The inputs, whose shapes fit.
            apply: Follows bounds through the step of an operand.

        Raises:
            NotSupported: When a value does not fit the arithmetic (:meth:`refused`).
        """

    @abstractmethod
    def compute(self, inputs: Sequence[Values]) -> Values:
        """Return the accumulator, a bias included, as a new array.

        Args:
            inputs: Elements of each input, shape (C, H, W).

        Returns:
            Int64 of shape (C, H, W), before the requantisations.
        """

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the values that the accumulator of each channel can reach.

        Args:
            intervals: Intervals of the channels of each input.
            sources: The inputs.

        Returns:
            Intervals of all output channels; None where all have the range of the output.
        """
        return None

    def macs(self, sources: Tensors, output: Tensor) -> int:
        """Return the multiply-accumulates that count as work."""
        return 0

    @property
    def parameters(self) -> int:
        """The number of its learned constants."""
        return 0

    def loads(self, source: Tensor) -> Loads:
        """Return the loads of a kernel that computes one output element after the other.

        Args:
            source: The first input.
        """
        return Loads(1, 1)

    def features(self, sources: Tensors) -> frozenset[Feature]:
        """Return the features that a kernel needs for the fields beyond the plain arithmetic."""
        return frozenset()

    # -- which input an output needs --------------------------------------------------------------

    @property
    def sliding(self) -> Window | None:
        """The window that slides over its input, which is its field ``window``; None for none."""
        return None

    def with_sliding(self, window: Window) -> Self:
        """Return the operator with another window that slides."""
        changes: dict[str, Any] = {"window": window}
        return replace(self, **changes)

    def places(self, axis: int, source: Tensor, output: Tensor) -> Places | None:
        """Return the elements of the first input that outputs along an axis read.

        Args:
            axis: Rows (0) or columns (1).
            source: The first input.
            output: The output.

        Returns:
            First and last element for each output element; None for its own place, or where
            a window says it.
        """
        return None

    def whole_axes(self, operand: int, source: Tensor, output: Tensor) -> Axes:
        """Return of which axes (C, H, W) a tile takes all of an input, whatever the tile is.

        Of the others it takes the channels, rows and columns of the first input.

        Args:
            operand: Number of the input.
            source: The input.
            output: The output.
        """
        return False, False, False

    def follows_output(self, operand: int) -> bool:
        """Return True when a tile has the rows and columns of an input that it has of the output.

        Else it has those of the first input. Axes that are whole are so in any case.
        """
        return False

    def channel_groups(self, source: Tensor, output: Tensor) -> int | None:
        """Return the number of groups of channels that are computed apart from one another.

        Returns:
            Number of groups that both input and output are divided in; None where an output
            channel may need all input channels.
        """
        return output.channels if self.is_channelwise else None

    def of_channels(self, channels: int, total: int) -> Self | None:
        """Return the operator of a part of the output channels, with the constants of all of them.

        Args:
            channels: Number of channels of the part, of whole groups (:meth:`channel_groups`).
            total: Number of channels of the output.

        Returns:
            None where a part needs other input channels than its own.
        """
        return self if self.is_channelwise else None

    def is_alike(self, axis: int) -> bool:
        """Return True when stripes along axis 0 (rows) or 1 (columns) have the same fields."""
        return True

    def byte_offsets(self, sources: Tensors, output: Tensor) -> tuple[int, ...] | None:
        """Return where the smaller tensors of a view begin in the larger one, in bytes.

        All tensors have elements of equal width. None when they are no ranges of bytes of it.
        """
        return None

    # -- channels that go -------------------------------------------------------------------------

    @property
    def is_dense(self) -> bool:
        """Whether the input and the output may lose channels apart from each other."""
        return False

    def channel_links(self, sources: Tensors, output: Tensor) -> Links | None:
        """Return which channels of inputs and output stay or go together.

        None when the layer needs all channels of all its tensors.
        """
        return same_channels(output.channels) if self.is_channelwise else None

    def needed_inputs(self, rows: Mask, interval: Interval, source: Tensor) -> Mask:
        """Return which input channels the output channels ``rows`` of a dense layer need."""
        return np.ones(source.channels, np.bool_)

    def selected(self, selection: Selection, sources: Tensors) -> dict[str, Any]:
        """Return the fields that change, beyond the requantisations, when channels go."""
        return {}

    # -- offsets ----------------------------------------------------------------------------------

    @property
    def offsets(self) -> Offsets:
        """Which of its tensors may be stored higher by an offset; an accumulator never is."""
        if not self.has_offsets:
            return Offsets.NONE
        return Offsets.EACH if self.requants else Offsets.INPUTS

    @property
    def padding(self) -> int:
        """The element that the layer pads its input with, 0 where it has no padding."""
        return 0

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Return the layer for elements that are higher, with the same values.

        Args:
            before: Offset of the elements of each input.
            after: Offset of the elements of the output.
        """
        raise NotImplementedError(f"{self.kind} has no offsets")

    # -- tests ------------------------------------------------------------------------------------

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        """Return a random layer of the kind, for the tests of kernels and of the core.

        Args:
            draw: Source of numbers, and the space of layers that a target's kernels compute.
            name: One of :attr:`samples`.
        """
        raise NotImplementedError(f"{cls.__name__} has no random layers")

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        """Return fixed layers by name, for the conformance kit."""
        return {}


def moved_steps(steps: tuple[Requant, ...], before: int, after: int) -> tuple[Requant, ...]:
    """Return steps for an accumulator higher by ``before``, whose result is higher by ``after``."""
    if not steps:
        return (requant(1, -before),) if before else ()
    first = (steps[0].moved(before), *steps[1:])
    return (*first[:-1], first[-1].moved(0, after))
