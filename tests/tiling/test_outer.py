"""Stripes and groups of a layer against a brute-force reading of what convolution means."""

from __future__ import annotations

import random

import pytest

from dory_core.ir import Graph, Layer, pixel_bytes
from dory_core.ir.geometry import Tile, channel_granule
from dory_core.schedule.loops import Buffering, LoopOrder
from dory_core.testing.graphs import GraphBuilder
from dory_core.tiling.outer import (
    Split,
    group_spans,
    input_channel,
    input_range,
    max_groups,
    max_stripes,
    output_range,
    parts,
    stripe_axis,
    stripe_pitch,
    stripe_spans,
)
from dory_core.tiling.part_layers import largest_part, part_schedules
from tests.planning.networks import CASES, win


def layer_of(graph: Graph) -> Layer:
    return graph.layers[0]


def conv(shape: tuple[int, int, int], channels: int, *window: object, groups: int = 1) -> Layer:
    builder = GraphBuilder(shape)
    builder.conv(channels, win(*window), groups=groups)  # type: ignore[arg-type]
    return layer_of(builder.graph())


def random_layer(seed: int) -> Layer:
    rng = random.Random(seed)
    flat = seed % 4 == 0
    height = 1 if flat else rng.randint(1, 40)
    kernel = (1 if flat else rng.randint(1, 5), rng.randint(1, 5))
    dilation = (1 if flat else rng.randint(1, 2), rng.randint(1, 3))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    width = rng.randint(reach[1], 60)
    top = 0 if flat else rng.randint(0, reach[0])
    bottom = 0 if flat else rng.randint(max(0, reach[0] - height - top), reach[0] + 2)
    pads = (top, rng.randint(0, reach[1]), bottom, rng.randint(0, reach[1]))
    stride = (1 if flat else rng.randint(1, 3), rng.randint(1, 3))
    return conv(
        (rng.randint(1, 5), height, width), rng.randint(1, 9), kernel, stride, pads, dilation
    )


def read_lines(layer: Layer, axis: int, lines: range) -> set[int]:
    """Return which input rows (columns) some output rows (columns) read."""
    window = layer.window
    total = (layer.inputs[0].height, layer.inputs[0].width)[axis]
    taps = (
        line * window.strides[axis] - window.pads[axis] + tap * window.dilations[axis]
        for line in lines
        for tap in range(window.kernel[axis])
    )
    return {at for at in taps if 0 <= at < total}


@pytest.mark.parametrize("seed", range(60))
def test_stripes_cover_the_output_once_and_read_what_they_need(seed: int) -> None:
    layer = random_layer(seed)
    axis = stripe_axis(layer)
    y = layer.output
    if axis is None:
        assert max_stripes(layer) == 1
        assert input_range(layer, 0, stripe_spans(layer, 1)[0]) == (0, layer.inputs[0].size_bytes)
        return
    total = (y.height, y.width)[axis]
    assert max_stripes(layer) == total > 1
    x = layer.inputs[0]
    pitch = pixel_bytes(x.channels, x.bits) * (x.width if axis == 0 else 1)
    for count in {1, 2, 3, total // 2 + 1, total}:
        stripes = stripe_spans(layer, count)
        assert len(stripes) <= count
        covered = [line for s in stripes for line in range(s.start, s.start + s.size)]
        assert covered == list(range(total))
        assert len({s.size for s in stripes[:-1]}) <= 1
        for stripe in stripes:
            needed = read_lines(layer, axis, range(stripe.start, stripe.start + stripe.size))
            first, size = input_range(layer, 0, stripe)
            lines = range(first // pitch, (first + size) // pitch)
            assert needed <= set(lines)
            assert first % pitch == size % pitch == 0 and first + size <= x.size_bytes
            window = layer.window
            dense = window.dilations[axis] == 1 and window.kernel[axis] >= window.strides[axis]
            if needed and dense:  # tight: nothing outside of the reach of the windows
                assert (lines.start, lines.stop) == (min(needed), max(needed) + 1)
        at = 0
        for stripe in stripes:
            assert output_range(layer, stripe)[0] == at
            at += output_range(layer, stripe)[1]
        assert at == y.size_bytes


@pytest.mark.parametrize("seed", range(60))
def test_largest_part_bounds_every_part(seed: int) -> None:
    layer = random_layer(seed)
    axis = stripe_axis(layer)
    for split in (Split(1, 2), Split(2, 1), Split(3, 2, False), Split(max_stripes(layer), 1)):
        part = largest_part(layer, split)
        all_parts = tuple(parts(layer, split))
        assert part.output.channels == max(p.group_span[1] for p in all_parts)
        if axis is not None:
            size = (part.output.height, part.output.width)[axis]
            assert size == max(p.stripe_span.size for p in all_parts)
            x = (part.inputs[0].height, part.inputs[0].width)[axis]
            assert x >= max(p.stripe_span.x_size for p in all_parts)


@pytest.mark.parametrize("seed", range(40))
def test_tiles_of_a_part_are_relative_to_its_data(seed: int) -> None:
    layer = random_layer(seed)
    axis = stripe_axis(layer)
    split = Split(3, 2)
    biggest = largest_part(layer, split)
    tile = Tile(
        min(4, biggest.output.channels),
        max(1, biggest.output.height // 2),
        max(1, biggest.output.width // 2),
        layer.inputs[0].channels,
        1,
        1,
    )
    done: set[tuple[int, int, int]] = set()
    todo = list(parts(layer, split))
    schedules = part_schedules(layer, todo, tile, Buffering(1, 1, 1), LoopOrder.WEIGHTS_OUTER, True)
    for part, schedule in zip(todo, schedules, strict=True):
        starts = [0, 0]
        x_starts = [0, 0]
        if axis is not None:
            starts[axis], x_starts[axis] = part.stripe_span.start, part.stripe_span.x_start
        for c in schedule.c_out:
            for h in schedule.h:
                for w in schedule.w:
                    for span, direction in ((h, 0), (w, 1)):
                        at = starts[direction] + span.start
                        out = range(at, at + span.size)
                        needed = read_lines(layer, direction, out)
                        low = x_starts[direction] + span.x_start
                        assert needed <= set(range(low, low + span.x_size))
                        assert span.x_start >= 0
                        if direction == axis:
                            assert span.x_start + span.x_size <= part.stripe_span.x_size
                    box = {
                        (part.group_span[0] + c.start + i, starts[0] + h.start + j, starts[1] + k)
                        for i in range(c.size)
                        for j in range(h.size)
                        for k in range(w.start, w.start + w.size)
                    }
                    assert done.isdisjoint(box)
                    done |= box
    assert len(done) == layer.output.elements


@pytest.mark.parametrize("channels", [1, 4, 5, 63, 64, 1021])
def test_groups_are_balanced_and_cover_the_channels(channels: int) -> None:
    layer = conv((3, 2, 2), channels, 1)
    most = max_groups(layer)
    assert most == -(-channels // 4)
    for groups in {1, 2, 3, most // 2 + 1, most}:
        spans = group_spans(layer, groups)
        assert len(spans) <= groups
        assert [c for start, n in spans for c in range(start, start + n)] == list(range(channels))
        assert all(n % 4 == 0 for _, n in spans[:-1])
        assert len({n for _, n in spans[:-1]}) <= 1


@pytest.mark.parametrize("filters", [1, 2, 3, 4, 8])
def test_groups_of_channels_kept_apart_have_channels_of_their_own(filters: int) -> None:
    layer = conv((20, 9, 9), 20 * filters, 3, 1, 1, groups=20)
    split = Split(2, max_groups(layer))
    assert split.groups == {1: 5, 2: 10, 3: 5, 4: 10, 8: 10}[filters]
    part = largest_part(layer, split)
    assert part.output.channels == part.inputs[0].channels * filters
    assert channel_granule(part) == filters
    todo = tuple(parts(layer, split))
    tile = Tile(part.output.channels, 9, 9, part.inputs[0].channels, 9, 9)
    schedules = part_schedules(layer, todo, tile, Buffering(1, 1, 1), LoopOrder.WEIGHTS_OUTER, True)
    for one, schedule in zip(todo, schedules, strict=True):
        first, count = one.group_span
        assert input_channel(layer, 0, first) * filters == first
        spans = [(c.start, c.size, c.x_start, c.x_size) for c in schedule.c_out]
        assert spans == [(0, count, 0, count // filters)]


def test_a_filter_of_several_inputs_and_one_in_place_form_one_group() -> None:
    grouped, layer = conv((16, 9, 9), 16, 3, groups=8), conv((16, 9, 9), 16, 3, groups=16)
    assert (max_groups(grouped), max_groups(layer), max_groups(layer, in_place=True)) == (1, 4, 1)


def test_order_of_the_parts_follows_the_outer_loop() -> None:
    layer = conv((3, 8, 2), 16, 1)
    by_stripe = [(p.stripe, p.group) for p in parts(layer, Split(2, 2, True))]
    by_group = [(p.stripe, p.group) for p in parts(layer, Split(2, 2, False))]
    assert by_stripe == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert by_group == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_row_that_becomes_an_image_is_read_as_a_whole_row() -> None:
    layer = conv((6, 1, 50), 4, 3, 1, (1, 1, 1, 1))
    assert (layer.output.height, stripe_axis(layer)) == (1, 1)
    layer = conv((6, 1, 50), 4, 3, 1, (2, 1, 2, 1))
    assert (layer.output.height, stripe_axis(layer)) == (3, 0)
    assert stripe_pitch(layer.inputs[0], 0) == 300
    assert [input_range(layer, 0, s) for s in stripe_spans(layer, 3)] == [(0, 300)] * 3


def test_part_keeps_the_constants_that_decide_how_they_are_stored() -> None:
    case = next(c for c in CASES if c.name == "mixed_multipliers")
    layer = layer_of(case.build())
    part = largest_part(layer, Split(1, 4))
    assert part.output.channels == 16
    assert part.op.requants == layer.op.requants
    assert max(part.op.requants[0].mul) > 2**32 > max(part.op.requants[0].mul[:16])
