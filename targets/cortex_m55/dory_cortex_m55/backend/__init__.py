"""Candidates of a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dory_core.api import Kernel, Layer, TargetContext


def candidates(ctx: TargetContext, layer: Layer) -> list[Kernel]:
    """Return the kernels that may compute ``layer``, best first, portable C last."""
    from dory_core.api import ops, portable_kernels

    portable = list(portable_kernels(ctx.memory.cores))
    if isinstance(layer.op, ops.Lstm):  # it is not tiled: in SRAM where DTCM is too small
        whole = portable_kernels(ctx.memory.cores, in_place=True)
        portable += [kernel for kernel in whole if kernel.accepts(layer) is None]
    return portable
