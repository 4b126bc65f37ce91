"""The hooks of the target kite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.api import hookimpl
from dory_kite.hardware import HIERARCHY, NAME, TARGET

if TYPE_CHECKING:
    from dory_core.api import (
        Application,
        DmaHal,
        Kernel,
        Layer,
        MemoryHierarchy,
        OutputFile,
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
def dory_memory_hierarchy() -> MemoryHierarchy:
    """Return the memories of the chip."""
    return HIERARCHY


@hookimpl(target=NAME)
def dory_kernels(ctx: TargetContext) -> list[Kernel]:
    """Return the candidates of a layer, best first: its own kernel, then those in plain C."""
    from dory_core.api import portable_kernels
    from dory_kite.conv import Conv3x3

    return [Conv3x3(), *portable_kernels(ctx.memory.cores)]


@hookimpl(target=NAME)
def dory_objective_terms(layer: Layer, kernel: Kernel, tile: Tile) -> list[Term]:
    """Return what makes a tile good: that it fills the TCM, and that its rows are whole words."""
    from dory_core.api import Term, geometry

    used = geometry.tensor_bytes(layer, tile) + kernel.weight_bytes(layer, tile)
    return [Term("UTILISATION", 0.5, used), Term("WORDS", 1e5, (tile.c_out - 1) % 4)]


@hookimpl(target=NAME)
def dory_dma_hal() -> DmaHal:
    """Return the C files that drive the DMA; the host simulation needs none."""
    from dory_core.api import DmaHal
    from dory_kite.application import hal_files

    return DmaHal(hal_files())


@hookimpl(target=NAME)
def dory_application(application: Application) -> list[OutputFile]:
    """Return main, linker script and Makefile."""
    from dory_kite.application import application_files

    return application_files(application)
