"""Dense convolutions on the 4x4 block: four pixels by four channels at a time.

A step of the block multiplies words: four 8-bit inputs, two of 16 bits and weights of their width,
or two words, the halves of four inputs (``Tensor.halves``), with the same weights.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Feature,
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Term,
    WeightBlock,
    ceil_div,
    minimum,
    ops,
    reject_type,
    requantisation,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.block_finish import RAW, finish
from dory_gap8.backend.block_terms import block_terms, shared_cycles
from dory_gap8.backend.dense import channel_epilogue, reject_weighted
from dory_gap8.backend.instance import (
    HALVES,
    ClusterKernel,
    Instance,
    c_type,
    call_text,
    tile_arguments,
    vector_macros,
)
from dory_gap8.backend.packing import Constants
from dory_gap8.backend.weights import encode, is_wide, padded, two_parts

if TYPE_CHECKING:
    from dory_core.api import Tile


# A table of pointers to all taps of four pixels lies on the stack: 16 bytes per tap.
MOST_TAPS = 49
# Element types of inputs: the chip multiplies words of them.
BLOCK_INPUTS = ("u8", "i8", "u16", "i16")


def interleave(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows of bytes, shape (c_out, 4 n), as the block reads them.

    Four channels after another; of these, for each word of inputs, a word of each channel.
    Channels are filled up to a multiple of four with zeros.
    """
    c_out, length = rows.shape
    image = np.zeros((-(-c_out // 4) * 4, length), dtype=np.int8)
    image[:c_out] = rows
    order: npt.NDArray[Any] = image.reshape(-1, 4, length // 4, 4).transpose(0, 2, 1, 3)
    return order.reshape(-1)


@dataclass(frozen=True)
class BlockKernel(ClusterKernel):
    """What the kernels of the 4x4 block share."""

    kind: ClassVar[str]
    title: ClassVar[str]

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name within the target."""
        return f"dory_gap8_{self.kind}"

    @property
    def summary(self) -> str:  # type: ignore[override]
        """What the kernel computes, for tables."""
        return self.title

    def accepts(self, layer: Layer) -> Rejection | None:
        """Dense convolutions of 8- and 16-bit inputs, and of halves where the kernel has them."""
        if not isinstance(layer.op, ops.Conv):
            return Rejection("it computes convolutions only")
        if layer.op.groups > 1:
            return Rejection("it computes dense convolutions only, this one has groups")
        halves = Feature.HALVES in self.features
        types = (*BLOCK_INPUTS, HALVES) if halves else BLOCK_INPUTS
        wrong = reject_type(layer.inputs[0], "input", types)
        if wrong is not None:
            return wrong
        wide = layer.inputs[0].bits == 8
        return self._reject_channels(layer) or reject_weighted(layer, wide=wide, halves=halves)

    def _reject_channels(self, layer: Layer) -> Rejection | None:
        return None

    def row_bytes(self, layer: Layer) -> int:
        """Return the bytes of the weights of one output channel: words, as many as inputs have.

        Weights of 9 bits are sums of two of 8 bits, which are multiplied one after the other.
        """
        return passes(layer) * self._words(layer)

    @abstractmethod
    def _words(self, layer: Layer) -> int:
        """Return the bytes of the weights of a column of inputs, in words."""

    def constants(self, layer: Layer) -> Constants:
        """Return the form of the weight block."""
        done = finish(layer)
        raw = done.form == RAW
        parameters = channel_epilogue(layer).channel_bytes if raw else 0
        parameters += 4 * done.parameters.shape[1]
        return Constants(4, parameters, self.row_bytes(layer))

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters and weights of channels in fours."""
        done = finish(layer)
        channel = self.row_bytes(layer) + 4 * done.parameters.shape[1]
        size = padded(tile.c_out) * channel
        if done.form == RAW:
            size = size + padded(tile.c_out) * channel_epilogue(layer).channel_bytes
        return ceil_div(size, 8) * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the parameters of channels and their interleaved weights."""
        rows = self._rows(layer, c_out)
        done = finish(layer)
        four = -(-rows.shape[0] // 4) * 4
        parts: dict[str, int] = {}
        data = b""
        if done.form == RAW:
            epilogue = channel_epilogue(layer)
            arrays = encode(epilogue, np.zeros((rows.shape[0], 0), np.int8), c_out)
            parts |= {n: o for n, o in arrays.parts.items() if n != "weights"}
            data = arrays.data.ljust(four * epilogue.channel_bytes, b"\0")
        else:
            table = np.zeros((four, done.parameters.shape[1]), dtype="<i4")
            table[: rows.shape[0]] = done.parameters[c_out[0] : c_out[1]]
            parts["mul"] = 0
            data = table.tobytes()
        data += bytes(-len(data) % 4)
        parts["weights"] = len(data)
        data += interleave(rows).tobytes()
        return WeightBlock(data + bytes(-len(data) % 8), parts)

    def _rows(self, layer: Layer, c_out: tuple[int, int]) -> npt.NDArray[Any]:
        """Return the weights of a range of channels, shape (c_out, row_bytes)."""
        weights = layer.weighted.weights.values[c_out[0] : c_out[1]]
        if passes(layer) == 1:
            return self._filled(layer, weights).reshape(len(weights), -1).view(np.int8)
        # The parts of a segment follow one another.
        parts = [self._filled(layer, part) for part in two_parts(weights)]
        split = [part.reshape(len(weights), self._segments(layer), -1) for part in parts]
        return np.stack(split, axis=2).reshape(len(weights), -1).view(np.int8)

    def _filled(self, layer: Layer, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return weights (c_out, c_in, kernel_h, kernel_w) as rows in the order of the inputs."""
        weights = self._arranged(layer, np.moveaxis(weights, 1, 3))
        runs = weights.reshape(weights.shape[0], -1, self._run(layer))
        size = 4 // lanes(layer)
        total = self._words(layer) // (runs.shape[1] * size)
        rows = np.zeros((*runs.shape[:2], total), dtype=f"<i{size}")
        rows[:, :, : runs.shape[2]] = runs
        return rows

    @abstractmethod
    def _segments(self, layer: Layer) -> int:
        """Return the segments of a column, each of which a second pass repeats."""

    def _is_one(self, layer: Layer) -> bool:
        """Return True when the inputs of a pixel are one segment in all calls."""
        return self._segments(layer) * layer.window.kernel[1] * passes(layer) == 1

    @abstractmethod
    def _run(self, layer: Layer) -> int:
        """Return the inputs in a row, after which weights are filled up with zeros."""

    def _arranged(self, layer: Layer, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return weights, shape (c_out, kernel_h, kernel_w, c_in), in the order of the inputs."""
        return weights

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Blocks of the core with the most of them."""
        done = finish(layer)
        steps = self.row_bytes(layer) // 4
        size, one = block_pixels(layer), self._is_one(layer)
        group = (self._step_cycles(layer) * steps + 4 * size * done.cycles) // 10
        group += self._segment_cycles(layer) + cal.BLOCK_ONE_GROUP * one
        pixel = self._pixel_cycles(layer)
        at_border = self._border_cycles(layer)
        if any(at_border):
            # Blocks of four pixels with padding: the first and the last of a row, and some rows.
            y, (top, left, bottom, right) = layer.output, layer.window.pads
            stride_h, stride_w = layer.window.strides
            rows = sum(int(ceil_div(pad, stride_h)) for pad in (top, bottom))
            sides = sum(int(ceil_div(pad, 4 * stride_w)) for pad in (left, right))
            hundredths = min(100, 400 * sides // y.width + 100 * rows // y.height)
            group += at_border[0] * hundredths // 100
            pixel += at_border[1] * hundredths // 100
        blocks, apart = self._blocks(layer, tile)
        groups = ceil_div(tile.c_out, 4)
        most = shared_cycles(self.cores, blocks, pixel, groups, group)
        if apart is not None:
            count = minimum(ceil_div(blocks, self.cores), apart)
            most = most + count * self._apart_cycles(layer, groups)
        return self._call_cycles(layer) + most

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Whole blocks for all cores; few cycles of all tiles."""
        return block_terms(self, layer, tile)

    def _blocks(self, layer: Layer, tile: Tile) -> tuple[Number, Number | None]:
        """Return the blocks of pixels of a tile, and how many of them are apart if any may be."""
        return ceil_div(tile.h * tile.w, block_pixels(layer)), None

    def _apart_cycles(self, layer: Layer, groups: Number) -> Number:
        """Return how many cycles a block that is apart takes more, by its groups of channels."""
        return 0

    def _call_cycles(self, layer: Layer) -> int:
        """Return the cycles of a call without its blocks."""
        return cal.BLOCK_CALL

    def _step_cycles(self, layer: Layer) -> int:
        """Return tenths of a cycle per step of the block."""
        if layer.inputs[0].halves:
            return cal.BLOCK_HALVES if block_pixels(layer) == 4 else cal.BLOCK_HALVES_THREES
        return cal.BLOCK_STEP if block_pixels(layer) == 4 else cal.BLOCK_STEP_THREES

    def _segment_cycles(self, layer: Layer) -> int:
        """Return the cycles of a group of four channels without its steps and outputs."""
        return cal.BLOCK_GROUP

    @abstractmethod
    def _border_cycles(self, layer: Layer) -> tuple[int, int]:
        """Return the cycles of padding: per group of four channels, and per four pixels."""

    @abstractmethod
    def _pixel_cycles(self, layer: Layer) -> int:
        """Return the cycles of four pixels without their channels."""

    def label(self, layer: Layer) -> str:
        """Kind, window, types and requantisation: ``dory_gap8_window_3x3_u8_i8_u8_q32u``."""
        window = layer.window
        tokens = ["x".join(map(str, window.kernel))]
        if window.strides != (1, 1):
            tokens.append("s" + "x".join(map(str, window.strides)))
        if window.dilations != (1, 1):
            tokens.append("d" + "x".join(map(str, window.dilations)))
        if any(window.pads):
            tokens.append("pad" + f"{window.pad_value or ''}".replace("-", "m"))
        tokens += self._tokens(layer)
        tokens += ["wide"] if passes(layer) > 1 else []
        x, y = layer.inputs[0].type_name, layer.output.type_name
        tokens += ["threes"] if block_pixels(layer) == 3 else []
        done = finish(layer)
        end = done.token
        if done.form == RAW:
            end += channel_epilogue(layer).suffix
        return f"dory_gap8_{self.kind}_{'_'.join(tokens)}_{x}_i8_{y}_{end}"

    def _tokens(self, layer: Layer) -> list[str]:
        return []

    def _macros(self, layer: Layer) -> tuple[tuple[str, str], ...]:
        return ()

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        done = finish(layer)
        window = layer.window
        macros = [
            *vector_macros(x),
            ("DORY_LANES", str(lanes(layer))),
            ("DORY_HALVES", str(int(layer.inputs[0].halves))),
            ("DORY_Y_T", c_type(y)),
            ("DORY_CORES", str(self.cores)),
            ("DORY_BLOCK_SLIDE", str(int(self._is_slide()))),
            *done.macros,
            ("DORY_BLOCK_PIXELS", str(block_pixels(layer))),
            ("DORY_BLOCK_ONE", str(int(self._is_one(layer)))),
            ("DORY_PASSES", str(passes(layer))),
            ("DORY_PADDED", str(int(any(window.pads)))),
            ("DORY_PAD_VALUE", str(window.pad_value)),
        ]
        for name, pair in (
            ("KERNEL", window.kernel),
            ("STRIDE", window.strides),
            ("DILATION", window.dilations),
        ):
            macros += [(f"DORY_{name}_H", str(pair[0])), (f"DORY_{name}_W", str(pair[1]))]
        macros += self._macros(layer)
        if done.form == RAW:
            macros += channel_epilogue(layer).macros
        purpose = f"{self.summary}: {x} inputs, i8 weights, {y} outputs."
        return Instance(self.kind, self.label(layer), purpose, tuple(macros))

    def _is_slide(self) -> bool:
        """Return True when a block is four neighbours that share their inputs."""
        return False

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        done = finish(layer)
        scratch = self._needs_scratch(layer)
        raw = done.form == RAW
        names = ("x", "weights", "y", *(("scratch",) if scratch else ()))
        names = (*names, "x_h", "x_w", "x_c", "y_h", "y_w", "y_c")
        if any(layer.window.pads):
            names = (*names, "pad_top", "pad_left")
        arguments = [*tile_arguments(*names)]
        if raw:
            arguments.append(("requant", channel_epilogue(layer).struct(pointed=True)))
        else:
            arguments += [("parameters", Operand("mul")), ("shift", done.shift)]
            arguments += [("low_bits", done.low_bits)] if done.low_bits else []
            arguments += [("hi", done.hi)]
        return call_text(self.symbol(layer), self.kind, arguments)

    @abstractmethod
    def _needs_scratch(self, layer: Layer) -> bool:
        """Return True when calls need scratch memory."""


def lanes(layer: Layer) -> int:
    """Return the inputs of a step of the block."""
    x = layer.inputs[0]
    return 4 if x.halves else 32 // x.bits


def block_pixels(layer: Layer) -> int:
    """Return the pixels of a block: three where images are three columns wide, else four.

    Nine pixels are three blocks either way.
    """
    return 3 if layer.output.width == 3 else 4


@requantisation.cached_per_layer
def passes(layer: Layer) -> int:
    """Return how often inputs are multiplied: twice for weights of 9 bits."""
    return 2 if layer.inputs[0].bits == 8 and is_wide(layer.weighted.weights.values) else 1


def pixel_bytes(layer: Layer) -> int:
    """Return the bytes of an input pixel."""
    return layer.inputs[0].channels * layer.inputs[0].bits // 8


def column_bytes(layer: Layer) -> int:
    """Return the bytes of the inputs of one output."""
    kernel_h, kernel_w = layer.window.kernel
    return kernel_h * kernel_w * pixel_bytes(layer)


def pad_word(layer: Layer) -> str:
    """Return a word of what stands around the image, as C."""
    bits = layer.inputs[0].bits
    value = layer.window.pad_value & ((1 << bits) - 1)
    return f"0x{value * (0x01010101 if bits == 8 else 0x00010001):08x}u"


def copies_borders(layer: Layer) -> bool:
    """Return True when windows at a border are copied with their padding: those of few inputs.

    Their rows are segments then, like those of other windows, of two words at least. In wide images
    few windows are at a border, and L1 is better used for tiles.
    """
    window = layer.window
    if window.kernel[0] > 1 and layer.output.width > cal.BLOCK_COPIED_WIDTH:
        return False
    return (
        window.kernel[1] > 1
        and window.dilations[1] == 1
        and pixel_bytes(layer) % 4 == 0
        and column_bytes(layer) <= cal.GATHER_COLUMN
        and window.taps * passes(layer) <= MOST_TAPS
    )
