"""Layers that move elements: no arithmetic, or that of interpolation. Triples are (C, H, W)."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.ir.array import Array
from dory_core.ir.ops import Op

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat(Op):
    """The inputs one after another along an axis: 0 channels, 1 rows, 2 columns.

    Their elements are copied: all inputs have the same quantisation. The other axes agree.
    """

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Op):
    """``y[i] = x[begin + i * step]`` along every axis, with ``size`` elements.

    Steps may be negative, never 0. A split is several of them.
    """

    begin: Triple
    size: Triple
    step: Triple = (1, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad(Op):
    """``before`` and ``after`` elements of ``value`` around the input along every axis."""

    before: Triple
    after: Triple
    value: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(Op):
    """Interpolation from two rows and two columns of the input; the requantisation divides.

    Output row h is rows[h] = (first, second, weight of first, weight of second), likewise for
    columns. The accumulator is the sum of the four elements times both their weights. The nearest
    neighbour has weights 1 and 0, and needs no requantisation.

    rows: shape (height, 4). columns: shape (width, 4).
    """

    rows: Array
    columns: Array

    @property
    def is_gather(self) -> bool:
        """Every output is one element of the input."""
        return all(
            bool((taps.values[:, 2] == 1).all() and (taps.values[:, 3] == 0).all())
            for taps in (self.rows, self.columns)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose(Op):
    """Axis a of the output is axis ``perm[a]`` of the input; axes are 0 C, 1 H, 2 W."""

    perm: Triple


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape(Op):
    """Another shape (C, H, W) of the elements, which keep their order in memory (HWC)."""

    shape: Triple
