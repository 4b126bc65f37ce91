"""The hooks of the Diana target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.api import hookimpl
from dory_diana.hardware import NAME, TARGET

if TYPE_CHECKING:
    from dory_core.api import (
        Application,
        DmaHal,
        Kernel,
        Layer,
        MemoryHierarchy,
        OutputFile,
        Pass,
        Target,
        TargetContext,
        Term,
        Tile,
    )

DORY_API = 1


@hookimpl
def dory_targets() -> list[Target]:
    """Return the Diana target."""
    return [TARGET]


@hookimpl(target=NAME)
def dory_memory_hierarchy(ctx: TargetContext) -> MemoryHierarchy:
    """Return the memories of the chip. Raises UsageError for options that mean nothing."""
    from dory_diana.hardware import hierarchy
    from dory_diana.options import check_options

    check_options(ctx)
    return hierarchy(ctx)


@hookimpl(target=NAME)
def dory_kernels(ctx: TargetContext, layer: Layer) -> list[Kernel]:
    """Return the candidates of a layer, best first, the host last."""
    from dory_diana.backend import candidates

    return candidates(ctx, layer)


@hookimpl(target=NAME)
def dory_objective_terms(layer: Layer, tile: Tile) -> list[Term]:
    """Return the terms of the objective that hold on every engine."""
    from dory_diana.objective import terms

    return terms(layer, tile)


@hookimpl(target=NAME)
def dory_passes(ctx: TargetContext) -> list[Pass]:
    """Return the pass that approximates requantisations, where it was asked for."""
    from dory_diana.options import is_approximate

    if not is_approximate(ctx):
        return []
    from dory_diana.approximate import approximation

    return [approximation(ctx)]


@hookimpl(target=NAME)
def dory_dma_hal() -> DmaHal:
    """Return transfers by the driver library."""
    from dory_core.api import DmaHal
    from dory_diana.runtime import hal_files

    return DmaHal(hal_files())


@hookimpl(target=NAME)
def dory_application(ctx: TargetContext, application: Application) -> list[OutputFile]:
    """Return driver header, model of the arrays, main and Makefile."""
    from dory_diana.application import application_files

    return list(application_files(ctx, application))
