"""Layers and networks that the arrays take, built as Graphs with seeded parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dory_core.api import Graph, Requant, ops
from dory_core.importing import requant
from dory_core.testing.graphs import GraphBuilder, Range

BYTES: Range = (-128, 127)
SEVEN: Range = (0, 127)
SEVEN_SIGNED: Range = (-64, 63)
CONVERTER = requant(1, 0, 16, -32, 31)
_TERNARY: Range = (-1, 1)
_SMALL: Range = (-30, 30)  # leaves room for factors up to 4


@dataclass(slots=True)
class ArrayBuilder(GraphBuilder):
    """A builder whose requantisations are those of an array."""

    is_ternary: bool = False

    def digital(self, channels: int, window: ops.Window, output: Range = SEVEN, **more: Any) -> str:
        """Add a Conv: a factor per channel, a bias, a shift."""
        self.is_ternary = False
        return self.conv(channels, window, output=output, weights=_SMALL, **more)

    def ternary(self, channels: int, window: ops.Window, output: Range = SEVEN, **more: Any) -> str:
        """Add a Conv of ternary weights behind the converters."""
        self.is_ternary = True
        return self.conv(channels, window, output=output, weights=_TERNARY, **more)

    def dense(self, channels: int, output: Range = BYTES, ternary: bool = False) -> str:
        """Add a Linear."""
        self.is_ternary = ternary
        return self.linear(channels, output=output, weights=_TERNARY if ternary else _SMALL)

    def sum(self, first: str, second: str, shift: int = 1, output: Range = SEVEN) -> str:
        """Add an Add with a right shift."""
        steps = (requant(1, 0, 1 << shift, *output),)
        return self.add(first, second, operands=(None, None), requants=steps)

    def _weights(self, shape: tuple[int, ...], values: Range) -> Any:
        weights = GraphBuilder._weights(self, shape, values)
        if self.is_ternary:  # sums of long filters stay within the converters
            kept = self._rng.random(shape) < min(1.0, 150 / float(np.prod(shape[1:])))
            kept.flat[0] = kept.flat[-1] = True
            weights = weights * kept
        return weights

    def _requants(
        self,
        channels: int,
        sums: tuple[float, float],
        output: Range | None,
        wide: bool,
        div: int | None,
        per_channel: bool,
    ) -> tuple[Requant, ...]:
        if output is None:
            return ()
        lo, hi = output
        if self.is_ternary:
            mul = self._rng.integers(20, 120, channels) * self._rng.choice([1, 1, -1], channels)
            add = self._rng.integers(16 * (lo + hi) - 400, 16 * (lo + hi) + 400, channels)
            return (CONVERTER, requant(mul.tolist(), add.tolist(), 32, lo, hi))
        mean, spread = sums
        shift = max(0, int(np.ceil(np.log2(6 * max(spread, 1.0) / (hi - lo)))))
        mul = self._rng.integers(1, 4, channels, endpoint=True)
        middle = (lo + hi) / 2 * (1 << shift) - mul * mean
        add = np.rint(middle + self._rng.uniform(-20, 20, channels) * (1 << shift)).astype(int)
        return (requant(mul.tolist(), add.tolist(), 1 << shift, lo, hi),)


@dataclass(frozen=True)
class ArrayCase:
    """A network, and the engines that its layers go to."""

    name: str
    build: Callable[[], Graph]
    engines: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


def win(
    kernel: int | tuple[int, int] = 3,
    stride: int = 1,
    pads: int | tuple[int, int, int, int] | None = None,
) -> ops.Window:
    """Return a window; by default padded to the same size."""
    sides = (kernel, kernel) if isinstance(kernel, int) else kernel
    if pads is None:
        pads = (sides[0] // 2, sides[1] // 2) * 2
    four = (pads,) * 4 if isinstance(pads, int) else pads
    return ops.Window(kernel=sides, strides=(stride, stride), pads=four)


def _one(
    name: str,
    engine: str,
    shape: tuple[int, int, int],
    make: Callable[[ArrayBuilder], object],
    values: Range = BYTES,
) -> ArrayCase:
    def build() -> Graph:
        builder = ArrayBuilder(shape, values=values, seed=len(name), name=name)
        make(builder)
        return builder.graph()

    return ArrayCase(name, build, (engine,))


def layer_cases() -> tuple[ArrayCase, ...]:
    """Return single layers over kernels, sizes and paddings."""
    digital = (
        _one("3x3", "digital", (16, 16, 16), lambda b: b.digital(32, win())),
        _one("3x3_odd", "digital", (7, 13, 11), lambda b: b.digital(9, win())),
        _one("3x3_stride_2", "digital", (5, 17, 23), lambda b: b.digital(20, win(stride=2))),
        _one("3x3_stride_2_even", "digital", (8, 20, 32), lambda b: b.digital(16, win(stride=2))),
        _one("no_padding", "digital", (8, 12, 18), lambda b: b.digital(16, win(pads=0))),
        _one("1x1", "digital", (40, 9, 9), lambda b: b.digital(33, win(1))),
        _one("1x1_stride_2", "digital", (12, 15, 14), lambda b: b.digital(20, win(1, 2))),
        _one("one_pixel", "digital", (70, 1, 1), lambda b: b.digital(50, win(1))),
        _one("5x5", "digital", (3, 33, 29), lambda b: b.digital(16, win(5))),
        _one("5x5_stride_2", "digital", (3, 33, 29), lambda b: b.digital(16, win(5, 2))),
        _one("7x7", "digital", (1, 24, 24), lambda b: b.digital(8, win(7))),
        _one("row_filter", "digital", (12, 1, 70), lambda b: b.digital(16, win((1, 7)))),
        _one("mixed_sides", "digital", (6, 19, 25), lambda b: b.digital(10, win((5, 3)))),
        _one(
            "top_left",
            "digital",
            (6, 10, 10),
            lambda b: b.digital(10, win(pads=(2, 2, 0, 0))),
        ),
        _one(
            "right_border_in_padded_columns",
            "digital",
            (6, 10, 13),
            lambda b: b.digital(10, win(5, pads=(1, 0, 3, 3))),
        ),
        _one("bias", "digital", (9, 8, 8), lambda b: b.digital(12, win(), bias=True)),
        _one("signed_output", "digital", (8, 9, 9), lambda b: b.digital(16, win(), BYTES)),
        _one("wide_image", "digital", (4, 40, 130), lambda b: b.digital(16, win())),
        _one("many_outputs", "digital", (20, 5, 5), lambda b: b.digital(200, win())),
        _one("weights_in_tiles", "digital", (64, 4, 4), lambda b: b.digital(200, win())),
        _one("depthwise", "digital", (20, 21, 19), lambda b: b.digital(20, win(), groups=20)),
        _one(
            "depthwise_stride_2",
            "digital",
            (40, 20, 20),
            lambda b: b.digital(40, win(stride=2), groups=40),
        ),
        _one("depthwise_5x5", "digital", (20, 14, 16), lambda b: b.digital(20, win(5), groups=20)),
        _one("linear", "digital", (16, 6, 6), lambda b: b.dense(10)),
        _one("linear_of_odd_pixels", "digital", (30, 3, 3), lambda b: b.dense(37)),
        _one("linear_of_one_pixel", "digital", (64, 1, 1), lambda b: b.dense(48, SEVEN)),
        _one("sum", "digital", (20, 11, 13), lambda b: b.sum("input", b.extra_input(BYTES)), BYTES),
        _one(
            "sum_with_clip",
            "digital",
            (20, 11, 16),
            lambda b: b.sum("input", b.extra_input(BYTES), 0, BYTES),
        ),
    )
    analog = (
        _one("3x3", "analog", (32, 12, 16), lambda b: b.ternary(64, win()), SEVEN),
        _one("3x3_odd", "analog", (21, 11, 13), lambda b: b.ternary(37, win()), SEVEN),
        _one("3x3_stride_2", "analog", (16, 13, 14), lambda b: b.ternary(70, win(stride=2)), SEVEN),
        _one("all_rows", "analog", (128, 6, 8), lambda b: b.ternary(130, win()), SEVEN),
        _one("1x1", "analog", (300, 6, 6), lambda b: b.ternary(20, win(1)), SEVEN),
        _one("1x1_stride_2", "analog", (40, 7, 7), lambda b: b.ternary(20, win(1, 2)), SEVEN),
        _one("5x5", "analog", (20, 9, 9), lambda b: b.ternary(24, win(5)), SEVEN),
        _one(
            "more_outputs_than_columns",
            "analog",
            (20, 4, 4),
            lambda b: b.ternary(600, win()),
            SEVEN,
        ),
        _one("two_columns_at_once", "analog", (16, 5, 6), lambda b: b.ternary(200, win()), SEVEN),
        _one(
            "asymmetric",
            "analog",
            (9, 8, 9),
            lambda b: b.ternary(12, win(pads=(0, 2, 1, 0))),
            SEVEN,
        ),
        _one(
            "signed",
            "analog",
            (24, 8, 8),
            lambda b: b.ternary(16, win(), SEVEN_SIGNED),
            SEVEN_SIGNED,
        ),
        _one("linear", "analog", (200, 1, 1), lambda b: b.dense(40, SEVEN, ternary=True), SEVEN),
        _one(
            "linear_of_pixels",
            "analog",
            (20, 3, 3),
            lambda b: b.dense(10, SEVEN, ternary=True),
            SEVEN,
        ),
    )
    return tuple(
        ArrayCase(f"{c.engines[0]}_{c.name}", c.build, c.engines) for c in (*digital, *analog)
    )


def _mixed() -> Graph:
    b = ArrayBuilder((3, 18, 20), values=BYTES, seed=1, name="mixed")
    stem = b.digital(16, win())
    left = b.ternary(32, win(stride=2), source=stem)
    right = b.digital(32, win(stride=2), source=stem)
    total = b.sum(left, right)
    b.max_pool(win(2, 2, 0), source=total)
    b.ternary(40, win(1))
    b.digital(40, win(), groups=40)
    b.avg_pool(win((4, 5), pads=0), output=SEVEN)
    b.dense(24)
    b.linear(5)
    return b.graph()


def _chain() -> Graph:
    b = ArrayBuilder((8, 16, 16), values=BYTES, seed=2, name="chain")
    for channels in (16, 32, 24):
        b.digital(b.shape_of(b.last)[0], win(), groups=b.shape_of(b.last)[0])
        b.digital(channels, win(1))
    return b.graph()


def _ternary_chain() -> Graph:
    b = ArrayBuilder((16, 9, 10), values=SEVEN, seed=3, name="ternary_chain")
    for channels in (32, 48, 64):
        b.ternary(channels, win())
    return b.graph()


def _branches() -> Graph:
    b = ArrayBuilder((16, 10, 12), values=SEVEN, seed=4, name="branches")
    one = b.digital(16, win(), source="input")
    two = b.ternary(16, win(), source="input")
    three = b.sum(one, "input")
    four = b.sum(three, two)
    five = b.digital(24, win(1), source=four)
    return b.graph([five, three])


def network_cases() -> tuple[ArrayCase, ...]:
    """Return networks of several layers."""
    host, digital, analog = "host", "digital", "analog"
    return (
        ArrayCase(
            "mixed",
            _mixed,
            (digital, analog, digital, digital, host, analog, digital, host, digital, host),
        ),
        ArrayCase("chain", _chain, (digital,) * 6),
        ArrayCase("ternary_chain", _ternary_chain, (analog,) * 3),
        ArrayCase("branches", _branches, (digital, analog, digital, digital, digital)),
    )
