"""Depthwise convolutions on 8-bit input tiles as they lie in memory, channels last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dory_core.api import (
    Feature,
    FunctionCall,
    Layer,
    Number,
    Rejection,
    Term,
    WeightBlock,
    ceil_div,
    geometry,
    minimum,
    ops,
    reject_type,
    size,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.dense import channel_epilogue, reject_weighted
from dory_gap8.backend.depthwise_form import (
    BANK,
    LANES,
    STRIP,
    WALK,
    WALK_ANY,
    WALK_SQUARES,
    Form,
    form_of,
    is_small,
    outputs_in_assembly,
)
from dory_gap8.backend.instance import (
    BYTE_TYPES,
    ClusterKernel,
    Instance,
    c_type,
    call_text,
    tile_arguments,
    vector_macros,
)
from dory_gap8.backend.packing import Constants
from dory_gap8.backend.requant import EVEN, HIGH, LIMBS
from dory_gap8.backend.weights import block_bytes, encode
from dory_gap8.objective import BETA_BALANCE, whole_units

if TYPE_CHECKING:
    from dory_core.api import Tile


def _four_outputs(form: str, reach: bool) -> int:
    """Return the cycles from sums of four outputs to what is stored, one addend, of a form."""
    products = {LIMBS: cal.STRIP_LIMBS, HIGH: cal.STRIP_HIGH, EVEN: cal.STRIP_EVEN}
    product = products.get(form, 0)
    return cal.STRIP_OUTPUTS + product + cal.STRIP_CLAMP * reach


def strip_outputs(stride: int, form: str, reach: bool, turned: bool) -> int:
    """Return the cycles from the sums of four outputs to what the assembly stores."""
    # With stride 1 these take the registers of the bound and the order of the shuffle.
    fetched = (1 + reach) * (form in (LIMBS, EVEN) and stride == 1)
    return _four_outputs(form, reach) + cal.STRIP_TURNED * turned + fetched


def two_outputs(form: str, reach: bool, turned: bool) -> int:
    """Return the cycles from the sums of two outputs to what the assembly stores."""
    fetched = cal.SQUARES_FETCH * (form == LIMBS and reach)
    return _four_outputs(form, reach) // 2 + cal.SQUARES_TURNED * turned + fetched


def half_outputs(form: str, reach: bool, turned: bool) -> int:
    """Return the cycles from the sums of a last strip of two outputs to what it stores."""
    return _four_outputs(form, reach) // 2 + cal.HALF_TURNED * turned


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
            or reject_weighted(layer, packed=True, wide=is_small(layer.window))
        )

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The transposed inputs of four channels and a strip, per core."""
        form = form_of(layer)
        if form.line:
            walk = minimum(ceil_div(tile.h, STRIP), WALK_ANY)
            return self.cores * (4 * LANES * (walk * form.strides[0] + form.words) + BANK)
        _, b = form.axes(tile.h, tile.w)
        if form.classes:
            places = form.places(minimum(b, WALK_SQUARES))
            return self.cores * 2 * 2 * 4 * LANES * places
        if form.stride:
            columns = form.columns(minimum(b, WALK))
            return self.cores * 4 * LANES * (form.stride + 1) * columns
        columns = form.columns(minimum(b, WALK_ANY))
        if self._in_assembly(layer):
            columns = columns + form.strides[1]  # outputs are computed in pairs
        return self.cores * (4 * LANES * form.words * columns + BANK)

    def constants(self, layer: Layer) -> Constants:
        """Return the form of the weight block."""
        return Constants(1, channel_epilogue(layer).channel_bytes, form_of(layer).row)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of each channel and its tap columns."""
        return block_bytes(channel_epilogue(layer), tile.c_out, form_of(layer).row)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the filters of a range of output channels."""
        taps = layer.of(ops.Conv).weights.values[c_out[0] : c_out[1], 0]
        return encode(channel_epilogue(layer), form_of(layer).rows(taps), c_out)

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Channels of all strips that divide among the cores, whole and long strips, pixels that
        start on a word."""
        form, full = form_of(layer), geometry.extent(layer)
        along, walk = form.axes(tile.h, tile.w)
        values = {
            "PAR_BALANCE": (tile.c_out * ceil_div(along, form.strip) - 1) % self.cores,
            "STRIP": whole_units(along, form.strip, form.axes(full.h, full.w)[0]),
            "WORD": whole_units(tile.c_in, LANES, full.c_in),
            "WALK": minimum(walk, WALK) // 4,
        }
        return tuple(Term(name, BETA_BALANCE, value) for name, value in values.items())

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Strips of the core with the most of them, and transposing their inputs."""
        form = form_of(layer)
        if form.line:
            return self._line(layer, tile)
        if form.classes:
            return self._squares(layer, tile)
        a, b = form.axes(tile.h, tile.w)
        walks = ceil_div(b, WALK if form.stride else WALK_ANY)
        walk = ceil_div(b, walks)
        strips = ceil_div(a, STRIP)
        units = ceil_div(tile.c_out * strips * walks, self.cores)
        per_strip = LANES * (layer.output.channels // layer.of(ops.Conv).groups)
        runs = ceil_div(units, per_strip)
        columns = minimum(form.columns(walk), form.axes(tile.x_h, tile.x_w)[1])
        if not form.stride:
            laid = (form.words, form.words * columns)
            return self._any_window(layer, tile, strips * walks, walk, laid)
        unaligned = cal.STRIP_UNALIGNED * minimum(tile.c_in % LANES, 1)
        # The last block of a strip is the first one of the next.
        starts = ceil_div(units, per_strip * strips)
        blocks = runs * form.stride + starts
        outputs = walk * (form.sums + self._outputs(layer))
        if not self._in_assembly(layer):
            block = cal.STRIP_BLOCK_COMPILED + columns * (cal.STRIP_COLUMN_COMPILED + unaligned)
            cycles = units * (cal.STRIP_CHANNEL_COMPILED + outputs) + blocks * block
            return cal.STRIP_CALL_COMPILED + cycles
        each = LANES if per_strip == LANES else 1  # several outputs of a channel: one by one
        cycles = starts * cal.STRIP_GROUP + ceil_div(units, each) * cal.STRIP_START
        block = cal.STRIP_BLOCK + columns * (cal.STRIP_COLUMN + unaligned)
        cycles = cycles + blocks * block + units * (form.channel + outputs)
        # Last strips of half the outputs or fewer: of as many groups as any core has at least.
        halves = ceil_div(a, STRIP) - ceil_div(a - STRIP // 2, STRIP)
        halves = halves * (ceil_div(units + 1, per_strip * strips) - 1)
        saved = form.channel + outputs - form.half_channel - walk * self._half(layer)
        later = per_strip // each * (cal.HALF_START - cal.STRIP_START)
        cycles = cycles - halves * (per_strip * saved + block - later)
        return cal.STRIP_CALL + cycles * (100 + cal.STRIP_STALLS) // 100

    def _squares(self, layer: Layer, tile: Tile) -> Number:
        """Return the cycles of squares: two outputs along a by all along b, class by class."""
        form, chosen = form_of(layer), channel_epilogue(layer)
        a, b = form.axes(tile.h, tile.w)
        walks = ceil_div(b, WALK_SQUARES)
        walk = ceil_div(b, walks)
        strips = ceil_div(a, form.strip)
        units = ceil_div(tile.c_out * strips * walks, self.cores)
        multiplier = layer.output.channels // layer.of(ops.Conv).groups
        per_group = LANES * multiplier * strips
        runs = ceil_div(units, LANES * multiplier)
        starts = ceil_div(units, per_group)
        inside = ceil_div(form.axes(tile.x_h, tile.x_w)[1], 2) + 1
        unaligned = 2 * cal.STRIP_UNALIGNED * minimum(tile.c_in % LANES, 1)
        places = minimum(form.places(walk), inside)
        block = cal.SQUARES_BLOCK + places * (cal.SQUARES_PLACE + unaligned)
        # Two outputs along a of a class; the last strip may have none of every other class.
        lines = units * form.spread
        if form.spread > 1:
            whole = ceil_div(units + 1, per_group) - 1
            lines = lines - (ceil_div(a, 4) - ceil_div(a - 1, 4)) * whole * LANES * multiplier
        outputs = two_outputs(chosen.form, bool(chosen.reach), chosen.turned)
        line = form.spread * cal.SQUARES_CHANNEL + walk * (cal.SQUARES_SUMS + outputs)
        calls = runs if multiplier == 1 else units  # several outputs of a channel: one by one
        cycles = starts * cal.STRIP_GROUP + (runs + starts) * block + lines * line
        cycles = cycles + calls * (cal.SQUARES_START + form.classes * cal.SQUARES_CLASS)
        return cal.STRIP_CALL + cycles * (100 + cal.STRIP_STALLS) // 100

    def _line(self, layer: Layer, tile: Tile) -> Number:
        """Return the cycles of an image of one column: strips follow one another like outputs."""
        form = form_of(layer)
        strips = ceil_div(tile.h, STRIP)
        walks = ceil_div(strips, WALK_ANY)
        walk = ceil_div(strips, walks)
        words = (walk - 1) * form.strides[0] + form.words
        borders = 2 if form.pads[0] else 0  # a block at either border, and those between
        return self._any_window(layer, tile, walks, walk, (1 + borders, words + borders))

    def _any_window(
        self,
        layer: Layer,
        tile: Tile,
        positions: Number,
        outputs: Number,
        laid: tuple[Number, Number],
    ) -> Number:
        """Return the cycles of any window of the core with the most work.

        Args:
            layer: The layer.
            tile: Its tile.
            positions: Blocks of outputs of a channel.
            outputs: Strips of four outputs of a block.
            laid: Blocks of four rows that are transposed for it, and columns of them.
        """
        group = LANES * (layer.output.channels // layer.of(ops.Conv).groups)
        units = ceil_div(tile.c_out * positions, self.cores)
        rounds = ceil_div(tile.c_out, group * self.cores) * positions
        # Channels of a core and runs of them: as many channels for each core, or whole groups.
        shares = ((units, ceil_div(units, group)), (rounds * group, rounds))
        in_assembly = self._in_assembly(layer)
        row = cal.STRIP_PAIR_BLOCK if in_assembly else cal.STRIP_BLOCK_COMPILED
        column = cal.STRIP_PAIR_COLUMN if in_assembly else cal.STRIP_COLUMN_COMPILED
        column = column + cal.STRIP_UNALIGNED * minimum(tile.c_in % LANES, 1)
        run = cal.STRIP_PAIR_START + laid[0] * row + laid[1] * column
        channel = self._channel(layer, outputs)
        cycles = minimum(*(channels * channel + runs * run for channels, runs in shares))
        if not in_assembly:
            return cal.STRIP_CALL_COMPILED + cycles
        return cal.STRIP_CALL + cycles * (100 + cal.STRIP_PAIR_STALLS) // 100

    def _channel(self, layer: Layer, outputs: Number) -> Number:
        """Return the cycles of some strips of a channel, any window."""
        form = form_of(layer)
        if not self._in_assembly(layer):
            strip = form.sums + STRIP * channel_epilogue(layer).step_cycles
            return cal.STRIP_CHANNEL_ANY + outputs * strip
        words = form.runs * form.run_words
        pair = cal.STRIP_PAIR + form.runs * cal.STRIP_PAIR_RUN + words * cal.STRIP_PAIR_WORD
        channel = cal.STRIP_PAIR_CHANNEL + cal.STRIP_PAIR_LINE * form.line
        return channel + ceil_div(outputs, 2) * pair + outputs * self._outputs(layer)

    def _outputs(self, layer: Layer) -> int:
        """Return the cycles from the sums of four outputs to bytes."""
        chosen = channel_epilogue(layer)
        if not self._in_assembly(layer):
            return STRIP * chosen.step_cycles + cal.STRIP_COMPILED
        stride = form_of(layer).stride or 1
        return strip_outputs(stride, chosen.form, bool(chosen.reach), chosen.turned)

    @staticmethod
    def _half(layer: Layer) -> int:
        """Return the cycles of two outputs of a filter up to 3x3 where a strip has no others."""
        chosen = channel_epilogue(layer)
        sums = cal.HALF_S1 if form_of(layer).stride == 1 else cal.HALF_S2
        return sums + half_outputs(chosen.form, bool(chosen.reach), chosen.turned)

    def label(self, layer: Layer) -> str:
        """Form, padding, types and requantisation."""
        form = form_of(layer)
        kind = f"depthwise_3x3_s{form.stride}" if form.stride else form.kind
        kind = "depthwise_line" if form.line else kind
        kind = f"depthwise_5x5_s{3 - form.spread}" if form.classes else kind
        kind += "_wide" if form.passes == 2 else ""
        pad = layer.window.pad_value
        kind += f"_pad{pad}".replace("-", "m") if pad else ""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        end = channel_epilogue(layer).suffix
        if channel_epilogue(layer).turned and self._in_assembly(layer):
            end += "_full"
        return f"dory_gap8_{kind}_{x}_i8_{y}{end}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding along the kernel's axes."""
        form = form_of(layer)
        x_a, x_b = form.axes(size("x_h"), size("x_w"))
        y_a, y_b = form.axes(size("y_h"), size("y_w"))
        x_step = form.axes(size("x_w") * size("x_c"), size("x_c"))
        y_step = form.axes(size("y_w") * size("y_c"), size("y_c"))
        pad_a, pad_b = form.axes(size("pad_top"), size("pad_left"))
        arguments = (
            *tile_arguments("x", "weights", "y", "scratch", "x_c", "y_c"),
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
            ("requant", channel_epilogue(layer).struct()),
        )
        return call_text(self.symbol(layer), form.kind, arguments)

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        chosen, form = channel_epilogue(layer), form_of(layer)
        end = f"{chosen.bits}-bit requantisation" if chosen.steps else "no requantisation"
        assembly = str(int(self._in_assembly(layer)))
        multiplier = layer.output.channels // layer.of(ops.Conv).groups
        own: tuple[tuple[str, str], ...] = (
            ("DORY_WALK", str(WALK_ANY)),
            ("DORY_BANK", str(BANK)),
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
        if form.classes:
            own = (
                ("DORY_CLASSES", str(form.classes)),
                ("DORY_WALK", str(WALK_SQUARES)),
                ("DORY_STRIP_ASM", assembly),
            )
        macros = (
            *vector_macros(x),
            ("DORY_CORES", str(self.cores)),
            ("DORY_MULTIPLIER", str(multiplier)),
            ("DORY_DOT4Z", f"dory_gap8_dot4z_{x}"),
            ("DORY_SHUFFLE_X", f"dory_gap8_shuffle4_{x}"),
            ("DORY_Y_T", c_type(y)),
            ("DORY_PAD_WORD", f"0x{(layer.window.pad_value & 255) * 0x01010101:08x}u"),
            *own,
            *chosen.macros,
        )
        title = f"up to 3x3, stride {form.stride}" if form.stride else "any window"
        title = f"up to 5x5, stride {3 - form.spread}" if form.classes else title
        purpose = f"Depthwise convolution, {title}: {x} inputs, i8 weights, {y} outputs, {end}."
        return Instance(form.kind, self.label(layer), purpose, macros)

    @staticmethod
    def _in_assembly(layer: Layer) -> bool:
        """Return True when the assembly of the chip has the requantisation."""
        return outputs_in_assembly(layer) and form_of(layer).passes == 1

    @staticmethod
    def _window_arguments(form: Form) -> tuple[tuple[str, str], ...]:
        if form.stride or form.classes:
            return ()
        return (
            ("words", form.words),
            ("kernel_b", form.kernel[1]),
            ("stride_a", form.strides[0]),
            ("stride_b", form.strides[1]),
            ("dilation_b", form.dilations[1]),
        )
