"""Dense convolutions of few inputs: those of some outputs below each other stay in registers."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

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
    ops,
    reject_type,
    requantisation,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend import held_assembly, held_form
from dory_gap8.backend.block_finish import LIMBS, STEP, Finish, finish
from dory_gap8.backend.dense import reject_weighted
from dory_gap8.backend.held_assembly import Strip
from dory_gap8.backend.held_form import Form
from dory_gap8.backend.instance import (
    KERNEL,
    ClusterKernel,
    Instance,
    c_type,
    call_text,
    tile_arguments,
    vector_macros,
)
from dory_gap8.objective import BETA_BALANCE, tiles_of, whole_units

if TYPE_CHECKING:
    from dory_core.api import Tile

# Outputs of a strip from which on the kernel is better than the 4x4 block.
LEAST_OUTPUTS = 3
# Strips that are copied at a time where there is padding.
WALK = 8
# Strips of a core whose inputs are loaded in the time that a tile takes outside of its kernel.
STRIPS_OF_A_TILE = 25
_CLIPS = {"DORY_BLOCK_UNSIGNED": "p.clipu", "DORY_BLOCK_SIGNED": "p.clip"}


@dataclass(frozen=True, slots=True)
class Held:
    """How the kernel computes a layer.

    sums: below each other in a strip at most, 0 where there is none. pool: 2 where an output is the
    largest of 2 x 2 sums, else 1.
    """

    form: Form
    finish: held_form.Finish
    sums: int
    pool: int

    @property
    def outputs(self) -> int:
        """Outputs of the longest strip."""
        return self.sums // self.pool

    @property
    def channel_bytes(self) -> int:
        """Bytes of the weights and parameters of an output channel."""
        return 4 * (self.form.weight_words + self.finish.parameters)

    @property
    def x_rows(self) -> int:
        """Rows of inputs of the longest strip."""
        return self.form.x_rows(self.sums)

    def strip(self, outputs: int, signed: bool, name: str = "strip") -> Strip:
        """Return the function for strips of a number of outputs."""
        sums = outputs * self.pool
        return held_assembly.strip(self.form, self.finish, sums, signed, name, self.pool)


def _clip(done: Finish) -> tuple[str, int] | None:
    """Return instruction and digits of a clip; None: its bound is no power of two less one."""
    if done.clip not in _CLIPS:
        return "", 0
    digits = (done.hi + 1).bit_length()
    return (_CLIPS[done.clip], digits) if done.hi + 1 == 1 << digits - 1 else None


def convolution(layer: Layer) -> ops.Conv:
    """Return the convolution of a layer, without its pool."""
    return layer.op.conv if isinstance(layer.op, ops.PooledConv) else layer.of(ops.Conv)


def _finish(layer: Layer) -> Finish:
    """Return how sums become outputs: all channels have one shift, a constant of the assembly."""
    return finish(layer, shifts=False)


@requantisation.cached_per_layer
def held_of(layer: Layer) -> Held | None:
    """Return how the kernel computes a layer; None: its assembly has no such requantisation."""
    done, window = _finish(layer), convolution(layer).window
    pool = layer.op.pool[0] if isinstance(layer.op, ops.PooledConv) else 1
    clip = _clip(done)
    if done.form not in (STEP, LIMBS) or clip is None:
        return None
    after = held_form.Finish(done.shift, done.low_bits, done.reach, done.turned, *clip)
    row_bytes = window.kernel[1] * layer.inputs[0].channels
    form = held_form.form_of(window.kernel[0], row_bytes, window.strides[0])
    return Held(form, after, held_assembly.longest_strip(form, after, pool), pool)


def _known(layer: Layer) -> Held:
    found = held_of(layer)
    assert found is not None
    return found


@functools.lru_cache(maxsize=64)
def _assembly(held: Held, signed: bool) -> str:
    """Return the header with a function for each length of a strip, for DORY_KERNEL."""
    lengths = range(1, held.outputs + 1)
    lines = [
        "/* The strips of dory_gap8_held_impl.h in assembly, a function for each length:",
        " * backend/held_assembly.py writes it. */",
    ]
    for n in lengths:
        name = f"{KERNEL}_{n}"
        text = held.strip(n, signed, name).text
        lines.append(f'void dory_held_run_{n}(dory_held_t *s) __asm__("{name}");')
        quoted = [line.replace('"', '\\"') for line in text.splitlines()]
        lines += ["__asm__(", *(f'    "{line}\\n\\t"' for line in quoted), ");"]
    # No table of functions: it would lie in L2, where a core waits for a load that is under way.
    lines.append("static inline void dory_held_run(dory_held_t *s, int32_t rows) {")
    for n in lengths[:0:-1]:
        lines += [f"  if (rows == {n}) {{", f"    dory_held_run_{n}(s);", "    return;", "  }"]
    lines += ["  dory_held_run_1(s);", "}"]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class HeldKernel(ClusterKernel):
    """Windows of few bytes: strips of outputs, whose inputs registers hold for all channels."""

    name = "dory_gap8_held"
    features = ClusterKernel.features | {Feature.PAD_VALUE}
    summary = "convolution, inputs in registers"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Dense convolutions of bytes whose strips have enough outputs."""
        if not isinstance(layer.op, ops.Conv | ops.PooledConv):
            return Rejection("it computes convolutions only")
        if isinstance(layer.op, ops.PooledConv) and layer.op.pool != (2, 2):
            return Rejection("it computes pools of 2x2 only")
        conv = convolution(layer)
        window = conv.window
        if conv.groups > 1:
            return Rejection("it computes dense convolutions only, this one has groups")
        if window.kernel[0] == 1 or window.dilations != (1, 1):
            return Rejection("it wants windows of several rows, without gaps between them")
        wrong = (
            reject_type(layer.inputs[0], "input", ("u8", "i8"))
            or reject_type(layer.output, "output", ("u8", "i8"))
            or reject_weighted(layer, packed=True)
        )
        if wrong is not None:
            return wrong
        held = held_of(layer)
        if held is None:
            return Rejection("its assembly does not have the requantisation")
        if held.sums < LEAST_OUTPUTS:
            return Rejection(
                f"registers hold the inputs of {held.sums} outputs, "
                f"{LEAST_OUTPUTS} at least are worth it"
            )
        return None

    def constants(self, layer: Layer) -> None:
        """Parameters lie among the weights, which are bytes whatever their width."""

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Weights and parameters of each channel."""
        return ceil_div(tile.c_out * _known(layer).channel_bytes, 8) * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the weights of channels, each with its parameters after them."""
        weights = self._rows(_known(layer).form, layer.weighted.weights.values[c_out[0] : c_out[1]])
        words = np.ascontiguousarray(_finish(layer).parameters[c_out[0] : c_out[1]], dtype="<i4")
        data = np.concatenate([weights, words.view(np.int8)], axis=1).tobytes()
        return WeightBlock(data + bytes(-len(data) % 8), {"weights": 0})

    @staticmethod
    def _rows(form: Form, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return weights (c_out, c_in, kernel_h, kernel_w) in words: (c_out, bytes)."""
        count, whole = len(weights), 4 * form.words
        rows = np.moveaxis(weights, 1, 3).reshape(count, form.rows, -1)
        words = np.zeros((count, form.rows, whole), dtype=np.int8)
        taken = min(whole, rows.shape[2])
        words[:, :, :taken] = rows[:, :, :taken]
        parts = [words.reshape(count, -1)]
        for byte in range(form.rest):
            below = np.zeros((count, 8 if form.jump else 4), dtype=np.int8)
            for row in range(form.rows):
                place = row if row < 4 else 4 + row - form.stride * form.jump
                below[:, place] = rows[:, row, whole + byte]
            parts.append(below)
        return np.concatenate(parts, axis=1)

    @staticmethod
    def _walk(layer: Layer) -> tuple[int, int]:
        """Return the outputs in a row that are copied with padding at once, and the bytes of a row
        from one to the next."""
        return WALK // _known(layer).pool, layer.window.strides[1] * layer.inputs[0].channels

    def _patch(self, layer: Layer) -> tuple[int, int]:
        """Return the rows of a copy with padding, and the bytes of a row."""
        channels, (walk, step) = layer.inputs[0].channels, self._walk(layer)
        conv = convolution(layer).window
        row = 4 * -(-conv.kernel[1] * channels // 4)
        size = walk * step - conv.strides[1] * channels + row
        return _known(layer).x_rows, -(-size // 4) * 4

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The copy of each core, and sums that wait for those of the next column."""
        held, (rows, row) = _known(layer), self._patch(layer)
        waiting = 4 * held.outputs * tile.c_out if held.pool > 1 else 0
        return self.cores * (rows * row + waiting)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Cores share the cycles of all strips; a share may begin and end within a strip."""
        word, output = self._channel_cycles(layer)
        held, y, (top, _, bottom, _) = _known(layer), layer.output, layer.window.pads
        sides, all_strips = self._copies(layer)
        of_rows = min(y.height, held.outputs * ((top > 0) + (bottom > 0)))
        copies = (of_rows * all_strips + (y.height - of_rows) * sides) // y.height
        strips, one = ceil_div(tile.h, held.outputs), self._strip_cycles(layer)
        one = one + ceil_div(copies, tile.w)
        total = tile.w * (strips * one + tile.c_out * (strips * word + tile.h * output))
        runs = ceil_div(strips, self.cores) + 1
        cycles = one + ceil_div(total, self.cores)
        return cal.HELD_CALL + runs * cal.HELD_RUN + cycles * (100 + cal.HELD_STALLS) // 100

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Whole strips that divide among the cores; few tiles, and channels in few parts, each of
        which loads the inputs into registers."""
        full, length = geometry.extent(layer), _known(layer).outputs
        strips, all_strips = (ceil_div(t.h, length) * t.w for t in (tile, full))
        found = (
            Term("PAR_BALANCE", BETA_BALANCE, whole_units(strips, self.cores, all_strips)),
            Term("STRIP", BETA_BALANCE, whole_units(tile.h, length, full.h)),
        )
        if tile.last is None:
            return found
        reloaded = max(1, int(all_strips) // (STRIPS_OF_A_TILE * self.cores))
        parts = ceil_div(full.c_out, tile.c_out)
        return (
            *found,
            Term("HIDE_LOADS", BETA_BALANCE, -reloaded * parts),
            Term("TILES", BETA_BALANCE, -tiles_of(layer, tile)),
        )

    @staticmethod
    def _channel_cycles(layer: Layer) -> tuple[int, int]:
        """Return the cycles of a channel of a strip: once, and for each output."""
        held, signed = _known(layer), layer.inputs[0].signed
        longest, shorter = (held.strip(held.outputs - n, signed).channel_cycles for n in (0, 1))
        return longest - held.outputs * (longest - shorter), longest - shorter

    @staticmethod
    def _strip_cycles(layer: Layer) -> int:
        """Return the cycles of a strip without its channels, and without copies."""
        held, x = _known(layer), layer.inputs[0]
        strip = held.strip(held.outputs, x.signed).strip_cycles
        words = held.pool * held.x_rows * held.form.words
        ends = (convolution(layer).window.strides[1] * x.channels) | (x.width * x.channels)
        return strip + words * (3 if ends % 2 else 2 if ends % 4 else 0) // 4  # begin off the words

    def _copies(self, layer: Layer) -> tuple[int, int]:
        """Return the cycles of copies of inputs with padding in a row of strips.

        Those of the first and the last strip; and those of all strips, as in the first and the last
        row. A few are copied at once.
        """
        window, y = layer.window, layer.output
        _, left, _, right = ((pad > 0) for pad in window.pads)
        (rows, row), (walk, step) = self._patch(layer), self._walk(layer)

        def copy(strips: int) -> int:
            size = row - (walk - strips) * step
            words = -(-size // 4)
            return cal.HELD_RUN + rows * (cal.HELD_COPIED_ROW + cal.HELD_COPIED_WORD * words)

        copies = -(-y.width // walk)
        all_strips = copies * copy(min(walk, y.width))
        sides = (left + right) * copy(1) if copies > 1 else (left or right) * all_strips
        return sides, all_strips

    def label(self, layer: Layer) -> str:
        """Window, channels, types and requantisation with its numbers."""
        window, held, done = convolution(layer).window, _known(layer), _finish(layer)
        tokens = ["x".join(map(str, window.kernel))]
        if window.strides != (1, 1):
            tokens.append("s" + "x".join(map(str, window.strides)))
        if any(window.pads):
            tokens.append("pad" + f"{window.pad_value or ''}".replace("-", "m"))
        tokens.append(f"c{layer.inputs[0].channels}")
        tokens += ["pool"] if held.pool > 1 else []
        numbers = [held.finish.digits, done.shift, *([done.low_bits] if done.low_bits else [])]
        end = "_".join([done.token, *map(str, numbers)])
        x, y = layer.inputs[0].type_name, layer.output.type_name
        return f"{self.name}_{'_'.join(tokens)}_{x}_i8_{y}_{end}"

    def instance(self, layer: Layer) -> Instance:
        """The instance, its assembly and the templates."""
        x, y = layer.inputs[0], layer.output
        held, done, window = _known(layer), _finish(layer), convolution(layer).window
        rows, row = self._patch(layer)
        word, output = self._channel_cycles(layer)
        macros = (
            *vector_macros(x.type_name),
            ("DORY_Y_T", c_type(y.type_name)),
            *done.macros,
            ("DORY_KERNEL_H", str(window.kernel[0])),
            ("DORY_KERNEL_W", str(window.kernel[1])),
            ("DORY_STRIDE_H", str(window.strides[0])),
            ("DORY_STRIDE_W", str(window.strides[1])),
            ("DORY_CHANNELS", str(x.channels)),
            ("DORY_PADDED", str(int(any(window.pads)))),
            ("DORY_PAD_WORD", f"0x{(window.pad_value & 255) * 0x01010101:08x}u"),
            *((("DORY_POOL", str(held.pool)),) if held.pool > 1 else ()),
            ("DORY_OUTPUTS", str(held.outputs)),
            ("DORY_WORDS", str(held.form.words)),
            ("DORY_REST", str(held.form.rest)),
            ("DORY_JUMP", str(held.form.jump)),
            ("DORY_CHANNEL_BYTES", str(held.channel_bytes)),
            ("DORY_SHIFT", str(done.shift)),
            ("DORY_LOW_BITS", str(done.low_bits)),
            ("DORY_HI", str(done.hi)),
            ("DORY_WALK", str(self._walk(layer)[0])),
            ("DORY_PATCH_ROW", str(row)),
            ("DORY_PATCH_ROWS", str(rows)),
            ("DORY_CORES", str(self.cores)),
            ("DORY_WORD_CYCLES", str(word)),
            ("DORY_OUTPUT_CYCLES", str(output)),
        )
        purpose = f"{self.summary}: {x.type_name} inputs, i8 weights, {y.type_name} outputs."
        return Instance("held", self.label(layer), purpose, macros, _assembly(held, x.signed))

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        names = ["x", "weights", "y", "scratch", "x_h", "x_w", "x_c", "y_h", "y_w", "y_c"]
        names += ["pad_top", "pad_left"] if any(layer.window.pads) else []
        arguments = [*tile_arguments(*names)]
        (sides, all_strips), width = self._copies(layer), layer.output.width
        arguments.append(("strip_cycles", self._strip_cycles(layer) + -(-sides // width)))
        if any(layer.window.pads):
            arguments.append(("copy_cycles", -(-(all_strips - sides) // width)))
        return call_text(self.symbol(layer), "held", arguments)
