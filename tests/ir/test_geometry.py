"""Which input a tile needs, against sets of indices computed one output at a time."""

from __future__ import annotations

import pytest

from dory_core.ir import AvgPool, Conv, Window
from dory_core.ir.geometry import (
    axis_spans,
    channel_granule,
    channel_spans,
    extent,
    is_channelwise,
    make_tile,
    output_granule,
)
from tests.tiling.sample_layers import conv, linear, pool, random_layer


def read_indices(layer, axis: int, output: int) -> set[int]:
    """Return the positions along an axis, padding included, that one output position reads."""
    window = layer.op.sliding
    if window is None:
        return {output}
    first = output * window.strides[axis] - window.pads[axis]
    return {first + k * window.dilations[axis] for k in range(window.kernel[axis])}


@pytest.mark.parametrize("block", range(8))
def test_spans_cover_exactly_what_the_outputs_read(block):
    for seed in range(block * 25, block * 25 + 25):
        layer = random_layer(seed)
        x, y = layer.inputs[0], layer.output
        if x.shape != y.shape and layer.op.sliding is None:
            continue  # a Linear has no places
        for axis, (total, full) in enumerate(((y.height, x.height), (y.width, x.width))):
            for size in {1, 2, 3, (total + 1) // 2, total} & set(range(1, total + 1)):
                spans = axis_spans(layer, axis, size)
                assert [p for s in spans for p in range(s.start, s.start + s.size)] == list(
                    range(total)
                )
                largest = 0
                for s in spans:
                    reads = set().union(
                        *(read_indices(layer, axis, p) for p in range(s.start, s.start + s.size))
                    )
                    assert s.x_size >= 1 and 0 <= s.x_start <= full - s.x_size
                    covered = set(range(s.x_start, s.x_start + s.x_size))
                    assert {r for r in reads if 0 <= r < full} <= covered
                    # Padded, the span is the window's reach and no more.
                    assert s.x_start - s.pad_before == min(reads)
                    assert s.x_start + s.x_size + s.pad_after - 1 == max(reads)
                    largest = max(largest, s.x_size)
                sizes = [0, 0]
                sizes[axis] = size
                tile = make_tile(
                    layer, extent(layer).c_out, sizes[0] or y.height, sizes[1] or y.width
                )
                found = tile.x_h if axis == 0 else tile.x_w
                if size in (1, total):
                    assert found == largest
                assert found >= largest


def test_input_channels_of_output_channel_tiles():
    for seed in range(150):
        layer = random_layer(seed)
        granule = output_granule(layer)
        assert granule % channel_granule(layer) == 0
        for size in range(granule, layer.output.channels + 1, granule):
            spans = channel_spans(layer, size)
            assert sum(s.size for s in spans) == layer.output.channels
            if not is_channelwise(layer):
                assert all((s.x_start, s.x_size) == (0, extent(layer).c_in) for s in spans)
                continue
            kind = layer.op
            groups = kind.groups if isinstance(kind, Conv) else layer.output.channels
            per_group_in = layer.inputs[0].channels // groups
            per_group_out = layer.output.channels // groups
            for s in spans:
                reads = {
                    c // per_group_out * per_group_in + k
                    for c in range(s.start, s.start + s.size)
                    for k in range(per_group_in)
                }
                assert reads == set(range(s.x_start, s.x_start + s.x_size))


def test_padding_of_a_whole_image_is_not_counted_as_input():
    layer = conv(4, 4, (8, 8))
    assert make_tile(layer, 4, 8, 8).x_h == 8
    assert make_tile(layer, 4, 4, 8).x_h == 5  # two tiles: each has a border
    assert make_tile(layer, 4, 2, 8).x_h == 4  # tiles in the middle have none


def test_stride_leaves_unread_rows_out():
    layer = conv(4, 4, (8, 8), (1, 1), (2, 2), (0, 0, 0, 0))
    assert make_tile(layer, 4, 4, 4).x_h == 7
    spans = axis_spans(layer, 0, 2)
    assert [(s.x_start, s.x_size) for s in spans] == [(0, 3), (4, 3)]


def test_a_window_inside_the_padding_reads_one_element():
    window = Window(kernel=(1, 1), strides=(1, 1), pads=(0, 2, 0, 0))
    layer = pool(AvgPool, 4, (1, 4), window)
    spans = axis_spans(layer, 1, 1)
    assert [(s.x_start, s.x_size) for s in spans[:3]] == [(0, 1), (0, 1), (0, 1)]


def test_sub_byte_channels_are_tiled_by_whole_bytes():
    assert output_granule(conv(4, 16, bits=(8, 8, 2))) == 4
    assert output_granule(conv(16, 16, groups=16, bits=(4, 8, 8))) == 2
    assert output_granule(linear(4, (1, 1), 8)) == 1
