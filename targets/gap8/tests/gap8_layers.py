"""Random layers over the whole parameter space of the GAP8 kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from dory_gap8.backend import (
    AddBytesKernel,
    AddKernel,
    AvgPoolBytesKernel,
    AvgPoolKernel,
    ConvKernel,
    DepthwiseHwcKernel,
    DepthwiseKernel,
    GatherKernel,
    LinearBytesKernel,
    LinearKernel,
    MaxPoolBytesKernel,
    MaxPoolKernel,
    PointwiseKernel,
    UnpackingKernel,
    WindowKernel,
)
from gap8_harness import CORES, Case, make_case, typed

from dory_core.errors import NotSupported
from dory_core.ir import (
    Add,
    Array,
    AvgPool,
    Conv,
    Linear,
    MaxPool,
    Requant,
    TypedLayer,
    Window,
    requant,
)
from dory_core.kernel import Kernel

KINDS = ("conv", "grouped", "pointwise", "depthwise", "linear", "maxpool", "avgpool", "add")
_SMALL = {"u2": (0, 3), "i2": (-2, 1), "u4": (0, 15), "i4": (-8, 7), "u8": (0, 255)}
RANGES = {**_SMALL, "i8": (-128, 127), "u16": (0, 600), "i16": (-400, 700)}
CLIPS = {**_SMALL, "i8": (-128, 127), "u16": (0, 1000), "i16": (-300, 300), "i32": None}
INPUTS = ("u8", "u8", "u8", "i8", "u16", "i16", "u4", "i4", "u2", "i2")


class Random:
    """A seeded source of layers."""

    def __init__(self, seed: int) -> None:
        self.numbers = np.random.default_rng(seed)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.numbers.integers(len(choices)))]

    def integer(self, lo: int, hi: int) -> int:
        return int(self.numbers.integers(lo, hi + 1))

    def step(
        self, channels: int, reach: int, clip: tuple[int, int] | None, arithmetic: str
    ) -> Requant:
        """Return a step that maps values up to ``reach`` roughly to ``clip``.

        arithmetic: ``32``, ``64`` or ``wide`` (multipliers beyond 32 bits).
        """
        target = 200 if clip is None else max(abs(clip[0]), abs(clip[1]))
        bits = {"32": 28, "64": 44, "wide": 58}[arithmetic]
        k = max(1, min(bits - target.bit_length() - 1, 62))
        form = self.pick("shift", "shift", "ones", "other")
        div = {"shift": 1 << k, "ones": (1 << k) - 1, "other": (1 << k) - self.integer(2, 99)}[form]
        div = max(div, 1)
        scale = max(1, target * div // max(reach, 1))
        count = self.pick(1, channels)
        mul = [self.integer(scale // 2, scale) * self.pick(1, 1, 1, -1) for _ in range(count)]
        count = self.pick(count, 1)
        add = [self.integer(-target * div // 4, target * div // 4) for _ in range(count)]
        return requant(mul, add, div, *(clip or (None, None)))

    def requants(self, channels: int, reach: int, output: str) -> tuple[Requant, ...]:
        """Return one or two steps that end in ``output``; channels 1 keeps them scalar."""
        arithmetic = self.pick("32", "64", "64", "wide")
        clip = CLIPS[output]
        if self.integer(0, 3):
            return (self.step(channels, reach, clip, arithmetic),)
        between = self.pick(None, (-1000, 1000))
        first = self.step(channels, reach, between, arithmetic)
        return (first, self.step(1, 1000, clip, self.pick("32", "64")))

    def window(self, kernel: tuple[int, int], largest_pad: bool = True) -> Window:
        (kh, kw) = kernel
        dilations = self.pick((1, 1), (1, 1), (2, 1), (1, 2), (3, 2))
        reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        pads = [self.integer(0, r) if largest_pad else 0 for r in (*reach, *reach)]
        if self.integer(0, 2) == 0:
            pads = [0, 0, 0, 0]
        strides = self.pick((1, 1), (1, 1), (2, 2), (1, 2), (2, 1), (3, 2))
        return Window(kernel=(kh, kw), strides=strides, dilations=dilations, pads=tuple(pads))

    def image(self, window: Window | None) -> tuple[int, int]:
        """Return (h, w) with at least one output, now and then exactly one."""
        if window is None:
            return self.integer(1, 9), self.integer(1, 9)
        sizes = []
        for axis in (0, 1):
            reach = (window.kernel[axis] - 1) * window.dilations[axis] + 1
            least = max(1, reach - window.pads[axis] - window.pads[axis + 2])
            sizes.append(least + self.pick(0, 1, 2, self.integer(3, 12)))
        return sizes[0], sizes[1]

    def source(self, c: int, h: int, w: int) -> tuple[int, int, int, int, int]:
        return (c, h, w, *RANGES[self.pick(*INPUTS)])

    def weights(self, *shape: int, bits: int = 8) -> Array:
        """Return weights, the extremes among them where there is room."""
        values = self.numbers.integers(-(1 << bits - 1), 1 << bits - 1, shape)
        values.reshape(-1)[:1] = -(1 << bits - 1)
        values.reshape(-1)[1:2] = (1 << bits - 1) - 1
        return Array(values)

    def bias(self, channels: int) -> Array | None:
        values = self.numbers.integers(-30000, 30000, channels)
        return self.pick(None, Array(values))

    def filtered(self, kind: str) -> TypedLayer:
        """Return a convolution or a fully connected layer."""
        c_out = self.pick(1, 2, 3, 4, 5, 8, 9, 16, 17, 20)
        output = self.pick("u8", "u8", "i8", "u16", "i16", "i32", "u4", "i4", "u2", "i2")
        bits = self.pick(8, 8, 4, 2)
        if kind == "linear":
            c, h, w = self.pick(1, 3, 8, 16), self.pick(1, 1, 2, 3), self.pick(1, 1, 4)
            source = self.source(c, h, w)
            fan_in = c * h * w
            common: dict[str, Any] = {"weights": self.weights(c_out, fan_in, bits=bits)}
            make: Any = Linear
        else:
            kernel = (1, 1) if kind == "pointwise" else self.pick((3, 3), (1, 1), (5, 2), (1, 4))
            if kind == "pointwise":
                window = Window(kernel=kernel, strides=self.pick((1, 1), (2, 2), (1, 3)))
            else:
                window = self.window(kernel)
            c = self.pick(1, 2, 3, 4, 5, 7, 8, 16, 33)
            groups, per_group = 1, c
            if kind == "depthwise":
                c = self.pick(2, 3, 5, 8, 9, 17)
                groups, per_group = c, 1
                c_out = c * self.pick(1, 1, 2, 3)
            if kind == "grouped":
                groups, per_group = self.pick(2, 3, 4, 6), self.pick(2, 3, 4, 5, 8)
                c, c_out = groups * per_group, groups * self.pick(1, 2, 3, 4, 6)
            source = self.source(c, *self.image(window))
            fan_in = per_group * kernel[0] * kernel[1]
            common = {
                "weights": self.weights(c_out, per_group, *kernel, bits=bits),
                "window": window,
                "groups": groups,
            }
            make = Conv
        reach = fan_in * max(1, (1 << bits) // 4) * max(abs(source[3]), source[4])
        steps = () if self.integer(0, 6) == 0 else self.requants(c_out, reach, output)
        layer = make(
            index=0,
            name=kind,
            inputs=("input",),
            output="layer_00",
            bias=self.bias(c_out),
            requants=steps,
            weight_bits=bits,
            **common,
        )
        return typed(layer, source, packed=True)

    def pool(self, kind: str) -> TypedLayer:
        """Return a pooling layer."""
        kernel = self.pick((2, 2), (3, 3), (1, 3), (4, 2), (7, 7))
        window = self.window(kernel)
        source = self.source(self.pick(1, 2, 3, 4, 7, 8, 17), *self.image(window))
        steps: tuple[Requant, ...] = ()
        if kind == "avgpool" and self.integer(0, 5):
            reach = kernel[0] * kernel[1] * max(abs(source[3]), source[4])
            steps = self.requants(1, reach, self.pick("u8", "u8", "i8", "i16", "u4", "i2"))
        make: Any = MaxPool if kind == "maxpool" else AvgPool
        layer = make(
            index=0,
            name=kind,
            inputs=("input",),
            output="layer_00",
            window=window,
            requants=steps,
        )
        return typed(layer, source, packed=True)

    def sum(self) -> TypedLayer:
        """Return a residual sum."""
        c, h, w = self.integer(1, 9), *self.image(None)
        first, second = self.source(c, h, w), self.source(c, h, w)
        operands = []
        for source in (first, second):
            clip = self.pick(None, (0, 255), (-128, 127))
            reach = max(abs(source[3]), source[4])
            step = self.step(1, reach, clip, self.pick("32", "64"))
            operands.append(self.pick(None, step, step))
        output = self.pick("u8", "i8", "u16", "i32", "u4", "i4", "u2", "i2")
        steps = self.pick((), self.requants(1, 1000, output), self.requants(1, 1000, output))
        layer = Add(
            index=0,
            name="add",
            inputs=("input", "input_1"),
            output="layer_00",
            operand_requants=(operands[0], operands[1]),
            requants=steps,
        )
        return typed(layer, first, second, packed=True)

    def layer(self, kind: str) -> TypedLayer:
        """Return a layer of a kind that the range analysis lets pass."""
        while True:
            try:
                if kind == "add":
                    return self.sum()
                return self.pool(kind) if kind.endswith("pool") else self.filtered(kind)
            except NotSupported:
                continue


def kernels_for(kind: str, cores: int = CORES) -> tuple[Kernel, ...]:
    """Return the kernels that a layer of this kind is tested with."""
    block = (WindowKernel(cores), GatherKernel(cores))
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
        "add": (AddBytesKernel(cores), AddKernel(cores)),
    }[kind]


def cases_of(kind: str, seed: int, count: int, cores: int = CORES) -> list[Case]:
    """Return ``count`` random cases of one kind."""
    random = Random(seed)
    cases = []
    while len(cases) < count:
        layer = random.layer(kind)
        kernel = random.pick(*kernels_for(kind, cores))
        if kernel.accepts(layer) is None:
            cases.append(make_case(kernel, layer, random.numbers, cores))
    return cases


def sample(seed: int, count: int) -> list[Case]:
    """Return ``count`` cases of each kind."""
    return [case for kind in KINDS for case in cases_of(kind, seed, count)]
