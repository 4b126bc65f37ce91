"""Candidates of a layer: where the kernels of the chip are chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dory_stm32h7 import calibration

if TYPE_CHECKING:
    from dory_core.api import Kernel, Layer, TargetContext


def candidates(ctx: TargetContext, layer: Layer) -> list[Kernel]:
    """Return the kernels that may compute ``layer``, best first, portable C last."""
    from dory_cmsis_nn.options import CMSIS_NN, cmsis_nn_path, kernels_of

    from dory_core.api import ops, portable_kernels

    portable = [timed_portable(kernel) for kernel in portable_kernels(ctx.memory.cores)]
    if isinstance(layer.op, ops.Lstm):  # it is not tiled: in L2 where L1 is too small
        whole = map(timed_portable, portable_kernels(ctx.memory.cores, in_place=True))
        portable += [kernel for kernel in whole if kernel.accepts(layer) is None]
    chosen = kernels_of(ctx)
    if chosen == "portable":
        return portable
    if chosen != CMSIS_NN:
        return [*_on_core(ctx, builtin_kernels()), *portable]
    from dory_cmsis_nn.library import find_cmsis_nn

    from dory_stm32h7.backend.cmsis import cmsis_kernels

    library = find_cmsis_nn(cmsis_nn_path(ctx))
    return [*_on_core(ctx, [*cmsis_kernels(library), *builtin_kernels()]), *portable]


def timed_portable(kernel: Any) -> Any:
    """Return a portable kernel with what it takes on this core."""
    from dory_core.api import ops

    is_weighted = kernel.kind in (ops.Conv, ops.Linear)
    costs = calibration.PORTABLE_WEIGHTED if is_weighted else calibration.PORTABLE
    return replace(kernel, costs=replace(kernel.costs, **costs))


def _on_core(ctx: TargetContext, kernels: list[Kernel]) -> list[Kernel]:
    """Return new kernels with the speed and the FPU of the part's core; all are legal on each."""
    from dory_stm32h7.backend.instance import InstanceKernel, TimedKernel
    from dory_stm32h7.parts import part_of

    core = part_of(ctx.options).core
    for kernel in kernels:
        if isinstance(kernel, TimedKernel):
            kernel.beyond = calibration.BEYOND.get(kernel.name, calibration.BEYOND_ANY)
        if core.cycles_percent != 100 and isinstance(kernel, TimedKernel):
            kernel.percent = core.cycles_percent
        if core.fpv5 and isinstance(kernel, InstanceKernel):
            kernel.fpv5 = True
    return kernels


def builtin_kernels() -> list[Kernel]:
    """Return the target's own kernels; those of pairs before the table that some pairs are."""
    from dory_stm32h7.backend.bytes import LutKernel, ResizeKernel, SoftmaxKernel
    from dory_stm32h7.backend.conv import ConvKernel
    from dory_stm32h7.backend.depthwise import DepthwiseKernel
    from dory_stm32h7.backend.linear import LinearKernel
    from dory_stm32h7.backend.matrices import MatricesKernel
    from dory_stm32h7.backend.movers import ConcatKernel, MoveKernel, TransposeKernel
    from dory_stm32h7.backend.pairs import AddKernel, MaximumKernel, MinimumKernel, MulKernel
    from dory_stm32h7.backend.pool import AvgPoolKernel, MaxPoolKernel, RealPoolKernel
    from dory_stm32h7.backend.rows import LayerNormKernel, NormKernel, SharesKernel
    from dory_stm32h7.backend.sums import SumTablesKernel

    return [
        ConvKernel(),
        DepthwiseKernel(),
        LinearKernel(),
        MatricesKernel(),
        MaxPoolKernel(),
        AvgPoolKernel(),
        RealPoolKernel(),
        SumTablesKernel(),
        AddKernel(),
        MulKernel(),
        MaximumKernel(),
        MinimumKernel(),
        LutKernel(),
        MoveKernel(),
        TransposeKernel(),
        ConcatKernel(),
        ResizeKernel(),
        SoftmaxKernel(),
        LayerNormKernel(),
        NormKernel(),
        SharesKernel(),
    ]
