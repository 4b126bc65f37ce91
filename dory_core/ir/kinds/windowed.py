"""What operators share whose window slides over their input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dory_core.ir.bounds import Interval
from dory_core.ir.features import Feature
from dory_core.ir.kinds.channels import Ints
from dory_core.ir.kinds.operator import Loads, Operator
from dory_core.ir.kinds.window import Window, taps_of
from dory_core.ir.tensor import Tensor, value_range


def output_size(op: Operator, window: Window, source: Tensor) -> tuple[int, int]:
    """Return (height, width) of the output.

    Raises:
        NotSupported: When no window fits.
    """
    height, width = window.output_size(source.height, source.width)
    if min(height, width) < 1:
        raise op.refused(
            f"its window {list(window.kernel)} does not fit into an input of"
            f" {source.height} x {source.width}"
        )
    return height, width


def check_no_empty_window(op: Operator, window: Window, source: Tensor) -> None:
    """Raise NotSupported when a window has no element of the input."""
    reason = window.leaves_empty(source)
    if reason is not None:
        raise op.refused(reason)


def seen_range(op: Operator, window: Window, source: Tensor) -> tuple[int, int]:
    """Return the range of the elements under a window, padding included."""
    if not any(window.pads):
        return source.lo, source.hi
    low, high = value_range(source.bits, source.signed)
    if not low <= window.pad_value <= high:
        raise op.refused(
            f"it pads with {window.pad_value}, which {source.type_name} does not hold",
            "pad with a value that an element of the input can have",
        )
    return min(source.lo, window.pad_value), max(source.hi, window.pad_value)


def under_taps(window: Window, interval: Interval, source: Tensor) -> tuple[Ints, Ints]:
    """Return the bounds of what each tap sees of each channel, shape (C, kh * kw)."""
    taps, pad = taps_of(window, source), window.pad_value
    lo, hi = (np.repeat(end[:, None], window.taps, axis=1) for end in (interval.lo, interval.hi))
    lo[:, taps.outside] = hi[:, taps.outside] = pad
    lo[:, taps.mixed] = np.minimum(lo[:, taps.mixed], pad)
    hi[:, taps.mixed] = np.maximum(hi[:, taps.mixed], pad)
    return lo, hi


def pad_features(window: Window) -> frozenset[Feature]:
    """Return the features that padding with another value than zero needs."""
    return frozenset({Feature.PAD_VALUE} if window.pad_value and any(window.pads) else ())


def padding_of(window: Window) -> int:
    """Return the element of the padding, 0 where there is none."""
    return window.pad_value if any(window.pads) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(Operator):
    """A value of all elements under a window, for each channel.

    Attributes:
        window: What one output element reads.
    """

    window: Window

    is_channelwise: ClassVar[bool] = True

    def loads(self, source: Tensor) -> Loads:
        """Return the elements under the window."""
        return Loads(self.window.taps, 0)

    @property
    def title(self) -> str:
        """The window."""
        return f"{self.kind} {self.window.title}"

    @property
    def sliding(self) -> Window | None:
        return self.window
