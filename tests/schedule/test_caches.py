"""Waiting for memory: what a data cache misses, and layers in place with and without one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dory_core.hardware.caches import Cache
from dory_core.hardware.links import Link
from dory_core.hardware.memories import Level, Memory, MemoryHierarchy
from dory_core.ir import Layer, Window
from dory_core.ir.geometry import make_tile
from dory_core.kernels import portable_kernels
from dory_core.kernels.binding import bind_kernel
from dory_core.kernels.kernel import Access
from dory_core.schedule.caches import missed_lines, missed_share, pixel_by_pixel, waiting_cycles
from dory_core.testing.graphs import GraphBuilder
from dory_core.tiling.in_place import MEMORY_BOUND, whole_timeline

CACHE = Cache(size_bytes=16 * 1024, ways=4, line_bytes=32)
SLOW = Memory("SRAM", 1 << 20, access_cycles=6, line_cycles=12)


def counted_share(lines: int, cache: Cache, passes: int = 60) -> float:
    """Return the share of misses of a loop over so many lines in a row, by simulation."""
    random = np.random.default_rng(5)
    tags = np.full((cache.sets, cache.ways), -1)
    missed = 0
    for number in range(passes):
        for line in range(lines):
            ways = tags[line % cache.sets]
            if line in ways:
                continue
            missed += number >= passes // 2
            empty = np.flatnonzero(ways < 0)
            ways[empty[0] if len(empty) else random.integers(cache.ways)] = line
    return missed / (lines * (passes - passes // 2))


def test_data_that_fits_stays_in_the_cache() -> None:
    assert CACHE.sets == 128
    assert missed_share(0, CACHE) == missed_share(12 * 1024, CACHE) == 0


def test_data_of_many_times_the_cache_is_gone_when_it_is_used_again() -> None:
    assert missed_share(160 * 1024, CACHE) > 0.99


def test_share_rises_with_the_distance() -> None:
    shares = [missed_share(distance * 1024, CACHE) for distance in range(12, 80, 4)]
    assert shares == sorted(shares)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kilobytes", [10, 22, 24, 28, 32, 48])
def test_share_is_that_of_a_simulated_cache(kilobytes: int) -> None:
    counted = counted_share(kilobytes * 1024 // CACHE.line_bytes, CACHE)
    assert missed_share(kilobytes * 1024, CACHE) == pytest.approx(counted, abs=0.25)


def test_without_a_cache_every_access_waits() -> None:
    accesses = (Access("x", 1000, 64, ((5000, 100),)), Access("scratch", 9999, 64))
    assert waiting_cycles(accesses, {"x": SLOW}, None) == 6000


def test_with_a_cache_lines_wait_once_while_they_stay() -> None:
    near, far = (Access("x", 4000, 320, ((3200, distance),)) for distance in (1024, 1 << 20))
    assert missed_lines(near, CACHE) == 10
    assert missed_lines(far, CACHE) == pytest.approx(110, rel=0.001)
    assert waiting_cycles((near,), {"x": SLOW}, CACHE) == 120


def convolution(channels: int = 8) -> Layer:
    net = GraphBuilder((channels, 12, 10), seed=1)
    net.conv(16, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    return net.graph().layer(0)


def test_plain_kernels_load_two_operands_for_each_product() -> None:
    layer = convolution()
    kernel = next(k for k in portable_kernels(1) if k.accepts(layer) is None)
    x, w, y = pixel_by_pixel(bind_kernel(kernel, layer), make_tile(layer, *layer.output.shape))
    assert x.count == w.count == layer.macs
    assert (x.bytes, y.count, y.bytes) == (8 * 12 * 10, 16 * 120, 16 * 120)
    assert w.bytes >= 16 * 8 * 9


def test_sums_and_pools_have_accesses_without_weights() -> None:
    net = GraphBuilder((8, 12, 10), seed=1)
    first = net.conv(8, Window(kernel=(1, 1)))
    net.add(first, net.conv(8, Window(kernel=(1, 1))))
    net.max_pool(Window(kernel=(2, 2), strides=(2, 2)))
    graph = net.graph()
    kinds = {layer.op.kind: layer for layer in graph.layers}
    counts = {}
    for kind in ("Add", "MaxPool"):
        layer = kinds[kind]
        kernel = next(k for k in portable_kernels(1) if k.accepts(layer) is None)
        found = pixel_by_pixel(bind_kernel(kernel, layer), make_tile(layer, *layer.output.shape))
        counts[kind] = {access.operand: access.count for access in found}
    assert counts["Add"] == {"x": 960, "x2": 960, "y": 960}
    assert counts["MaxPool"] == {"x": 240 * 4, "y": 240}


def hierarchy(cache: Cache | None, memory: Memory = SLOW) -> MemoryHierarchy:
    levels = (Level(1, (Memory("L1", 1 << 16),)), Level(2, (memory, replace(SLOW, name="behind"))))
    link = Link(1, 2, setup_cycles=10, bytes_per_cycle=1)
    return MemoryHierarchy(levels, (link,), in_place=True, cache=cache)


def test_layer_in_place_takes_longest_without_a_cache() -> None:
    layer = convolution(64)
    kernel = next(k for k in portable_kernels(1) if k.accepts(layer) is None)
    fast = Memory("fast", 1 << 20)
    free, cached, slow = (
        whole_timeline(layer, bind_kernel(kernel, layer), h)
        for h in (hierarchy(None, fast), hierarchy(CACHE), hierarchy(None))
    )
    estimates = [t.estimate for t in (free, cached, slow)]
    assert len({e.compute_cycles for e in estimates}) == 1
    assert 0 == estimates[0].stall_cycles < estimates[1].stall_cycles < estimates[2].stall_cycles
    for timeline in (free, cached, slow):
        found = timeline.estimate
        assert found.cycles == found.compute_cycles + found.stall_cycles
        assert timeline.events[-1].end == found.cycles
        assert found.bound in ("compute", MEMORY_BOUND)
    assert [event.name for event in slow.events] == ["compute", "wait for memory"]


def test_waiting_is_that_of_the_memory_that_holds_the_operand() -> None:
    layer = convolution()
    kernel = next(k for k in portable_kernels(1) if k.accepts(layer) is None)
    fast_first = hierarchy(None, Memory("fast", 1 << 20))
    bound = bind_kernel(kernel, layer)
    accesses = {a.operand: a for a in pixel_by_pixel(bound, make_tile(layer, 16, 12, 10))}
    output_slow = whole_timeline(layer, bound, fast_first, {"y": 1}).estimate
    assert output_slow.stall_cycles == accesses["y"].count * SLOW.access_cycles
