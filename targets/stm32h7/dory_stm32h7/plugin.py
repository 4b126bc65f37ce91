"""The hooks of the STM32H7 target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.api import hookimpl
from dory_stm32h7.hardware import NAME, TARGET

if TYPE_CHECKING:
    from dory_core.api import (
        DmaHal,
        Kernel,
        Layer,
        MemoryHierarchy,
        OutputFile,
        Plan,
        Runner,
        Target,
        TargetContext,
        Term,
        Tile,
    )

DORY_API = 1


@hookimpl
def dory_targets() -> list[Target]:
    """Return the STM32H7 target."""
    return [TARGET]


@hookimpl
def dory_memory_hierarchy(ctx: TargetContext) -> MemoryHierarchy | None:
    """Return the memories of the STM32H743. Raises UsageError for kernels that nobody knows."""
    if ctx.name != NAME:
        return None
    from dory_stm32h7.hardware import hierarchy
    from dory_stm32h7.options import check_options

    check_options(ctx)
    return hierarchy(ctx)


@hookimpl
def dory_kernels(ctx: TargetContext, layer: Layer) -> list[Kernel]:
    """Return the candidates of a layer, best first, portable C last."""
    if ctx.name != NAME:
        return []
    from dory_stm32h7.backend import candidates

    return candidates(ctx, layer)


@hookimpl
def dory_objective_terms(
    ctx: TargetContext, layer: Layer, kernel: Kernel, boundary: int, tile: Tile
) -> list[Term]:
    """Return what the kernels like in tiles."""
    if ctx.name != NAME:
        return []
    from dory_stm32h7.objective import terms

    return terms(layer, kernel, boundary, tile)


@hookimpl
def dory_dma_hal(ctx: TargetContext) -> DmaHal | None:
    """Return the driver of the MDMA, or copies by the core."""
    if ctx.name != NAME:
        return None
    from dory_core.api import DmaHal
    from dory_stm32h7.application import hal_files

    return DmaHal(f"stm32h7-{ctx.options.get('dma', 'mdma')}", hal_files(ctx))


@hookimpl
def dory_runners(ctx: TargetContext) -> list[Runner]:
    """Return the emulated chip."""
    if ctx.name != NAME:
        return []
    from dory_stm32h7.runners import runners

    return runners(ctx)


@hookimpl
def dory_application(ctx: TargetContext, plan: Plan) -> list[OutputFile]:
    """Return start-up code, main, linker script and Makefile."""
    if ctx.name != NAME:
        return []
    from dory_stm32h7.application import application_files

    return list(application_files(ctx, plan))
