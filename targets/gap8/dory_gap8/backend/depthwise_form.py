"""How depthwise kernels on tiles with channels last see a window: axes, kernel, weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Layer, Number, ceil_div, ops, requantisation
from dory_gap8 import calibration as cal
from dory_gap8.backend.dense import channel_epilogue
from dory_gap8.backend.weights import is_wide, two_parts

# Outputs of a strip, and input channels that are transposed at once.
STRIP = LANES = 4
# Rows and columns of the image for which a direction is chosen.
_TYPICAL = 16
# Bytes between the scratches of two cores, which begin in different banks of L1 by it.
BANK = 4
# Outputs along b whose inputs are in the scratch at a time: filters up to 3x3, up to 5x5, others.
WALK, WALK_SQUARES, WALK_ANY = 32, 26, 16
# Squares of 2 x 2 inputs that a filter up to 5x5 meets along an axis.
SQUARES = 3


@dataclass(frozen=True, slots=True)
class Form:
    """How the kernel sees a window: axis a is the one of strips, b the one along which they go.

    passes: 2 for weights of 9 bits, sums of two of 8. swapped: a is horizontal. stride: of
    the kernel for filters up to 3x3; 0 is another one. classes: of outputs in the kernel for
    filters up to 5x5, 0 if it is another one. line: there is one column along b, and strips take
    the place of outputs along it. kernel, strides, dilations, pads (before): (a, b).
    """

    passes: int
    swapped: bool
    stride: int
    classes: int
    line: bool
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]

    @property
    def kind(self) -> str:
        """Name of the template."""
        if self.classes:
            return "depthwise_5x5"
        return "depthwise_3x3" if self.stride else "depthwise_any"

    @property
    def spread(self) -> int:
        """Outputs from one of a class to the next, along both axes."""
        return 2 if self.classes > 1 else 1

    @property
    def strip(self) -> int:
        """Outputs along a of a strip."""
        return 2 * self.spread if self.classes else STRIP

    @property
    def words(self) -> int:
        """Words along a that the windows of a strip reach over."""
        reach = (self.kernel[0] - 1) * self.dilations[0] + 1
        return int(ceil_div((STRIP - 1) * self.strides[0] + reach, 4))

    @property
    def row(self) -> int:
        """Bytes of the weights of one output channel."""
        if self.classes:
            return 4 * SQUARES**2 * self.classes
        return 12 * self.passes if self.stride else 4 * STRIP * self.words * self.kernel[1]

    @property
    def runs(self) -> int:
        """Runs of words that are neighbours in the scratch: one without dilation along b."""
        return 1 if self.dilations[1] == 1 else self.kernel[1]

    @property
    def run_words(self) -> int:
        """Words of a run."""
        return self.words * self.kernel[1] // self.runs

    @property
    def sums(self) -> int:
        """Cycles of the sums of four outputs."""
        if self.stride:
            sums = cal.STRIP_S1 if self.stride == 1 else cal.STRIP_S2
            return sums + cal.STRIP_PASS * (self.passes - 1)
        words = self.words * self.kernel[1]
        return cal.STRIP_ANY + self.runs * cal.STRIP_RUN + words * cal.STRIP_WORD

    @property
    def channel(self) -> int:
        """Cycles of a channel of a strip without its outputs, in assembly where there is one."""
        if self.stride:
            return cal.STRIP_CHANNEL_S1 if self.stride == 1 else cal.STRIP_CHANNEL_S2
        return cal.STRIP_CHANNEL_ANY

    @property
    def half_channel(self) -> int:
        """Cycles of a channel of a strip of two outputs of a filter up to 3x3, without them."""
        return cal.HALF_CHANNEL_S1 if self.stride == 1 else cal.HALF_CHANNEL_S2

    def places(self, outputs: Number) -> Number:
        """Return the places of squares along b that a number of outputs meets."""
        return ceil_div(outputs, self.spread) + SQUARES - 1

    def columns(self, outputs: Number) -> Number:
        """Return the columns that a number of outputs along b reads."""
        reach = 3 if self.stride else (self.kernel[1] - 1) * self.dilations[1] + 1
        return (outputs - 1) * self.strides[1] + reach

    def axes(self, h: Any, w: Any) -> tuple[Any, Any]:
        """Return the values of (a, b), given those of rows and columns."""
        return (w, h) if self.swapped else (h, w)

    def rows(self, taps: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the weights (c, row) of taps (c, rows, columns)."""
        if self.passes == 2:
            parts = [replace(self, passes=1).rows(part) for part in two_parts(taps)]
            return np.concatenate(parts, axis=1)
        taps = taps.transpose(0, 1, 2) if self.swapped else taps.transpose(0, 2, 1)
        count, kernel_b, kernel_a = taps.shape
        if self.classes:
            side = 2 * SQUARES
            places = np.zeros((count, self.classes, side, side), dtype=np.int8)
            for number in range(self.classes):
                a, b = divmod(number, 2)
                places[:, number, b : b + kernel_b, a : a + kernel_a] = taps
            squares = places.reshape(count, self.classes, SQUARES, 2, SQUARES, 2)
            return squares.transpose(0, 1, 2, 4, 5, 3).reshape(count, -1)
        if self.stride:
            image = np.zeros((count, 3, 4), dtype=np.int8)
            image[:, :kernel_b, :kernel_a] = taps
            return image.reshape(count, -1)
        spread = np.zeros((count, kernel_b, STRIP, 4 * self.words), dtype=np.int8)
        reach = (kernel_a - 1) * self.dilations[0] + 1
        for output in range(STRIP):
            first = output * self.strides[0]
            spread[:, :, output, first : first + reach : self.dilations[0]] = taps
        words = spread.reshape(count, kernel_b, STRIP, self.words, 4)
        return words.transpose(0, 1, 3, 2, 4).reshape(count, -1)


def is_small(window: ops.Window) -> bool:
    """Return True when the kernel for filters up to 3x3 takes a window."""
    together = all(d == 1 or k == 1 for d, k in zip(window.dilations, window.kernel, strict=True))
    return max(window.kernel) <= 3 and together and window.strides in ((1, 1), (2, 2))


def outputs_in_assembly(layer: Layer) -> bool:
    """Return True when the assembly of the chip has the requantisation of the layer."""
    chosen = channel_epilogue(layer)
    if not chosen.in_words or layer.output.bits != 8:
        return False
    if chosen.turned:  # no register is left for the bounds of the clip
        return chosen.clip in ((0, 255), (-128, 127))
    return chosen.clip_form != "DORY_CLIP_BOUNDS"


def _classes(layer: Layer) -> int:
    """Return the classes of outputs in the kernel for filters up to 5x5, 0 for other kernels.

    That one is taken where it is assembly. Windows one apart have four classes of outputs, which
    narrow images do not fill.
    """
    window = layer.window
    smallest, largest = min(window.kernel), max(window.kernel)
    if window.dilations != (1, 1) or not outputs_in_assembly(layer):
        return 0
    if window.strides == (2, 2) and smallest >= 3 and 4 <= largest <= 2 * SQUARES:
        return 1
    whole = window.strides == (1, 1) and smallest >= 4 and largest < 2 * SQUARES
    return 4 if whole and layer.output.width > STRIP else 0


def _form(
    window: ops.Window, swapped: bool, passes: int = 1, line: bool = False, classes: int = 0
) -> Form:
    def axes(values: tuple[int, ...]) -> tuple[int, int]:
        return (values[1], values[0]) if swapped else (values[0], values[1])

    kernel, strides = axes(window.kernel), axes(window.strides)
    # One tap has no dilation.
    dilations = axes(
        tuple(d if k > 1 else 1 for d, k in zip(window.dilations, window.kernel, strict=True))
    )
    stride = window.strides[0] if is_small(window) and not line else 0
    pads = axes(window.pads)
    return Form(passes, swapped, stride, classes, line, kernel, strides, dilations, pads)


@requantisation.cached_per_layer
def form_of(layer: Layer) -> Form:
    """Return the cheaper of the two directions for an image of many rows and columns.

    An axis without neighbours in the window counts as one row: it is that of 1-D data. If
    directions tie, strips lie where they fill a wide image, and stand otherwise: rows are cut at
    any number. How many there are does not count: the parts of a layer that is computed in stripes
    have different ones, and one kernel.
    """
    window = layer.window
    passes = 1 + is_wide(layer.of(ops.Conv).weights.values)
    # Stripes have all columns: those of an image of one column are also lines.
    line = layer.output.width == layer.inputs[0].width == window.kernel[1] == 1
    if line and passes == 1 and window.pads[1] == window.pads[3] == 0:
        return _form(window, False, line=True)
    lying = layer.output.width % STRIP == 0 and layer.output.width >= _TYPICAL
    classes = _classes(layer)
    forms = [_form(window, swapped, passes, classes=classes) for swapped in (lying, not lying)]

    def cost(form: Form) -> int:
        a, b = form.axes(*(_TYPICAL if k > 1 else 1 for k in window.kernel))
        output = STRIP * channel_epilogue(layer).step_cycles
        return int(ceil_div(a, STRIP)) * (form.channel + b * (form.sums + output))

    return min(forms, key=cost)
