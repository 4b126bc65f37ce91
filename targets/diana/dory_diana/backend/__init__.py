"""Candidates of a layer: where the engine of each layer is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dory_core.hardware import TargetContext
    from dory_core.ir import TypedLayer
    from dory_core.kernel import Kernel


def candidates(ctx: TargetContext, layer: TypedLayer) -> list[Kernel]:
    """Return the kernels that may compute ``layer``, best first, the host last."""
    from dory_core.kernels import portable_kernels

    return list(portable_kernels(ctx.memory.cores))
