"""Dense convolutions with windows of three columns: neighbours in a row share their inputs.

Four windows that stand side by side see six columns of inputs, or nine with stride 2, instead of
twelve: fewer loads for the same products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Constraint, Layer, Number, Rejection, ceil_div
from dory_gap8 import calibration as cal
from dory_gap8.backend.block import BlockKernel, passes, pixel_bytes
from dory_gap8.backend.block_finish import finish

if TYPE_CHECKING:
    from dory_core.api import Tile

# Pixels of a block.
FOUR = 4
# Columns of a window.
COLUMNS = 3
# Rows from which on pixels that make no fours are taken down their columns, four at a time.
LEAST_ROWS = 3
# Bytes that an instruction reaches.
MOST_OFFSET = 2047
# Pixels between column 1 of a block and what it reaches, by the stride: the last column, or column
# 1 of the next block.
REACHES = {1: 4, 2: 8}


def _is_apart(layer: Layer) -> bool:
    """Return True when rows of outputs have other pixels than whole fours."""
    return layer.output.width % FOUR > 0


@dataclass(frozen=True)
class SlideKernel(BlockKernel):
    """Windows of three columns, one or two columns apart."""

    kind = "slide"
    title = "convolution, inputs in place and shared by neighbours"

    def _reject_channels(self, layer: Layer) -> Rejection | None:
        """The windows, and pixels of words that instructions reach."""
        window, width, pixel = layer.window, layer.output.width, pixel_bytes(layer)
        if layer.inputs[0].bits > 8:
            # The window kernel takes them in two halves, with weights of 8 bits: that is faster.
            return Rejection(f"it takes inputs of 8 bits, these have {layer.inputs[0].bits}")
        if window.kernel[1] != COLUMNS or window.dilations != (1, 1):
            return Rejection("it computes filters of three neighbouring columns only")
        stride = window.strides[1]
        if stride not in REACHES:
            return Rejection(f"its windows are {stride} columns apart, possible are 1 and 2")
        top, left, bottom, right = window.pads
        if max(left, right) > 1 or max(top, bottom) >= window.kernel[0]:
            return Rejection("it takes a column of padding, and fewer rows than its filter has")
        if _is_apart(layer) and (width < 2 * FOUR or layer.output.height < LEAST_ROWS):
            size = f"{layer.output.height} rows of {width} outputs"
            least = f"{LEAST_ROWS} rows of {2 * FOUR} at least"
            return Rejection(f"its {size} are no multiples of {FOUR}, nor {least}")
        most = MOST_OFFSET // REACHES[stride]
        if pixel % 4 or not 8 <= pixel <= most:
            return Rejection(f"it wants words of 8 to {most} bytes in a pixel, this has {pixel}")
        if passes(layer) > 1:
            return Rejection("its weights take 9 bits")
        return None

    def constraints(self, layer: Layer, tile: Tile) -> tuple[Constraint, ...]:
        """Rows of whole fours, or whole rows."""
        width = layer.output.width
        if _is_apart(layer):
            return (Constraint(tile.w >= width, f"a tile has rows of all {width} outputs"),)
        return (Constraint(tile.w % FOUR == 0, f"rows of a tile are multiples of {FOUR}"),)

    def _segments(self, layer: Layer) -> int:
        """The rows of the window."""
        return layer.window.kernel[0]

    def _is_one(self, layer: Layer) -> bool:
        return False

    def _is_slide(self) -> bool:
        return True

    def _words(self, layer: Layer) -> int:
        """Taps times the words of a pixel."""
        return layer.window.taps * pixel_bytes(layer)

    def _run(self, layer: Layer) -> int:
        return layer.inputs[0].channels

    def _arranged(self, layer: Layer, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Three columns of a word of inputs after another; with stride 2 the third before the
        second, because it shares inputs with the first."""
        c_out, kernel_h = weights.shape[:2]
        lanes = 32 // layer.inputs[0].bits
        words = weights.reshape(c_out, kernel_h, COLUMNS, -1, lanes)
        order = [n * layer.window.strides[1] % COLUMNS for n in range(COLUMNS)]
        return np.swapaxes(words[:, :, order], 2, 3).reshape(weights.shape)

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Zeros of each core, which stand for padding."""
        zeros = COLUMNS if _is_apart(layer) else 1
        return self.cores * zeros * pixel_bytes(layer)

    def _needs_scratch(self, layer: Layer) -> bool:
        return True

    def _tokens(self, layer: Layer) -> list[str]:
        return [f"c{layer.inputs[0].channels}", *(["apart"] if _is_apart(layer) else [])]

    def _macros(self, layer: Layer) -> tuple[tuple[str, str], ...]:
        pixel = pixel_bytes(layer)
        steps = self.row_bytes(layer) // 4 // layer.window.kernel[0]
        row = cal.SLIDE_ROW + self._whole_step_cycles(layer) * steps // 10
        return (
            ("DORY_CHANNELS", str(layer.inputs[0].channels)),
            ("DORY_PIXEL", str(pixel)),
            ("DORY_PIXEL_WORDS", str(pixel // 4)),
            ("DORY_APART", str(int(_is_apart(layer)))),
            ("DORY_ROW_CYCLES", str(row)),
            ("DORY_GROUP_CYCLES", str(cal.SLIDE_GROUP + 16 * finish(layer).cycles // 10)),
            ("DORY_APART_CYCLES", str(cal.SLIDE_APART)),
            ("DORY_APART_GROUP_CYCLES", str(self._apart_group(layer))),
        )

    def _blocks(self, layer: Layer, tile: Tile) -> tuple[Number, Number | None]:
        """Fours of neighbours, and fours down the columns of other pixels."""
        if not _is_apart(layer):
            return super()._blocks(layer, tile)
        rest = layer.output.width % FOUR
        apart = rest * ceil_div(tile.h, FOUR)
        return tile.h * (layer.output.width // FOUR) + apart, apart

    def _apart_cycles(self, layer: Layer, groups: Number) -> Number:
        """Loads that are not shared, a call of its own, its pointers."""
        return groups * self._apart_group(layer) + cal.SLIDE_APART

    def _apart_group(self, layer: Layer) -> int:
        steps = self.row_bytes(layer) // 4
        return (cal.BLOCK_STEP - self._whole_step_cycles(layer)) * steps // 10

    def _step_cycles(self, layer: Layer) -> int:
        """Rows of padding have no steps."""
        window, x, y = layer.window, layer.inputs[0], layer.output
        rows = sum(
            min(start + window.kernel[0], x.height) - max(start, 0)
            for start in range(
                -window.pads[0], y.height * window.strides[0] - window.pads[0], window.strides[0]
            )
        )
        return self._whole_step_cycles(layer) * rows // (window.kernel[0] * y.height)

    @staticmethod
    def _whole_step_cycles(layer: Layer) -> int:
        return cal.SLIDE_STEP if layer.window.strides[1] == 1 else cal.SLIDE_STEP_TWO

    def _segment_cycles(self, layer: Layer) -> int:
        return cal.SLIDE_GROUP + cal.SLIDE_ROW * layer.window.kernel[0]

    def _border_cycles(self, layer: Layer) -> tuple[int, int]:
        """Zeros are inputs like others."""
        return 0, 0

    def _pixel_cycles(self, layer: Layer) -> int:
        """A call for each row of outputs, where the block goes on to the next pixels by itself."""
        blocks = layer.output.width // FOUR
        goes_on = finish(layer).form != "DORY_BLOCK_RAW" and layer.output.channels % 4 == 0
        calls = 1 if goes_on else blocks
        return (calls * cal.SLIDE_CALL + (blocks - calls) * cal.SLIDE_FOURS) // blocks
