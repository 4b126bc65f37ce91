"""The Plan: everything decided. Code, estimate and report are printed from it and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from dory_core.binding import CORES, EngineRejection, KernelRejection
from dory_core.blocks import Block
from dory_core.copies import Carriage
from dory_core.estimate.timeline import LayerEstimate, PartTimeline, Traffic
from dory_core.hardware import Link, OperatingPoint, OutputFile
from dory_core.ir import Conv, Layer, Linear, Tensor
from dory_core.ir.layout import HWC, Layout
from dory_core.kernel import FunctionCall
from dory_core.plan.document import GENERATOR, PLAN_VERSION, plan_json, timeline_json
from dory_core.plan.operations import Program
from dory_core.plan.timeline import NetworkTimeline
from dory_core.tiles.schedule import PlacedBuffer, Schedule
from dory_core.tiles.tiling import Tiling

TIMELINE_FILE = "timeline.json"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies while it lives: level number and byte offset in the level's arena.

    memory: number of the memory among those of the level; each has an arena of its own. layout: how
    its elements lie there.
    """

    tensor: Tensor
    level: int
    offset: int
    memory: int = 0
    layout: Layout = HWC

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes."""
        return self.layout.size_bytes(self.tensor)


@dataclass(frozen=True, slots=True)
class Conversion:
    """A copy of a tensor in another layout, made by the cores in L2.

    cycles: estimate.
    """

    source: Place
    target: Place
    cycles: int

    @property
    def tensor(self) -> Tensor:
        """What is converted."""
        return self.source.tensor


@dataclass(frozen=True, slots=True)
class StatePlan:
    """State of a network: a tensor that lives from one inference to the next.

    name: in the file. place: where an inference finds it; nothing else lies there at any time.
    left: where its layer leaves it for the next inference: the same place, or it is copied there
    behind the last layer. initial: what the first inference finds, in storage form.
    """

    name: str
    place: Place
    left: Place
    initial: bytes

    @property
    def at_end(self) -> Place:
        """Where what is left lies when the inference has ended."""
        return replace(self.left, memory=self.place.memory, offset=self.place.offset)

    @property
    def copied(self) -> bool:
        """Whether it is copied at the end."""
        return (self.left.memory, self.left.offset) != (self.place.memory, self.place.offset)

    @property
    def overlaps(self) -> bool:
        """Whether the copy reads bytes that it writes."""
        near = abs(self.left.offset - self.place.offset) < self.place.size_bytes
        return self.copied and near and self.left.memory == self.place.memory

    @property
    def table_bytes(self) -> int:
        """Bytes of the table of initial values that is linked; 0 where all bytes are one value."""
        return initial_table_bytes(self.initial)


def initial_table_bytes(initial: bytes) -> int:
    """Return the bytes of a table of initial values, in whole words; 0 where one byte fills all."""
    return 0 if len(set(initial)) == 1 else -(-len(initial) // 4) * 4


IN_PLACE = "in place"
BLOCKS = "blocks"
RESIDENT = "resident"
#: Of all public names in C, where the user gives no other.
DEFAULT_PREFIX = "dory"


@dataclass(frozen=True, slots=True)
class OperandPlan:
    """How tiles of a tensor move between L2 and L1.

    form: ``rows``: full-channel pixels, one row of the copy is a row of the tile;
    ``pixels``: a slice of the channels, one row of the copy is a pixel;
    ``channels``: HWC in L2, CHW in L1, one copy per channel with rows of one element;
    ``blocks``: whole rows of a layout that keeps blocks of channels apart, one row of the copy is
    what the tile has of a block;
    ``in place``: not at all, the kernel works on the tensor in L2;
    ``resident``: not at all, the whole tensor is a tile that stays in L1, where its place is.
    layout: as which the kernel reads or writes it.
    """

    form: str
    place: Place
    layout: Layout = HWC


@dataclass(frozen=True, slots=True)
class WeightTile:
    """One WeightBlock: byte offset and size in its chunk, offsets of its parts.

    channels: output channels whose constants it holds.
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

    offset: byte offset in the layer's table. tiles: [output tile][input tile].
    """

    offset: int
    data: bytes
    tiles: tuple[tuple[WeightTile, ...], ...]


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Constants of one layer, cut into the blocks that its tiles load.

    level: where the table lives. linked: as a C table from which tiles are loaded; else it is
    streamed from there through L2. offset: byte offset of the table in the budget of its level.
    size: its bytes.
    """

    level: int
    offset: int
    size: int
    chunks: tuple[WeightChunk, ...]
    linked: bool


@dataclass(frozen=True, slots=True)
class PartPlan:
    """A part of a layer: one run of the L2-L1 pipeline.

    position: in the execution of the network. schedule: the tile loop, relative to the part's data.
    inputs, output: byte offsets in the L2 arena of the first row of each. chunk: which constants.
    weights: their byte offset in the L2 arena when streamed, None when linked.
    report: (byte offset in the L2 arena, bytes) of the output that is complete after this part.
    """

    position: int
    schedule: Schedule
    inputs: tuple[int, ...]
    output: int
    chunk: int = 0
    weights: int | None = None
    report: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ExtTransfer:
    """A transfer between L3 and L2 of contiguous bytes.

    incoming: from L3 to L2. start: started before the part at this position runs, behind the
    waits there. wait: waited for before the part at this position runs; equal to start when it
    blocks. slot: of the ticket.
    """

    name: str
    l2_offset: int
    l3_offset: int
    size: int
    incoming: bool
    start: int
    wait: int
    slot: int = 0


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A kernel bound to one layer: what the generated code includes and calls.

    engine: what computes, empty for the cores. fetches: memory of level 1 that the call fills with
    the constants of a tile, empty when they are loaded into L1.
    """

    name: str
    symbol: str
    headers: tuple[str, ...]
    call: FunctionCall
    engine: str = ""
    fetches: str = ""


@dataclass(frozen=True, slots=True)
class LayerStep:
    """One layer of the execution: tiles, buffers, transfers and kernel call.

    conversions: run before it. passed_over: engines that were preferred. kept: where tensors lie in
    L1 behind it that later layers find there, its own output or others. carriages: how the copies
    of x, x2, w and y between L2 and L1 are made, of those that are moved. is_view: nothing runs,
    the output lies where the inputs do.
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
        return self.output.form == IN_PLACE

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
        own = {t.place.tensor.name for t in self.inputs if t.form == RESIDENT}
        own.add(self.layer.output.name)
        return tuple(place for place in self.kept if place.tensor.name not in own)

    @property
    def found(self) -> tuple[Place, ...]:
        """Where tensors lie in L1 when the layer begins."""
        return (*(t.place for t in self.inputs if t.form == RESIDENT), *self.beside)

    def block(self, name: str) -> PlacedBuffer | None:
        """Return the L1 buffer with this name."""
        return next((b for b in self.l1 if b.name == name), None)


@dataclass(frozen=True, slots=True)
class LevelUse:
    """How a level is used.

    used, budget: bytes. blocks: lifetimes in execution positions, -1 before the first layer.
    stack_bytes, packed_bytes: peak of the activations by the paper's stack and by the packing.
    """

    name: str
    used: int
    budget: int
    blocks: tuple[Block, ...]
    stack_bytes: int | None = None
    packed_bytes: int | None = None

    @property
    def dominant(self) -> str:
        """Name of the largest block."""
        return max(self.blocks, key=lambda b: b.size).name if self.blocks else ""


@dataclass(frozen=True, slots=True)
class Roofline:
    """What bounds every layer: MACs per cycle of all cores (0: unknown), bytes per cycle of links
    by name, MACs per cycle of engines by name."""

    peak_macs_per_cycle: float
    links: Mapping[str, float]
    engines: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", MappingProxyType(dict(self.links)))
        object.__setattr__(self, "engines", MappingProxyType(dict(self.engines)))


@dataclass(frozen=True, slots=True)
class Plan:
    """A network resolved for one target.

    arena_bytes: size of the arena the application gets per level number; what a level holds beyond
    it (resident weights) is linked into that memory. static_bytes: those bytes. more_l2_bytes:
    sizes of the arenas in further memories of L2. arena_used: bytes used of that in the first one.
    any_core: each core may start transfers between L2 and L1. dma_tickets: most tickets of such
    transfers that may be open at once, 0 for any number. dma: the link between L2 and L1 with the
    limits of every transfer into L1. ext: the link between L3 and L2, None without transfers.
    transfers: between L3 and L2, in order of their start. constants_apart: bytes from the start of
    L3 that lie in a memory for constants alone; 0 when all of L3 is one memory. program: all
    operations of one inference. timeline: what they take. final_conversions: of network outputs,
    behind the last layer. reason: why the plan cannot be deployed on the chip, empty when it can.
    reference: of the Graph, whose arithmetic it has. prefix: of all public names in C. float_io:
    the application has functions that convert real numbers at its border, with ties_even or away
    from zero. states: what lives between inferences, in the order in which it is copied at the end.
    """

    target: str
    frontend: str
    network: str
    options: Mapping[str, Any]
    steps: tuple[LayerStep, ...]
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    levels: tuple[LevelUse, ...]
    arena_bytes: Mapping[int, int]
    static_bytes: Mapping[int, int]
    cores: int
    any_core: bool
    dma_tickets: int
    dma: Link
    ext: Link | None
    files: tuple[OutputFile, ...]
    program: Program = field(compare=False)
    timeline: NetworkTimeline
    roofline: Roofline
    transfers: tuple[ExtTransfer, ...] = ()
    final_conversions: tuple[Conversion, ...] = ()
    more_l2_bytes: tuple[int, ...] = ()
    arena_used: int = 0
    constants_apart: int = 0
    operating_point: OperatingPoint | None = None
    reason: str = ""
    notes: tuple[str, ...] = field(default=())
    reference: str = ""
    prefix: str = DEFAULT_PREFIX
    float_io: bool = False
    ties_even: bool = False
    states: tuple[StatePlan, ...] = ()

    def __post_init__(self) -> None:
        for name in ("options", "arena_bytes", "static_bytes"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def deployable(self) -> bool:
        """True when the budgets are the chip's."""
        return not self.reason

    @property
    def conversions(self) -> tuple[Conversion, ...]:
        """All changes of layout, in their order."""
        return (*(c for step in self.steps for c in step.conversions), *self.final_conversions)

    @property
    def cycles(self) -> int:
        """Estimated cycles of one inference."""
        return self.timeline.cycles

    @property
    def engines(self) -> dict[str, dict[str, int]]:
        """Layers, MACs and estimated cycles of each engine, in the order of their first layer."""
        found: dict[str, dict[str, int]] = {}
        for step in self.steps:
            empty = {"layers": 0, "macs": 0, "cycles": 0}
            mine = found.setdefault(step.kernel.engine or CORES, empty)
            mine["layers"] += 1
            mine["macs"] += step.layer.macs
            mine["cycles"] += step.estimate.cycles
        return found

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one inference."""
        return sum(s.layer.macs for s in self.steps)

    @property
    def parameters(self) -> int:
        """Number of weights and biases."""
        total = 0
        for step in self.steps:
            layer = step.layer.op
            if isinstance(layer, (Conv, Linear)):
                total += layer.weights.values.size
                total += layer.bias.values.size if layer.bias is not None else 0
        return total

    def to_json(self) -> dict[str, Any]:
        """Return plan.json: every decision but the constants themselves."""
        return plan_json(self)

    def timeline_json(self) -> dict[str, Any]:
        """Return timeline.json: what cores and links do, in cycles from the start."""
        return timeline_json(self)


__all__ = [
    "GENERATOR",
    "Conversion",
    "ExtTransfer",
    "KernelCall",
    "LayerStep",
    "LayerWeights",
    "LevelUse",
    "PartPlan",
    "Place",
    "Plan",
    "Roofline",
    "StatePlan",
    "PLAN_VERSION",
    "OperandPlan",
    "WeightChunk",
    "WeightTile",
    "initial_table_bytes",
]
