"""Depthwise convolutions on 8-bit input tiles as they lie in memory, channels last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Feature,
    FunctionCall,
    Layer,
    Number,
    OutputFile,
    Rejection,
    WeightBlock,
    ceil_div,
    minimum,
    ops,
    reject_type,
    requantisation,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.conv import tile_arguments
from dory_gap8.backend.dense import reject_weighted, weighted_epilogue
from dory_gap8.backend.instance import (
    BYTE_TYPES,
    ClusterKernel,
    c_type,
    call_text,
    sources,
    vector_macros,
)
from dory_gap8.backend.packing import Constants
from dory_gap8.backend.requant import LIMBS
from dory_gap8.backend.weights import block_bytes, encode, is_wide, two_parts

if TYPE_CHECKING:
    from dory_core.api import Tile

# Outputs of a strip, and input channels that are transposed at once.
STRIP = LANES = 4
# Rows and columns of the image for which a direction is chosen.
_TYPICAL = 16
# Outputs along b whose inputs are in the scratch at a time: filters up to 3x3, any window.
WALK, WALK_ANY = 32, 16


@dataclass(frozen=True, slots=True)
class Form:
    """How the kernel sees a window: axis a is the one of strips, b the one along which they go.

    passes: 2 for weights of 9 bits, sums of two of 8. swapped: a is horizontal. stride: of
    the kernel for filters up to 3x3; 0 is the one for any window. line: there is one column along
    b, and strips take the place of outputs along it. kernel, strides, dilations, pads
    (before): (a, b).
    """

    passes: int
    swapped: bool
    stride: int
    line: bool
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]

    @property
    def kind(self) -> str:
        """Name of the template."""
        return "depthwise_3x3" if self.stride else "depthwise_any"

    @property
    def words(self) -> int:
        """Words along a that the windows of a strip reach over."""
        reach = (self.kernel[0] - 1) * self.dilations[0] + 1
        return int(ceil_div((STRIP - 1) * self.strides[0] + reach, 4))

    @property
    def row(self) -> int:
        """Bytes of the weights of one output channel."""
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
        """Cycles of a channel of a strip beside its outputs, in assembly where there is one."""
        if self.stride:
            return cal.STRIP_CHANNEL_S1 if self.stride == 1 else cal.STRIP_CHANNEL_S2
        return cal.STRIP_CHANNEL_ANY

    def columns(self, outputs: Number) -> Number:
        """Return the columns that a number of outputs along b reads."""
        reach = 3 if self.stride else (self.kernel[1] - 1) * self.dilations[1] + 1
        return (outputs - 1) * self.strides[1] + reach

    def axes(self, h: Any, w: Any) -> tuple[Any, Any]:
        """Return what belongs to (a, b) of values for rows and columns."""
        return (w, h) if self.swapped else (h, w)

    def rows(self, taps: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the weights (c, row) of taps (c, rows, columns)."""
        if self.passes == 2:
            parts = [replace(self, passes=1).rows(part) for part in two_parts(taps)]
            return np.concatenate(parts, axis=1)
        taps = taps.transpose(0, 1, 2) if self.swapped else taps.transpose(0, 2, 1)
        count, kernel_b, kernel_a = taps.shape
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


@dataclass(frozen=True, slots=True)
class Share:
    """The part of the core with the most work.

    channels: of all its strips, counted once per strip. outputs: along b, of a channel of a strip.
    blocks, columns: four rows that are transposed for a strip, and columns of them. unaligned:
    cycles of a column off the words.
    """

    channels: Number
    strips: Number
    outputs: Number
    blocks: Number
    columns: Number
    unaligned: Number


def _is_small(window: ops.Window) -> bool:
    """Return whether the kernel for filters up to 3x3 takes a window."""
    together = all(d == 1 or k == 1 for d, k in zip(window.dilations, window.kernel, strict=True))
    return max(window.kernel) <= 3 and together and window.strides in ((1, 1), (2, 2))


def _form(window: ops.Window, swapped: bool, passes: int = 1, line: bool = False) -> Form:
    def axes(values: tuple[int, ...]) -> tuple[int, int]:
        return (values[1], values[0]) if swapped else (values[0], values[1])

    kernel, strides = axes(window.kernel), axes(window.strides)
    # One tap has no dilation.
    dilations = axes(
        tuple(d if k > 1 else 1 for d, k in zip(window.dilations, window.kernel, strict=True))
    )
    stride = window.strides[0] if _is_small(window) and not line else 0
    return Form(passes, swapped, stride, line, kernel, strides, dilations, axes(window.pads))


@requantisation.cached_per_layer
def form_of(layer: Layer) -> Form:
    """Return the cheaper of the two directions for an image of many rows and columns.

    An axis without neighbours in the window counts as one row: it is that of 1-D data. If
    directions tie, strips lie where they fill a wide image, and stand otherwise: rows are cut at
    any number. How many there are does not count: the parts of a layer that is computed in stripes
    have different ones, and one kernel.
    """
    window = layer.window
    passes = 1 + is_wide(layer.conv.weights.values)
    # Stripes have all columns: those of an image of one column are lines, too.
    line = layer.output.width == layer.inputs[0].width == window.kernel[1] == 1
    if line and passes == 1 and window.pads[1] == window.pads[3] == 0:
        return _form(window, False, line=True)
    lying = layer.output.width % STRIP == 0 and layer.output.width >= _TYPICAL
    forms = [_form(window, swapped, passes) for swapped in (lying, not lying)]

    def cost(form: Form) -> int:
        a, b = form.axes(*(_TYPICAL if k > 1 else 1 for k in window.kernel))
        output = STRIP * weighted_epilogue(layer).step_cycles
        return int(ceil_div(a, STRIP)) * (form.channel + b * (form.sums + output))

    return min(forms, key=cost)


def strip_outputs(stride: int, limbs: bool, reach: bool, turned: bool) -> int:
    """Return the instructions from the sums of four outputs to what the assembly stores."""
    # With stride 1 a second limb takes the registers of the bound and the order of the shuffle.
    fetched = (1 + reach) * (limbs and stride == 1)
    extra = cal.STRIP_LIMBS * limbs + cal.STRIP_CLAMP * reach + cal.STRIP_TURNED * turned
    return cal.STRIP_OUTPUTS + extra + fetched


@dataclass(frozen=True)
class DepthwiseHwcKernel(ClusterKernel):
    """Convolution of each channel on its own: strips of four outputs, four channels transposed.

    cores: cores that share the channels of all strips of a tile.
    """

    name = "dory_gap8_depthwise_hwc"
    features = ClusterKernel.features | {Feature.PAD_VALUE}
    summary = "depthwise convolution, channels last"

    def accepts(self, layer: Layer) -> Rejection | None:
        """One 8-bit input channel per filter; several filters may share one."""
        kind = layer.op
        if not isinstance(kind, ops.Conv) or kind.groups == 1 or kind.weights.shape[1] != 1:
            return Rejection(
                "it computes depthwise convolutions only: one input channel per filter"
            )
        return (
            reject_type(layer.inputs[0], "input", ("u8", "i8"))
            or reject_type(layer.output, "output", (*BYTE_TYPES, "i32"))
            or reject_weighted(layer, packed=True, wide=_is_small(layer.window))
        )

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The transposed inputs of four channels and a strip, per core."""
        form = form_of(layer)
        if form.line:
            walk = minimum(ceil_div(tile.h, STRIP), WALK_ANY)
            return self.cores * 4 * LANES * (walk * form.strides[0] + form.words)
        _, b = form.axes(tile.h, tile.w)
        blocks = form.stride + 1 if form.stride else form.words
        longest = WALK if form.stride else WALK_ANY
        columns = form.columns(minimum(b, longest))
        if not form.stride and self._in_assembly(layer):
            columns = columns + form.strides[1]  # outputs are computed in pairs
        return self.cores * 4 * LANES * blocks * columns

    def constants(self, layer: Layer) -> Constants:
        """Return the form of the weight block."""
        return Constants(1, weighted_epilogue(layer).channel_bytes, form_of(layer).row)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of each channel and its tap columns."""
        return block_bytes(weighted_epilogue(layer), tile.c_out, form_of(layer).row)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the filters of a range of output channels."""
        taps = layer.conv.weights.values[c_out[0] : c_out[1], 0]
        return encode(weighted_epilogue(layer), form_of(layer).rows(taps), c_out)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Strips of the core with the most of them, and transposing their inputs."""
        form = form_of(layer)
        if form.line:
            return self._line(layer, tile)
        a, b = form.axes(tile.h, tile.w)
        walks = ceil_div(b, WALK if form.stride else WALK_ANY)
        walk = ceil_div(b, walks)
        strips = ceil_div(a, STRIP)
        units = ceil_div(tile.c_out * strips * walks, self.cores)
        per_strip = LANES * (layer.output.channels // layer.conv.groups)
        runs = ceil_div(units, per_strip)
        unaligned = cal.STRIP_UNALIGNED * minimum(tile.c_in % LANES, 1)
        columns = minimum(form.columns(walk), form.axes(tile.x_h, tile.x_w)[1])
        if not form.stride:
            share = Share(units, runs, walk, form.words, form.words * columns, unaligned)
            return self._any_window(layer, share)
        # The last block of a strip is the first one of the next.
        starts = ceil_div(units, per_strip * strips)
        blocks = runs * form.stride + starts
        outputs = walk * (form.sums + self._outputs(layer))
        if not self._in_assembly(layer):
            block = cal.STRIP_BLOCK_COMPILED + columns * (cal.STRIP_COLUMN_COMPILED + unaligned)
            cycles = units * (cal.STRIP_CHANNEL_COMPILED + outputs) + blocks * block
            return cal.STRIP_CALL_COMPILED + cycles
        calls = runs if per_strip == LANES else units  # several outputs of a channel: one by one
        cycles = starts * cal.STRIP_GROUP + calls * cal.STRIP_START
        cycles = cycles + blocks * (cal.STRIP_BLOCK + columns * (cal.STRIP_COLUMN + unaligned))
        cycles = cycles + units * (form.channel + outputs)
        return cal.STRIP_CALL + cycles * (100 + cal.STRIP_STALLS) // 100

    def _line(self, layer: Layer, tile: Tile) -> Number:
        """Return the cycles of an image of one column: strips follow one another like outputs."""
        form = form_of(layer)
        strips = ceil_div(tile.h, STRIP)
        walks = ceil_div(strips, WALK_ANY)
        walk = ceil_div(strips, walks)
        units = ceil_div(tile.c_out * walks, self.cores)
        per_strip = LANES * (layer.output.channels // layer.conv.groups)
        unaligned = cal.STRIP_UNALIGNED * minimum(tile.c_in % LANES, 1)
        words = (walk - 1) * form.strides[0] + form.words
        # A block at either border and those between; the last strip may be a run of its own.
        share = Share(units, ceil_div(units, per_strip), walk, 3, words + 2, unaligned)
        return self._any_window(layer, share) + units * cal.STRIP_PAIR_CHANNEL

    def _any_window(self, layer: Layer, share: Share) -> Number:
        """Return the cycles of any window of the core with the most work."""
        form = form_of(layer)
        words = form.runs * form.run_words
        if not self._in_assembly(layer):
            quad = form.sums + STRIP * weighted_epilogue(layer).step_cycles
            block = share.blocks * cal.STRIP_BLOCK_COMPILED
            block = block + share.columns * (cal.STRIP_COLUMN_COMPILED + share.unaligned)
            cycles = share.channels * (cal.STRIP_CHANNEL_ANY + share.outputs * quad)
            return cal.STRIP_CALL_COMPILED + cycles + share.strips * block
        pair = cal.STRIP_PAIR + form.runs * cal.STRIP_PAIR_RUN + words * cal.STRIP_PAIR_WORD
        channel = cal.STRIP_PAIR_CHANNEL + ceil_div(share.outputs, 2) * pair
        channel = channel + share.outputs * self._outputs(layer)
        block = share.blocks * cal.STRIP_PAIR_BLOCK
        block = block + share.columns * (cal.STRIP_PAIR_COLUMN + share.unaligned)
        cycles = share.strips * (cal.STRIP_PAIR_START + block) + share.channels * channel
        return cal.STRIP_CALL + cycles * (100 + cal.STRIP_STALLS) // 100

    def _outputs(self, layer: Layer) -> int:
        """Return the cycles from the sums of four outputs to bytes."""
        chosen = weighted_epilogue(layer)
        if not self._in_assembly(layer):
            return STRIP * chosen.step_cycles + cal.STRIP_COMPILED
        stride = form_of(layer).stride or 1
        return strip_outputs(stride, chosen.form == LIMBS, bool(chosen.reach), chosen.turned)

    def symbol(self, layer: Layer) -> str:
        """Form, padding, types and requantisation."""
        form = form_of(layer)
        kind = f"depthwise_3x3_s{form.stride}" if form.stride else form.kind
        kind = "depthwise_line" if form.line else kind
        kind += "_wide" if form.passes == 2 else ""
        # Parts of a layer without padding have the kernel of the others.
        pad = layer.window.pad_value
        kind += f"_pad{pad}".replace("-", "m") if pad else ""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        end = weighted_epilogue(layer).suffix
        if weighted_epilogue(layer).turned and self._in_assembly(layer):
            end += "_full"
        return f"dory_gap8_{kind}_{x}_i8_{y}{end}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding along the kernel's axes."""
        conv, form = layer.conv, form_of(layer)
        x_a, x_b = form.axes("$x_h", "$x_w")
        y_a, y_b = form.axes("$y_h", "$y_w")
        x_step = form.axes("$x_w * $x_c", "$x_c")
        y_step = form.axes("$y_w * $y_c", "$y_c")
        pad_a, pad_b = form.axes("$pad_top", "$pad_left")
        arguments = (
            *tile_arguments("x", "weights", "y", "scratch", "x_c", "y_c"),
            ("multiplier", str(layer.output.channels // conv.groups)),
            ("x_a", x_a),
            ("x_b", x_b),
            ("x_step_a", x_step[0]),
            ("x_step_b", x_step[1]),
            ("y_a", y_a),
            ("y_b", y_b),
            ("y_step_a", y_step[0]),
            ("y_step_b", y_step[1]),
            ("pad_a", pad_a),
            ("pad_b", pad_b),
            *self._window_arguments(form),
            ("requant", weighted_epilogue(layer).struct()),
        )
        return call_text(self.symbol(layer), form.kind, arguments)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """The instance and the templates."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        chosen, form = weighted_epilogue(layer), form_of(layer)
        end = f"{chosen.bits}-bit requantisation" if chosen.steps else "no requantisation"
        assembly = str(int(self._in_assembly(layer)))
        own: tuple[tuple[str, str], ...] = (
            ("DORY_WALK", str(WALK_ANY)),
            ("DORY_LINE", str(int(form.line))),
            ("DORY_STRIP_ASM", assembly),
        )
        if form.stride:
            own = (
                ("DORY_STRIDE", str(form.stride)),
                ("DORY_PASSES", str(form.passes)),
                ("DORY_WALK", str(WALK)),
                ("DORY_STRIP_ASM", assembly),
            )
        macros = (
            *vector_macros(x),
            ("DORY_CORES", str(self.cores)),
            ("DORY_DOT4Z", f"dory_gap8_dot4z_{x}"),
            ("DORY_SHUFFLE_X", f"dory_gap8_shuffle4_{x}"),
            ("DORY_Y_T", c_type(y)),
            ("DORY_PAD_WORD", f"0x{(layer.window.pad_value & 255) * 0x01010101:08x}u"),
            *own,
            *chosen.macros,
        )
        title = f"up to 3x3, stride {form.stride}" if form.stride else "any window"
        purpose = f"Depthwise convolution, {title}: {x} inputs, i8 weights, {y} outputs, {end}."
        return sources(form.kind, self.symbol(layer), purpose, macros)

    @staticmethod
    def _in_assembly(layer: Layer) -> bool:
        """Return True when the assembly of the chip has the requantisation."""
        chosen, form = weighted_epilogue(layer), form_of(layer)
        if chosen.narrow is None or layer.output.bits != 8 or form.passes > 1:
            return False
        if chosen.turned:  # no register is left for the bounds of the clip
            return chosen.clip in ((0, 255), (-128, 127))
        return chosen.clip_form != "DORY_CLIP_BOUNDS"

    @staticmethod
    def _window_arguments(form: Form) -> tuple[tuple[str, str], ...]:
        if form.stride:
            return ()
        return (
            ("words", str(form.words)),
            ("kernel_b", str(form.kernel[1])),
            ("stride_a", str(form.strides[0])),
            ("stride_b", str(form.strides[1])),
            ("dilation_b", str(form.dilations[1])),
        )
