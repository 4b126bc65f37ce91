"""What the kernels of the core share: their files, and arguments of their calls."""

from __future__ import annotations

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
    ops,
    reject_type,
    size,
)

PREFIX = "dory_cortex_m55"
BYTES = ("u8", "i8")
_COMMON = ("mve.h", "requant.h")
# Channels as vectors of four sums have them, which become one vector of bytes.
_SIXTEEN = (0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15)
_EIGHT = (0, 2, 4, 6, 1, 3, 5, 7)


class VectorKernel(Kernel):
    """A kernel in Helium, ``kernels/dory_cortex_m55_FILE.c``; one C function for all layers.

    Attributes:
        file: Middle part of the names of its files.
        more: Ends of the names of other files that it needs.
    """

    file: ClassVar[str]
    more: ClassVar[tuple[str, ...]] = ()
    features = frozenset({Feature.TWO_ADDENDS, Feature.TURN, Feature.FLOAT32})

    def symbol(self, layer: Layer) -> str:
        """Return the C function: it is called as the kernel."""
        return self.name

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """Return the header with the function."""
        return (f"{PREFIX}_{self.file}.h",)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """Return the function and what it includes."""
        names = (f"{self.file}.c", f"{self.file}.h", *self.more, *_COMMON)
        return tuple(_shipped(f"{PREFIX}_{name}") for name in names)

    def struct_call(self, layer: Layer, members: dict[str, Argument]) -> FunctionCall:
        """Return the call with a struct of arguments."""
        struct = Struct(members, f"{PREFIX}_{self.file}_t")
        return FunctionCall(self.symbol(layer), {"arguments": struct})


@cache
def _shipped(name: str) -> OutputFile:
    text = (files("dory_cortex_m55") / "kernels" / name).read_text(encoding="utf-8")
    return OutputFile(f"kernels/{name}", text)


def reject_bytes(layer: Layer) -> Rejection | None:
    """Return why input and output are not bytes."""
    return reject_type(layer.inputs[0], "input", BYTES) or reject_type(
        layer.output, "output", BYTES
    )


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


def pad_value(layer: Layer) -> int:
    """Return the value of padding, 0 when there is none."""
    window = layer.window
    return window.pad_value if any(window.pads) else 0


def flip_of(tensor: Tensor) -> int:
    """Return the bits that turn an element into a byte with a sign: its value or 128 less."""
    return 0 if tensor.signed else 0x80


def whole(count: Number, unit: int) -> Number:
    """Return a multiple of ``unit`` that is not less than a number."""
    return ceil_div(count, unit) * unit


def places_of(channels: tuple[int, int]) -> npt.NDArray[np.intp]:
    """Return the channel at each place of sums and parameters, -1 where there is none.

    Their order is that of ``dory_cortex_m55_requant.h``.
    """
    first, end = channels
    places: list[int] = []
    for start in range(first, end, len(_SIXTEEN)):
        order = _SIXTEEN if end - start > len(_EIGHT) else _EIGHT
        places += [start + number for number in order]
    return np.where(np.array(places) < end, places, -1)


def count() -> Argument:
    """Return the elements of the output of a tile, as an argument of a call."""
    return size("y_h") * size("y_w") * size("y_c")


def elements(tile: Tile) -> Number:
    """Return the elements of the output of a tile."""
    return tile.h * tile.w * tile.c_out
