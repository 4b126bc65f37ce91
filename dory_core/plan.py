"""The Plan: everything decided. Code, estimate and report are printed from it and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from dory_core.estimate.timeline import LayerEstimate
from dory_core.hardware import OperatingPoint, OutputFile
from dory_core.ir import Conv, Linear, Tensor, TypedLayer
from dory_core.memory import Block
from dory_core.tiling.problem import Tiling
from dory_core.tiling.schedule import PlacedBuffer, Schedule
from dory_core.tiling.tiler import KernelRejection

PLAN_VERSION = 1
GENERATOR = "dory"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies while it lives: level number and byte offset in the level's arena."""

    tensor: Tensor
    level: int
    offset: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """How tiles of a tensor move between L2 and L1.

    form: ``rows``: full-channel pixels, one row of the copy is a row of the tile;
    ``pixels``: a slice of the channels, one row of the copy is a pixel;
    ``channels``: HWC in L2, CHW in L1, one copy per channel with rows of one element.
    """

    form: str
    place: Place


@dataclass(frozen=True, slots=True)
class WeightTile:
    """One WeightBlock of a layer: byte offset and size in its table, offsets of its parts."""

    offset: int
    size: int
    parts: Mapping[str, int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Constants of one layer, cut into the blocks that its tiles load.

    level: where the table lives. offset: byte offset of the table in the level's budget.
    data: the blocks in the order in which tiles load them. tiles: [output tile][input tile].
    """

    level: int
    offset: int
    data: bytes
    tiles: tuple[tuple[WeightTile, ...], ...]


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A kernel bound to one layer: what the generated code includes and calls."""

    name: str
    symbol: str
    headers: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class LayerStep:
    """One layer of the execution: tiles, buffers, transfers and kernel call."""

    layer: TypedLayer
    kernel: KernelCall
    rejections: tuple[KernelRejection, ...]
    tiling: Tiling
    schedule: Schedule
    l1: tuple[PlacedBuffer, ...]
    inputs: tuple[Transfer, ...]
    output: Transfer
    weights: LayerWeights | None
    estimate: LayerEstimate

    @property
    def index(self) -> int:
        """Index of the layer in ONNX node order."""
        return self.layer.layer.index

    @property
    def l1_bytes(self) -> int:
        """Bytes of L1 that the layer uses."""
        return max((b.offsets[-1] + b.bytes for b in self.l1), default=0)

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
class Plan:
    """A network resolved for one target.

    arena_bytes: size of the arena the application gets per level number; what a level holds beyond
    it (resident weights) is linked into that memory. static_bytes: those bytes.
    any_core: each core may start transfers. dma_alignment: their rows start on multiples of it.
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
    dma_alignment: int
    files: tuple[OutputFile, ...]
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
        cycles = sum(s.estimate.cycles for s in self.steps)
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
            "layers": [_step_json(s, self.levels) for s in self.steps],
            "memory": {level.name: _level_json(level) for level in self.levels},
            "totals": {
                "cycles": cycles,
                "macs_per_cycle": round(self.macs / cycles, 3) if cycles else None,
                "latency_ms": round(cycles / point.cluster_hz * 1e3, 4) if point else None,
                "energy_mj": round(cycles * point.energy_j_per_cycle * 1e3, 5) if point else None,
                "operating_point": point.name if point else None,
            },
            "notes": list(self.notes),
        }


def _tensor_json(tensor: Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "type": tensor.type_name,
        "range": [tensor.lo, tensor.hi],
    }


def _place_json(place: Place) -> dict[str, Any]:
    return {**_tensor_json(place.tensor), "level": place.level, "offset": place.offset}


def _level_json(level: LevelUse) -> dict[str, Any]:
    return {
        "used": level.used,
        "budget": level.budget,
        "dominant": level.dominant,
        "stack_bytes": level.stack_bytes,
        "packed_bytes": level.packed_bytes,
        "blocks": [
            {"name": b.name, "offset": b.offset, "size": b.size, "first": b.first, "last": b.last}
            for b in level.blocks
        ],
    }


def _step_json(step: LayerStep, levels: tuple[LevelUse, ...]) -> dict[str, Any]:
    typed, schedule, estimate = step.layer, step.schedule, step.estimate
    tile = step.tiling.tile
    return {
        "index": step.index,
        "name": typed.layer.name,
        "kind": typed.layer.kind,
        "macs": typed.macs,
        "kernel": step.kernel.name,
        "symbol": step.kernel.symbol,
        "rejections": [{"kernel": r.kernel, "reason": r.reason} for r in step.rejections],
        "inputs": [{**_place_json(t.place), "transfer": t.form} for t in step.inputs],
        "output": {**_place_json(step.output.place), "transfer": step.output.form},
        "tiles": {
            "c_out": tile.c_out,
            "h": tile.h,
            "w": tile.w,
            "c_in": tile.c_in,
            "count": schedule.count,
        },
        "order": schedule.order.split(","),
        "buffering": {
            "x": schedule.buffering.x,
            "w": schedule.buffering.w,
            "y": schedule.buffering.y,
        },
        "terms": [
            {"name": t.name, "weight": t.weight, "value": t.value} for t in step.tiling.terms
        ],
        "l3_tiles": None,
        "bytes": {"l1": step.l1_bytes, "l1_budget": levels[0].budget},
        "l1_blocks": [
            {"name": b.name, "bytes": b.bytes, "offsets": list(b.offsets)} for b in step.l1
        ],
        "weights": None
        if step.weights is None
        else {
            "level": step.weights.level,
            "offset": step.weights.offset,
            "bytes": len(step.weights.data),
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
            "macs_per_cycle": estimate.macs_per_cycle,
            "bound": estimate.bound,
        },
    }


__all__ = [
    "GENERATOR",
    "KernelCall",
    "LayerStep",
    "LayerWeights",
    "LevelUse",
    "Place",
    "Plan",
    "PLAN_VERSION",
    "Transfer",
    "WeightTile",
]
