"""Layers for tests of GAP8: single ones, and random ones over all that its kernels take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from dory_gap8 import plugin
from dory_gap8.backend import (
    AddBytesKernel,
    AddKernel,
    AvgPoolBytesKernel,
    AvgPoolKernel,
    ConcatKernel,
    ConvKernel,
    DepthwiseHwcKernel,
    DepthwiseKernel,
    FilledKernel,
    GatherKernel,
    HeldKernel,
    LinearBytesKernel,
    LinearKernel,
    LutKernel,
    MatricesKernel,
    MaxPoolBytesKernel,
    MaxPoolKernel,
    MoveKernel,
    NormKernel,
    PairKernel,
    PointwiseKernel,
    ResizeKernel,
    SharesKernel,
    SoftmaxKernel,
    TransposeKernel,
    UnpackingKernel,
    WindowKernel,
    candidates,
)
from dory_gap8.backend.conv import group_channels

from dory_core.api import Feature, Kernel, Layer, TargetContext, ops
from dory_core.importing import Array, requant
from dory_core.testing import kernel_cases, kernels
from dory_core.testing.kernels import KernelCase, alone, typed
from dory_core.testing.random_layers import LayerSpace, RandomLayers

CORES = 8
_SMALL = {"u2": (0, 3), "i2": (-2, 1), "u4": (0, 15), "i4": (-8, 7), "u8": (0, 255)}
RANGES = {**_SMALL, "i8": (-128, 127), "u16": (0, 600), "i16": (-400, 700)}
CLIPS = {**_SMALL, "i8": (-128, 127), "u16": (0, 1000), "i16": (-300, 300), "i32": None}
SPACE = LayerSpace(
    inputs=(*RANGES.values(), RANGES["u8"], RANGES["u8"]),
    outputs=(*CLIPS.values(), CLIPS["u8"]),
    weight_bits=(8, 8, 4, 2),
    packed=True,
    numerator_bits=(28, 44, 44, 58),
)
BYTES = LayerSpace(
    inputs=(RANGES["u8"], RANGES["i8"]),
    outputs=((0, 255), (-128, 127), (-100, 90)),
    features=frozenset({Feature.PAD_VALUE, Feature.TWO_ADDENDS, Feature.TURN}),
)
TURNED = replace(SPACE, features=frozenset({Feature.PAD_VALUE, Feature.TWO_ADDENDS, Feature.TURN}))


def kernels_for(kind: str, cores: int = CORES) -> tuple[Kernel, ...]:
    """Return the kernels that a layer of this kind is tested with."""
    block = (
        WindowKernel(cores),
        FilledKernel(cores),
        GatherKernel(cores),
        HeldKernel(cores),
    )
    return {
        "conv": (
            *block,
            *map(UnpackingKernel, block),
            ConvKernel(cores),
            ConvKernel(cores, True),
        ),
        "grouped": (ConvKernel(cores),),
        "pointwise": (
            *block,
            *map(UnpackingKernel, block),
            PointwiseKernel(cores),
            PointwiseKernel(cores, True),
            ConvKernel(cores),
        ),
        "depthwise": (
            DepthwiseHwcKernel(cores),
            UnpackingKernel(DepthwiseHwcKernel(cores)),
            DepthwiseKernel(cores),
        ),
        "linear": (LinearBytesKernel(cores), LinearKernel(cores), LinearKernel(cores, True)),
        "maxpool": (MaxPoolBytesKernel(cores), MaxPoolKernel(cores)),
        "avgpool": (AvgPoolBytesKernel(cores), AvgPoolKernel(cores)),
        "add": (AddBytesKernel(cores), AddKernel(cores), PairKernel(cores)),
        "mul": (LutKernel(cores), PairKernel(cores)),
        "maximum": (LutKernel(cores), PairKernel(cores)),
        "minimum": (LutKernel(cores), PairKernel(cores)),
        "concat": (ConcatKernel(cores),),
        "lut": (LutKernel(cores),),
        "slice": (MoveKernel(cores),),
        "pad": (MoveKernel(cores),),
        "transpose": (TransposeKernel(cores),),
        "matmul": (MatricesKernel(cores),),
        "resize": (ResizeKernel(cores),),
        "softmax": (SoftmaxKernel(cores),),
        "norm": (NormKernel(cores),),
        "shares": (SharesKernel(cores),),
    }[kind]


def make_case(kernel: Kernel, layer: Layer, random: np.random.Generator) -> KernelCase:
    """Return a case with random values and tiles, also of the sizes that only borders have."""
    granule = group_channels(layer)[1] or 1
    return kernels.make_case(kernel, layer, random, granule, constrained=False)


def cases_of(
    kind: str, seed: int, count: int, cores: int = CORES, space: LayerSpace = SPACE
) -> list[KernelCase]:
    """Return ``count`` random cases of one kind."""
    random = RandomLayers(space, seed)
    cases: list[KernelCase] = []
    while len(cases) < count:
        layer = random.layer(kind)
        kernel = random.pick(*kernels_for(kind, cores))
        if kernel_cases.takes(kernel, layer):
            cases.append(make_case(kernel, layer, random.numbers))
    return cases


def turned_cases(kind: str, seed: int, count: int) -> list[KernelCase]:
    """Return cases of layers whose requantisation has two addends now and then."""
    return cases_of(kind, 100 + seed, count, space=TURNED)


def byte_cases(kind: str, seed: int, count: int) -> list[KernelCase]:
    """Return cases of layers whose inputs and outputs are bytes."""
    return cases_of(kind, seed, count, space=BYTES)


def fewer_first(cases: Callable[[str, int, int], list[KernelCase]]) -> Any:
    """Return cases of which those of the fast tests, with the seed 0, are half as many."""
    return lambda kind, seed, count: cases(kind, seed, count // 2 if seed == 0 else count)


def context(cores: int = 8, kernels: str = "dory", **fields) -> TargetContext:
    options = {"cores": cores, "kernels": kernels, "board": "gvsoc"}
    ctx = TargetContext("gap8", options, **fields)
    return ctx.with_hierarchy(plugin.dory_memory_hierarchy(ctx))


def conv(c_in: int, c_out: int, size: int, kernel: int, stride: int = 1, groups: int = 1, **more):
    pad = kernel // 2
    window = ops.Window(kernel=(kernel, kernel), strides=(stride, stride), pads=(pad,) * 4)
    layer = alone(
        ops.Conv,
        weights=Array(np.ones((c_out, c_in // groups, kernel, kernel), int)),
        window=window,
        groups=groups,
        requants=(requant(1, 0, 256, 0, 255),),
        **more,
    )
    return typed(layer, (c_in, size, size, 0, 255))


def candidate(layer: Layer, name: str):
    """Return the candidate ``dory_gap8_<name>`` of a layer."""
    return next(k for k in candidates(layer, 8) if k.name == f"dory_gap8_{name}")
