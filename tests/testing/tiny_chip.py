"""A target that nobody ships: one small memory, plain C kernels, in a module of its own.

It is what a vendor writes outside this repository, and needs nothing but the public hooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dory_core.hardware import (
    STORAGE_BITS,
    DmaHal,
    Level,
    Link,
    Memory,
    MemoryHierarchy,
    Target,
    TargetContext,
)
from dory_core.kernel import Kernel
from dory_core.kernels import portable_kernels
from dory_core.plugins import Plugins, hookimpl

NAME = "tiny"
L1_BYTES = 12 * 1024
L2_BYTES = 192 * 1024
DMA = Link(upper=1, lower=2, setup_cycles=40, bytes_per_cycle=4.0, row_cycles=2.0)


@dataclass(frozen=True)
class TinyChip:
    """The plugin; by default it is sound. Tests replace a part by a broken one."""

    kernels: Sequence[Kernel] = portable_kernels(1)
    cores: int = 1
    memories: tuple[Memory, ...] = (
        Memory("scratchpad", L1_BYTES, reserved_bytes=1000, address=0x2000_0000),
        Memory("SRAM", L2_BYTES, address=0x3000_0000, alignment_bytes=4),
    )
    links: tuple[Link, ...] = (DMA,)
    storage_bits: tuple[int, ...] = STORAGE_BITS

    @hookimpl
    def dory_targets(self) -> list[Target]:
        return [Target(NAME, "a microcontroller with one small scratchpad")]

    @hookimpl
    def dory_memory_hierarchy(self, ctx: TargetContext) -> MemoryHierarchy | None:
        if ctx.name != NAME:
            return None
        levels = tuple(Level(n, (memory,)) for n, memory in enumerate(self.memories, start=1))
        return MemoryHierarchy(levels, self.links, self.cores, storage_bits=self.storage_bits)

    @hookimpl
    def dory_dma_hal(self, ctx: TargetContext) -> DmaHal | None:
        return DmaHal(NAME, any_core=False) if ctx.name == NAME else None

    @hookimpl
    def dory_kernels(self, ctx: TargetContext) -> list[Kernel]:
        return list(self.kernels) if ctx.name == NAME else []

    def plugins(self) -> Plugins:
        """Return Plugins with this one alone."""
        return Plugins.from_objects(tiny=self)
