"""The hooks of the GAP8 target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.plugins import hookimpl
from dory_gap8.hardware import KERNELS, MAX_CORES, NAME, PULP_NN, TARGET

if TYPE_CHECKING:
    from dory_core.hardware import DmaHal, MemoryHierarchy, Target, TargetContext
    from dory_core.ir import TypedLayer
    from dory_core.kernel import Kernel, Term
    from dory_core.tiling.geometry import Tile

DORY_API = 1


@hookimpl
def dory_targets() -> list[Target]:
    """Return the GAP8 target."""
    return [TARGET]


@hookimpl
def dory_memory_hierarchy(ctx: TargetContext) -> MemoryHierarchy | None:
    """Return the memories of GAP8. Raises UsageError for a number of cores it does not have."""
    if ctx.name != NAME:
        return None
    from dory_core.errors import UsageError
    from dory_gap8.hardware import hierarchy

    cores = int(ctx.options.get("cores", MAX_CORES))
    if not 1 <= cores <= MAX_CORES:
        raise UsageError(f"GAP8 has no {cores} cores", f"--set cores=1 to --set cores={MAX_CORES}")
    kernels = str(ctx.options.get("kernels", KERNELS[0]))
    if kernels not in KERNELS and not kernels.startswith(PULP_NN):
        known = f"known: {', '.join(KERNELS)}, {PULP_NN}PATH"
        raise UsageError(f"there are no kernels {kernels!r} for {NAME}", known)
    return hierarchy(ctx)


@hookimpl
def dory_objective_terms(
    ctx: TargetContext, layer: TypedLayer, kernel: Kernel, boundary: int, tile: Tile
) -> list[Term]:
    """Return the heuristics of the paper."""
    if ctx.name != NAME:
        return []
    from dory_gap8.objective import terms

    return terms(layer, kernel, boundary, tile, ctx.memory.cores)


@hookimpl
def dory_dma_hal(ctx: TargetContext) -> DmaHal | None:
    """Return what the cluster DMA can do: every core has its own command port."""
    if ctx.name != NAME:
        return None
    from dory_core.hardware import DmaHal

    return DmaHal(f"gap8-{ctx.options.get('board', 'gvsoc')}", any_core=True)


@hookimpl
def dory_kernels(ctx: TargetContext, layer: TypedLayer) -> list[Kernel]:
    """Return the candidates of a layer, best first, portable C last.

    Forms with partial sums come after all plain forms: they are for layers whose im2col columns or
    weights leave no tile otherwise.
    """
    if ctx.name != NAME:
        return []
    from dory_core.kernels import portable_kernels

    portable = list(portable_kernels(ctx.memory.cores))
    chosen = str(ctx.options.get("kernels", "dory"))
    if chosen == "portable":
        return portable
    if chosen.startswith(PULP_NN):
        from dory_gap8.pulp_nn import find_library, pulp_nn_kernels

        library = find_library(chosen.removeprefix(PULP_NN))
        return [*pulp_nn_kernels(library, layer, ctx.memory.cores), *portable]
    from dory_gap8.backend import candidates

    return [*candidates(layer, ctx.memory.cores), *portable]
