"""What a kernel backend declares about its kernels.

The methods that take a ``tile`` work on integers, numpy arrays and ``dory_core.expr.Expr``: write
them with + - * // % and the functions of ``dory_core.expr`` (ceil_div, minimum, maximum), and the
same line is constraint, exhaustive check, estimate and explanation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from types import MappingProxyType
from typing import ClassVar

from dory_core.errors import PluginError, declared_in
from dory_core.expr import Number
from dory_core.hardware.target import OutputFile
from dory_core.ir import Layer, MaxPool, Tensor
from dory_core.ir.features import Feature
from dory_core.ir.geometry import Tile
from dory_core.ir.layout import HWC, Layout
from dory_core.kernels.call import FunctionCall


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a kernel does not take a layer.

    Attributes:
        reason: A sentence for the person at the keyboard.
        other_kind: Whether it computes other kinds of layers; a better reason of its engine goes
            before.
    """

    reason: str
    other_kind: bool = False


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition on the tile that must hold.

    Attributes:
        condition: An expression over the tile variables, not 0 where it holds.
        reason: The sentence that explains it.
    """

    condition: Number
    reason: str


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the objective, maximised as weight * value.

    Attributes:
        name: For reports.
        weight: An exact multiple of 1/2.
        value: Expression over the tile variables.
    """

    name: str
    weight: float
    value: Number

    def __post_init__(self) -> None:
        weight: object = self.weight
        number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not number or not isfinite(2 * self.weight) or 2 * self.weight % 1:
            raise PluginError(
                f"term {self.name!r} of the objective has the weight {weight!r}, which is no "
                "multiple of 1/2",
                "report this to the authors of the plugin that declares the term",
            )
        value: object = self.value
        if value is None or isinstance(value, (str, bytes, float, list, tuple)):
            raise PluginError(
                f"term {self.name!r} of the objective has the value {value!r}, which is no integer "
                "expression over the tile",
                "report this to the authors of the plugin that declares the term",
            )


@dataclass(frozen=True, slots=True)
class WeightBlock:
    """The constants that one tile of a kernel needs, as they lie in memory.

    Attributes:
        data: Bytes of one contiguous block (weights, then requantisation parameters, bias...).
        parts: Byte offset of each part that the kernel's call names (``weights``, ``mul``, ``add``,
            ``bias``).
    """

    data: bytes
    parts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))


@dataclass(frozen=True, slots=True)
class Access:
    """How one call of a kernel reads or writes an operand where it lies.

    Attributes:
        operand: ``x``, ``x2``, ``w``, ``y`` or ``scratch``.
        count: Loads and stores.
        bytes: Different ones.
        again: (bytes, distance in bytes): of bytes that are touched again, in whole lines of the
            cache, how many others of all operands have been touched since.
    """

    operand: str
    count: int
    bytes: int
    again: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Traits:
    """How a kernel handles a layer otherwise than in tiles of HWC that lie in L1 with constants.

    Attributes:
        inputs, output: Layouts in L2 and of tiles in L1; no inputs: all are HWC. Where one is not
            HWC, a tile has whole rows, and all channels or a multiple of ``channel_multiple`` of
            them; it lies in L1 as a tensor of its rows and channels would. The planner converts
            where it has to. A kernel that leaves anything in the padding of its output says so with
            ``clean=False``.
        planar: The tile of an HWC input lies in L1 as CHW; transfers reorder it.
        accumulates: Input channels may be tiled, partial sums stay in L1 as int32. Where an input
            or the output has another layout than HWC they are never tiled.
        in_place: It works on tensors in L2 and on linked constants where they lie, in one piece; L1
            holds only its scratch memory.
        fetches: Role of a memory of level 1 that its call fills itself with the constants of the
            tile: they are not loaded into L1, the operand ``weights`` and the other parts are
            addresses where they are linked, and the block of a tile fits that memory. Its cycles
            include the fetch. ``Traits.LINKED``: it reads them where they are linked.
    """

    LINKED: ClassVar[str] = "linked constants"

    inputs: tuple[Layout, ...] = ()
    output: Layout = HWC
    planar: bool = False
    accumulates: bool = False
    in_place: bool = False
    fetches: str = ""

    def input_layouts(self, layer: Layer) -> tuple[Layout, ...]:
        """Return the layout of every input of a layer."""
        return self.inputs or (HWC,) * len(layer.inputs)

    @property
    def is_hwc(self) -> bool:
        """Inputs and output are HWC in L2."""
        return self.output.is_hwc and all(layout.is_hwc for layout in self.inputs)


PLAIN = Traits()


class Kernel(ABC):
    """A C kernel that computes one tile of one layer; every core calls it.

    Attributes:
        name: Unique within the target; our own are prefixed ``dory_<target>_``. The symbol is given
            per layer by :meth:`symbol`, since one family has many precisions.
        summary: What it computes, in one line, for the page of kernels.
        engine: Name of the unit that computes, for reports; empty for the target's cores.
        features: What it computes beyond the plain arithmetic, of :class:`Feature`. What only some
            kernels do is said by their :meth:`traits`, and by :class:`MemoryAccesses`.
    """

    name: str
    summary: str = ""
    engine: str = ""
    features: frozenset[Feature] = frozenset()

    @abstractmethod
    def accepts(self, layer: Layer) -> Rejection | None:
        """Return None when the kernel computes the layer exactly, else why not."""

    def traits(self, layer: Layer) -> Traits:
        """Return the traits of the kernel on a layer that it accepts."""
        return PLAIN

    def constraints(self, layer: Layer, tile: Tile) -> tuple[Constraint, ...]:
        """Return the kernel's own conditions on tiles; memory is not its business."""
        return ()

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of scratch memory in L1 that a call on ``tile`` needs."""
        return 0

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the size of the WeightBlock of a tile, a multiple of 8; 0 without constants."""
        return 0

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the constants of output channels c_out[0]:c_out[1], input channels likewise.

        The ranges are of the layer's own channels; c_in is the whole range unless the kernel
        accumulates. len(data) equals ``weight_bytes``.
        """
        return None

    def code_bytes(self, layer: Layer) -> int | None:
        """Return the bytes of the function with its constants; None: as ``CodeSizes`` says.

        They count once for each symbol that a network uses, in addition to its data.
        """
        return None

    def running_bytes(self, layer: Layer) -> int | None:
        """Return the bytes of code that a call on a tile runs; None: a share of ``code_bytes``.

        See ``InstructionCache``, by which they cost cycles.
        """
        return None

    def shared_code(self, layer: Layer) -> Mapping[str, int]:
        """Return the bytes of functions that its call shares with other kernels, by their names.

        Each name counts once in a network, beside ``code_bytes``.
        """
        return {}

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Return the terms that make a tile good or bad for the kernel, besides filling the memory.

        They are added to those of the target (``dory_objective_terms``).

        Args:
            layer: What is tiled: a layer, or its largest part where it is computed in parts.
            tile: Sizes as expressions. The kernel is asked about the tile, and then about its
                border tile, whose ``last`` is None; names of terms of the latter get the suffix
                ``_BORDER``. Terms that concern all tiles belong to the former.
        """
        return ()

    @abstractmethod
    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return the estimated cycles of one call on ``tile``, all cores, fork-free."""

    @abstractmethod
    def symbol(self, layer: Layer) -> str:
        """Return the C function that the generated code calls."""

    @abstractmethod
    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of the kernel on one tile.

        Its arguments are what a tile has, by the names of :data:`POINTERS` and :data:`SIZES`, which
        docs/plugins.md lists, and constants of the layer.
        """

    @abstractmethod
    def headers(self, layer: Layer) -> tuple[str, ...]:
        """Return the headers that the generated layer includes for this kernel."""

    @abstractmethod
    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """Return every file that the call needs, at paths below ``kernels/``."""


def kernel_error(kernel: Kernel, layer: Layer, what: str) -> PluginError:
    """Return the error of a kernel that does not keep to its contract."""
    return PluginError(
        f"{layer.op.kind} '{layer.op.name}': kernel {kernel.name} of {declared_in(kernel)} {what}",
        "report this to the authors of the kernel",
    )


class MemoryAccesses(ABC):
    """A kernel that says how it goes through memory when it works in place.

    Of others the estimate takes that they compute one output after the other.
    """

    @abstractmethod
    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[Access, ...]:
        """Return how a call goes through its operands in place.

        Args:
            layer: The layer; it is not tiled.
            tile: All of it, in integers.
            line_bytes: Bytes of a line of the cache.
        """


def reject_type(tensor: Tensor, role: str, allowed: tuple[str, ...]) -> Rejection | None:
    """Return why the storage of ``tensor`` is not possible; ``role`` is ``input`` or ``output``."""
    if tensor.type_name in allowed:
        return None
    return Rejection(f"its {role} is {tensor.type_name}, possible are {', '.join(allowed)}")


def reject_weights(layer: Layer, bits: int = 8) -> Rejection | None:
    """Return why the weights of a Conv or Linear are no signed integers of ``bits`` bits.

    Those of a uint8 file less their zero point have 9 bits. A kernel asks before it turns weights
    into int8.
    """
    low, high = layer.weighted.weights.bounds
    if -(1 << bits - 1) <= low and high < 1 << bits - 1:
        return None
    return Rejection(f"its weights lie in [{low}, {high}], not in {bits} bits with sign")


def reject_maximum(layer: Layer) -> Rejection | None:
    """Return why a layer is no maximum over a window that is stored as it is."""
    if not isinstance(layer.op, MaxPool):
        return Rejection("it computes maximum pooling only")
    if layer.op.requants:
        return Rejection("it has no requantisation after the maximum")
    if layer.output.type_name != layer.inputs[0].type_name:
        return Rejection("input and output of a maximum must be stored alike")
    return None
