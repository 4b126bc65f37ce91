"""The hooks of the target ${n.name}."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.api import hookimpl
from ${n.package}.hardware import NAME, TARGET, hierarchy

if TYPE_CHECKING:
    from dory_core.api import (
        DmaHal,
        Kernel,
        Layer,
        MemoryHierarchy,
        Target,
        TargetContext,
        Term,
        Tile,
    )

DORY_API = 1


@hookimpl
def dory_targets() -> list[Target]:
    """Return the target."""
    return [TARGET]


@hookimpl
def dory_memory_hierarchy(ctx: TargetContext) -> MemoryHierarchy | None:
    """Return the memories of the chip."""
    return hierarchy(ctx) if ctx.name == NAME else None


@hookimpl
def dory_objective_terms(
    ctx: TargetContext, layer: Layer, kernel: Kernel, boundary: int, tile: Tile
) -> list[Term]:
    """Return what makes a tile good: here, that it fills the memory."""
    if ctx.name != NAME:
        return []
    from dory_core.api import Term, input_bytes, output_bytes

    used = input_bytes(layer, tile) + kernel.weight_bytes(layer, tile) + output_bytes(layer, tile)
    return [Term("UTILISATION", 0.5, used)]


@hookimpl
def dory_dma_hal(ctx: TargetContext) -> DmaHal | None:
    """Return the C files that drive the DMA; the host simulation needs none."""
    if ctx.name != NAME:
        return None
    from dory_core.api import DmaHal

    return DmaHal(NAME, any_core=False)


@hookimpl
def dory_kernels(ctx: TargetContext, layer: Layer) -> list[Kernel]:
    """Return the candidates of a layer, best first: put kernels of your own before these."""
    if ctx.name != NAME:
        return []
    from dory_core.api import portable_kernels

    return list(portable_kernels(ctx.memory.cores))
