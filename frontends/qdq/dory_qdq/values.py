"""What a value of the file is while the network is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from dory_onnx import Node

from dory_qdq.numerics import Floats, Integers, Quantisation

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """The order of elements whose dimensions are parts of axes.

    Attributes:
        sizes: Of the dimensions in the order of memory.
        order: Which of ``sizes`` the file has, the slowest one first.
    """

    sizes: Shape
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the elements of a value lie.

    Attributes:
        tensor: Tensor of the Graph.
        shape: Shape in the file.
        order: Axes (0 C, 1 H, 2 W) of the tensor from the slowest to the fastest one in the order
            of the file; axes of size 1 are left out. Empty where there is a grid.
        grid: How the elements lie after an order of parts of axes, None without.
    """

    tensor: str
    shape: Shape
    order: tuple[int, ...]
    grid: Grid | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """Stored integers of 8 bits; ``signed`` is True for int8, False for uint8."""

    place: Place
    signed: bool

    @property
    def unscaled(self) -> Quantisation:
        """A quantisation for moved integers whose scale is not known yet."""
        return Quantisation(1.0, 0, self.signed)


@dataclass(frozen=True, slots=True)
class Real:
    """Reals that are dequantised integers."""

    place: Place
    x: Quantisation


@dataclass(frozen=True, slots=True)
class Mask:
    """Truth values that are a table over stored bytes.

    Attributes:
        place: Where the bytes lie.
        x: Quantisation of the bytes.
        holds: Truth values by rising stored value.
    """

    place: Place
    x: Quantisation
    holds: tuple[bool, ...]

    @classmethod
    def of(cls, place: Place, x: Quantisation, holds: npt.NDArray[np.bool_]) -> Mask:
        """Return truth values by an array of them."""
        return cls(place, x, tuple(holds.tolist()))

    @property
    def array(self) -> npt.NDArray[np.bool_]:
        """The truth values as an array."""
        return np.array(self.holds, np.bool_)

    def become(self, holds: npt.NDArray[np.bool_]) -> Mask:
        """Return other truth values of the same bytes."""
        return Mask.of(self.place, self.x, holds)


@dataclass(frozen=True, slots=True)
class Sums:
    """32-bit sums of products that nothing quantises: an output, or an operand of an Add.

    scales: of each channel.
    """

    place: Place
    scales: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A constant of the file."""

    values: npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class QuantisedConstant:
    """A dequantised constant: scales * (values - zeros) along ``axis``, or one scale for all."""

    values: Integers
    scales: Floats
    zeros: Integers
    axis: int
    bits: int = 8

    @property
    def centred(self) -> Integers:
        """Values without their zero points."""
        return self.values - self._along(self.zeros)

    @property
    def reals(self) -> Floats:
        """What the values mean, in binary32."""
        return np.asarray(self.centred.astype(np.float32) * self._along(self.scales))

    def _along(self, each: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if each.size == 1:
            return each.reshape(-1)[0]
        shape = [1] * self.values.ndim
        shape[self.axis] = each.size
        return each.reshape(shape)


@dataclass(frozen=True, slots=True)
class Pending:
    """Reals that an operator computes and that a QuantizeLinear after it will round.

    Attributes:
        inputs: Inputs of the operator.
        lo, hi: Bounds of the activations after it.
        moves: Operators that move the elements before they are rounded.
    """

    node: Node
    inputs: tuple[Value | None, ...]
    lo: float | None = None
    hi: float | None = None
    moves: tuple[tuple[Node, tuple[Value | None, ...]], ...] = field(default=())


@dataclass(frozen=True, slots=True)
class FloatInput:
    """A network input of reals that nothing has quantised yet."""

    name: str
    shape: Shape
    moves: tuple[tuple[Node, tuple[Value | None, ...]], ...] = ()


Value = Stored | Real | Mask | Sums | Constant | QuantisedConstant | Pending | FloatInput
