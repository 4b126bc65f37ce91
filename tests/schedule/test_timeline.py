"""The timeline of a layer: sums by hand, bounds, and order of events."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise, product
from random import Random

import pytest

from dory_core.hardware.caches import InstructionCache, Misses
from dory_core.hardware.code_sizes import CodeSizes
from dory_core.hardware.copies import AS_IT_IS, CORES, PIECES, Carriage, Charge, DmaCost
from dory_core.hardware.links import Link
from dory_core.hardware.memories import Level, Memory, MemoryHierarchy
from dory_core.ir.geometry import make_tile
from dory_core.kernels.binding import bind_kernel
from dory_core.schedule.copies import box_transfer
from dory_core.schedule.costs import LayerCosts
from dory_core.schedule.loops import Buffering, LoopOrder, make_schedule
from dory_core.schedule.timeline import AheadLoad, estimate, loaded_estimate
from tests.tiling.sample_layers import SampleKernel, add, conv, random_layer, tensor


def hierarchy(cores: int = 1, **link: float) -> MemoryHierarchy:
    values = {"setup_cycles": 10, "bytes_per_cycle": 1.0, **link}
    levels = (Level(1, (Memory("near", 65536),)), Level(2, (Memory("far", 1 << 20),)))
    barrier = 22 if cores > 1 else 0
    return MemoryHierarchy(levels, (Link(1, 2, **values),), cores, barrier_cycles=barrier)


class ConstantKernel(SampleKernel):
    """A kernel of 1000 cycles a call without constants."""

    def cycles(self, layer, tile):
        return 1000

    def weight_bytes(self, layer, tile):
        return 0


def run(layer, tile, buffering, kernel=None, chip=None, order=LoopOrder.WEIGHTS_OUTER, record=None):
    kernel = kernel or ConstantKernel()
    costs = LayerCosts.of(layer, bind_kernel(kernel, layer), chip or hierarchy())
    weights = bool(kernel.weight_bytes(layer, tile))
    schedule = make_schedule(layer, tile, buffering, order, weights)
    return estimate(costs, schedule, record), costs, schedule


POINTWISE = conv(8, 8, (8, 8), (1, 1), pads=(0, 0, 0, 0))
HALF = make_tile(POINTWISE, 8, 4, 8)  # 2 tiles; x and y of 256 bytes: 266 cycles each


def test_single_buffers_do_everything_one_after_the_other():
    result, *_ = run(POINTWISE, HALF, Buffering(1, 1, 1))
    # load, compute, store and load in a row (the store goes first), compute, store
    assert result.cycles == 266 + 1000 + 266 + 266 + 1000 + 266
    assert result.compute_cycles == 2000
    assert result.dma_cycles == 4 * 266
    assert result.stall_cycles == 4 * 266
    assert result.macs_per_cycle == pytest.approx(8 * 8 * 64 / 3064)
    assert result.bound == "compute"


def test_double_buffers_hide_all_but_the_first_load_and_the_last_store():
    result, *_ = run(POINTWISE, HALF, Buffering(2, 1, 2))
    assert result.cycles == 266 + 2 * 1000 + 266


def test_a_double_buffered_input_alone_leaves_the_store_exposed():
    result, *_ = run(POINTWISE, HALF, Buffering(2, 1, 1))
    # the store of the first tile is waited for before the second one is computed
    assert result.cycles == 266 + 1000 + 266 + 1000 + 266


def test_a_load_into_a_double_buffer_starts_when_the_cores_have_met_for_the_tile_before():
    """Four tiles whose loads of 128 bytes take longer than a kernel and its two barriers."""
    chip = hierarchy(cores=8, bytes_per_cycle=0.1, issue_cycles=5)
    costs = LayerCosts.of(POINTWISE, bind_kernel(ConstantKernel(), POINTWISE), chip)
    tile = make_tile(POINTWISE, 8, 2, 8)
    schedule = make_schedule(POINTWISE, tile, Buffering(2, 1, 1), has_weights=False)
    assert estimate(costs, schedule, resident=("y",)).cycles == 4 * (10 + 1280 + 22) + 1000 + 22


def test_misses_of_instructions_wait_behind_the_loads_in_flight():
    """Two tiles of a kernel that runs 960 bytes: 64 lines with those around it."""
    costs = costs_with(InstructionCache(1024, 16, 4, 64, 0.5, 2.0, 4.0, 50.0))
    schedule = make_schedule(POINTWISE, HALF, Buffering(2, 1, 1), has_weights=False)
    # The second load of 266 cycles begins when the cores have met: the first tile's misses wait for
    # all of it. Nothing is in flight behind the second tile's barrier.
    first, second = 64 * 2 + 266, costs.misses[1].cycles
    assert costs.misses[0] == (128.0, math.inf)
    expected = 266 + 22 + first + 1000 + 22 + 22 + second + 1000 + 22
    assert estimate(costs, schedule, resident=("y",)).cycles == round(expected)


@pytest.mark.parametrize(("by_words", "waits"), [(False, 400), (True, 100)])
def test_misses_wait_for_a_share_of_a_load_by_words(by_words, waits):
    """64 lines, which wait for a load that takes 400 cycles."""
    costs = costs_with(InstructionCache(1024, 16, 4, 64, 0.5, 2.0, 4.0, 50.0, words_wait=0.25))
    tile = make_tile(POINTWISE, 8, 8, 8)
    schedule = make_schedule(POINTWISE, tile, Buffering(1, 1, 1), has_weights=False)
    ahead = AheadLoad(1, 0, Charge(400, 0, 1, 400), by_words=by_words)
    cycles, left = loaded_estimate(costs, schedule, ("x", "y"), None, ahead)
    assert (cycles, left) == (22 + 64 * 2 + waits + 1000 + 22, 0)


@pytest.mark.parametrize(("by_words", "share"), [(False, 1), (True, 0.25)])
def test_code_of_the_next_layer_waits_for_a_load_in_flight(by_words, share):
    """The kernel has run before: its lines do not wait for the load of 4000 cycles."""
    cache = InstructionCache(1 << 16, 16, 4, 64, 0.5, 2.0, 4.0, 50.0, words_wait=0.25)
    costs = costs_with(cache).after(6)
    tile = make_tile(POINTWISE, 8, 8, 8)
    schedule = make_schedule(POINTWISE, tile, Buffering(1, 1, 1), has_weights=False)
    ahead = AheadLoad(1, 0, Charge(4000, 0, 1, 4000), by_words=by_words)
    cycles, left = loaded_estimate(costs, schedule, ("x", "y"), None, ahead)
    end = 22 + 1000 + 22
    assert cycles == pytest.approx(end + share * (22 + 4000 - end), abs=1)
    assert left == pytest.approx((1 - share) * (22 + 4000 - end), abs=1)


def test_a_kernel_that_has_run_before_is_in_the_cache():
    """The first tile then takes what the second one takes otherwise."""
    costs = costs_with(InstructionCache(1024, 16, 4, 64, 0.5, 2.0, 4.0, 50.0))
    schedule = make_schedule(POINTWISE, HALF, Buffering(1, 1, 1), has_weights=False)
    fresh, known = (
        estimate(one, schedule, resident=("x", "y")).cycles for one in (costs, costs.after(1))
    )
    saved = costs.misses[0].cycles - costs.misses[2].cycles
    assert fresh - known == pytest.approx(saved, abs=1)


def test_each_miss_waits_for_as_long_as_transfers_have_been_under_way():
    """The first one 50 cycles, the second one 100, the third one 200."""
    cache = InstructionCache(1024, 16, 4, 64, 0.5, 2.0, 1.0, 50.0)
    for misses in cache.misses(320)[1:]:  # cycles are lines: a line takes a cycle
        assert misses.waits == pytest.approx(50 * (2**misses.cycles - 1))
    several = [misses.cycles for misses in cache.misses(320)[1:4]]
    assert 0 < several[2] < several[1] < several[0] < 6


class RunningKernel(ConstantKernel):
    """It runs less of its code than half."""

    def running_bytes(self, layer):
        return 320


def test_a_kernel_says_how_much_of_its_code_runs_for_a_tile():
    cache = InstructionCache(1024, 16, 4, 64, 0.5, 2.0, 4.0, 50.0)
    assert costs_with(cache, RunningKernel()).misses == cache.misses(320)
    assert costs_with(cache).misses == cache.misses(960)


def costs_with(cache: InstructionCache, kernel: ConstantKernel | None = None) -> LayerCosts:
    """Return the costs of a kernel of 1920 bytes on a chip with a cache of instructions."""
    code = CodeSizes(*[0] * 13, kernel=1920)
    chip = hierarchy(cores=8)
    far = replace(chip.levels[1].memories[0], holds=frozenset({"code"}), code=code)
    near = chip.levels[0]
    data = Memory("data", 1 << 20)
    chip = replace(chip, levels=(near, Level(2, (data, far))), instructions=cache)
    bound = bind_kernel(kernel or ConstantKernel(), POINTWISE)
    return LayerCosts.of(POINTWISE, bound, chip)


def test_misses_of_further_tiles_are_those_of_random_replacement():
    """Against a simulated cache that runs through all lines at each tile: 64 sets of four ways."""
    cache = InstructionCache(4096, 16, 4, 0, 1.0, 1.0, 1.0, 1.0)
    for lines in (48, 120, 160, 200, 240):
        found = [lines, *(misses.cycles for misses in cache.misses(16 * lines)[1:])]
        expected = simulated_misses(lines, ways=4, sets=64, tiles=len(found))
        assert found == pytest.approx(expected, abs=0.04 * lines), lines


def test_a_part_goes_on_with_the_cache_that_the_part_before_has_left():
    """Costs after as many tiles as the misses take to die out have those of the last."""
    cache = InstructionCache(1024, 16, 4, 64, 0.5, 2.0, 4.0, 50.0)
    costs = costs_with(cache)
    all_misses = costs.misses
    assert costs.after(2).misses == all_misses[2:]
    assert costs.after(1000).misses == all_misses[-1:]
    assert costs.after(1000) is costs.after(1001)
    assert costs.after(0) is costs
    assert LayerCosts.of(POINTWISE, costs.bound, hierarchy()).after(5).misses == (Misses(),)


def test_a_kernel_takes_longer_beside_a_transfer_that_wants_the_same_banks():
    chip = hierarchy(contention=0.25)
    costs = LayerCosts.of(POINTWISE, bind_kernel(ConstantKernel(), POINTWISE), chip)
    schedule = make_schedule(POINTWISE, HALF, Buffering(2, 1, 2), has_weights=False)
    # The second load of 266 cycles runs beside the first kernel, the first store beside the second.
    expected = 266 + 2 * (1000 + 266 / 4) + 266
    assert estimate(costs, schedule).cycles == expected


def simulated_misses(lines: int, ways: int, sets: int, tiles: int) -> list[float]:
    """Return the mean misses of each tile over 30 caches whose ways are replaced at random."""
    random, trials = Random(lines), 30
    found = [0] * tiles
    for _ in range(trials):
        held = [[-1] * ways for _ in range(sets)]
        for tile in range(tiles):
            for line in range(lines):
                if line not in held[line % sets]:
                    held[line % sets][random.randrange(ways)] = line
                    found[tile] += 1
    return [count / trials for count in found]


def test_cores_that_copy_meet_before_they_load_the_next_tile():
    """Of a link without a DMA: a copy takes its time of the cores, whenever it starts."""
    chip = hierarchy(cores=8, dma=False, core_cycles_per_byte=1.0)
    costs = LayerCosts.of(POINTWISE, bind_kernel(ConstantKernel(), POINTWISE), chip)
    tile = make_tile(POINTWISE, 8, 2, 8)
    schedule = make_schedule(POINTWISE, tile, Buffering(2, 1, 1), has_weights=False)
    events = []
    found = estimate(costs, schedule, events.append, resident=("y",))
    assert found.cycles == 4 * (128 // 8 + 22 + 1000 + 22)
    assert [event.start for event in events[:3]] == [0, 16 + 22, 16 + 22 + 16]


def test_a_transfer_is_waited_for_when_the_cores_copy_another_operand():
    chip = hierarchy(cores=2, core_cycles_per_byte=1.0, alignment_bytes=4)
    layer = add(8, (8, 8))
    carriages = {"x": AS_IT_IS, "x2": Carriage(CORES), "y": AS_IT_IS}
    costs = LayerCosts.of(layer, bind_kernel(ConstantKernel(), layer), chip)
    schedule = make_schedule(layer, make_tile(layer, 8, 8, 8), Buffering(), has_weights=False)
    found = estimate(costs.in_loops(schedule, carriages=carriages), schedule)
    assert found.cycles == (10 + 512) + 22 + 1000 + 22 + (10 + 512)


def test_a_busy_port_is_waited_for_unless_the_kernel_hides_it():
    chip = hierarchy(port_bytes_per_cycle=0.5)
    single, *_ = run(POINTWISE, HALF, Buffering(1, 1, 1), chip=chip)
    assert single.cycles == 2 * 1000 + 4 * (10 + 512)
    double, *_ = run(POINTWISE, HALF, Buffering(2, 1, 2), chip=chip)
    assert double.cycles == 2 * 1000 + 2 * (10 + 512)


def test_transfers_longer_than_the_kernel_bind_the_layer_to_the_link():
    chip = hierarchy(bytes_per_cycle=1 / 64)
    result, *_ = run(POINTWISE, make_tile(POINTWISE, 8, 1, 8), Buffering(2, 1, 2), chip=chip)
    assert result.bound == "L2-L1"
    assert result.cycles == pytest.approx(result.dma_cycles, abs=1001)
    assert result.stall_cycles + result.compute_cycles == result.cycles


def test_barriers_cost_the_cores_twice_a_step():
    one, *_ = run(POINTWISE, HALF, Buffering(1, 1, 1))
    eight, *_ = run(POINTWISE, HALF, Buffering(1, 1, 1), chip=hierarchy(cores=8))
    assert eight.cycles == one.cycles + 2 * 2 * 22


def test_issuing_a_transfer_is_core_time_even_when_the_rest_is_hidden():
    free, *_ = run(POINTWISE, HALF, Buffering(2, 1, 2))
    issued, *_ = run(POINTWISE, HALF, Buffering(2, 1, 2), chip=hierarchy(issue_cycles=5))
    # the hidden load and the hidden store are issued while the cores wait
    assert issued.cycles == free.cycles + 2 * 5


@pytest.mark.parametrize("order", LoopOrder)
def test_estimate_lies_between_its_bounds_for_every_buffering(order):
    for seed in range(40):
        layer = random_layer(seed, largest=10)
        y = layer.output
        tile = make_tile(layer, y.channels, (y.height + 1) // 2, (y.width + 2) // 3)
        for copies in product((1, 2), repeat=3):
            chip = hierarchy(
                cores=8, row_cycles=1.0, issue_cycles=3, port_bytes_per_cycle=seed % 3 / 2
            )
            result, _, schedule = run(layer, tile, Buffering(*copies), SampleKernel(), chip, order)
            assert result.cycles >= max(result.compute_cycles, result.dma_cycles)
            serial = result.compute_cycles + result.dma_cycles + schedule.count * (44 + 4 * 3)
            assert result.cycles <= serial + 2
        single, *_ = run(layer, tile, Buffering(1, 1, 1), SampleKernel(), chip, order)
        assert result.cycles <= single.cycles


def test_events_do_not_overlap_on_a_lane_and_loads_come_before_their_step():
    events = []
    layer = conv(16, 16, (16, 16))
    result, *_ = run(
        layer,
        make_tile(layer, 8, 4, 16),
        Buffering(2, 2, 2),
        SampleKernel(),
        record=events.append,
    )
    for lane in ("cores", "L2-L1"):
        line = [e for e in events if e.lane == lane]
        assert all(a.end <= b.start for a, b in pairwise(line))
    computed = {e.step: e for e in events if e.lane == "cores"}
    for event in events:
        if event.name.startswith("load"):
            assert event.end <= computed[event.step].start
        if event.name == "store y":
            assert event.start >= computed[event.step].end
    assert round(max(e.end for e in events)) == result.cycles


def test_rows_of_a_box_follow_the_layout():
    x = tensor("x", 16, 10, 12)
    assert box_transfer(x, 4, 12, 16) == DmaCost(4 * 12 * 16, 1)
    assert box_transfer(x, 4, 6, 16) == DmaCost(4 * 6 * 16, 4)
    assert box_transfer(x, 4, 12, 8) == DmaCost(4 * 12 * 8, 48, planes=4, planes_continue=True)
    assert box_transfer(x, 4, 6, 8) == DmaCost(4 * 6 * 8, 24, planes=4)
    planar = box_transfer(x, 4, 6, 8, planar=True)
    assert planar == DmaCost(4 * 6 * 8, 192, True, copies=8, planes=4)
    assert box_transfer(x, 4, 12, 8, planar=True).planes_continue
    assert box_transfer(tensor("x", 16, 4, 4, 4), 2, 4, 16).bytes == 2 * 4 * 8


def test_planes_that_do_not_continue_each_other_cost_the_issuing_core_more():
    link = Link(1, 2, setup_cycles=10, bytes_per_cycle=1.0, issue_cycles=8, plane_cycles=17)
    x = tensor("x", 16, 10, 12)
    whole, apart = box_transfer(x, 4, 12, 8), box_transfer(x, 4, 6, 8)
    assert whole.charge(link, AS_IT_IS, 1).issue_cycles == 8
    charge = apart.charge(link, AS_IT_IS, 1)
    assert (charge.cycles, charge.issue_cycles) == (10 + 4 * 6 * 8 + 3 * 17, 8 + 3 * 17)


def test_transfers_beyond_the_largest_are_split():
    link = Link(1, 2, setup_cycles=10, bytes_per_cycle=1.0, max_bytes=100)
    pieces = Carriage(PIECES, max_bytes=100)
    assert DmaCost(100, 1).charge(link, pieces, 1).cycles == 110
    assert DmaCost(250, 1).charge(link, pieces, 1).cycles == 250 + 3 * 10


def test_an_add_loads_both_operands():
    layer = add(8, (8, 8))
    tile = make_tile(layer, 8, 8, 8)
    result, *_ = run(layer, tile, Buffering())
    assert result.cycles == 522 * 2 + 1000 + 522
    assert result.macs_per_cycle == 0
