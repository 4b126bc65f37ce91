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
_COMMON = ("mve.h", "requant.h", "dot.h")


class VectorKernel(Kernel):
    """A kernel in Helium, ``kernels/dory_cortex_m55_FILE.c``; one C function for all layers.

    Attributes:
        file: Middle part of the names of its files.
    """

    file: ClassVar[str]
    features = frozenset({Feature.TWO_ADDENDS, Feature.TURN, Feature.FLOAT32})

    def symbol(self, layer: Layer) -> str:
        """Return the C function: it is called as the kernel."""
        return self.name

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """Return the header with the function."""
        return (f"{PREFIX}_{self.file}.h",)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """Return the function and what it includes."""
        names = (f"{self.file}.c", f"{self.file}.h", *_COMMON)
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


def numbers_of(channels: tuple[int, int], unit: int) -> npt.NDArray[np.intp]:
    """Return the numbers of some channels in whole units, -1 for those that are not there."""
    first, end = channels
    count = -(-(end - first) // unit) * unit
    numbers = np.arange(first, first + count)
    return np.where(numbers < end, numbers, -1)


def count() -> Argument:
    """Return the elements of the output of a tile, as an argument of a call."""
    return size("y_h") * size("y_w") * size("y_c")


def elements(tile: Tile) -> Number:
    """Return the elements of the output of a tile."""
    return tile.h * tile.w * tile.c_out
