"""The hooks of the Cortex-M55 target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.api import hookimpl
from dory_cortex_m55.hardware import NAME, TARGET

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
    """Return the target."""
    return [TARGET]


@hookimpl(target=NAME)
def dory_memory_hierarchy(ctx: TargetContext) -> MemoryHierarchy:
    """Return the memories of the part. Raises UsageError for options that it cannot have."""
    from dory_cmsis_nn.options import check_kernels

    from dory_cortex_m55.hardware import KERNELS, hierarchy

    check_kernels(ctx, KERNELS)
    return hierarchy(ctx)


@hookimpl(target=NAME)
def dory_kernels(ctx: TargetContext, layer: Layer) -> list[Kernel]:
    """Return the candidates of a layer, best first, portable C last."""
    from dory_cortex_m55.backend import candidates

    return candidates(ctx, layer)


@hookimpl(target=NAME)
def dory_objective_terms(layer: Layer, kernel: Kernel, tile: Tile) -> list[Term]:
    """Return the term that is good for every kernel: a tile fills the memory."""
    from dory_core.api import Term, geometry

    used = geometry.tensor_bytes(layer, tile) + kernel.weight_bytes(layer, tile)
    return [Term("UTILISATION", 0.5, used)]


@hookimpl(target=NAME)
def dory_dma_hal() -> DmaHal:
    """Return copies by the core, which a driver of the program's DMA can take the place of."""
    from dory_core.api import DmaHal
    from dory_cortex_m55.application import hal_files

    return DmaHal(hal_files())


@hookimpl(target=NAME)
def dory_runners() -> list[simulate.Runner]:
    """Return QEMU's board of the Corstone-300."""
    from dory_cortex_m55.qemu import runner

    return [runner()]


@hookimpl(target=NAME)
def dory_application(ctx: TargetContext, application: Application) -> list[OutputFile]:
    """Return the network's memory and calls, files for projects, and an image for the emulator."""
    from dory_cortex_m55.application import application_files

    return application_files(ctx, application)
