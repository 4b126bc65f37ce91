"""The Plan: everything decided. Code, estimate and report are printed from it and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from dory_core.hardware.links import Link
from dory_core.hardware.target import OperatingPoint, OutputFile
from dory_core.kernels.binding import CORES
from dory_core.plan.blocks import Block
from dory_core.plan.document import GENERATOR, PLAN_VERSION, plan_json, timeline_json
from dory_core.plan.layers import (
    Ahead,
    Form,
    KernelCall,
    LayerStep,
    LayerWeights,
    OperandPlan,
    PartPlan,
    TakenRows,
    WeightChunk,
    WeightTile,
)
from dory_core.plan.network_operations import ExtTransfer, Program
from dory_core.plan.places import Conversion, Place, StatePlan, initial_table_bytes
from dory_core.plan.timeline import NetworkTimeline

TIMELINE_FILE = "timeline.json"
#: Of all public names in C, where the user gives no other.
DEFAULT_PREFIX = "dory"


@dataclass(frozen=True, slots=True)
class LevelUse:
    """How a level is used.

    Attributes:
        name: Of the level.
        used, budget: Bytes.
        blocks: With live ranges in execution positions, -1 before the first layer.
        stack_bytes, packed_bytes: Peak of the activations by the paper's stack and by the packing,
            in bytes; None elsewhere.
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
        return max(self.blocks, key=lambda b: b.size).id.text if self.blocks else ""


@dataclass(frozen=True, slots=True)
class Roofline:
    """What bounds the speed of every layer.

    Attributes:
        peak_macs_per_cycle: MACs per cycle of all cores, 0: unknown.
        links: Bytes per cycle by name of the link.
        engines: MACs per cycle by name of the engine.
    """

    peak_macs_per_cycle: float
    links: Mapping[str, float]
    engines: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", MappingProxyType(dict(self.links)))
        object.__setattr__(self, "engines", MappingProxyType(dict(self.engines)))


@dataclass(frozen=True, slots=True)
class Plan:
    """A network resolved for one target.

    Attributes:
        target: Name of the target.
        frontend: Name of the frontend.
        network: Name of the network.
        options: Options of the target by name.
        steps: The layers in the order of execution.
        inputs, outputs: Places of those of the network.
        levels: How each memory level is used.
        arena_bytes: Size of the arena that the application gets, by level number; what a level
            holds in addition (linked constants) lies in that memory.
        static_bytes: Bytes of linked constants, by level number.
        cores: Number of cores.
        any_core: Each core may start transfers between L2 and L1.
        dma_tickets: Most tickets of such transfers that may be open at once, 0 for any number.
        dma: The link between L2 and L1 with the limits of every transfer into L1.
        ext: The link between L3 and L2, None without transfers.
        files: Sources of the kernels and of the HAL, and the image of L3.
        program: All operations of one inference.
        timeline: When each operation runs, in cycles.
        roofline: What bounds the speed of every layer.
        transfers: Between L3 and L2, in order of their start.
        final_conversions: Of network outputs, after the last layer.
        more_l2_bytes: Sizes of the arenas in further memories of L2, in bytes.
        arena_used: Bytes of the first arena of L2 that are used.
        code_bytes: Bytes of L2 that the code takes, by the rule of the target.
        constants_apart: Bytes from the start of L3 that lie in a memory that holds only constants;
            0 when all of L3 is one memory.
        has_far_constants: Constants may lie in a second memory of their level, as
            ``LayerWeights.far`` says.
        operating_point: Clocks and voltage, None without.
        reason: Why these budgets are not the chip's, empty when they are.
        missing: What the target lacks that an application needs on the chip, empty with HAL and
            main.
        notes: What the frontend left out or assumed, for the user.
        reference: Whose arithmetic it has; see Graph.
        prefix: Of all public names in C.
        float_io: The application has functions that convert real numbers at its border.
        ties_even: Whether ``float_io`` rounds ties to even, else away from zero.
        states: What lives between inferences, in the order in which it is copied at the end.
        file_digest: SHA-256 of the file of the network, empty without a file.
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
    has_far_constants: bool = False
    arena_used: int = 0
    code_bytes: int = 0
    constants_apart: int = 0
    operating_point: OperatingPoint | None = None
    reason: str = ""
    missing: str = ""
    notes: tuple[str, ...] = field(default=())
    reference: str = ""
    prefix: str = DEFAULT_PREFIX
    float_io: bool = False
    ties_even: bool = False
    states: tuple[StatePlan, ...] = ()
    file_digest: str = ""

    def __post_init__(self) -> None:
        for name in ("options", "arena_bytes", "static_bytes"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def deployable(self) -> bool:
        """True when the budgets are the chip's, and the target has all that runs there."""
        return not self.obstacle

    @property
    def obstacle(self) -> str:
        """Why the application cannot run on the chip, empty when it can."""
        return "; ".join(text for text in (self.reason, self.missing) if text)

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
        return sum(step.layer.op.parameters for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return plan.json: every decision but the constants themselves."""
        return plan_json(self)

    def timeline_json(self) -> dict[str, Any]:
        """Return timeline.json: what cores and links do, in cycles from the start."""
        return timeline_json(self)


__all__ = [
    "Form",
    "GENERATOR",
    "Ahead",
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
    "TakenRows",
    "PLAN_VERSION",
    "OperandPlan",
    "WeightChunk",
    "WeightTile",
    "initial_table_bytes",
]
