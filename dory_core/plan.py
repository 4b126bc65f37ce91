"""The Plan: everything decided. Code, estimate and report are printed from it and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from dory_core.estimate.program import Program
from dory_core.estimate.timeline import LayerEstimate, PartTimeline, Traffic
from dory_core.hardware import OperatingPoint, OutputFile
from dory_core.ir import Conv, Linear, Tensor, TypedLayer
from dory_core.kernel import StructCall
from dory_core.layout import HWC, Layout
from dory_core.memory import Block
from dory_core.tiling.problem import Tiling
from dory_core.tiling.schedule import PlacedBuffer, Schedule
from dory_core.tiling.tiled import CORES, KernelRejection, PassedOver

PLAN_VERSION = 1
GENERATOR = "dory"
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


IN_PLACE = "in place"
BLOCKS = "blocks"
RESIDENT = "resident"


@dataclass(frozen=True, slots=True)
class Transfer:
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
    text: str | StructCall
    engine: str = ""
    fetches: str = ""


@dataclass(frozen=True, slots=True)
class LayerStep:
    """One layer of the execution: tiles, buffers, transfers and kernel call.

    conversions: run before it. passed_over: engines that were preferred.
    """

    layer: TypedLayer
    kernel: KernelCall
    rejections: tuple[KernelRejection, ...]
    tiling: Tiling
    parts: tuple[PartPlan, ...]
    l1: tuple[PlacedBuffer, ...]
    inputs: tuple[Transfer, ...]
    output: Transfer
    weights: LayerWeights | None
    estimate: LayerEstimate
    timelines: tuple[PartTimeline, ...]
    conversions: tuple[Conversion, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()

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
        """Index of the layer in ONNX node order."""
        return self.layer.layer.index

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
    def resident(self) -> frozenset[str]:
        """Buffers in L1 (x, x2, y) whose tensor stays there between layers."""
        transfers = (*zip(("x", "x2"), self.inputs, strict=False), ("y", self.output))
        return frozenset(name for name, transfer in transfers if transfer.form == RESIDENT)

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
    transfers that may be open at once, 0 for any number. dma_alignment, ext_alignment: on
    multiples of so many bytes transfers of L1 and of L3 start.
    transfers: between L3 and L2, in order of their start. constants_apart: bytes from the start of
    L3 that lie in a memory for constants alone; 0 when all of L3 is one memory. program: timeline
    of one inference. final_conversions: of network outputs, behind the last layer.
    reason: why the plan cannot be deployed on the chip, empty when it can.
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
    dma_alignment: int
    ext_alignment: int
    files: tuple[OutputFile, ...]
    program: Program
    roofline: Roofline
    transfers: tuple[ExtTransfer, ...] = ()
    final_conversions: tuple[Conversion, ...] = ()
    more_l2_bytes: tuple[int, ...] = ()
    arena_used: int = 0
    constants_apart: int = 0
    operating_point: OperatingPoint | None = None
    reason: str = ""
    notes: tuple[str, ...] = field(default=())

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
        return self.program.cycles

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
            layer = step.layer.layer
            if isinstance(layer, (Conv, Linear)):
                total += layer.weights.values.size
                total += layer.bias.values.size if layer.bias is not None else 0
        return total

    def to_json(self) -> dict[str, Any]:
        """Return plan.json: every decision but the constants themselves."""
        cycles = self.cycles
        point = self.operating_point
        return {
            "version": PLAN_VERSION,
            "generator": GENERATOR,
            "target": self.target,
            "frontend": self.frontend,
            "options": dict(self.options),
            "deployable": self.deployable,
            "reason": self.reason,
            "network": {
                "name": self.network,
                "inputs": [_place_json(p) for p in self.inputs],
                "outputs": [_place_json(p) for p in self.outputs],
                "macs": self.macs,
                "parameters": self.parameters,
            },
            "cores": self.cores,
            "layers": [
                _step_json(step, self.levels, stall)
                for step, stall in zip(self.steps, self.program.stalls, strict=False)
            ],
            "memory": {level.name: _level_json(level) for level in self.levels},
            "transfers": [_transfer_json(t) for t in self.transfers],
            "final_conversions": [_conversion_json(c) for c in self.final_conversions],
            "totals": {
                "cycles": cycles,
                "macs_per_cycle": round(self.macs / cycles, 3) if cycles else None,
                "latency_ms": round(cycles / point.cluster_hz * 1e3, 4) if point else None,
                "energy_mj": round(cycles * point.energy_j_per_cycle * 1e3, 5) if point else None,
                "operating_point": point.name if point else None,
                "conversion_cycles": sum(c.cycles for c in self.conversions),
                "engines": self.engines,
            },
            "operating_point": None if point is None else _point_json(point),
            "roofline": {
                "peak_macs_per_cycle": self.roofline.peak_macs_per_cycle,
                "links": dict(self.roofline.links),
                "engines": dict(self.roofline.engines),
            },
            "notes": list(self.notes),
        }

    def timeline_json(self) -> dict[str, Any]:
        """Return timeline.json: what cores and links do, in cycles from the start.

        events: [lane, name, layer, tile, start, duration], the first three as positions in the
        lists beside them; of a layer -1 for what belongs to none.
        """
        events = sorted(self.program.events, key=lambda e: (e.start, e.end))
        lanes = list(dict.fromkeys(e.lane for e in events))
        names = list(dict.fromkeys(e.name for e in events))
        return {
            "version": PLAN_VERSION,
            "cycles": self.cycles,
            "lanes": lanes,
            "names": names,
            "layers": [
                f"{s.index:02d} {s.layer.layer.kind} {s.layer.layer.name}" for s in self.steps
            ],
            "events": [
                [
                    lanes.index(e.lane),
                    names.index(e.name),
                    -1 if e.step is None else e.step,
                    e.tile,
                    round(e.start, 1),
                    round(e.end - e.start, 1),
                ]
                for e in events
            ],
        }


def _point_json(point: OperatingPoint) -> dict[str, Any]:
    return {
        "name": point.name,
        "cluster_hz": point.cluster_hz,
        "io_hz": point.io_hz,
        "energy_j_per_cycle": point.energy_j_per_cycle,
        "source": point.source,
    }


def _tensor_json(tensor: Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "type": tensor.type_name,
        "range": [tensor.lo, tensor.hi],
    }


def _place_json(place: Place) -> dict[str, Any]:
    return {
        **_tensor_json(place.tensor),
        "level": place.level,
        "memory": place.memory,
        "offset": place.offset,
        "layout": place.layout.to_json(),
    }


def _conversion_json(conversion: Conversion) -> dict[str, Any]:
    return {
        "tensor": conversion.tensor.name,
        "source": _place_json(conversion.source),
        "target": _place_json(conversion.target),
        "cycles": conversion.cycles,
    }


def _transfer_json(transfer: ExtTransfer) -> dict[str, Any]:
    return {
        "name": transfer.name,
        "direction": "in" if transfer.incoming else "out",
        "bytes": transfer.size,
        "l2_offset": transfer.l2_offset,
        "l3_offset": transfer.l3_offset,
        "start": transfer.start,
        "wait": transfer.wait,
    }


def _level_json(level: LevelUse) -> dict[str, Any]:
    return {
        "used": level.used,
        "budget": level.budget,
        "dominant": level.dominant,
        "stack_bytes": level.stack_bytes,
        "packed_bytes": level.packed_bytes,
        "blocks": [
            {
                "name": b.name,
                "memory": b.memory,
                "offset": b.offset,
                "size": b.size,
                "first": b.first,
                "last": b.last,
            }
            for b in level.blocks
        ],
    }


def _step_json(
    step: LayerStep, levels: tuple[LevelUse, ...], l3_stall_cycles: int
) -> dict[str, Any]:
    typed, schedule, estimate = step.layer, step.schedule, step.estimate
    tile, traffic = step.tiling.tile, step.traffic
    return {
        "index": step.index,
        "name": typed.layer.name,
        "kind": typed.layer.kind,
        "macs": typed.macs,
        "engine": step.kernel.engine or CORES,
        "passed_over": [{"engine": p.engine, "reason": p.reason} for p in step.passed_over],
        "kernel": step.kernel.name,
        "symbol": step.kernel.symbol,
        "rejections": [
            {"kernel": r.kernel, "engine": r.engine or CORES, "reason": r.reason}
            for r in step.rejections
        ],
        "conversions": [_conversion_json(c) for c in step.conversions],
        "inputs": [{**_place_json(t.place), "transfer": t.form} for t in step.inputs],
        "output": {**_place_json(step.output.place), "transfer": step.output.form},
        "tiles": {
            "c_out": tile.c_out,
            "h": tile.h,
            "w": tile.w,
            "c_in": tile.c_in,
            "count": step.tile_count,
        },
        "order": schedule.order.split(","),
        "buffering": {
            "x": schedule.buffering.x,
            "w": schedule.buffering.w,
            "y": schedule.buffering.y,
        },
        "terms": [
            {"name": t.name, "weight": t.weight, "value": t.value, "text": t.text}
            for t in step.tiling.terms
        ],
        "l3_tiles": len(step.parts),
        "bytes": {"l1": step.l1_bytes, "l1_budget": levels[0].budget},
        "l1_blocks": [
            {"name": b.name, "bytes": b.bytes, "offsets": list(b.offsets)} for b in step.l1
        ],
        "weights": None
        if step.weights is None
        else {
            "level": step.weights.level,
            "linked": step.weights.linked,
            "fetched": step.kernel.fetches,
            "offset": step.weights.offset,
            "bytes": step.weights.size,
            "chunks": len(step.weights.chunks),
        },
        "requant": {
            "bits": typed.ranges.bits,
            "acc": [typed.ranges.acc_lo, typed.ranges.acc_hi],
            "value": [typed.ranges.value_lo, typed.ranges.value_hi],
        },
        "estimate": {
            "cycles": estimate.cycles,
            "compute_cycles": estimate.compute_cycles,
            "dma_cycles": estimate.dma_cycles,
            "stall_cycles": estimate.stall_cycles,
            "l3_stall_cycles": l3_stall_cycles,
            "conversion_cycles": step.conversion_cycles,
            "macs_per_cycle": estimate.macs_per_cycle,
            "bound": "L3-L2" if l3_stall_cycles > estimate.cycles else estimate.bound,
            "calls": traffic.calls,
            "transfers": traffic.transfers,
            "transfer_bytes": traffic.bytes,
        },
    }


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
    "PLAN_VERSION",
    "Transfer",
    "WeightChunk",
    "WeightTile",
]
