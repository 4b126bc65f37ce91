"""The toy chip: a target plugin whose memories, links, cores and kernels are data.

It is what a vendor writes outside this repository, and needs nothing but the public hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dory_core.api import (
    DmaHal,
    InstructionCache,
    Kernel,
    Layer,
    Level,
    Link,
    Memory,
    MemoryHierarchy,
    OperatingPoint,
    Option,
    Target,
    TargetContext,
    Term,
    Tile,
    geometry,
    hookimpl,
    portable_kernels,
)
from dory_core.plugins.manager import Plugins
from tests.toy import frontend

NAME = "toy"
L1_BYTES = 12 * 1024
L2_BYTES = 192 * 1024
SCRATCHPAD = Memory("scratchpad", L1_BYTES, reserved_bytes=1000)
SRAM = Memory("SRAM", L2_BYTES, alignment_bytes=4)
DMA = Link(upper=1, lower=2, setup_cycles=40, bytes_per_cycle=4.0, row_cycles=2.0)

Kernels = Callable[[Layer], Sequence[Kernel]]
Terms = Callable[[Layer, Kernel, Tile, int], Sequence[Term]]


@dataclass(frozen=True)
class ToyChip:
    """The plugin; by default a sound chip with two levels. Tests replace what they are about.

    kernels: the candidates of every layer, or a function that returns those of a layer, best first;
    None for the portable kernels. cores: where ``--set cores=N`` does not say another number.
    memories: of each level, one or several. any_core: each core may issue transfers. terms: of the
    objective of tiling, for a number of cores. The other fields are those of MemoryHierarchy.
    """

    kernels: Sequence[Kernel] | Kernels | None = None
    cores: int = 1
    memories: tuple[Memory | tuple[Memory, ...], ...] = (SCRATCHPAD, SRAM)
    links: tuple[Link, ...] = (DMA,)
    any_core: bool = False
    storage_bits: tuple[int, ...] = (2, 4, 8, 16, 32)
    channel_multiple: int = 4
    in_place: bool = False
    far_link: Link | None = None
    resident_l1: bool = False
    step_cycles: int = 0
    conversion_cycles: float = 0.0
    instructions: InstructionCache | None = None
    operating_points: tuple[OperatingPoint, ...] = ()
    terms: Terms | None = None

    def hierarchy(self, cores: int | None = None) -> MemoryHierarchy:
        """Return the hardware. Raises ValueError where it cannot be."""
        levels = tuple(
            Level(number, (memories,) if isinstance(memories, Memory) else memories)
            for number, memories in enumerate(self.memories, start=1)
        )
        return MemoryHierarchy(
            levels,
            self.links,
            self.cores if cores is None else cores,
            storage_bits=self.storage_bits,
            channel_multiple=self.channel_multiple,
            in_place=self.in_place,
            far_link=self.far_link,
            resident_l1=self.resident_l1,
            step_cycles=self.step_cycles,
            conversion_cycles=self.conversion_cycles,
            instructions=self.instructions,
        )

    @hookimpl
    def dory_targets(self) -> list[Target]:
        options = (Option("cores", int, self.cores, "cores that run kernels"),)
        return [
            Target(NAME, "a chip of the tests", options, operating_points=self.operating_points)
        ]

    @hookimpl(target=NAME)
    def dory_memory_hierarchy(self, ctx: TargetContext) -> MemoryHierarchy:
        return self.hierarchy(int(ctx.options["cores"]))

    @hookimpl(target=NAME)
    def dory_dma_hal(self) -> DmaHal:
        return DmaHal(any_core=self.any_core)

    @hookimpl(target=NAME)
    def dory_kernels(self, ctx: TargetContext, layer: Layer) -> list[Kernel]:
        if self.kernels is None:
            return list(portable_kernels(ctx.memory.cores))
        return list(self.kernels(layer) if callable(self.kernels) else self.kernels)

    @hookimpl(target=NAME)
    def dory_objective_terms(
        self, ctx: TargetContext, layer: Layer, kernel: Kernel, tile: Tile
    ) -> list[Term]:
        return list(self.terms(layer, kernel, tile, ctx.memory.cores)) if self.terms else []

    def plugins(self) -> Plugins:
        """Return Plugins of this chip and the toy frontend."""
        return Plugins.from_objects(toy=self, plain=frontend)


def even_rows(layer: Layer, kernel: Kernel, tile: Tile, cores: int) -> list[Term]:
    """Prefer large tiles whose rows divide among the cores, and even numbers of channels."""
    used = geometry.tensor_bytes(layer, tile) + kernel.weight_bytes(layer, tile)
    return [
        Term("UTILISATION", 0.5, used),
        Term("EVEN_ROWS", 1e6, (tile.h - 1) % cores),
        Term("EVEN_CHANNELS", 1e6, (tile.c_out - 1) % 4),
    ]


def three_levels(cores: int = 4) -> ToyChip:
    """Return a chip that streams: 48 KiB of L1, 512 KiB of L2, a RAM and a flash memory below.

    Every core issues transfers, and tensors stay in L1 where there is room.
    """
    flash = Memory("flash", 16 << 20, holds=frozenset({"weights"}), read_only=True)
    return ToyChip(
        cores=cores,
        memories=(
            Memory("scratchpad", 64 << 10, 16 << 10),
            Memory("SRAM", 512 << 10, 64 << 10),
            (Memory("RAM", 8 << 20), flash),
        ),
        links=(
            Link(1, 2, setup_cycles=30, bytes_per_cycle=8.0, row_cycles=1.0, issue_cycles=20),
            Link(2, 3, setup_cycles=600, bytes_per_cycle=0.8, issue_cycles=90),
        ),
        any_core=True,
        resident_l1=True,
        operating_points=(
            OperatingPoint("slow", 50e6, 50e6, 1e-9, "data sheet of the toy"),
            OperatingPoint("fast", 200e6, 100e6, 2e-9, "data sheet of the toy"),
        ),
    )
