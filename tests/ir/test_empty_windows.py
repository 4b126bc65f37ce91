"""Windows that see padding alone are refused, without a list of all windows."""

from __future__ import annotations

import random

import pytest

from dory_core.errors import NotSupported
from dory_core.ir import Tensor, Window, ops
from dory_core.ir.ranges import output_shape


def pool(window: Window) -> ops.MaxPool:
    return ops.MaxPool(index=0, name="pool", inputs=("x",), output="y", window=window)


def refused(window: Window, extent: int) -> bool:
    try:
        output_shape(pool(window), [Tensor("x", 1, 1, extent, 0, 255, 8, False)])
    except NotSupported as error:
        assert "pads" in error.message or "does not fit" in error.message
        return True
    return False


def seen(window: Window, extent: int) -> bool:
    """Return whether each window sees an element, looking at each of them."""
    _, count = window.output_size(1, extent)
    starts = (n * window.strides[1] - window.pads[1] for n in range(count))
    taps = [k * window.dilations[1] for k in range(window.kernel[1])]
    return count > 0 and all(any(0 <= start + t < extent for t in taps) for start in starts)


def test_as_looking_at_every_window() -> None:
    draw = random.Random(1)
    found = set()
    for _ in range(4000):
        kernel, stride, dilation = draw.randint(1, 4), draw.randint(1, 4), draw.randint(1, 9)
        pads = (0, draw.randint(0, 12), 0, draw.randint(0, 12))
        window = Window(kernel=(1, kernel), strides=(1, stride), dilations=(1, dilation), pads=pads)
        extent = draw.randint(1, 9)
        assert refused(window, extent) != seen(window, extent), (window, extent)
        found.add(refused(window, extent))
    assert found == {True, False}


@pytest.mark.parametrize("pads", [(0, 1 << 40, 0, 0), (0, 0, 0, 1 << 40), (0, 1 << 30, 0, 1 << 30)])
@pytest.mark.parametrize("dilation", [1, 1 << 20])
def test_huge_pads_take_no_memory(pads: tuple[int, int, int, int], dilation: int) -> None:
    assert refused(Window(kernel=(1, 2), dilations=(1, dilation), pads=pads), 9)
