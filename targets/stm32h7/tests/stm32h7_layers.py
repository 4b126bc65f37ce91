"""Random layers over everything that the kernels of the STM32H7 accept, and more."""

from __future__ import annotations

from typing import Any

import numpy as np
from dory_stm32h7.backend import builtin_kernels
from stm32h7_harness import Case, make_case, typed

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

KINDS = ("conv", "grouped", "pointwise", "depthwise", "linear", "maxpool", "avgpool", "add")
RANGES = {"u8": (0, 255), "u7": (0, 127), "i8": (-128, 127), "i16": (-300, 300), "u16": (0, 999)}
CLIPS = {
    "u8": (0, 255),
    "u7": (0, 127),
    "odd": (0, 200),
    "i8": (-128, 127),
    "i6": (-20, 31),
    "u16": (0, 1000),
    "i16": (-300, 300),
    "i32": None,
}


class Random:
    """A seeded source of layers."""

    def __init__(self, seed: int) -> None:
        self.numbers = np.random.default_rng(seed)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.numbers.integers(len(choices)))]

    def integer(self, lo: int, hi: int) -> int:
        return int(self.numbers.integers(lo, hi + 1))

    def step(self, channels: int, reach: int, clip: tuple[int, int] | None) -> Requant:
        """Return a step that maps values up to ``reach`` roughly to ``clip``."""
        target = 200 if clip is None else max(abs(clip[0]), abs(clip[1]))
        k = max(1, self.pick(18, 24, 32, 40) - target.bit_length() - 1)
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
        clip = CLIPS[output]
        if self.integer(0, 3):
            return (self.step(channels, reach, clip),)
        first = self.step(channels, reach, self.pick(None, (-1000, 1000)))
        return (first, self.step(1, 1000, clip))

    def window(self, kernel: tuple[int, int]) -> Window:
        """Return a window with random strides, dilations and padding."""
        dilations = self.pick((1, 1), (1, 1), (1, 1), (2, 1), (1, 2), (3, 2))
        reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        pads = [self.integer(0, r) for r in (*reach, *reach)]
        if self.integer(0, 2) == 0:
            pads = [0, 0, 0, 0]
        strides = self.pick((1, 1), (1, 1), (2, 2), (1, 2), (2, 1), (3, 2))
        return Window(kernel=kernel, strides=strides, dilations=dilations, pads=tuple(pads))

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

    def source(self, c: int, h: int, w: int, *kinds: str) -> tuple[int, int, int, int, int]:
        return (c, h, w, *RANGES[self.pick(*(kinds or ("u8", "u8", "u7", "i8", "i16", "u16")))])

    def weights(self, *shape: int) -> Array:
        """Return weights, the extremes among them where there is room."""
        values = self.numbers.integers(-128, 128, shape)
        values.reshape(-1)[:1] = -128
        values.reshape(-1)[1:2] = 127
        return Array(values)

    def bias(self, channels: int) -> Array | None:
        values = self.numbers.integers(-30000, 30000, channels)
        return self.pick(None, Array(values))

    def filtered(self, kind: str) -> TypedLayer:
        """Return a convolution or a fully connected layer."""
        c_out = self.pick(1, 2, 3, 4, 5, 8, 9, 16, 17)
        output = self.pick("u8", "u8", *CLIPS)
        if kind == "linear":
            c, h, w = self.pick(1, 3, 8, 16), self.pick(1, 1, 2, 3), self.pick(1, 1, 4)
            source = self.source(c, h, w)
            fan_in = c * h * w
            common: dict[str, Any] = {"weights": self.weights(c_out, fan_in)}
            make: Any = Linear
        else:
            kernel = (1, 1) if kind == "pointwise" else self.pick((3, 3), (5, 2), (1, 4), (2, 1))
            if kind == "pointwise":
                window = Window(kernel=kernel, strides=self.pick((1, 1), (2, 2), (1, 3)))
            else:
                window = self.window(kernel)
            c = self.pick(1, 2, 3, 4, 5, 7, 8, 16, 33)
            groups, per_group = 1, c
            if kind == "depthwise":
                c = self.pick(2, 3, 4, 5, 8, 9, 17)
                groups, per_group, c_out = c, 1, c
            if kind == "grouped":
                groups, per_group = self.pick(2, 3, 4), self.pick(2, 3, 4, 5, 8)
                c, c_out = groups * per_group, groups * self.pick(1, 2, 3, 4)
            source = self.source(c, *self.image(window))
            fan_in = per_group * kernel[0] * kernel[1]
            weights = self.weights(c_out, per_group, *kernel)
            common = {"weights": weights, "window": window, "groups": groups}
            make = Conv
        reach = fan_in * 64 * max(abs(source[3]), source[4])
        layer = make(
            index=0,
            name=kind,
            inputs=("input",),
            output="layer_00",
            bias=self.bias(c_out),
            requants=() if self.integer(0, 6) == 0 else self.requants(c_out, reach, output),
            **common,
        )
        return typed(layer, source)

    def pool(self, kind: str) -> TypedLayer:
        """Return a pooling layer."""
        kernel = self.pick((2, 2), (3, 3), (1, 3), (4, 2), (7, 7))
        window = self.window(kernel)
        source = self.source(self.pick(1, 2, 3, 4, 7, 8, 17), *self.image(window))
        steps: tuple[Requant, ...] = ()
        if kind == "avgpool" and self.integer(0, 5):
            reach = kernel[0] * kernel[1] * max(abs(source[3]), source[4])
            steps = self.requants(1, reach, self.pick("u8", "u8", "i8", "i16"))
        make: Any = MaxPool if kind == "maxpool" else AvgPool
        layer = make(
            index=0,
            name=kind,
            inputs=("input",),
            output="layer_00",
            window=window,
            requants=steps,
        )
        return typed(layer, source)

    def sum(self) -> TypedLayer:
        """Return a residual sum."""
        c, h, w = self.integer(1, 9), *self.image(None)
        first, second = (self.source(c, h, w, *RANGES) for _ in range(2))
        operands = []
        for source in (first, second):
            clip = self.pick(None, (0, 255), (-128, 127))
            step = self.step(1, max(abs(source[3]), source[4]), clip)
            operands.append(self.pick(None, step, step))
        output = self.pick(*CLIPS)
        steps = self.pick((), self.requants(1, 1000, output), self.requants(1, 1000, output))
        layer = Add(
            index=0,
            name="add",
            inputs=("input", "input_1"),
            output="layer_00",
            operand_requants=(operands[0], operands[1]),
            requants=steps,
        )
        return typed(layer, first, second)

    def layer(self, kind: str) -> TypedLayer:
        """Return a layer of a kind that the range analysis lets pass."""
        while True:
            try:
                if kind == "add":
                    return self.sum()
                return self.pool(kind) if kind.endswith("pool") else self.filtered(kind)
            except NotSupported:
                continue


def cases_of(kind: str, seed: int, count: int) -> list[Case]:
    """Return ``count`` random cases of one kind, of which few may be rejected."""
    random = Random(seed)
    cases: list[Case] = []
    tried = 0
    while len(cases) < count:
        layer = random.layer(kind)
        tried += 1
        taken = [k for k in builtin_kernels() if k.accepts(layer) is None]
        assert len(taken) <= 1
        cases += [make_case(k, layer, random.numbers) for k in taken]
    assert tried <= 4 * count
    return cases


def sample(seed: int, count: int) -> list[Case]:
    """Return ``count`` cases of each kind."""
    return [case for kind in KINDS for case in cases_of(kind, seed, count)]
