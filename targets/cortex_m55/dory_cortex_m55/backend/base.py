"""What the kernels of the core share: their files, and arguments of their calls."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Argument,
    Feature,
    FunctionCall,
    Kernel,
    Layer,
    Number,
    OutputFile,
    Rejection,
    Struct,
    Tensor,
    Tile,
    ceil_div,
    maximum,
    ops,
    reject_type,
    size,
)

PREFIX = "dory_cortex_m55"
BYTES = ("u8", "i8")
HALVES = ("u16", "i16")
_MOST_HALF = (1 << 15) - 1
# Channels as two vectors of four sums have them, which become eight bytes.
_EIGHT = np.array((0, 2, 4, 6, 1, 3, 5, 7))
# What a tile has down its columns and along its rows; bytes from a row or a pixel to the next.
_SIZES = ("x_h", "y_h", "pad_top"), ("x_w", "y_w", "pad_left")
_STEPS = ("x_row", "y_row", "x_column", "y_column")


class VectorKernel(Kernel):
    """A kernel in Helium, ``kernels/dory_cortex_m55_FILE.c``; one C function for all layers.

    Attributes:
        file: Middle part of the names of its files.
        more: Ends of the names of other files that it needs.
        common: Those that nearly all kernels need.
    """

    file: ClassVar[str]
    more: ClassVar[tuple[str, ...]] = ()
    common: ClassVar[tuple[str, ...]] = ("mve.h", "requant.h")
    features = frozenset({Feature.TWO_ADDENDS, Feature.TURN, Feature.FLOAT32})

    def symbol(self, layer: Layer) -> str:
        """Return the C function: it is called as the kernel."""
        return self.name

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """Return the header with the function."""
        return (f"{PREFIX}_{self.file}.h",)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """Return the function and what it includes."""
        names = (f"{self.file}.c", f"{self.file}.h", *self.more, *self.common)
        return tuple(_shipped(f"{PREFIX}_{name}") for name in names)

    def struct_call(
        self, layer: Layer, members: dict[str, Argument], struct: str = ""
    ) -> FunctionCall:
        """Return the call with a struct of arguments, named after the file or as given."""
        arguments = Struct(members, f"{PREFIX}_{struct or self.file}_t")
        return FunctionCall(self.symbol(layer), {"arguments": arguments})


@cache
def _shipped(name: str) -> OutputFile:
    text = (files("dory_cortex_m55") / "kernels" / name).read_text(encoding="utf-8")
    return OutputFile(f"kernels/{name}", text)


def reject_bytes(layer: Layer) -> Rejection | None:
    """Return why input and output are not bytes."""
    return reject_type(layer.inputs[0], "input", BYTES) or reject_type(
        layer.output, "output", BYTES
    )


def reject_elements(tensor: Tensor, what: str) -> Rejection | None:
    """Return why a tensor has neither bytes nor elements of 16 bits with a sign."""
    if tensor.type_name in HALVES and tensor.hi > _MOST_HALF:
        return Rejection(f"its {what} has values up to {tensor.hi}, possible is {_MOST_HALF}")
    return reject_type(tensor, what, (*BYTES, *HALVES))


def reject_padding(layer: Layer) -> Rejection | None:
    """Return why elements of two bytes are not padded."""
    if layer.inputs[0].bits == 8 or not pad_value(layer):
        return None
    return Rejection("it pads elements of 16 bits with 0 only")


def lift_of(layer: Layer) -> int:
    """Return the number to take from all weights of a uint8 file so that they are bytes."""
    low, high = layer.weighted.weights.bounds
    return max(high - 127, 0) or min(low + 128, 0)


def reject_lifted(layer: Layer) -> Rejection | None:
    """Return why no number is between all weights and bytes."""
    low, high = layer.weighted.weights.bounds
    if high - low < 256:
        return None
    return Rejection(f"its weights lie in [{low}, {high}], which is more than 8 bits")


def window_members(window: ops.Window) -> dict[str, Argument]:
    """Return the members of a struct that say what a window is like."""
    return {
        "kernel_h": window.kernel[0],
        "kernel_w": window.kernel[1],
        "stride_h": window.strides[0],
        "stride_w": window.strides[1],
        "dilation_h": window.dilations[0],
        "dilation_w": window.dilations[1],
    }


def turned_window(window: ops.Window) -> ops.Window:
    """Return a window whose rows are the columns of another one; its pads are those of a tile."""
    return replace(
        window,
        kernel=window.kernel[::-1],
        strides=window.strides[::-1],
        dilations=window.dilations[::-1],
    )


def extents(x_pixel: Number, y_pixel: Number, turned: bool) -> dict[str, Argument]:
    """Return the members of a struct that say what rows and pixels of a tile are.

    x_pixel, y_pixel: bytes of a pixel. turned: rows of the kernel are the columns of the tile.
    """
    steps = (size("x_w") * x_pixel, size("y_w") * y_pixel), (x_pixel, y_pixel)
    down, across = _SIZES[::-1] if turned else _SIZES
    rows, pixels = steps[::-1] if turned else steps
    values = (*map(size, down), *map(size, across), *rows, *pixels)
    return dict(zip((*_SIZES[0], *_SIZES[1], *_STEPS), values, strict=True))


def pad_value(layer: Layer) -> int:
    """Return the value of padding, 0 when there is none."""
    window = layer.window
    return window.pad_value if any(window.pads) else 0


def flip_of(tensor: Tensor) -> int:
    """Return the bits that turn an element into one with a sign: its value or 128 less."""
    return 0 if tensor.signed or tensor.bits == 16 else 0x80


def by_bytes(layer: Layer) -> bool:
    """Return True when both bytes of an element are multiplied by themselves: depthwise."""
    conv, x = layer.op, layer.inputs[0]
    if not isinstance(conv, ops.Conv) or x.bits == 8:
        return False
    return conv.is_depthwise and layer.output.channels == x.channels


def bytes_of(tensor: Tensor) -> int:
    """Return the bytes of an element."""
    return tensor.bits // 8


def whole(count: Number, unit: int) -> Number:
    """Return a multiple of ``unit`` that is not less than a number."""
    return ceil_div(count, unit) * unit


def in_blocks(layer: Layer, tile: Tile, block: int) -> Number:
    """Return how well channels fill blocks: best are whole blocks, or all channels."""
    is_whole = tile.c_out // layer.output.channels
    return maximum((tile.c_out - 1) % block, (block - 1) * is_whole)


def places_of(channels: tuple[int, int]) -> npt.NDArray[np.intp]:
    """Return the channel at each place of sums and parameters, -1 where there is none.

    Their order is that of ``dory_cortex_m55_requant.h``.
    """
    first, end = channels
    places = (np.arange(first, end, len(_EIGHT))[:, None] + _EIGHT).reshape(-1)
    return np.where(places < end, places, -1)


def count() -> Argument:
    """Return the elements of the output of a tile, as an argument of a call."""
    return size("y_h") * size("y_w") * size("y_c")


def elements(tile: Tile) -> Number:
    """Return the elements of the output of a tile."""
    return tile.h * tile.w * tile.c_out
