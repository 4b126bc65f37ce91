"""The functional model against the reference: random layers, laid out as the contract says."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from diana_layers import KINDS, SCALE, Case, check, run_conv
from diana_machine import Machine, library

from dory_core.api import ops
from dory_core.importing import Array, requant
from dory_core.testing.kernels import alone, typed
from dory_core.testing.sanitizers import run_sanitized

HERE = Path(__file__).parent
ZIG = (sys.executable, "-m", "ziglang", "cc")


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_random_layers_are_exact(kind: str, late: bool) -> None:
    check(kind, seed=1 + late, count=50, late=late)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_random_layers_are_exact(kind: str) -> None:
    check(kind, seed=100, count=400, late=True)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ziglang") is None, reason="the ziglang wheel is not installed")
def test_the_other_compiler_has_no_warning_and_the_same_answers() -> None:
    loaded = library(("-O1",), ZIG)
    for kind in KINDS:
        check(kind, seed=3, count=5, loaded=loaded)


def test_small_l1_computes_the_same() -> None:
    check("conv", seed=4, count=5, l1_bytes=131072)


@pytest.mark.sanitizer
def test_a_sample_is_clean_under_address_and_undefined_sanitizers() -> None:
    assert run_sanitized([str(HERE / "diana_layers.py"), "5", "8"]).strip() == "computed"


def test_products_are_counted_with_those_of_the_padding() -> None:
    jobs, products = Machine().counts(0)
    _one_channel_conv(np.ones((1, 4, 20), np.int64), pads=(0, 0, 0, 0))
    after = Machine().counts(0)
    assert jobs < after[0] <= jobs + 4  # tiles of rows
    assert after[1] == products + 16 * 16 * 4 * 32


def _one_channel_conv(x: np.ndarray, *, pads: tuple[int, int, int, int]) -> np.ndarray:
    """Return x under a filter of ones, 1 x 3, or 1 x 1 where there is no padding."""
    window = ops.Window(kernel=(1, 3 if any(pads) else 1), pads=pads)
    layer = alone(
        ops.Conv,
        requants=(requant(1, 0, 1, -128, 127),),
        weights=Array(np.ones((1, 1, *window.kernel), np.int64)),
        window=window,
        bias=Array([0]),
    )
    case = Case(typed(layer, (*x.shape, -128, 127)), (x,), 0, 0)
    return run_conv(case, Machine(adc_scale=SCALE), np.random.default_rng(0))


def test_the_left_border_is_padded_like_the_right_one() -> None:
    y = _one_channel_conv(np.arange(1, 17).reshape(1, 1, 16), pads=(0, 1, 0, 1))
    assert y[0, 0].tolist() == [3, *(3 * n for n in range(2, 16)), 31]


def test_a_right_border_inside_the_row_reads_its_padding_columns() -> None:
    y = _one_channel_conv(np.arange(1, 6).reshape(1, 1, 5), pads=(0, 1, 0, 1))
    assert y[0, 0].tolist() == [3, 6, 9, 12, 9]


def test_columns_behind_the_right_padding_are_never_the_same_twice() -> None:
    """Stride 2 over 16 columns gives 8; the other 8 of the padded row are nobody's business."""
    machine = Machine()
    machine.put(0, np.ones(16 * 16, np.uint8))
    w = machine.l2(np.zeros(16 * 16 + 64, np.uint8))
    rows = []
    for _ in range(2):
        machine.run(
            *("digital_conv_2d", 0, 0, w, 0, 256),
            **dict.fromkeys(("cy", "fx", "fy", "oy", "dilation", "stride"), 1),
            **dict.fromkeys(("c", "k", "cx", "ox"), 16),
        )
        rows.append(machine.get(256, 256).reshape(16, 16))
    assert not rows[0][:, :8].any() and not rows[1][:, :8].any()
    assert (rows[0][:, 8:] != rows[1][:, 8:]).any()
