"""Random layers of every kind and precision for the tests of the portable kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dory_core.ir import (
    Add,
    Array,
    AvgPool,
    Conv,
    Layer,
    LayerRanges,
    Linear,
    MaxPool,
    Requant,
    Tensor,
    Window,
    float_requant,
    requant,
)

TYPES = [(bits, signed) for bits in (2, 4, 8, 16, 32) for signed in (False, True)]
WEIGHTS = [(2, True), (4, True), (8, True), (16, True), (2, False), (4, False), (8, False)]
NO_RANGES = LayerRanges(0, 0, 64, 0, 0)
# Keeps sums of products within 32 bits, as range analysis does for real networks.
LARGEST_INPUT = 40_000
LARGEST_WEIGHT = 255


def limits(bits: int, signed: bool) -> tuple[int, int]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def tensor(name: str, shape: tuple[int, int, int], bits: int, signed: bool) -> Tensor:
    lo, hi = limits(bits, signed)
    return Tensor(name, *shape, max(lo, -LARGEST_INPUT), min(hi, LARGEST_INPUT), bits, signed)


@dataclass(frozen=True)
class Sampler:
    """Draws layers; ``rng`` decides everything."""

    rng: np.random.Generator

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def step(self, channels: int, clip: tuple[int, int] | None) -> Requant:
        rng = self.rng
        if clip is not None and clip[1] - clip[0] < 1 << 20 and rng.random() < 0.3:
            return self.float_step(channels, clip)
        mul = rng.integers(-300, 300, channels) if rng.random() < 0.5 else [rng.integers(-300, 300)]
        add = rng.integers(-(1 << 20), 1 << 20, channels)
        if rng.random() < 0.3:
            add = [add[0]]
        div = self.pick([1, 2, 1 << 7, 1 << 13, 255, 127, 1000, (1 << 12) - 1])
        bounds = clip if clip is not None else (None, None)
        negative = rng.integers(-(1 << 20), 1 << 20, self.pick([1, channels])).tolist()
        negative = self.pick([None, None, negative])
        turn = self.pick([0, 0, -30, 70])
        muls, adds = [int(m) for m in mul], [int(a) for a in add]
        return requant(muls, adds, div, *bounds, add_negative=negative, turn=turn)

    def float_step(self, channels: int, clip: tuple[int, int]) -> Requant:
        """A step in binary32; scales of powers of two have ties."""
        rng = self.rng
        scales = np.float32(2.0) ** np.float32(rng.integers(-30, 3, self.pick([1, channels])))
        if rng.random() < 0.7:
            scales = scales * rng.uniform(0.5, 1, len(scales)).astype(np.float32)
        zero = int(rng.integers(clip[0], clip[1] + 1))
        return float_requant(scales.tolist(), zero, *clip, turn=self.pick([0, 0, -30, 1 << 20]))

    def steps(self, channels: int, y: tuple[int, bool]) -> tuple[Requant, ...]:
        """One or two steps that end within the output type."""
        first = (self.step(channels, None),) if self.rng.random() < 0.4 else ()
        return (*first, self.step(channels, limits(*y)))

    def output(self, channels: int, plain: tuple[int, bool]):
        """((bits, signed), steps): without steps the plain type."""
        if self.rng.random() < 0.2:
            return plain, ()
        y = self.pick(TYPES)
        return y, self.steps(channels, y)

    def window(self) -> Window:
        k = (int(self.rng.integers(1, 4)), int(self.rng.integers(1, 4)))
        pads = tuple(int(self.rng.integers(0, size)) for size in (k[0], k[1], k[0], k[1]))
        return Window(
            kernel=k,
            strides=(self.pick([1, 2]), self.pick([1, 2, 3])),
            dilations=(self.pick([1, 2]), self.pick([1, 2])),
            pads=pads,
            pad_value=self.pick([0, 0, 1, -3]),
        )

    def geometry(self):
        """(height, width, window, (output height, output width)) of a legal window."""
        while True:
            height, width = (int(n) for n in self.rng.integers(1, 9, 2))
            window = self.window()
            size = window.output_size(height, width)
            reach = [(k - 1) * d + 1 for k, d in zip(window.kernel, window.dilations, strict=True)]
            top, left, bottom, right = window.pads
            fits = reach[0] <= height + top + bottom and reach[1] <= width + left + right
            if min(size) > 0 and fits:
                return height, width, window, size

    def weights(self, shape, weight_type):
        lo, hi = limits(*weight_type)
        lo, hi = max(lo, -LARGEST_WEIGHT), min(hi, LARGEST_WEIGHT)
        return Array(self.rng.integers(lo, hi, shape, endpoint=True))

    def bias(self, channels: int):
        if self.rng.random() < 0.5:
            return None
        return Array(self.rng.integers(-5000, 5000, channels))

    def conv(self, x_type, weight_type) -> Layer:
        height, width, window, size = self.geometry()
        groups = self.pick([1, 1, 2, 3, 8])
        c_in = groups * int(self.rng.integers(1, 10 if groups == 1 else 4))
        c_out = groups * int(self.rng.integers(1, 10 if groups == 1 else 4))
        y_type, steps = self.output(c_out, (32, True))
        layer = Conv(
            index=0,
            name="conv",
            inputs=("x",),
            output="y",
            requants=steps,
            weights=self.weights((c_out, c_in // groups, *window.kernel), weight_type),
            weight_bits=weight_type[0],
            bias=self.bias(c_out),
            window=window,
            groups=groups,
        )
        return _typed(layer, [tensor("x", (c_in, height, width), *x_type)], (c_out, *size), y_type)

    def linear(self, x_type, weight_type) -> Layer:
        height, width = self.pick([(1, 1), (2, 3)])
        channels = int(self.rng.integers(1, 20))
        c_out = int(self.rng.integers(1, 12))
        y_type, steps = self.output(c_out, (32, True))
        layer = Linear(
            index=0,
            name="linear",
            inputs=("x",),
            output="y",
            requants=steps,
            weights=self.weights((c_out, channels * height * width), weight_type),
            weight_bits=weight_type[0],
            bias=self.bias(c_out),
        )
        x = tensor("x", (channels, height, width), *x_type)
        return _typed(layer, [x], (c_out, 1, 1), y_type)

    def pool(self, kind, x_type) -> Layer:
        while True:
            height, width, window, size = self.geometry()
            covered = _every_window_sees_the_image(window, height, width, size)
            if kind is AvgPool or covered:
                break
        channels = int(self.rng.integers(1, 14))
        y_type, steps = self.output(channels, (32, True) if kind is AvgPool else x_type)
        layer = kind(index=0, name="pool", inputs=("x",), output="y", requants=steps, window=window)
        if kind is AvgPool and covered and self.rng.random() < 0.5:
            layer = replace(layer, counts_padding=False, origin=self.pick([0, -2, 1]))
        x = tensor("x", (channels, height, width), *x_type)
        return _typed(layer, [x], (channels, *size), y_type)

    def add(self, a_type, b_type) -> Layer:
        shape = tuple(int(n) for n in self.rng.integers(1, 9, 3))
        y_type, steps = self.output(shape[0], (32, True))
        operands = tuple(
            None if self.rng.random() < 0.3 else self.step(shape[0], self.pick([None, (-99, 250)]))
            for _ in range(2)
        )
        layer = Add(
            index=0,
            name="add",
            inputs=("a", "b"),
            output="y",
            requants=steps,
            operand_requants=operands,
        )
        return _typed(
            layer, [tensor("a", shape, *a_type), tensor("b", shape, *b_type)], shape, y_type
        )


def _every_window_sees_the_image(window, height, width, size) -> bool:
    """True when no output's window lies in the padding alone, where a maximum has no value."""
    sees = []
    for axis, full in enumerate((height, width)):
        taps = np.arange(window.kernel[axis]) * window.dilations[axis] - window.pads[axis]
        places = np.arange(size[axis])[:, None] * window.strides[axis] + taps
        sees.append(((places >= 0) & (places < full)).any(axis=1).all())
    return all(sees)


def _typed(layer, inputs, shape, y_type) -> Layer:
    bits, signed = y_type
    output = Tensor("y", *shape, *limits(bits, signed), bits, signed)
    return Layer(layer, tuple(inputs), output, NO_RANGES)


def all_layers(seed: int = 0) -> list[Layer]:
    """Every kind with every input type (and weight type), several shapes each."""
    draw = Sampler(np.random.default_rng(seed))
    layers = []
    for x_type in TYPES:
        for weight_type in WEIGHTS:
            layers += [draw.conv(x_type, weight_type) for _ in range(2)]
            layers.append(draw.linear(x_type, weight_type))
        layers += [draw.pool(MaxPool, x_type) for _ in range(3)]
        layers += [draw.pool(AvgPool, x_type) for _ in range(3)]
        layers += [draw.add(x_type, draw.pick(TYPES)) for _ in range(4)]
    return layers
