"""Dense convolutions along a row whose tile is copied with pixels filled up to whole words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dory_core.api import Feature, Layer, Number, Rejection, ceil_div
from dory_gap8 import calibration as cal
from dory_gap8.backend.block import BlockKernel, column_bytes, pad_word, passes, pixel_bytes
from dory_gap8.backend.block_finish import RAW, finish
from dory_gap8.backend.gather import GatherKernel
from dory_gap8.backend.weights import padded

if TYPE_CHECKING:
    from dory_core.api import Tile

# Bytes of a pixel: its last word is loaded so that it ends with the pixel.
LEAST_BYTES = 8


@dataclass(frozen=True)
class FilledKernel(BlockKernel):
    """Windows of one row, each of which is one segment of the copy."""

    kind = "filled"
    features = BlockKernel.features | {Feature.PAD_VALUE}
    title = "convolution along a row, pixels filled up to words"

    def _reject_channels(self, layer: Layer) -> Rejection | None:
        """One row of pixels that are no words, unless gathering them costs less."""
        pixel = pixel_bytes(layer)
        if pixel % 4 == 0 or pixel < LEAST_BYTES:
            wanted = f"pixels of {LEAST_BYTES} bytes and more that are no words"
            return Rejection(f"it fills up {wanted}, this one has {pixel}")
        if not _is_row(layer):
            return Rejection("it computes windows along one row of pixels only")
        if passes(layer) > 1:
            return Rejection("it takes weights of 8 bits, these have 9")
        gathered = int(padded(column_bytes(layer)))
        more = (self._words(layer) - gathered) // 4 * self._step_cycles(layer) // 10
        more *= -(-layer.output.channels // 4)
        if gathered <= cal.GATHER_COLUMN and more > GatherKernel(self.cores).pixel_cycles(layer):
            return Rejection(f"its pixels of {pixel} bytes cost more filled up than gathered")
        return None

    def _segments(self, layer: Layer) -> int:
        return 1

    def _is_one(self, layer: Layer) -> bool:
        return True

    def _words(self, layer: Layer) -> int:
        """Taps times the words of a pixel."""
        return layer.window.taps * int(padded(pixel_bytes(layer)))

    def _run(self, layer: Layer) -> int:
        return layer.inputs[0].channels

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The tile with its padding, of pixels that are words."""
        return self._pixels(layer, tile) * int(padded(pixel_bytes(layer)))

    @staticmethod
    def _pixels(layer: Layer, tile: Tile) -> Number:
        """Return the pixels of the copy: as many of each remainder of the columns."""
        window = layer.window
        dilation = window.dilations[1]
        columns = (tile.h * tile.w - 1) * window.strides[1] + (window.kernel[1] - 1) * dilation + 1
        return ceil_div(columns, dilation) * dilation

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Those of the blocks, and copying the tile."""
        pixel = cal.FILLED_PIXEL + cal.FILLED_WORD * int(padded(pixel_bytes(layer))) // 4
        ends = cal.FILLED_ENDS if self._has_ends(layer) else 0
        copy = ceil_div(self._pixels(layer, tile), self.cores) * pixel
        return super().cycles(layer, tile) + copy + ends

    @staticmethod
    def _has_ends(layer: Layer) -> bool:
        """Return True when channels make no fours; those of a core's last block are stored in C."""
        return layer.output.channels % 4 > 0

    def _needs_scratch(self, layer: Layer) -> bool:
        return True

    def _tokens(self, layer: Layer) -> list[str]:
        return [f"c{layer.inputs[0].channels}"]

    def _macros(self, layer: Layer) -> tuple[tuple[str, str], ...]:
        return (
            ("DORY_CHANNELS", str(layer.inputs[0].channels)),
            ("DORY_PAD_WORD", pad_word(layer)),
        )

    def _border_cycles(self, layer: Layer) -> tuple[int, int]:
        """None: the copy has the padding."""
        return 0, 0

    def _pixel_cycles(self, layer: Layer) -> int:
        """Going on to the next block, or a call for each."""
        window = layer.window
        if finish(layer).form != RAW and 4 * window.strides[1] % window.dilations[1] == 0:
            return cal.BLOCK_FOURS + cal.BLOCK_FOURS_SEGMENT + cal.BLOCK_ONE_FOURS
        return cal.BLOCK_PIXELS + cal.BLOCK_ONE_CALL


def _is_row(layer: Layer) -> bool:
    """Return True when a tile is one row of pixels for its windows."""
    window, x, y = layer.window, layer.inputs[0], layer.output
    if window.kernel == window.strides == (1, 1):
        return not any(window.pads)
    return window.kernel[0] == x.height == y.height == 1
