"""What operators share that normalise the channels of a pixel."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.ir.array import Array
from dory_core.ir.kinds.operator import Operator, Tensors
from dory_core.ir.tensor import Shape, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalising(Operator):
    """A normalisation of the channels of each pixel, with weights and biases.

    Attributes:
        weights: Shape (C,).
        bias: Shape (C,), or none.
    """

    weights: Array
    bias: Array | None = None

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The weights, and the biases where there are any."""
        return (self.weights,) if self.bias is None else (self.weights, self.bias)

    @property
    def parameters(self) -> int:
        return len(self.arrays) * self.weights.shape[0]

    def output_shape(self, sources: Tensors) -> Shape:
        return self.checked(sources[0])

    def checked(self, source: Tensor) -> Shape:
        """Return the shape of the output.

        Raises:
            NotSupported: When weights or biases do not fit it.
        """
        for array in self.arrays:
            if array.shape != (source.channels,):
                raise self.refused(f"constants of shape {array.shape} for {source.shape}")
        return source.shape
