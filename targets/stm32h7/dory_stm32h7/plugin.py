"""The hooks of the STM32H7 target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.api import hookimpl
from dory_stm32h7.hardware import NAME, TARGET

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
        simulate,
    )

DORY_API = 1


@hookimpl
def dory_targets() -> list[Target]:
    """Return the STM32H7 target."""
    return [TARGET]


@hookimpl(target=NAME)
def dory_memory_hierarchy(ctx: TargetContext) -> MemoryHierarchy:
    """Return the memories of the STM32H743. Raises UsageError for unknown kernels."""
    from dory_cmsis_nn.options import check_kernels

    from dory_stm32h7.hardware import KERNELS, hierarchy

    check_kernels(ctx, KERNELS)
    return hierarchy(ctx)


@hookimpl(target=NAME)
def dory_kernels(ctx: TargetContext, layer: Layer) -> list[Kernel]:
    """Return the candidates of a layer, best first, portable C last."""
    from dory_stm32h7.backend import candidates

    return candidates(ctx, layer)


@hookimpl(target=NAME)
def dory_objective_terms(layer: Layer, kernel: Kernel, tile: Tile) -> list[Term]:
    """Return the terms of the objective of a kernel."""
    from dory_stm32h7.objective import terms

    return terms(layer, kernel, tile)


@hookimpl(target=NAME)
def dory_dma_hal(ctx: TargetContext) -> DmaHal:
    """Return the driver of the MDMA, or copies by the core."""
    from dory_core.api import DmaHal
    from dory_stm32h7.application import hal_files

    return DmaHal(hal_files(ctx))


@hookimpl(target=NAME)
def dory_runners(ctx: TargetContext) -> list[simulate.Runner]:
    """Return the emulated chip."""
    from dory_stm32h7.runners import runners

    return runners(ctx)


@hookimpl(target=NAME)
def dory_application(ctx: TargetContext, application: Application) -> list[OutputFile]:
    """Return start-up code, main, linker script and Makefile."""
    from dory_stm32h7.application import application_files

    return list(application_files(ctx, application))
