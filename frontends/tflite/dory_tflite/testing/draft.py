"""A random network under construction: sizes, scales, weights and options."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dory_tflite.testing.builder import TfliteBuilder

_ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


@dataclass(slots=True)
class Draft:
    """A network under construction, and the generator of its random numbers."""

    builder: TfliteBuilder
    random: np.random.Generator

    def number(self, lo: int, hi: int) -> int:
        """Return an integer of lo .. hi."""
        return int(self.random.integers(lo, hi, endpoint=True))

    def flag(self) -> bool:
        """Return True or False."""
        return bool(self.random.random() < 0.5)

    def scale(self) -> float:
        """Return a scale of activations; a power of two now and then, where ties are frequent."""
        if self.number(0, 3) == 0:
            return float(2.0 ** self.number(-8, -2))
        return float(np.float32(np.exp(self.random.uniform(np.log(0.003), np.log(0.3)))))

    def zero_point(self) -> int:
        """Return a zero point; that of a ReLU often."""
        return -128 if self.number(0, 2) == 0 else self.number(-128, 127)

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.builder.tensors[tensor].shape

    def quantisation(self, tensor: int) -> tuple[float, int]:
        """Return scale and zero point of a tensor."""
        found = self.builder.tensors[tensor]
        return found.scales[0], found.zero_points[0]

    def image(self) -> int:
        """Add a network input of a random size."""
        shape = (1, self.number(1, 9), self.number(1, 9), self.number(1, 12))
        return self.builder.input(shape, self.scale(), self.zero_point())

    def output(self, shape: tuple[int, ...], spread: float) -> int:
        """Add a tensor whose scale gives values of this spread some 60 steps."""
        scale = float(np.float32(spread / 60 * np.exp(self.random.uniform(-0.7, 0.7))))
        return self.builder.tensor(shape, scale, self.zero_point())

    def like(self, tensor: int, shape: tuple[int, ...]) -> int:
        """Add a tensor with the quantisation of another one."""
        return self.builder.tensor(shape, *self.quantisation(tensor))

    def weights(self, shape: tuple[int, ...], axis: int | None) -> tuple[int, list[float]]:
        """Add random weights; axis: that of their scales, None for one scale."""
        values = self.random.integers(-127, 127, shape, endpoint=True).astype(np.int8)
        count = 1 if axis is None else shape[axis]
        scales = [float(np.float32(s)) for s in self.random.uniform(0.001, 0.02, count)]
        if count > 2 and self.flag():
            scales[0] = 1e-6  # a channel that hardly changes
        return self.builder.constant(values, scales, axis=axis or 0), scales

    def bias(self, count: int, x: float, weights: list[float]) -> int:
        """Add a bias for an input of scale x."""
        values = self.random.integers(-3000, 3000, count).astype(np.int32)
        return self.builder.constant(values, [x * scale for scale in weights])

    def activation(self) -> str:
        """Return a fused activation."""
        return str(self.random.choice(_ACTIVATIONS))

    def window(self, tensor: int, largest: int = 5) -> tuple[int, int, dict[str, object]]:
        """Return (height, width) of a filter and options that fit a tensor."""
        _, height, width, _ = self.shape(tensor)
        kernel = self.number(1, min(largest, height)), self.number(1, min(largest, width))
        options: dict[str, object] = {
            "Padding": "SAME" if self.flag() else "VALID",
            "StrideH": self.number(1, 3),
            "StrideW": self.number(1, 3),
        }
        return *kernel, options
