"""Two networks that Diana's arrays are made for, in the form that the QuantLab quantiser exports.

    python targets/diana/examples/make.py [DIRECTORY]      writes mixed.onnx and mobile.onnx

Weights are random. Activations are signed bytes or 7-bit numbers, and requantisations are shifts
with small factors, so that the arrays take the layers. Inputs are signed bytes:

    dory check mixed.onnx --frontend quantlab --input-signed --target diana
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from dory_quantlab.testing import QuantlabBuilder

ADC_SCALE = 16  # accumulators per step of the analog array's converters
CONVERTED = (-32, 31)
_ACTIVATION = (0, 127)
_BYTES = (-128, 127)


class DianaBuilder(QuantlabBuilder):
    """Layers whose requantisation the arrays have."""

    def digital(
        self,
        channels: int,
        kernel: int = 1,
        *,
        groups: int = 1,
        stride: int = 1,
        bounds: tuple[int, int] = _ACTIVATION,
    ) -> Self:
        """Append a Conv of small 8-bit weights: a factor of 1, 2 or 3 per channel and a shift."""
        shape = (channels, self.shape[0] // groups, kernel, kernel)
        weights = self.random.integers(-40, 40, shape, endpoint=True)
        scale = self._shift(channels, float(np.sqrt(np.prod(shape[1:]))) * 23 * 45, bounds)
        return self.conv(
            channels,
            kernel,
            stride=stride,
            pads=kernel // 2,
            groups=groups,
            weights=weights,
            lo=bounds[0],
            hi=bounds[1],
            scale=scale,
        )

    def ternary(self, channels: int, kernel: int, *, stride: int = 1) -> Self:
        """Append a Conv of ternary weights: the converters, then a factor per channel."""
        shape = (channels, self.shape[0], kernel, kernel)
        share = min(1.0, 150 / float(np.prod(shape[1:])))
        weights = self.random.choice([-1, 0, 1], shape, p=[share / 2, 1 - share, share / 2])
        self.conv(
            channels,
            kernel,
            stride=stride,
            pads=kernel // 2,
            weights=weights,
            weight_bits=2,
            activation=False,
        )
        self.layer_values.pop()
        self.node("Div", self.value, self.constant(float(ADC_SCALE)))
        self.node("Floor", self.value)
        self.clip(*CONVERTED)
        mul = self.random.integers(60, 200, channels)
        add = self.random.integers(200, 1600, channels)
        self.shapes[self.value] = (channels, *self.shape[1:])
        return self._requantise(*self._columns(mul, add), 5, *_ACTIVATION)

    def hidden(self, features: int, bounds: tuple[int, int] = _BYTES) -> Self:
        """Append a fully connected layer with signed bytes as outputs."""
        self.flatten()
        deviation = float(np.sqrt(self.shape[0])) * 23 * 45
        weights = self.random.integers(-40, 40, (features, self.shape[0]), endpoint=True)
        mul, add, shift = self._shift(features, deviation, bounds)
        return self.linear(
            features, weights=weights, lo=bounds[0], hi=bounds[1], scale=(mul, add, shift)
        )

    def _shift(self, channels: int, deviation: float, bounds: tuple[int, int]) -> Any:
        """Return (mul, add, shift) with which two deviations fill the bounds."""
        shift = max(round(float(np.log2(8 * deviation / (bounds[1] - bounds[0])))), 0)
        mul = self.random.choice([1, 2, 3], channels)
        spread = 1 << shift
        middle = (bounds[0] + bounds[1] + 1) // 4 * spread
        add = middle + self.random.integers(-4 * spread, 4 * spread, channels)
        return mul, add, shift

    def _columns(self, *values: np.ndarray) -> tuple[np.ndarray, ...]:
        form = (-1, *(1 for _ in self.shape[1:]))
        return tuple(v.reshape(form) for v in values)


def mixed() -> DianaBuilder:
    """Ternary layers between 8-bit ones: both arrays, and the host for pools and the last layer."""
    b = DianaBuilder((3, 32, 32), seed=1, input_lo=_BYTES[0], input_hi=_BYTES[1])
    b.digital(16, 3)
    b.ternary(64, 3).ternary(128, 3, stride=2)
    skip = b.value
    b.ternary(128, 3)
    b.add(skip, out=(1, 0, 1), levels=(128, 128, 128))
    b.maxpool(2)
    b.digital(128, 3, groups=128).digital(64, 1)
    b.avgpool(hi=127)
    b.hidden(40)
    b.linear(10, activation=False)
    return b


def mobile() -> DianaBuilder:
    """Depthwise and pointwise convolutions with a residual: the digital array except the end."""
    b = DianaBuilder((3, 96, 96), seed=2, input_lo=_BYTES[0], input_hi=_BYTES[1])
    b.digital(16, 3, stride=2)
    for channels, stride in ((32, 1), (48, 2), (64, 1), (96, 2), (128, 2)):
        b.digital(b.shape[0], 3, groups=b.shape[0], stride=stride)
        b.digital(channels, 1)
    skip = b.value
    b.digital(128, 3, groups=128)
    b.digital(128, 1)
    b.add(skip, out=(1, 0, 1), levels=(128, 128, 128))
    b.avgpool(hi=127)
    b.linear(10, activation=False)
    return b


NETWORKS: dict[str, Callable[[], DianaBuilder]] = {"mixed": mixed, "mobile": mobile}


def main() -> None:
    """Write the networks."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    for name, build in NETWORKS.items():
        print(build().save(directory / f"{name}.onnx"))


if __name__ == "__main__":
    main()
