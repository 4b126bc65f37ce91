"""A layer of a Plan: its tiles, buffers, constants, transfers and kernel call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from dory_core.hardware.copies import Carriage
from dory_core.ir import Layer
from dory_core.ir.layout import HWC, Layout
from dory_core.kernels.binding import EngineRejection, KernelRejection
from dory_core.kernels.call import FunctionCall
from dory_core.plan.places import Conversion, Place
from dory_core.schedule.loops import PlacedBuffer, Schedule
from dory_core.schedule.tiling import Tiling
from dory_core.schedule.timeline import LayerEstimate, PartTimeline, Traffic


class Form(StrEnum):
    """How tiles of a tensor move between L2 and L1; the values stand in ``plan.json``.

    Attributes:
        ROWS: Full-channel pixels; one row of the copy is a row of the tile.
        PIXELS: A slice of the channels; one row of the copy is a pixel.
        CHANNELS: HWC in L2, CHW in L1; one copy per channel with rows of one element.
        BLOCKS: Whole rows of a layout with blocks of channels; one row of the copy is the tile's
            part of a block.
        IN_PLACE: No copy, the kernel works on the tensor in L2.
        RESIDENT: No copy, the tensor is resident in L1; a tile is all of it, or whole rows of it.
    """

    ROWS = "rows"
    PIXELS = "pixels"
    CHANNELS = "channels"
    BLOCKS = "blocks"
    IN_PLACE = "in place"
    RESIDENT = "resident"


@dataclass(frozen=True, slots=True)
class OperandPlan:
    """How tiles of a tensor move between L2 and L1.

    Attributes:
        form: How tiles move.
        place: Place of the tensor.
        layout: Layout in which the kernel reads or writes it.
    """

    form: Form
    place: Place
    layout: Layout = HWC


@dataclass(frozen=True, slots=True)
class WeightTile:
    """One WeightBlock in its chunk.

    Attributes:
        offset: Bytes from the start of the chunk.
        size: Its bytes.
        channels: Output channels whose constants it holds.
        parts: Byte offsets of its parts in it, by name (``weights``, ``mul``, ...).
    """

    offset: int
    size: int
    channels: int
    parts: Mapping[str, int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))


@dataclass(frozen=True, slots=True)
class WeightChunk:
    """The constants of one group of output channels: what is fetched from L3 at once.

    Attributes:
        offset: Bytes from the start of the layer's table.
        data: The bytes.
        tiles: Its blocks, [output tile][input tile].
    """

    offset: int
    data: bytes
    tiles: tuple[tuple[WeightTile, ...], ...]


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Constants of one layer, cut into the blocks that its tiles load.

    Attributes:
        level: Number of the level where the table lives.
        offset: Bytes from the start of the budget of its memory to the table.
        size: Bytes of the table.
        chunks: The groups of output channels, in order.
        linked: Whether it is a C table from which tiles are loaded; else it is streamed from its
            level through L2.
        far: Whether it lies in the second memory of its level.
    """

    level: int
    offset: int
    size: int
    chunks: tuple[WeightChunk, ...]
    linked: bool
    far: bool = False


@dataclass(frozen=True, slots=True)
class TakenRows:
    """Rows of a network input that come before a part runs.

    Attributes:
        input: Number of the input.
        place: Where its rolling buffer lies.
        offset: Byte of L2 that they come to.
        first, rows: Number of the first one, and how many.
        moves: (first byte, bytes) of rows that move to the start of the buffer before.
    """

    input: int
    place: Place
    offset: int
    first: int
    rows: int
    moves: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class PartPlan:
    """A part of a layer: one run of the L2-L1 pipeline.

    Attributes:
        position: In the execution of the network.
        schedule: The tile loop, relative to the part's data.
        inputs, output: Byte offsets in the L2 arena of the first row of each.
        chunk: Which constants.
        weights: Their byte offset in the L2 arena when streamed, None when linked.
        report: (byte offset in the L2 arena, bytes) of the output that is complete after this part.
        stripe: First row (or column) of the output and how many.
        moves: (first byte, bytes) of the rows of the output's rolling buffer that move to its start
            before the part runs; None for none.
        finds_inputs: The part before has left its inputs in L1.
        takes: Rows of network inputs that come before it runs.
        early: (rolling buffer, first byte, bytes) of rows of other tensors that move to the start
            of their buffer before all this.
    """

    position: int
    schedule: Schedule
    inputs: tuple[int, ...]
    output: int
    chunk: int = 0
    weights: int | None = None
    report: tuple[int, int] | None = None
    stripe: tuple[int, int] = (0, 0)
    moves: tuple[int, int] | None = None
    finds_inputs: bool = False
    takes: tuple[TakenRows, ...] = ()
    early: tuple[tuple[Place, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A kernel bound to one layer: what the generated code includes and calls.

    Attributes:
        name: Of the kernel, for reports.
        symbol: The function in C.
        headers: Files that declare it.
        call: Its arguments.
        engine: Name of the unit that computes, empty for the cores.
        fetches: Memory of level 1 that the call fills with the constants of a tile, empty when they
            are loaded into L1.
    """

    name: str
    symbol: str
    headers: tuple[str, ...]
    call: FunctionCall
    engine: str = ""
    fetches: str = ""


@dataclass(frozen=True, slots=True)
class Ahead:
    """The load of a later layer's first block of constants, which an earlier layer starts.

    Attributes:
        step: Number of the later layer in the execution.
        tile: Number of the earlier layer's tile before whose kernel the load starts.
        fetched: Whether the constants were fetched to L2; otherwise they are linked.
        by_words: Whether it is a load by words, see ``Link.words_per_cycle``.
    """

    step: int
    tile: int
    fetched: bool = False
    by_words: bool = False


@dataclass(frozen=True, slots=True)
class LayerStep:
    """One layer of the execution: tiles, buffers, transfers and kernel call.

    Attributes:
        layer: The layer.
        kernel: What computes it.
        rejections: Why other kernels do not.
        tiling: Its tile, of the largest part.
        parts: In the order in which they run.
        l1: Buffers in L1.
        inputs, output: Where they lie and how they are moved.
        weights: Its constants, None without.
        estimate: Cycles of all parts.
        timelines: Of each part.
        conversions: Changes of layout that run before it.
        passed_over: Engines that were preferred and do not compute it.
        kept: Where tensors lie in L1 after it that later layers find there, its own output or
            others.
        carriages: How the copies of x, x2, w and y between L2 and L1 are made, of those that are
            moved.
        is_view: Whether nothing runs, because the output lies where the inputs do.
        ahead: What it loads for a later layer.
        loaded_ahead: Whether an earlier layer starts the load of its first block of constants.
        chain: Number of layers of its fused chain, 1 outside one.
        chain_end: Number of the step after its chain, 0 outside one.
    """

    layer: Layer
    kernel: KernelCall
    rejections: tuple[KernelRejection, ...]
    tiling: Tiling
    parts: tuple[PartPlan, ...]
    l1: tuple[PlacedBuffer, ...]
    inputs: tuple[OperandPlan, ...]
    output: OperandPlan
    weights: LayerWeights | None
    estimate: LayerEstimate
    timelines: tuple[PartTimeline, ...]
    conversions: tuple[Conversion, ...] = ()
    passed_over: tuple[EngineRejection, ...] = ()
    kept: tuple[Place, ...] = ()
    carriages: Mapping[str, Carriage] = field(default_factory=dict)
    is_view: bool = False
    ahead: Ahead | None = None
    loaded_ahead: bool = False
    chain: int = 1
    chain_end: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "carriages", MappingProxyType(dict(self.carriages)))

    @property
    def conversion_cycles(self) -> int:
        """Estimated cycles of the conversions before it, which are not part of its estimate."""
        return sum(c.cycles for c in self.conversions)

    @property
    def traffic(self) -> Traffic:
        """What all parts move and compute."""
        return sum((t.traffic for t in self.timelines), Traffic(0, 0, 0))

    @property
    def index(self) -> int:
        """Index of the layer in the order of the file."""
        return self.layer.op.index

    @property
    def schedule(self) -> Schedule:
        """The tile loop of the first part; of the layer when there is only one."""
        return self.parts[0].schedule

    @property
    def in_place(self) -> bool:
        """Nothing is moved: the kernel works where tensors and constants lie."""
        return self.output.form == Form.IN_PLACE

    @property
    def tile_count(self) -> int:
        """Tiles of all parts."""
        return sum(part.schedule.count for part in self.parts)

    @property
    def l1_bytes(self) -> int:
        """Bytes of L1 that the layer uses, from its start."""
        return max((b.offsets[-1] + b.bytes for b in self.l1), default=0)

    @property
    def beside(self) -> tuple[Place, ...]:
        """Where tensors lie in L1 that the layer neither reads there nor writes."""
        own = {t.place.tensor.name for t in self.inputs if t.form == Form.RESIDENT}
        own.add(self.layer.output.name)
        return tuple(place for place in self.kept if place.tensor.name not in own)

    @property
    def found(self) -> tuple[Place, ...]:
        """Where tensors lie in L1 when the layer begins."""
        return (*(t.place for t in self.inputs if t.form == Form.RESIDENT), *self.beside)

    @property
    def hands_on(self) -> bool:
        """Whether it starts a load of constants that it does not wait for, or waits for one."""
        return self.ahead is not None or self.loaded_ahead

    def block(self, name: str) -> PlacedBuffer | None:
        """Return the L1 buffer with this name."""
        return next((b for b in self.l1 if b.name == name), None)
