"""Dense convolutions on the 4x4 block that read inputs where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dory_core.api import (
    Feature,
    Layer,
    Number,
    Rejection,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.block import (
    MOST_TAPS,
    BlockKernel,
    block_pixels,
    column_bytes,
    copies_borders,
    lanes,
    passes,
    pixel_bytes,
)
from dory_gap8.backend.block_finish import RAW, finish
from dory_gap8.backend.weights import padded

if TYPE_CHECKING:
    from dory_core.api import Tile

# Pointers to inputs that a core has room for on its stack.
STACK_POINTERS = 24
# Windows at a border that a core has room for: the last one of a row and the first of the next.
COPIES = 2


@dataclass(frozen=True)
class WindowKernel(BlockKernel):
    """Any dense filter, inputs read where they lie: nothing is gathered."""

    kind = "window"
    features = BlockKernel.features | {Feature.HALVES}
    title = "convolution, inputs in place"

    def _reject_channels(self, layer: Layer) -> Rejection | None:
        """Pixels of two steps at least, whole words unless a column is long."""
        if layer.inputs[0].halves and layer.inputs[0].channels < 2 * lanes(layer):
            return Rejection(f"it wants {2 * lanes(layer)} inputs in a pixel, if in two halves")
        pixel, taps, most = pixel_bytes(layer), layer.window.taps, MOST_TAPS // passes(layer)
        if taps > most:
            return Rejection(f"its filter has {taps} taps, at most {most} are possible")
        if pixel < 8 and not (pixel == 4 and copies_borders(layer)):
            return Rejection(f"it wants 8 bytes in a pixel at least, this one has {pixel}")
        window = layer.window
        if window.kernel == (1, 1) and any(window.pads):
            return Rejection("its 1x1 filter has padding")
        if pixel % 4 and column_bytes(layer) <= cal.GATHER_COLUMN:
            return Rejection(f"its pixels of {pixel} bytes are no words")
        return None

    def _segments(self, layer: Layer) -> int:
        """The rows of the window."""
        return layer.window.kernel[0]

    def _words(self, layer: Layer) -> int:
        """Taps times the words of a pixel; its halves have the same weights."""
        pixel = int(padded(pixel_bytes(layer)))
        return layer.window.taps * (pixel // 2 if layer.inputs[0].halves else pixel)

    def _run(self, layer: Layer) -> int:
        return layer.inputs[0].channels

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Zeros of each core, which stand for padding, or its windows at a border; long tables."""
        if not self._needs_scratch(layer):
            return 0
        if copies_borders(layer):
            return self.cores * COPIES * column_bytes(layer)
        table = 4 * _pointers(layer) if _is_far(layer) else 0
        return self.cores * (int(padded(pixel_bytes(layer))) + table)

    def _needs_scratch(self, layer: Layer) -> bool:
        return layer.window.kernel != (1, 1)

    def _is_one(self, layer: Layer) -> bool:
        """One row of the window, unless its taps are segments at a border."""
        return self._segments(layer) * passes(layer) == 1 and (
            layer.window.kernel[1] == 1 or copies_borders(layer)
        )

    def _tokens(self, layer: Layer) -> list[str]:
        if copies_borders(layer):
            return ["copied"]
        return ["odd"] if pixel_bytes(layer) % 4 else []

    def _macros(self, layer: Layer) -> tuple[tuple[str, str], ...]:
        return (
            ("DORY_WORDS", str(int(pixel_bytes(layer) % 4 == 0))),
            ("DORY_COPIES", str(COPIES * copies_borders(layer))),
            ("DORY_FAR_TABLE", str(int(_is_far(layer)))),
        )

    def _call_cycles(self, layer: Layer) -> int:
        return cal.BLOCK_ROW_CALL if _is_row(layer) else super()._call_cycles(layer)

    def _step_cycles(self, layer: Layer) -> int:
        odd = pixel_bytes(layer) % 4
        return super()._step_cycles(layer) + (cal.BLOCK_UNALIGNED if odd else 0)

    def _segment_cycles(self, layer: Layer) -> int:
        kernel_h, kernel_w = layer.window.kernel
        segments = kernel_h
        if pixel_bytes(layer) % 4 or layer.window.dilations[1] > 1:
            segments = kernel_h * kernel_w
        return cal.BLOCK_GROUP + cal.BLOCK_SEGMENT * (passes(layer) * segments - 1)

    def _border_cycles(self, layer: Layer) -> tuple[int, int]:
        """Taps instead of rows, and entering each of them."""
        window = layer.window
        if not any(window.pads):
            return 0, 0
        kernel_h, kernel_w = window.kernel
        if copies_borders(layer):
            row = cal.BLOCK_COPIED_ROW + cal.BLOCK_COPIED_WORD * kernel_w * pixel_bytes(layer) // 4
            return 0, cal.BLOCK_COPIED + kernel_h * row
        group = cal.BLOCK_SEGMENT * passes(layer) * kernel_h * (kernel_w - 1)
        if pixel_bytes(layer) % 4 or window.dilations[1] > 1:
            group = 0
        return group, cal.BLOCK_TAP * kernel_h * kernel_w

    def _pixel_cycles(self, layer: Layer) -> int:
        one = self._is_one(layer)
        first = cal.BLOCK_PIXELS + cal.BLOCK_ROW * layer.window.kernel[0]
        first += cal.BLOCK_ONE_CALL * one
        segments = passes(layer) * layer.window.kernel[0]
        next_four = cal.BLOCK_FOURS + cal.BLOCK_FOURS_SEGMENT * segments
        next_four += cal.BLOCK_ONE_FOURS * one
        share = self._runs_on(layer)
        return (share * min(first, next_four) + (100 - share) * first) // 100

    @staticmethod
    def _runs_on(layer: Layer) -> int:
        """Return in how many of a hundred cases the block goes on to four pixels by itself.

        It does so in a row of outputs, after its first four pixels, where these see no padding on
        either side, and through all rows where windows have one tap.
        """
        window, y = layer.window, layer.output
        if finish(layer).form == RAW or y.channels % 4:
            return 0
        if window.kernel == window.strides == (1, 1):
            return 100
        others = 1 + (window.pads[1] > 0) + (window.pads[3] > 0) + (y.width % 4 > 0)
        return max(0, 100 - 400 * others // y.width)


def _is_row(layer: Layer) -> bool:
    """Return True when the windows are the pixels of the tile, one after the other."""
    window = layer.window
    return window.kernel == window.strides == (1, 1) and pixel_bytes(layer) % 4 == 0


def _pointers(layer: Layer) -> int:
    """Return the pointers of a table with all taps of a block."""
    return block_pixels(layer) * passes(layer) * layer.window.taps


def _is_far(layer: Layer) -> bool:
    """Whether the table has taps, because rows are no segments everywhere, and too many of them."""
    apart = pixel_bytes(layer) % 4 > 0 or layer.window.dilations[1] > 1
    by_taps = apart or (any(layer.window.pads) and not copies_borders(layer))
    return by_taps and _pointers(layer) > STACK_POINTERS
