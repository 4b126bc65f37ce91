"""A random network under construction: sizes, scales, weights and options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_tflite.testing.builder import TfliteBuilder

_ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


@dataclass(slots=True)
class Draft:
    """A network under construction, and the generator of its random numbers.

    Attributes:
        type: Element type of activations: INT8, or INT16, whose zero point is 0.
        packed: Weights have 4 bits.
    """

    builder: TfliteBuilder
    random: np.random.Generator
    type: str = "INT8"
    packed: bool = False

    @property
    def words(self) -> bool:
        """True when activations have 16 bits."""
        return self.type == "INT16"

    def number(self, lo: int, hi: int) -> int:
        """Return an integer of lo .. hi."""
        return int(self.random.integers(lo, hi, endpoint=True))

    def flag(self) -> bool:
        """Return True or False."""
        return bool(self.random.random() < 0.5)

    def scale(self) -> float:
        """Return a scale of activations; a power of two now and then, where ties are frequent."""
        unit = 1 / 256 if self.words else 1.0
        if self.number(0, 3) == 0:
            return float(2.0 ** self.number(-8, -2)) * unit
        return float(np.float32(np.exp(self.random.uniform(np.log(0.003), np.log(0.3))))) * unit

    def zero_point(self) -> int:
        """Return a zero point; that of a ReLU often."""
        if self.words:
            return 0
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
        return self.input(shape, self.scale(), self.zero_point())

    def input(self, shape: Sequence[int], scale: float, zero_point: int) -> int:
        """Add a network input."""
        return self.builder.input(shape, scale, zero_point, self.type)

    def tensor(self, shape: Sequence[int], scale: float, zero_point: int) -> int:
        """Add a tensor that an operator computes."""
        return self.builder.tensor(shape, scale, zero_point, self.type)

    def stored(self, shape: Sequence[int]) -> npt.NDArray[Any]:
        """Return random values of the type of activations."""
        bounds = np.iinfo(np.int16 if self.words else np.int8)
        values = self.random.integers(bounds.min, bounds.max, shape, endpoint=True)
        return np.asarray(values, bounds.dtype)

    def output(self, shape: tuple[int, ...], spread: float) -> int:
        """Add a tensor whose scale gives values of this spread some 60 steps."""
        scale = float(np.float32(spread / 60 * np.exp(self.random.uniform(-0.7, 0.7))))
        return self.tensor(shape, scale, self.zero_point())

    def like(self, tensor: int, shape: tuple[int, ...]) -> int:
        """Add a tensor with the quantisation of another one."""
        return self.tensor(shape, *self.quantisation(tensor))

    def weights(self, shape: tuple[int, ...], axis: int | None) -> tuple[int, list[float]]:
        """Add random weights; axis: that of their scales, None for one scale."""
        most = 7 if self.packed else 127
        values = self.random.integers(-most, most, shape, endpoint=True).astype(np.int8)
        count = 1 if axis is None else shape[axis]
        scales = [float(np.float32(s)) for s in self.random.uniform(0.001, 0.02, count)]
        if count > 2 and self.flag():
            scales[0] = 1e-6  # a channel that hardly changes
        if self.packed:
            return self.builder.nibbles(values, scales, axis or 0), scales
        return self.builder.constant(values, scales, axis=axis or 0), scales

    def bias(self, count: int, x: float, weights: list[float], always_wide: bool = True) -> int:
        """Add a bias for an input of scale x.

        always_wide: with activations of 16 bits it has 64, else 32 now and then.
        """
        values = self.random.integers(-3000, 3000, count).astype(np.int32)
        if self.words:
            factor = 1 << self.number(0, 28)  # beyond 32 bits now and then
            narrow = not always_wide and self.flag()
            values = values if narrow else values.astype(np.int64) * factor
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
