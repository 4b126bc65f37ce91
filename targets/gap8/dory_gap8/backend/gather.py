"""Dense convolutions on the 4x4 block whose inputs are gathered first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Feature,
    Layer,
    Number,
    Rejection,
    ceil_div,
    minimum,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.block import (
    BlockKernel,
    block_pixels,
    column_bytes,
    copies_borders,
    pad_word,
    passes,
    pixel_bytes,
)
from dory_gap8.backend.block_finish import RAW, finish
from dory_gap8.backend.weights import padded

if TYPE_CHECKING:
    from dory_core.api import Tile


def _has_short_rows(layer: Layer) -> bool:
    """Return True when rows are so short that it pays to copy tiles with their padding.

    Windows along a row, of which many are at a border and all of these belong to few cores, may
    have longer ones, and so may large filters, whose windows at a border take longest.
    """
    window, x = layer.window, layer.inputs[0]
    reach = (window.kernel[1] - 1) * window.dilations[1]
    row = (x.width + reach) * pixel_bytes(layer)
    along_a_row = window.kernel[0] == 1 and reach >= 4
    large = window.taps >= cal.GATHER_LARGE_TAPS
    longest = cal.GATHER_LARGE_ROW if large else cal.GATHER_SHORT_ROW
    longest = cal.GATHER_LONG_ROW if along_a_row else longest
    return window.kernel != (1, 1) and row <= longest


def _is_copied(layer: Layer) -> bool:
    """Return True when tiles are copied with their padding."""
    return any(layer.window.pads) and _has_short_rows(layer)


@dataclass(frozen=True)
class GatherKernel(BlockKernel):
    """Any dense filter on pixels that are no words: four columns per core are gathered."""

    kind = "gather"
    features = BlockKernel.features | {Feature.PAD_VALUE}
    title = "convolution, inputs gathered"

    def _reject_channels(self, layer: Layer) -> Rejection | None:
        """Other layers than the window kernel takes, as long as their columns are short."""
        pixel, column = pixel_bytes(layer), column_bytes(layer)
        in_place = pixel >= 8 or (copies_borders(layer) and not layer.window.pad_value)
        if pixel % 4 == 0 and in_place:
            return Rejection(f"its pixels of {pixel} bytes are words and need not be gathered")
        if pixel >= 8 and column > cal.GATHER_COLUMN:
            return Rejection(
                f"its columns of {column} bytes are too long: it gathers {cal.GATHER_COLUMN}"
            )
        return None

    def _segments(self, layer: Layer) -> int:
        """A column is one."""
        return 1

    def _is_one(self, layer: Layer) -> bool:
        return passes(layer) == 1

    def _words(self, layer: Layer) -> int:
        """The words of a column; two steps of the block at least."""
        return max(8, int(padded(column_bytes(layer))))

    def _run(self, layer: Layer) -> int:
        return column_bytes(layer) * 8 // layer.inputs[0].bits

    def _arranged(self, layer: Layer, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Whole words of all runs of neighbours first, then what is left over of the runs.

        A run is a row of the window, or a tap where taps are apart.
        """
        window = layer.window
        runs = window.kernel[0] * (window.kernel[1] if window.dilations[1] > 1 else 1)
        by_run = weights.reshape(weights.shape[0], runs, -1)
        lanes = 32 // layer.inputs[0].bits
        whole = by_run.shape[2] // lanes * lanes
        parts = (by_run[:, :, :whole], by_run[:, :, whole:])
        return np.concatenate([p.reshape(weights.shape[0], -1) for p in parts], axis=1)

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The columns of blocks per core, and the tile with its padding where it is copied."""
        columns = self._batch(layer) * block_pixels(layer) * self.cores * self._words(layer)
        if not _has_short_rows(layer):
            return columns
        rows, row = self._image(layer, tile)
        return columns + ceil_div(rows * row, 4) * 4

    @staticmethod
    def _image(layer: Layer, tile: Tile) -> tuple[Number, Number]:
        """Return rows, and bytes of a row, of what the windows of a tile see."""
        window = layer.window
        reach = [(k - 1) * d + 1 for k, d in zip(window.kernel, window.dilations, strict=True)]
        rows = (tile.h - 1) * window.strides[0] + reach[0]
        columns = (tile.w - 1) * window.strides[1] + reach[1]
        return rows, columns * pixel_bytes(layer)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Those of the blocks, and copying the tile."""
        cycles = super().cycles(layer, tile)
        if not _is_copied(layer):
            return cycles
        rows, row = self._image(layer, tile)
        by_rows = ceil_div(rows, self.cores) * (cal.GATHER_COPIED_ROW + row)
        by_pieces = rows * (cal.GATHER_COPIED_ROW + ceil_div(row, self.cores))
        return cycles + minimum(by_rows, by_pieces)

    def _needs_scratch(self, layer: Layer) -> bool:
        return True

    def _tokens(self, layer: Layer) -> list[str]:
        copied = ["copied"] if _is_copied(layer) else []
        return [f"c{layer.inputs[0].channels}", *copied]

    def _macros(self, layer: Layer) -> tuple[tuple[str, str], ...]:
        return (
            ("DORY_CHANNELS", str(layer.inputs[0].channels)),
            ("DORY_PAD_WORD", pad_word(layer)),
            ("DORY_COPIED", str(int(_is_copied(layer)))),
            ("DORY_BATCH", str(self._batch(layer))),
        )

    def _batch(self, layer: Layer) -> int:
        """Return the blocks of pixels that are gathered at once: not where they take much of L1."""
        if finish(layer).form == RAW or layer.output.channels % 4:
            return 1
        few = self._words(layer) <= cal.GATHER_BATCH_LEAST
        if _has_short_rows(layer):
            batched = not few and self._words(layer) <= cal.GATHER_BATCH_MOST
        else:
            batched = few
        return cal.GATHER_BATCH if batched else 1

    def _border_cycles(self, layer: Layer) -> tuple[int, int]:
        """Gathering tap by tap, and input by input."""
        window = layer.window
        taps = window.kernel[0] * window.kernel[1]
        column = cal.GATHER_TAP * taps + cal.GATHER_INPUT * column_bytes(layer)
        return 0, column if any(window.pads) and not _is_copied(layer) else 0

    def _pixel_cycles(self, layer: Layer) -> int:
        kernel_h, kernel_w = layer.window.kernel
        row = self._words(layer)
        runs = kernel_h * kernel_w if layer.window.dilations[1] > 1 else 0
        share = self._neighbours(layer)
        fixed = (
            share * cal.GATHER_NEIGHBOURS + (100 - share) * cal.GATHER_PIXELS
        ) // 100 + cal.BLOCK_ONE_CALL * self._is_one(layer)
        fixed += cal.GATHER_ROW * kernel_h + cal.GATHER_RUN * runs
        batch = self._batch(layer)
        next_four = cal.BLOCK_FOURS + cal.BLOCK_FOURS_SEGMENT + cal.BLOCK_ONE_FOURS
        fixed -= (cal.GATHER_CALL - next_four) * (batch - 1) // batch
        fixed += cal.GATHER_REST if layer.output.channels % 4 else 0
        return fixed + cal.GATHER_TENTHS * row // 10

    @staticmethod
    def _neighbours(layer: Layer) -> int:
        """Return in how many of a hundred cases a block of pixels lies in one row."""
        size, width = block_pixels(layer), layer.output.width
        return 100 if width % size == 0 else max(0, 100 * (width - size + 1) // width)
