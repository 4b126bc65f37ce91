"""The hooks of the GAP8 target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.api import hookimpl
from dory_gap8.hardware import NAME, PULP_NN, TARGET

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
    """Return the GAP8 target."""
    return [TARGET]


@hookimpl(target=NAME)
def dory_memory_hierarchy(ctx: TargetContext) -> MemoryHierarchy:
    """Return the memories of GAP8. Raises UsageError for cores or clocks that it does not have."""
    from dory_gap8.hardware import check_options, hierarchy

    check_options(ctx)
    return hierarchy(ctx)


@hookimpl(target=NAME)
def dory_objective_terms(
    ctx: TargetContext, layer: Layer, kernel: Kernel, tile: Tile
) -> list[Term]:
    """Return the heuristics of the paper."""
    from dory_gap8.objective import terms

    return terms(layer, kernel, tile, ctx.memory.cores)


@hookimpl(target=NAME)
def dory_dma_hal() -> DmaHal:
    """Return the HAL: every core commands the cluster DMA through a port of its own."""
    from dory_core.api import DmaHal
    from dory_gap8.application import hal_files
    from dory_gap8.hardware import DMA_COUNTERS

    return DmaHal(hal_files(), any_core=True, tickets=DMA_COUNTERS)


@hookimpl(target=NAME)
def dory_application(ctx: TargetContext, application: Application) -> list[OutputFile]:
    """Return main program's tables, Makefile and README, for the SDK and for the host."""
    from dory_gap8.application import application_files

    return application_files(ctx, application)


@hookimpl(target=NAME)
def dory_runners() -> list[simulate.Runner]:
    """Return the runner that builds with the SDK and runs on its simulator."""
    from dory_gap8.runner import GVSOC_RUNNER

    return [GVSOC_RUNNER]


@hookimpl(target=NAME)
def dory_kernels(ctx: TargetContext, layer: Layer) -> list[Kernel]:
    """Return the candidates of a layer, best first, portable C last.

    Forms with partial sums come after all plain forms: they are for layers whose im2col columns or
    weights leave no tile otherwise.
    """
    from dory_core.api import ops, portable_kernels

    portable = list(portable_kernels(ctx.memory.cores))
    if isinstance(layer.op, ops.Lstm):  # it is not tiled: in L2 where L1 is too small
        whole = portable_kernels(ctx.memory.cores, in_place=True)
        portable += [kernel for kernel in whole if kernel.accepts(layer) is None]
    chosen = str(ctx.options.get("kernels", "dory"))
    if chosen == "portable":
        return portable
    if chosen.startswith(PULP_NN):
        from dory_gap8.pulp_nn import find_library, pulp_nn_kernels

        library = find_library(chosen.removeprefix(PULP_NN))
        return [*pulp_nn_kernels(library, layer, ctx.memory.cores), *portable]
    from dory_gap8.backend import candidates

    return [*candidates(layer, ctx.memory.cores), *portable]
