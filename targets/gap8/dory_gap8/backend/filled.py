"""Dense convolutions along a row that is copied with its padding and with pixels of words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dory_core.api import Feature, Layer, Number, Rejection, ceil_div, geometry
from dory_gap8 import calibration as cal
from dory_gap8.backend.block import BlockKernel, pad_word, passes, pixel_bytes
from dory_gap8.backend.block_finish import RAW, finish
from dory_gap8.backend.gather import GatherKernel
from dory_gap8.backend.weights import padded
from dory_gap8.backend.window import WindowKernel

if TYPE_CHECKING:
    from dory_core.api import Tile

# Bytes of a pixel: the last word of one that is no words ends where the pixel ends.
LEAST_BYTES = 4
# A column has two steps of the block at least.
LEAST_COLUMN = 8


@dataclass(frozen=True)
class FilledKernel(BlockKernel):
    """Windows of one row, each of which is one segment of the copy."""

    kind = "filled"
    features = BlockKernel.features | {Feature.PAD_VALUE}
    title = "convolution along a row, which is copied in words"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Rows of pixels that are read in place or gathered with more cycles."""
        return super().accepts(layer) or self._reject_slower(layer)

    def _reject_channels(self, layer: Layer) -> Rejection | None:
        """Rows of pixels that take a copy: they are no words, or have padding."""
        pixel = pixel_bytes(layer)
        if not _is_row(layer):
            return Rejection("it computes windows along one row of pixels only")
        if pixel % 4 == 0 and not any(layer.window.pads):
            return Rejection(f"its pixels of {pixel} bytes are words without padding")
        if pixel < LEAST_BYTES or self._words(layer) < LEAST_COLUMN:
            return Rejection(f"its pixels of {pixel} bytes are too short")
        if passes(layer) > 1:
            return Rejection("it takes weights of 8 bits, these have 9")
        return None

    def _reject_slower(self, layer: Layer) -> Rejection | None:
        full = geometry.extent(layer)
        for other in (WindowKernel(self.cores), GatherKernel(self.cores)):
            if other.accepts(layer) is None:
                most = other.cycles(layer, full) + cal.FILLED_LESS
                if self.cycles(layer, full) > most:
                    return Rejection(f"{other.name} takes fewer cycles, without a copy")
                return None
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
        copy = ceil_div(self._pixels(layer, tile), self.cores) * pixel
        copy = copy + cal.FILLED_REMAINDER * layer.window.dilations[1]
        ends = cal.FILLED_ENDS if self._has_ends(layer) else 0
        return super().cycles(layer, tile) + copy + ends

    @staticmethod
    def _has_ends(layer: Layer) -> bool:
        """Return True when channels make no fours; those of a core's last block are stored in C."""
        return finish(layer).form != RAW and layer.output.channels % 4 > 0

    def _needs_scratch(self, layer: Layer) -> bool:
        return True

    def _tokens(self, layer: Layer) -> list[str]:
        return [f"c{layer.inputs[0].channels}"]

    def _macros(self, layer: Layer) -> tuple[tuple[str, str], ...]:
        return (
            ("DORY_CHANNELS", str(layer.inputs[0].channels)),
            ("DORY_PAD_WORD", pad_word(layer)),
            ("DORY_BLOCK_ENDS", str(int(self._has_ends(layer)))),
        )

    def _call_cycles(self, layer: Layer) -> int:
        return cal.FILLED_CALL

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
