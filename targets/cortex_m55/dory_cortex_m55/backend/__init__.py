"""Candidates of a layer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dory_core.api import Kernel, Layer, Link, TargetContext


def candidates(ctx: TargetContext, layer: Layer) -> list[Kernel]:
    """Return the kernels that may compute ``layer``, best first, portable C last."""
    from dory_cmsis_nn.options import CMSIS_NN, cmsis_nn_path, kernels_of

    from dory_core.api import ops, portable_kernels
    from dory_cortex_m55.hardware import PORTABLE

    portable = [_timed(kernel) for kernel in portable_kernels(ctx.memory.cores)]
    if isinstance(layer.op, ops.Lstm):  # it is not tiled: in SRAM where DTCM is too small
        whole = map(_timed, portable_kernels(ctx.memory.cores, in_place=True))
        portable += [kernel for kernel in whole if kernel.accepts(layer) is None]
    chosen = kernels_of(ctx)
    way = ctx.memory.links[-1]
    reads = way if way.blocking else None
    if chosen == PORTABLE:
        return portable
    if chosen == CMSIS_NN:
        from dory_cmsis_nn.library import find_cmsis_nn

        from dory_cortex_m55.backend.cmsis import cmsis_kernels

        library = find_cmsis_nn(cmsis_nn_path(ctx))
        return [*cmsis_kernels(library), *vector_kernels(reads), *portable]
    return [*vector_kernels(reads), *portable]


def _timed(kernel: Any) -> Any:
    """Return a portable kernel with what it takes on this core."""
    from dory_core.api import ops
    from dory_cortex_m55 import calibration

    pools = (ops.AvgPool, ops.MaxPool)
    costs = calibration.PORTABLE_POOL if kernel.kind in pools else calibration.PORTABLE
    return replace(kernel, costs=replace(kernel.costs, **costs))


def vector_kernels(reads: Link | None = None) -> list[Kernel]:
    """Return the kernels of the target, best first.

    reads: the way of constants to the core, None where a DMA loads all of them.
    """
    from dory_cortex_m55.backend.conv import ConvKernel
    from dory_cortex_m55.backend.depthwise import DepthwiseKernel
    from dory_cortex_m55.backend.elementwise import LutKernel, WordsKernel
    from dory_cortex_m55.backend.grouped import GroupedKernel
    from dory_cortex_m55.backend.linear import LinearKernel
    from dory_cortex_m55.backend.matrices import MatricesKernel
    from dory_cortex_m55.backend.movers import ConcatKernel, MoveKernel, TransposeKernel
    from dory_cortex_m55.backend.norm import NormKernel
    from dory_cortex_m55.backend.pairs import LineKernel, ProductsKernel, SumsKernel
    from dory_cortex_m55.backend.pools import AvgPoolKernel, MaxPoolKernel, MeanKernel
    from dory_cortex_m55.backend.resize import ResizeKernel
    from dory_cortex_m55.backend.softmax import SharesKernel, SoftmaxKernel

    return [
        DepthwiseKernel(),
        ConvKernel(),
        GroupedKernel(),
        LinearKernel(reads),
        MatricesKernel(),
        LineKernel(),
        LutKernel(),
        WordsKernel(),
        SumsKernel(),
        ProductsKernel(),
        MaxPoolKernel(),
        AvgPoolKernel(),
        MeanKernel(),
        MoveKernel(),
        ConcatKernel(),
        TransposeKernel(),
        ResizeKernel(),
        SoftmaxKernel(),
        SharesKernel(),
        NormKernel(),
    ]
