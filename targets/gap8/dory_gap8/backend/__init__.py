"""The kernels of GAP8: what they accept, their cost, their weights and their C instances."""

from __future__ import annotations

from dory_core.api import Kernel, Layer, ops
from dory_gap8.backend.add import AddKernel
from dory_gap8.backend.add_bytes import AddBytesKernel
from dory_gap8.backend.conv import ConvKernel, PointwiseKernel
from dory_gap8.backend.depthwise import DepthwiseKernel
from dory_gap8.backend.depthwise_hwc import DepthwiseHwcKernel
from dory_gap8.backend.filled import FilledKernel
from dory_gap8.backend.gather import GatherKernel
from dory_gap8.backend.held import HeldKernel
from dory_gap8.backend.linear import LinearKernel
from dory_gap8.backend.linear_bytes import LinearBytesKernel
from dory_gap8.backend.lut import LutKernel
from dory_gap8.backend.matrices import MatricesKernel
from dory_gap8.backend.movers import (
    ConcatKernel,
    MoveKernel,
    ResizeKernel,
    SoftmaxKernel,
    TransposeKernel,
)
from dory_gap8.backend.pair import PairKernel
from dory_gap8.backend.pool import AvgPoolKernel, MaxPoolKernel
from dory_gap8.backend.pool_bytes import AvgPoolBytesKernel, MaxPoolBytesKernel
from dory_gap8.backend.realpool import RealPoolKernel
from dory_gap8.backend.rows import NormKernel, SharesKernel
from dory_gap8.backend.slide import SlideKernel
from dory_gap8.backend.unpacked import UnpackingKernel, is_packed
from dory_gap8.backend.window import WindowKernel

__all__ = [
    "AddBytesKernel",
    "AvgPoolBytesKernel",
    "LinearBytesKernel",
    "MaxPoolBytesKernel",
    "AddKernel",
    "AvgPoolKernel",
    "ConcatKernel",
    "ConvKernel",
    "DepthwiseHwcKernel",
    "DepthwiseKernel",
    "FilledKernel",
    "GatherKernel",
    "HeldKernel",
    "LinearKernel",
    "LutKernel",
    "MatricesKernel",
    "MaxPoolKernel",
    "MoveKernel",
    "NormKernel",
    "PairKernel",
    "PointwiseKernel",
    "RealPoolKernel",
    "ResizeKernel",
    "SharesKernel",
    "SlideKernel",
    "SoftmaxKernel",
    "TransposeKernel",
    "UnpackingKernel",
    "WindowKernel",
    "candidates",
]


def candidates(layer: Layer, cores: int) -> list[Kernel]:
    """Return the kernels for the kind of ``layer``, best first; each judges the layer itself.

    A kernel of bytes and its form for packed tensors have the same place in the list: neither kind
    of storage is a reason for the other.
    """
    kind = layer.op
    if isinstance(kind, ops.Conv):
        held: Kernel = HeldKernel(cores)
        if any(t.bits < 8 for t in (*layer.inputs, layer.output)):
            held = UnpackingKernel(HeldKernel(cores))
        dense = (SlideKernel(cores), FilledKernel(cores), WindowKernel(cores), GatherKernel(cores))
        bytewise = (*dense, DepthwiseHwcKernel(cores))
        *block, depthwise = (UnpackingKernel(k) if is_packed(layer) else k for k in bytewise)
        plain: list[Kernel] = [PointwiseKernel(cores), ConvKernel(cores)]
        partial: list[Kernel] = [PointwiseKernel(cores, True), ConvKernel(cores, True)]
        return [held, *block, *plain, *partial, depthwise, DepthwiseKernel(cores)]
    if isinstance(kind, ops.PooledConv):
        return [HeldKernel(cores)]
    if isinstance(kind, ops.Linear):
        return [LinearBytesKernel(cores), LinearKernel(cores), LinearKernel(cores, True)]
    if isinstance(kind, ops.MatMul):
        return [MatricesKernel(cores)]
    if isinstance(kind, ops.MaxPool):
        return [MaxPoolBytesKernel(cores), MaxPoolKernel(cores)]
    if isinstance(kind, ops.AvgPool):
        return [AvgPoolBytesKernel(cores), AvgPoolKernel(cores), RealPoolKernel(cores)]
    if isinstance(kind, ops.Lut):
        return [LutKernel(cores)]
    if isinstance(kind, ops.Slice | ops.Pad):
        return [MoveKernel(cores)]
    if isinstance(kind, ops.Transpose):
        return [TransposeKernel(cores)]
    if isinstance(kind, ops.Resize):
        return [ResizeKernel(cores)]
    if isinstance(kind, ops.Softmax):
        return [SoftmaxKernel(cores)]
    if isinstance(kind, ops.Norm):
        return [NormKernel(cores)]
    if isinstance(kind, ops.Shares):
        return [SharesKernel(cores)]
    if isinstance(kind, ops.Concat):
        return [ConcatKernel(cores)]
    if isinstance(kind, ops.Add):
        sums: list[Kernel] = [AddBytesKernel(cores), AddKernel(cores)]
        return [LutKernel(cores), *sums, PairKernel(cores)]
    if isinstance(kind, ops.Pairwise):
        return [LutKernel(cores), PairKernel(cores)]
    return []
