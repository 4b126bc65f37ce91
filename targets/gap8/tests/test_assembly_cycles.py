"""Cycles of kernels in assembly: the models are within 10 % of what their instructions take.

Instructions are executed and counted by ``xpulpv2.py``. The models add what waits for the memory
that eight cores share, 2 to 4 %, and were fitted to counts on the GVSOC model of the chip. Those of
depthwise strips are the counted numbers, and a percentage.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import test_block_assembly as block
import test_depthwise_5x5_assembly as squares
import test_depthwise_any_assembly as windows
import test_depthwise_assembly as strips
from dory_gap8 import calibration as cal
from dory_gap8.backend import GatherKernel, WindowKernel, block_finish, requant
from dory_gap8.backend import block as backend
from dory_gap8.backend.depthwise_hwc import half_outputs, strip_outputs, two_outputs
from test_block import conv
from test_halves import halved
from xpulpv2 import Machine, Program

from dory_core.api import geometry, ops

# Forms of requantisation, and whether there is a clamp before.
FORMS = [
    *((requant.NARROW, False), (requant.NARROW, True)),
    *((requant.LIMBS, False), (requant.LIMBS, True)),
    (requant.HIGH, False),
]
# Of the block, whose parameters these tests give; no sum is near a tie.
BLOCK_FORMS = [*FORMS, (requant.EVEN, False)]
FAR_FROM_TIES = (0, 1 << 19, 20, 0)
# What they are called in the assembly of the block and of strips.
BLOCK = {
    requant.NARROW: (block.STEP, block_finish.STEP),
    requant.LIMBS: (block.LIMBS, block_finish.LIMBS),
    requant.HIGH: (block.HIGH, block_finish.HIGH),
    requant.EVEN: (block.EVEN, block_finish.EVEN),
}
Q32 = FORMS[0]
STRIPS = {
    requant.NARROW: strips.NARROW,
    requant.LIMBS: strips.LIMBS,
    requant.HIGH: strips.HIGH,
}


def counted_block(form: tuple[str, bool], width: int, one: int, **sizes: int) -> int:
    """Return the cycles of a call of the block by its instructions."""
    segments, steps = sizes.get("segments", 1), sizes.get("steps", 2)
    groups, fours = sizes.get("groups", 1), sizes.get("fours", 1)
    kind, reach = BLOCK[form[0]][0], form[1]
    halves = sizes.get("halves", 0)
    text = block.assembly(kind, int(reach), block.UNSIGNED, 0, 4, 0, width, one, halves=halves)
    machine = Machine(Program.parse(text))
    for entry in range(width * segments):
        machine.put(block.TABLE + 4 * entry, block.INPUTS)
    ends = (block.TABLE, block.TABLE + 4 * width * segments, steps, groups)
    places = (block.WEIGHTS, block.PARAMETERS, block.OUTPUTS, 4 * groups, 8, 4, 255, 0)
    machine.put(block.ARGUMENTS, *ends, *places, 4 * steps, fours, 0)
    if form[0] == requant.EVEN:
        machine.put(block.PARAMETERS, *FAR_FROM_TIES * 4 * groups)
    machine.call(block.ARGUMENTS, block.STACK)
    assert machine.stalls == 0
    return machine.cycles


def group(form: tuple[str, bool], width: int, one: int, **sizes: int) -> int:
    """Return the cycles of a group of four channels by its instructions."""
    few, many = (counted_block(form, width, one, groups=n, **sizes) for n in (1, 2))
    return many - few


def modelled_group(
    kernel: backend.BlockKernel, c_in: int, side: int, window: ops.Window, halves: bool = False
) -> float:
    """Return the cycles of a group of four channels and a block of pixels by the model."""
    made = halved if halves else conv
    layers = [made(c_in, c_out, (side, side), window) for c_out in (4, 64)]
    few, many = (replace(kernel, cores=1).cycles(x, geometry.extent(x)) for x in layers)
    y = layers[0].output
    return (many - few) / 15 / -(-y.height * y.width // backend.block_pixels(layers[0]))


@pytest.fixture(params=BLOCK_FORMS)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, bool]:
    """A form of requantisation, which all layers have for the model."""
    kind, reach = request.param
    original = block_finish.finish
    tenths = block_finish.output_tenths(BLOCK[kind][1], reach, False)
    monkeypatch.setattr(backend, "finish", lambda layer: replace(original(layer), cycles=tenths))
    return kind, reach


@pytest.mark.sample(5)
@pytest.mark.parametrize(("kernel", "side"), [(1, 8), (1, 3), (3, 8), (3, 5)])
@pytest.mark.parametrize("c_in", [8, 64])
def test_a_group_of_channels_costs_its_instructions(form, kernel, side, c_in) -> None:
    model = modelled_group(WindowKernel(), c_in, side, ops.Window(kernel=(kernel, kernel)))
    width = 3 if side - kernel + 1 == 3 else 4
    counted = group(form, width, int(kernel == 1), segments=kernel, steps=kernel * c_in // 4)
    assert model == pytest.approx(counted, rel=0.10)


@pytest.mark.sample(5)
@pytest.mark.parametrize(("kernel", "side"), [(1, 8), (1, 3), (3, 8), (3, 5)])
def test_a_group_of_channels_of_halves_costs_its_instructions(form, kernel, side) -> None:
    window = ops.Window(kernel=(kernel, kernel))
    model = modelled_group(WindowKernel(), 32, side, window, halves=True)
    width = 3 if side - kernel + 1 == 3 else 4
    counted = group(form, width, int(kernel == 1), segments=kernel, steps=kernel * 8, halves=1)
    assert model == pytest.approx(counted, rel=0.10)


@pytest.mark.sample(2)
@pytest.mark.parametrize("c_in", [1, 3])
def test_a_group_of_gathered_columns_costs_its_instructions(form, c_in) -> None:
    model = modelled_group(GatherKernel(), c_in, 12, ops.Window(kernel=(5, 5)))
    counted = group(form, 4, 1, steps=-(-25 * c_in // 4))
    assert model == pytest.approx(counted, rel=0.10)


@pytest.mark.parametrize("one", [0, 1])
def test_the_next_pixels_cost_their_instructions(one) -> None:
    first, both = (counted_block(Q32, 4, one, fours=n) for n in (1, 2))
    counted = both - first - group(Q32, 4, one)
    model = cal.BLOCK_FOURS + cal.BLOCK_FOURS_SEGMENT + cal.BLOCK_ONE_FOURS * one
    assert model == pytest.approx(counted, rel=0.10)


def test_blocks_of_gathered_pixels_save_calls() -> None:
    call = counted_block(Q32, 4, 1) - group(Q32, 4, 1)
    # Around the assembly: its arguments, the call, the loop.
    assert call + 12 == cal.GATHER_CALL


def test_three_pixels_and_one_segment_save_what_the_model_says() -> None:
    steps = [group(Q32, w, 0, steps=3) - group(Q32, w, 0, steps=2) for w in (3, 4)]
    assert steps == [19, 24]
    assert round(cal.BLOCK_STEP * 19 / 24) == cal.BLOCK_STEP_THREES
    halves = [
        group(Q32, w, 0, steps=3, halves=1) - group(Q32, w, 0, steps=2, halves=1) for w in (3, 4)
    ]
    assert halves == [34, 44]
    assert [round(cal.BLOCK_STEP * n / 24) for n in halves] == [
        cal.BLOCK_HALVES_THREES,
        cal.BLOCK_HALVES,
    ]
    assert group(Q32, 4, 1) - group(Q32, 4, 0) == cal.BLOCK_ONE_GROUP
    assert group(Q32, 3, 1) - group(Q32, 3, 0) == cal.BLOCK_ONE_GROUP
    calls = [counted_block(Q32, 4, one) - group(Q32, 4, one) for one in (0, 1)]
    assert calls[1] - calls[0] == cal.BLOCK_ONE_CALL


@pytest.mark.sample(3)
@pytest.mark.parametrize(("form", "reach"), FORMS)
@pytest.mark.parametrize("stride", [1, 2])
def test_parts_of_a_strip_cost_their_instructions(form, reach, stride) -> None:
    """Outputs, columns that are transposed, channels and strips, from differences of calls."""
    kind = STRIPS[form]
    variant = (kind, int(reach), strips.UNSIGNED, 0, stride, 1, 0)

    def counted(count: int, number: int = 1, fresh: int = stride + 1, channels: int = 4) -> int:
        what = strips.Strips(count, number, fresh)
        return strips.check(variant, what, seed=channels // 2 - 1).cycles

    sums = cal.STRIP_S1 if stride == 1 else cal.STRIP_S2
    outputs = counted(12) - counted(4)
    quad = sums + strip_outputs(stride, form, reach, False)
    assert outputs == pytest.approx(8 * 4 * quad, rel=0.01)

    laid = [counted(count, fresh=stride) - counted(count) for count in (4, 12)]
    assert laid[1] - laid[0] == 8 * stride * cal.STRIP_COLUMN
    columns = 3 * stride + 3
    assert laid[0] == pytest.approx(cal.STRIP_BLOCK + columns * cal.STRIP_COLUMN, rel=0.02)

    channel = (counted(4) - counted(4, channels=2)) / 2 - 4 * quad
    model = cal.STRIP_CHANNEL_S1 if stride == 1 else cal.STRIP_CHANNEL_S2
    assert channel == pytest.approx(model, rel=0.15)

    strip = counted(4, 3, 0) - counted(4, 2, 0)
    parts = cal.STRIP_START + stride * laid[0] + 4 * (model + 4 * quad)
    assert strip == pytest.approx(parts, rel=0.03)
    entry = counted(4) - cal.STRIP_START - 4 * (model + 4 * quad)
    assert 0 <= entry <= cal.STRIP_CALL - 310


@pytest.mark.parametrize("stride", [1, 2])
def test_outputs_that_look_for_ties_cost_their_instructions(stride) -> None:
    """Those of a loop in which no value is near one."""

    def loop(half: bool) -> int:
        text = strips.assembly(strips.EVEN, 0, strips.UNSIGNED, 0, stride, 1, half=half)
        return sum(Machine.CYCLES.get(name, 1) for name in strips.loop(text))

    pairs = 3 - stride  # what a turn of the loop computes
    sums = cal.STRIP_S1 if stride == 1 else cal.STRIP_S2
    assert loop(half=False) == pairs * (sums + strip_outputs(stride, requant.EVEN, False, False))
    sums = cal.HALF_S1 if stride == 1 else cal.HALF_S2
    assert loop(half=True) == pairs * (sums + half_outputs(requant.EVEN, False, False))


@pytest.mark.sample(3)
@pytest.mark.parametrize(("form", "reach"), FORMS)
@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("stride", [1, 2])
def test_parts_of_a_half_strip_cost_their_instructions(form, reach, turned, stride) -> None:
    kind = STRIPS[form]
    variant = (kind, int(reach), strips.UNSIGNED, 0, stride, 1, turned)

    def counted(count: int, fresh: int = stride, channels: int = 4, half: int = 2) -> int:
        what = strips.Strips(count, 1, fresh, half=half)
        return strips.check(variant, what, seed=channels // 2 - 1).cycles

    sums = cal.HALF_S1 if stride == 1 else cal.HALF_S2
    two = sums + half_outputs(form, reach, bool(turned))
    assert counted(12) - counted(4) == 8 * 4 * two
    laid = counted(4, stride - 1) - counted(4)
    columns = 3 * stride + 3
    assert laid == pytest.approx(cal.STRIP_BLOCK + columns * cal.STRIP_COLUMN, abs=3)
    model = cal.HALF_CHANNEL_S1 if stride == 1 else cal.HALF_CHANNEL_S2
    channels = [(counted(n) - counted(n, channels=2)) / 2 - n * two for n in (4, 5)]
    model += (form != requant.NARROW) + reach + 2 * turned
    assert np.mean(channels) == pytest.approx(model, abs=1)
    entry = counted(4) - 4 * (channels[0] + 4 * two)
    assert entry + 20 == pytest.approx(cal.HALF_START, abs=2)
    assert counted(4, half=1) - counted(4) == 1  # a branch that is taken


@pytest.mark.sample(3)
@pytest.mark.parametrize(("form", "reach"), FORMS)
@pytest.mark.parametrize("dilation", [1, 2])
def test_parts_of_a_strip_of_any_window_cost_their_instructions(form, reach, dilation) -> None:
    kind = STRIPS[form]

    def counted(count: int, taps: int = 3, channels: int = 2) -> int:
        what = windows.Strip(count, 2, taps, 1, dilation, channels)
        return windows.check((kind, int(reach), strips.UNSIGNED, 0, 0, 1, 0), what, seed=1).cycles

    runs = 1 if dilation == 1 else 3
    pair = cal.STRIP_PAIR + 6 * cal.STRIP_PAIR_WORD + runs * cal.STRIP_PAIR_RUN
    pair += 2 * strip_outputs(1, form, reach, False)
    assert (counted(8) - counted(2)) / 2 / 3 == pytest.approx(pair, rel=0.02)
    more = 2 * cal.STRIP_PAIR_WORD + (dilation > 1) * cal.STRIP_PAIR_RUN
    assert (counted(2, 4) - counted(2)) / 2 == more
    channel = counted(2) - counted(2, channels=1)
    assert channel == pytest.approx(cal.STRIP_PAIR_CHANNEL + pair, rel=0.03)
    assert counted(2) - 2 * channel == pytest.approx(cal.STRIP_PAIR_START - 363, abs=3)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("form", "reach"), FORMS)
@pytest.mark.parametrize("turned", [0, 1])
def test_parts_of_a_strip_of_squares_cost_their_instructions(form, reach, turned) -> None:
    kind = STRIPS[form]
    classes = 4 if turned else 1
    spread = 2 if classes == 4 else 1
    variant = (kind, int(reach), strips.UNSIGNED, 0, classes, 1, turned)

    def counted(count: int, number: int = 1, fresh: int = 2, channels: int = 2) -> int:
        what = squares.Strips(count * spread, number, fresh, channels=channels)
        return squares.check(variant, what, seed=1).cycles

    two = cal.SQUARES_SUMS + two_outputs(form, reach, bool(turned))
    assert counted(6) - counted(3) == 3 * 2 * classes * two
    laid = [counted(count, fresh=1) - counted(count) for count in (3, 6)]
    assert laid[1] - laid[0] == 3 * cal.SQUARES_PLACE
    assert laid[0] == cal.SQUARES_BLOCK + 5 * cal.SQUARES_PLACE
    channel = (counted(3, channels=4) - counted(3)) / 2 / classes - 3 * two
    assert channel == pytest.approx(cal.SQUARES_CHANNEL, rel=0.10)
    strip = counted(3, 2, 1) - counted(3)
    parts = laid[0] + cal.SQUARES_START + classes * cal.SQUARES_CLASS
    assert strip - laid[0] == pytest.approx(
        parts + 2 * classes * (channel + 3 * two), abs=classes + 2
    )
