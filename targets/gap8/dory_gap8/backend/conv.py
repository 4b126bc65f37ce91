"""Dense convolutions: the im2col kernel for any filter, and the one for 1x1 filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dory_core.ir import Conv, TypedLayer, Window
from dory_core.kernel import Constraint, Number, Rejection
from dory_core.tiling.geometry import extent
from dory_gap8 import calibration as cal
from dory_gap8.backend.dense import DenseKernel, reject_weighted, weighted_epilogue
from dory_gap8.backend.instance import call_text
from dory_gap8.backend.weights import padded

if TYPE_CHECKING:
    from dory_core.tiling.geometry import Tile


def geometry_arguments(window: Window) -> tuple[tuple[str, str], ...]:
    """Return the arguments that the shape of a window fixes."""
    return (
        ("kernel_h", str(window.kernel[0])),
        ("kernel_w", str(window.kernel[1])),
        ("stride_h", str(window.strides[0])),
        ("stride_w", str(window.strides[1])),
        ("dilation_h", str(window.dilations[0])),
        ("dilation_w", str(window.dilations[1])),
    )


def tile_arguments(*names: str) -> tuple[tuple[str, str], ...]:
    """Return arguments that the tile loop supplies under their own names."""
    return tuple((name, f"${name}") for name in names)


class ConvolutionKernel(DenseKernel):
    """What both dense convolutions share: weights in rows of taps and channels (OHWI)."""

    def rows(self, layer: TypedLayer, c_in: tuple[int, int]) -> npt.NDArray[Any]:
        """Rows of (tap row, tap column, input channel)."""
        weights = self._conv(layer).weights.values[:, c_in[0] : c_in[1]]
        rows: npt.NDArray[Any] = np.moveaxis(weights, 1, 3).reshape(weights.shape[0], -1)
        return rows

    def row_length(self, layer: TypedLayer, tile: Tile) -> Number:
        """Taps times input channels."""
        kernel_h, kernel_w = self._conv(layer).window.kernel
        return kernel_h * kernel_w * tile.c_in

    def call(self, layer: TypedLayer) -> str:
        """One call with the tile's sizes and padding."""
        arguments = (
            *tile_arguments("x", "weights", "y"),
            *self.partial_arguments(),
            *self._scratch_argument(),
            *tile_arguments("x_h", "x_w", "x_c", "y_h", "y_w", "y_c"),
            *self._padding_arguments(),
            *geometry_arguments(self._conv(layer).window),
            ("requant", weighted_epilogue(layer).initialiser()),
        )
        return call_text(self.symbol(layer), self.kind, arguments)

    def _scratch_argument(self) -> tuple[tuple[str, str], ...]:
        return ()

    def _padding_arguments(self) -> tuple[tuple[str, str], ...]:
        return ()

    @staticmethod
    def _conv(layer: TypedLayer) -> Conv:
        if not isinstance(layer.layer, Conv):
            raise TypeError(f"{layer.layer.kind} is no convolution")
        return layer.layer


@dataclass(frozen=True)
class ConvKernel(ConvolutionKernel):
    """Dense convolution: im2col of two pixels per core, then blocks of 4 channels x 2 pixels."""

    kind = "conv"
    title = "convolution"
    extra_macros = (("DORY_GAP8_IM2COL_CHANNELS", str(cal.IM2COL_CHANNELS)),)

    def accepts(self, layer: TypedLayer) -> Rejection | None:
        """Any dense filter, stride, dilation and padding."""
        if not isinstance(layer.layer, Conv):
            return Rejection("it computes convolutions only")
        if layer.layer.groups > 1:
            return Rejection("it computes dense convolutions only, this one has groups")
        return reject_weighted(layer)

    def constraints(self, layer: TypedLayer, tile: Tile) -> tuple[Constraint, ...]:
        """Tiles that repay im2col, as long as partial sums are the alternative.

        Below these sizes gathering outweighs multiplying, and tiles of fewer input channels are
        several times faster.
        """
        if self.partial or layer.inputs[0].channels == 1:
            return ()
        full = extent(layer)
        channels = min(cal.LEAST_CHANNELS, full.c_out)
        pixels = min(self.cores, full.h * full.w)
        return (
            Constraint(tile.c_out >= channels, f"im2col serves at least {channels} channels"),
            Constraint(tile.h * tile.w >= pixels, f"a tile has at least {pixels} pixels"),
        )

    def scratch_bytes(self, layer: TypedLayer, tile: Tile) -> Number:
        """Two columns per core."""
        element = layer.inputs[0].bits // 8
        return 2 * self.cores * element * padded(self.row_length(layer, tile))

    def cycles(self, layer: TypedLayer, tile: Tile) -> Number:
        """Gathering two pixels, then their product."""
        k = self.row_length(layer, tile)
        pair = cal.IM2COL_PAIR + cal.IM2COL_TENTHS * k // 10
        return self.shared_cycles(layer, tile, pair, padded(k) // 4)

    def _scratch_argument(self) -> tuple[tuple[str, str], ...]:
        return tile_arguments("scratch")

    def _padding_arguments(self) -> tuple[tuple[str, str], ...]:
        return tile_arguments("pad_top", "pad_left")


@dataclass(frozen=True)
class PointwiseKernel(ConvolutionKernel):
    """1x1 convolution, any stride, straight from the input tile."""

    kind = "pointwise"
    title = "1x1 convolution"

    def accepts(self, layer: TypedLayer) -> Rejection | None:
        """Dense 1x1 filters without padding."""
        if not isinstance(layer.layer, Conv) or not layer.layer.is_pointwise:
            return Rejection("it computes dense 1x1 convolutions only")
        if any(layer.layer.window.pads):
            return Rejection("it computes 1x1 convolutions without padding only")
        return reject_weighted(layer)

    def cycles(self, layer: TypedLayer, tile: Tile) -> Number:
        """The product alone; columns that start off a word load in two cycles."""
        k = self.row_length(layer, tile)
        return self.shared_cycles(layer, tile, 0, padded(k) // 4)
