"""Sliding windows: where their taps lie and what they see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.ir.tensor import Tensor

_MOST_WINDOWS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A sliding window. All pairs are (vertical, horizontal).

    Attributes:
        kernel: Number of taps.
        strides: Distance between windows.
        dilations: Distance between taps.
        pads: (top, left, bottom, right), may be asymmetric.
        pad_value: The element that stands there; maxima do not see it.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0

    @property
    def taps(self) -> int:
        """Number of elements that the window sees in one channel."""
        return self.kernel[0] * self.kernel[1]

    @property
    def title(self) -> str:
        """Kernel, strides, and what is not the default, in one line."""
        (kh, kw), (sh, sw) = self.kernel, self.strides
        text = f"{kh}x{kw}, stride {sh}x{sw}"
        if self.dilations != (1, 1):
            text += f", dilation {self.dilations[0]}x{self.dilations[1]}"
        if any(self.pads):
            text += ", pads " + " ".join(map(str, self.pads)) + " (top left bottom right)"
        return text

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Return (height, width) of the output for an input of the given size."""
        (kh, kw), (sh, sw), (dh, dw) = self.kernel, self.strides, self.dilations
        top, left, bottom, right = self.pads
        return (
            (height + top + bottom - (kh - 1) * dh - 1) // sh + 1,
            (width + left + right - (kw - 1) * dw - 1) // sw + 1,
        )

    def leaves_empty(self, source: Tensor) -> str | None:
        """Return why some window over ``source`` has no element of it; None where each has one."""
        sizes = self.output_size(source.height, source.width)
        for axis, extent in enumerate((source.height, source.width)):
            pad, stride, dilation = self.pads[axis], self.strides[axis], self.dilations[axis]
            before = min(sizes[axis], -(-pad // stride))  # windows that begin before the image
            last = (sizes[axis] - 1) * stride - pad
            empty = (self.kernel[axis] - 1) * dilation < pad or last >= extent
            if not empty and dilation > extent:  # the image may lie between two taps
                if before > _MOST_WINDOWS:
                    return f"pads {list(self.pads)} are too large"
                firsts = (np.arange(before, dtype=np.int64) * stride - pad) % dilation
                empty = bool((firsts >= extent).any())
            if empty:
                return f"pads {list(self.pads)} leave windows without an element"
        return None

    def padded(self, source: npt.NDArray[Any], fill: int) -> npt.NDArray[Any]:
        """Return an image (C, H, W) with the padding about it."""
        top, left, bottom, right = self.pads
        if not any(self.pads):
            return source
        return np.pad(source, ((0, 0), (top, bottom), (left, right)), constant_values=fill)

    def views(self, source: npt.NDArray[Any], fill: int) -> list[npt.NDArray[Any]]:
        """Return per tap, row by row, the elements (C, H, W) of ``source`` that it sees."""
        (kh, kw), (sh, sw), (dh, dw) = self.kernel, self.strides, self.dilations
        height, width = self.output_size(*source.shape[1:])
        rows, columns = (height - 1) * sh + 1, (width - 1) * sw + 1
        image = self.padded(source, fill)
        return [
            image[:, y * dh : y * dh + rows : sh, x * dw : x * dw + columns : sw]
            for y in range(kh)
            for x in range(kw)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """Where the taps of a window lie over all outputs, row by row: shape (kh * kw,).

    Attributes:
        inside: Taps that are always in the image.
        outside: Taps that are always in the padding.
    """

    inside: npt.NDArray[np.bool_]
    outside: npt.NDArray[np.bool_]

    @property
    def mixed(self) -> npt.NDArray[np.bool_]:
        """Taps that lie in the image for some outputs and in the padding for others."""
        return np.asarray(~(self.inside | self.outside))


def taps_of(window: Window, source: Tensor) -> Taps:
    """Return where the taps of a window lie that slides over ``source``."""
    sizes: Sequence[int] = window.output_size(source.height, source.width)
    inside, outside = [], []
    for axis, extent in enumerate((source.height, source.width)):
        first = np.arange(window.kernel[axis]) * window.dilations[axis] - window.pads[axis]
        last = first + (sizes[axis] - 1) * window.strides[axis]
        before = np.maximum(-(first // window.strides[axis]), 0)  # outputs in front of the image
        inside.append((first >= 0) & (last < extent))
        outside.append((before >= sizes[axis]) | (first + before * window.strides[axis] >= extent))
    return Taps(
        np.logical_and.outer(*inside).reshape(-1), np.logical_or.outer(*outside).reshape(-1)
    )
