"""The hooks of the Diana target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.plugins import hookimpl
from dory_diana.hardware import NAME, TARGET

if TYPE_CHECKING:
    from dory_core.hardware import MemoryHierarchy, Target, TargetContext
    from dory_core.ir import TypedLayer
    from dory_core.kernel import Kernel

DORY_API = 1


@hookimpl
def dory_targets() -> list[Target]:
    """Return the Diana target."""
    return [TARGET]


@hookimpl
def dory_memory_hierarchy(ctx: TargetContext) -> MemoryHierarchy | None:
    """Return the memories of the chip."""
    if ctx.name != NAME:
        return None
    from dory_diana.hardware import hierarchy

    return hierarchy(ctx)


@hookimpl
def dory_kernels(ctx: TargetContext, layer: TypedLayer) -> list[Kernel]:
    """Return the candidates of a layer, best first, the host last."""
    if ctx.name != NAME:
        return []
    from dory_diana.backend import candidates

    return candidates(ctx, layer)
