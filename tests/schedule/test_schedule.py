"""The tile loop: every output once, no buffer overwritten while it is in use."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from dory_core.ir.geometry import extent, is_channelwise, make_tile, output_granule
from dory_core.kernels.binding import bind_kernel
from dory_core.schedule.loops import (
    Buffering,
    LoopOrder,
    l1_buffers,
    make_schedule,
    place_l1,
    repeats,
)
from tests.tiling.sample_layers import SampleKernel, add, conv, random_layer


def random_schedule(seed: int, order: str, buffering: Buffering):
    rng = random.Random(seed)
    layer = random_layer(seed, largest=9, channels=12)
    full, granule = extent(layer), output_granule(layer)
    c_out = min(full.c_out, granule * rng.randint(1, 4))
    c_in = full.c_in if is_channelwise(layer) else rng.randint(1, full.c_in)
    tile = make_tile(layer, c_out, rng.randint(1, full.h), rng.randint(1, full.w), c_in)
    return layer, make_schedule(layer, tile, buffering, order)


ALL_BUFFERINGS = [Buffering(*copies) for copies in product((1, 2), repeat=3)]


@pytest.mark.parametrize("order", LoopOrder)
def test_every_output_is_computed_once_from_every_input_channel(order):
    for seed in range(60):
        layer, schedule = random_schedule(seed, order, Buffering())
        full = extent(layer)
        work = np.zeros((full.c_out, full.h, full.w), dtype=int)
        stores = np.zeros_like(work)
        for step in schedule.steps():
            o, h, w = schedule.c_out[step.o], schedule.h[step.h], schedule.w[step.w]
            box = np.s_[o.start : o.start + o.size, h.start : h.start + h.size]
            _, channels = schedule.input_channels(step)
            work[box][..., w.start : w.start + w.size] += channels if len(schedule.c_in) > 1 else 1
            stores[box][..., w.start : w.start + w.size] += step.store_y
        assert (work == (full.c_in if len(schedule.c_in) > 1 else 1)).all()
        assert (stores == 1).all()


@pytest.mark.parametrize("order", LoopOrder)
@pytest.mark.parametrize("buffering", ALL_BUFFERINGS, ids=lambda b: b.text)
def test_slots_hold_the_data_of_their_step_and_are_never_overwritten_in_use(order, buffering):
    """Replay the generated code with hostile DMA: loads land at once, stores at their wait."""
    for seed in range(40):
        _, schedule = random_schedule(seed, order, buffering)
        steps = list(schedule.steps())
        x, w, y = {}, {}, {}

        def start_loads(step, x_wanted, w_wanted, x=x, w=w, schedule=schedule):
            if step.load_x and x_wanted:
                place = (step.o,) if schedule.is_channelwise else (step.i,)
                x[step.x_slot] = (*place, step.h, step.w)
            if step.load_w and w_wanted:
                w[step.w_slot] = (step.o, step.i)

        start_loads(steps[0], True, True)
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            if step.store_y:
                y.pop(step.y_slot, None)  # the store of this slot has been waited for
            if following is not None:
                start_loads(following, buffering.x == 2, buffering.w == 2)
            place = (step.o,) if schedule.is_channelwise else (step.i,)
            assert x[step.x_slot] == (*place, step.h, step.w)
            assert w[step.w_slot] == (step.o, step.i)
            if step.last:
                assert step.y_slot not in y
                y[step.y_slot] = step.index
            if following is not None:
                start_loads(following, buffering.x == 1, buffering.w == 1)
        assert {s.x_slot for s in steps} <= set(range(buffering.x))
        assert {s.y_slot for s in steps} <= set(range(buffering.y))


def test_consecutive_outputs_alternate_their_slots():
    schedule = make_schedule(conv(), make_tile(conv(), 8, 8, 8), Buffering(2, 2, 2))
    assert [s.y_slot for s in schedule.steps()] == [0, 1] * 4
    assert [s.x_slot for s in schedule.steps()] == [0, 1] * 4
    assert [s.w_slot for s in schedule.steps()] == [0] * 4 + [1] * 4


def test_weights_stay_in_weights_outer_order_and_inputs_in_spatial_outer_order():
    layer = conv(16, 16, (16, 16))
    tile = make_tile(layer, 4, 8, 16)

    def loads(order):
        steps = list(make_schedule(layer, tile, Buffering(), order).steps())
        return sum(s.load_x for s in steps), sum(s.load_w for s in steps)

    assert loads(LoopOrder.WEIGHTS_OUTER) == (8, 4)
    assert loads(LoopOrder.SPATIAL_OUTER) == (2, 8)


def test_input_channel_tiles_are_innermost_and_stored_after_the_last():
    layer = conv(16, 8, (4, 4))
    steps = list(make_schedule(layer, make_tile(layer, 4, 4, 4, 6), Buffering(2, 2, 2)).steps())
    assert [s.i for s in steps] == [0, 1, 2, 0, 1, 2]
    assert [(s.first, s.last, s.store_y) for s in steps[:3]] == [
        (True, False, False),
        (False, False, False),
        (False, True, True),
    ]
    assert [s.y_slot for s in steps] == [0, 0, 0, 1, 1, 1]


def test_a_kernel_without_constants_loads_no_weights():
    layer = add(8, (4, 4))
    schedule = make_schedule(layer, make_tile(layer, 8, 2, 4), Buffering(), has_weights=False)
    assert not any(s.load_w for s in schedule.steps())


def test_buffers_are_named_aligned_and_do_not_overlap():
    layer = conv(16, 16, (16, 16))
    tile = make_tile(layer, 5, 3, 7, 6)
    buffers = l1_buffers(
        layer, bind_kernel(SampleKernel(accumulates=True), layer), tile, Buffering(2, 1, 2)
    )
    assert [(b.name, b.copies) for b in buffers] == [
        ("x", 2),
        ("w", 1),
        ("y", 2),
        ("psum", 1),
        ("scratch", 1),
    ]
    by_name = {b.name: b.bytes for b in buffers}
    assert by_name["x"] == 272  # 5 * 9 * 6 = 270
    assert by_name["y"] == 112  # 3 * 7 * 5 = 105
    assert by_name["psum"] == 424  # 4 * 105 = 420
    placed = place_l1(buffers)
    ends = 0
    for block in placed:
        for offset in block.offsets:
            assert offset == ends and offset % 8 == 0
            ends = offset + block.bytes
    assert ends == sum(b.total for b in buffers)


def test_partial_sums_only_when_input_channels_are_split():
    layer = conv(16, 16, (16, 16))
    names = [
        b.name
        for b in l1_buffers(
            layer, bind_kernel(SampleKernel(), layer), make_tile(layer, 4, 4, 4), Buffering()
        )
    ]
    assert names == ["x", "w", "y", "scratch"]


def test_an_add_has_two_input_buffers():
    layer = add(8, (4, 4))
    names = [
        b.name
        for b in l1_buffers(
            layer, bind_kernel(SampleKernel(), layer), make_tile(layer, 8, 4, 4), Buffering()
        )
    ]
    assert names == ["x", "x2", "y"]


@pytest.mark.parametrize("order", LoopOrder)
def test_repeats_are_counted_as_the_steps_load(order):
    for seed in range(200):
        _, schedule = random_schedule(seed, order, Buffering())
        steps = list(schedule.steps())
        o, h, w, i = schedule.counts
        inputs = h * w * (o if schedule.is_channelwise else i)
        x, weights = repeats(order, schedule.counts, schedule.is_channelwise)
        assert sum(step.load_x for step in steps) == x * inputs
        assert sum(step.load_w for step in steps) == weights * o * i
