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


@hookimpl(target=NAME)
def dory_memory_hierarchy(ctx: TargetContext) -> MemoryHierarchy:
    """Return the memories of the chip."""
    return hierarchy(ctx)


@hookimpl(target=NAME)
def dory_objective_terms(layer: Layer, kernel: Kernel, tile: Tile) -> list[Term]:
    """Return what makes a tile good: here, that it fills the memory."""
    from dory_core.api import Term, geometry

    used = geometry.tensor_bytes(layer, tile) + kernel.weight_bytes(layer, tile)
    return [Term("UTILISATION", 0.5, used)]


@hookimpl(target=NAME)
def dory_dma_hal() -> DmaHal:
    """Return the C files that drive the DMA; the host simulation needs none."""
    from dory_core.api import DmaHal

    return DmaHal(any_core=False)


@hookimpl(target=NAME)
def dory_kernels(ctx: TargetContext) -> list[Kernel]:
    """Return the candidates of a layer, best first: put kernels of your own before these."""
    from dory_core.api import portable_kernels

    return list(portable_kernels(ctx.memory.cores))
