"""Random parts of layers: windows, weights, requantisations within a target's parameter space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.features import Feature
from dory_core.ir.kinds.window import Window
from dory_core.ir.requant import Requant, requant

Range = tuple[int, int]
Source = tuple[int, int, int, int, int]  # (C, H, W, lo, hi)

# Most bits of multipliers of steps on values that are not sums of products.
_BITS_OF_VALUES = 48

#: Ranges of values that are stored in a byte each.
BYTES: tuple[Range, ...] = ((0, 255), (-128, 127), (0, 127), (-8, 7), (0, 15), (-2, 1))

_Choice = TypeVar("_Choice")


@dataclass(frozen=True, slots=True)
class LayerSpace:
    """The parameter space of random layers; an option that a tuple has twice is twice as likely.

    Attributes:
        inputs: Ranges of inputs.
        outputs: Clips of outputs, None for accumulators.
        weight_bits: Widths of weights.
        packed: True to store values in 2 or 4 bits where they fit.
        filters_per_channel: Filters per channel of depthwise layers.
        kernels: Window sizes (height, width) of convolutions.
        numerator_bits: Approximate bits of mul * acc + add.
        features: Features of ``dory_core.ir.features`` that layers may need.
    """

    inputs: tuple[Range, ...] = ((0, 255), (0, 255), (0, 127), (-128, 127), (-300, 300), (0, 999))
    outputs: tuple[Range | None, ...] = (
        *((0, 255), (0, 255), (0, 127), (0, 200), (-128, 127), (-20, 31)),
        *((0, 1000), (-300, 300), None),
    )
    weight_bits: tuple[int, ...] = (8,)
    packed: bool = False
    filters_per_channel: tuple[int, ...] = (1, 1, 2, 3)
    kernels: tuple[tuple[int, int], ...] = ((3, 3), (1, 1), (5, 2), (1, 4), (2, 1))
    numerator_bits: tuple[int, ...] = (18, 28, 44, 58)
    features: frozenset[Feature] = frozenset()


class RandomParts:
    """A seeded source of parts; ``numbers`` is its random generator."""

    def __init__(self, space: LayerSpace, seed: int) -> None:
        self.space = space
        self.numbers = np.random.default_rng(seed)

    def pick(self, *choices: _Choice) -> _Choice:
        """Return one of the choices."""
        return choices[int(self.numbers.integers(len(choices)))]

    def integer(self, lo: int, hi: int) -> int:
        """Return an integer of [lo, hi]."""
        return int(self.numbers.integers(lo, hi + 1))

    def shape(self) -> tuple[int, int, int]:
        """Return (C, H, W) of a small tensor."""
        return self.integer(1, 9), self.integer(1, 8), self.integer(1, 8)

    def byte(self) -> Range:
        """Return a range of an input whose values are stored in a byte each."""
        known = tuple(r for r in self.space.inputs if r in BYTES) or BYTES
        return known[self.integer(0, len(known) - 1)]

    def requants(self, channels: int, reach: int, clip: Range | None) -> tuple[Requant, ...]:
        """Return one or two steps that map sums of products up to ``reach`` roughly to ``clip``.

        Args:
            channels: Number of parameters; 1 for scalars.
            reach: The largest sum.
            clip: (lo, hi) of the last step, None without.
        """
        bits = self.pick(*self.space.numerator_bits)
        if self.integer(0, 3):
            return (self._two_addends(self._step(channels, reach, clip, bits), reach),)
        first = self._step(channels, reach, self.pick(None, (-1000, 1000)), bits)
        first = self._two_addends(first, reach)
        return (first, self.step(1, 1000, clip))

    def window(self, kernel: tuple[int, int]) -> Window:
        """Return a window with random strides, dilations and pads of less than its reach."""
        dilations = self.pick((1, 1), (1, 1), (2, 1), (1, 2), (3, 2))
        reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        top, left, bottom, right = (self.integer(0, r) for r in (*reach, *reach))
        pads = (top, left, bottom, right) if self.integer(0, 2) else (0, 0, 0, 0)
        strides = self.pick((1, 1), (1, 1), (2, 2), (1, 2), (2, 1), (3, 2))
        return Window(kernel=kernel, strides=strides, dilations=dilations, pads=pads)

    def padded(self, window: Window, source: Source) -> Window:
        """Return the window with padding that is no zero now and then."""
        if Feature.PAD_VALUE not in self.space.features:
            return window
        return replace(window, pad_value=self.pick(0, source[3], source[4]))

    def image(self, window: Window) -> tuple[int, int]:
        """Return (h, w) with at least one output, now and then exactly one."""
        sizes = []
        for axis in (0, 1):
            reach = (window.kernel[axis] - 1) * window.dilations[axis] + 1
            least = max(1, reach - window.pads[axis] - window.pads[axis + 2])
            sizes.append(least + self.pick(0, 1, 2, self.integer(3, 12)))
        return sizes[0], sizes[1]

    def weights(self, *shape: int, bits: int = 8) -> Array:
        """Return weights, with the extremes if there are enough elements."""
        values = self.numbers.integers(-(1 << bits - 1), 1 << bits - 1, shape)
        values.reshape(-1)[:1] = -(1 << bits - 1)
        values.reshape(-1)[1:2] = (1 << bits - 1) - 1
        return Array(values)

    def bias(self, channels: int) -> Array | None:
        """Return a bias per channel, or none."""
        values = self.numbers.integers(-30000, 30000, channels)
        return self.pick(None, Array(values))

    def _value_bits(self) -> int:
        return self.pick(*(b for b in self.space.numerator_bits if b <= _BITS_OF_VALUES))

    def step(self, channels: int, reach: int, clip: Range | None) -> Requant:
        """Return a step on values up to ``reach`` that are not sums of products."""
        return self._step(channels, reach, clip, self._value_bits())

    def _step(self, channels: int, reach: int, clip: Range | None, bits: int) -> Requant:
        """Return a step whose numerators take about ``bits`` bits or fewer."""
        target = 200 if clip is None else max(abs(clip[0]), abs(clip[1]))
        k = min(max(bits - target.bit_length() - 1, 1), 62)
        form = self.pick("shift", "shift", "ones", "other")
        div = {"shift": 1 << k, "ones": (1 << k) - 1, "other": (1 << k) - self.integer(2, 99)}[form]
        div = max(div, 1)
        scale = max(1, target * div // max(reach, 1))
        count = self.pick(1, channels)
        mul = [self.integer(scale // 2, scale) * self.pick(1, 1, 1, -1) for _ in range(count)]
        count = self.pick(count, 1)
        add = [self.integer(-target * div // 4, target * div // 4) for _ in range(count)]
        return requant(mul, add, div, *(clip or (None, None)))

    def _two_addends(self, step: Requant, reach: int) -> Requant:
        """Return the step, sometimes with another addend for negative sums, mostly monotonic."""
        if Feature.TWO_ADDENDS not in self.space.features or self.integer(0, 2) == 0:
            return step
        turn = self.pick(0, 0, self.integer(-reach // 4, reach // 4))
        turn = turn if Feature.TURN in self.space.features else 0
        less = [self.integer(0, step.div) for _ in step.add]
        negative = [add - difference for add, difference in zip(step.add, less, strict=True)]
        mul = step.mul if self.integer(0, 5) == 0 else tuple(abs(m) for m in step.mul)
        return requant(mul, step.add, step.div, step.lo, step.hi, negative, turn)

    def source(self, c: int, h: int, w: int) -> Source:
        """Return an input of this shape with one of the ranges."""
        return (c, h, w, *self.pick(*self.space.inputs))

    def steps(self, channels: int, weights: Array, source: Source) -> tuple[Requant, ...]:
        """Return the requantisations of sums of products, sometimes none."""
        if self.integer(0, 6) == 0:
            return ()
        largest = int(np.abs(weights.values).max())
        fan_in = weights.values.size // channels
        reach = fan_in * max(1, largest // 2) * max(abs(source[3]), source[4])
        return self.requants(channels, reach, self.pick(*self.space.outputs))
