"""Hooks of the GAP8 target: memories, candidates, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dory_gap8 import plugin
from dory_gap8.backend import UnpackingKernel, WindowKernel, candidates
from dory_gap8.hardware import DMA_COUNTERS, HIGH_VOLTAGE, MAX_CORES, TARGET
from gap8_layers import SPACE, candidate, context, conv, kernels_for

from dory_core.api import Kernel, Layer, Term, Tile, UsageError, geometry, ops
from dory_core.importing import Array, requant
from dory_core.testing import (
    Code,
    Expr,
    Plugins,
    Tiler,
    TilingProblem,
    Var,
    bind_layer,
    evaluate,
    formulate,
    is_channelwise,
    l2_after_code,
    make_tile,
    resolve_budgets,
    smallest_tile,
)
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.kernels import alone, typed
from dory_core.testing.random_layers import KINDS, RandomLayers
from dory_core.tools import read_plan


def first(layer: Layer):
    """Return the first candidate that accepts a layer."""
    return next(k for k in candidates(layer, 8) if k.accepts(layer) is None)


def test_the_plugin_loads_with_its_hooks() -> None:
    plugins = Plugins.from_objects(gap8=plugin)
    assert [t.name for t in plugins.targets()] == ["gap8"]
    assert plugins.states[0].state == "loaded"


def test_stacks_leave_56208_bytes_of_l1_to_eight_cores() -> None:
    hierarchy = context().memory
    assert hierarchy.level(1).usable_bytes == 65536 - 1348 - 7 * 1140 == 56208
    assert hierarchy.level(2).memories[0].size_bytes == 524288
    assert hierarchy.level(3).usable_bytes == (8 << 20) - 64  # the allocator's own block
    assert context(1).memory.level(1).usable_bytes == 65536 - 1348


def test_every_width_is_stored_but_with_kernels_of_bytes() -> None:
    assert context().memory.storage_bits == (2, 4, 8, 16, 32)
    assert context(kernels="portable").memory.storage_bits == (2, 4, 8, 16, 32)
    assert context(kernels="pulp-nn=somewhere").memory.storage_bits == (8, 16, 32)


def test_links_cost_what_was_measured() -> None:
    dma, ram = context().memory.link(1), context().memory.link(2)
    assert dma.cycles(8) == 34
    assert dma.cycles(8192) == pytest.approx(2086, rel=0.01)
    assert dma.cycles(32768) == pytest.approx(8231, rel=0.01)
    assert dma.cycles(1024, single_elements=True) == 26 + 1024
    assert ram.cycles(4096) == pytest.approx(609 + 900 + 1.44 * 4096)
    fast = context(operating_point=HIGH_VOLTAGE).memory.link(2)
    assert fast.cycles(4096) == pytest.approx(409 + 900 + 0.865 * 4096)


def test_other_clocks_change_the_time_of_the_ram_alone() -> None:
    """What core 0 spends on a fetch are cycles of the cluster at any clock."""
    point = replace(HIGH_VOLTAGE, core_hz=150e6, io_hz=200e6)
    ram = context(operating_point=point).memory.link(2)
    assert ram.cycles(4096) == pytest.approx(609 * 0.75 + 900 + 1.44 * 0.75 * 4096, abs=1)
    assert ram.issue_cycles == 900


@pytest.mark.parametrize("cores", [0, 9])
def test_a_wrong_number_of_cores_is_wrong_usage(cores: int) -> None:
    with pytest.raises(UsageError, match=f"no {cores} cores"):
        context(cores)


def test_other_targets_are_left_to_other_plugins() -> None:
    layer = conv(4, 4, 4, 3)
    plugins = Plugins.from_objects(gap8=plugin)
    ctx = replace(context(), name="stm32h7", options={})
    assert plugins.dma_hal(ctx) is None
    assert plugins.kernels(ctx, layer) == ()
    assert plugins.runners(ctx) == ()


def test_operating_points_name_their_sources() -> None:
    assert [p.name for p in TARGET.operating_points] == ["1.0V", "1.2V"]
    assert all(p.source for p in TARGET.operating_points)


@pytest.mark.parametrize(
    ("layer", "kernel"),
    [
        (conv(8, 8, 8, 3), "dory_gap8_slide"),
        (conv(8, 8, 6, 3), "dory_gap8_window"),
        (conv(8, 8, 8, 1, stride=2), "dory_gap8_window"),
        (conv(3, 8, 8, 3), "dory_gap8_held"),
        (conv(10, 8, 8, 1), "dory_gap8_filled"),
        (conv(10, 8, 8, 1, stride=2), "dory_gap8_gather"),
        (conv(8, 8, 8, 3, groups=8), "dory_gap8_depthwise_hwc"),
    ],
)
def test_the_first_kernel_that_accepts(layer: Layer, kernel: str) -> None:
    ctx = context()
    taken = [k.name for k in plugin.dory_kernels(ctx, layer) if k.accepts(layer) is None]
    assert taken[0] == kernel


def test_partial_sums_follow_all_plain_forms_and_portable_kernels_end_the_list() -> None:
    names = [k.name for k in plugin.dory_kernels(context(), conv(8, 8, 8, 1))]
    own = [n.removeprefix("dory_gap8_") for n in names if n.startswith("dory_gap8_")]
    dense = [n for n in own if n.split("_")[0] in ("window", "gather", "pointwise", "conv")]
    assert dense == [
        "window",
        "gather",
        "pointwise",
        "conv",
        "pointwise_partial",
        "conv_partial",
    ]
    assert len(names) > len(own)
    assert all("gap8" not in name for name in names[len(own) :])
    assert len(set(names)) == len(names)


def test_portable_kernels_alone_on_request() -> None:
    names = [k.name for k in plugin.dory_kernels(context(kernels="portable"), conv(8, 8, 8, 1))]
    assert names and not any("gap8" in name for name in names)


@pytest.mark.parametrize(
    ("c_in", "c_out", "size", "kernel"),
    [(256, 256, 8, 3), (2048, 64, 4, 1), (128, 128, 16, 5), (512, 512, 7, 3), (1024, 1024, 4, 3)],
)
def test_every_dense_convolution_has_a_tile_in_22_kB(c_in, c_out, size, kernel) -> None:
    layer = conv(c_in, c_out, size, kernel)
    kernels = bind_layer(layer, candidates(layer, 8)).kernels
    tiles = [smallest_tile(TilingProblem(formulate(layer, one), 22 * 1024)) for one in kernels]
    assert any(least is not None and least.bytes <= 22 * 1024 for least in tiles)


def test_wide_im2col_leaves_no_plain_tile_and_the_partial_form_takes_over() -> None:
    layer = conv(256, 256, 8, 3)
    plain, partial = candidate(layer, "conv"), candidate(layer, "conv_partial")
    tile = make_tile(layer, 1, 1, 1)
    assert plain.scratch_bytes(layer, tile) == 8 * 2 * 9 * 256
    assert not plain.traits(layer).accumulates
    assert partial.traits(layer).accumulates
    assert partial.scratch_bytes(layer, make_tile(layer, 1, 1, 1, 5)) == 8 * 2 * 48


def test_refusals_are_sentences() -> None:
    def why(layer: Layer, name: str) -> str:
        rejection = candidate(layer, name).accepts(layer)
        assert rejection is not None
        return rejection.reason

    dense, depthwise = conv(8, 8, 8, 3), conv(8, 8, 8, 3, groups=8)
    assert why(dense, "pointwise") == "it computes dense 1x1 convolutions only"
    assert why(dense, "depthwise") == (
        "it computes depthwise convolutions only: one input channel per filter"
    )
    assert why(dense, "gather") == ("its pixels of 8 bytes are words and need not be gathered")
    assert why(conv(3, 8, 8, 3), "window") == (
        "it wants 8 bytes in a pixel at least, this one has 3"
    )
    assert why(depthwise, "conv") == (
        "it computes no depthwise convolution: one input channel per filter"
    )
    grouped = conv(8, 8, 8, 3, groups=2)
    assert candidate(grouped, "conv").accepts(grouped) is None
    assert why(grouped, "conv_partial") == (
        "the input channels of a convolution in groups come with its outputs"
    )
    second = conv(8, 2, 8, 3)
    steps = (requant(1, 0, 1, 0, 255), requant([1, 3], 0, 4, 0, 255))
    two = typed(
        alone(ops.Conv, weights=second.op.weights, window=second.op.window, requants=steps),
        (8, 8, 8, 0, 255),
    )
    assert why(two, "conv") == "the second of two requantisations differs from channel to channel"
    big = alone(ops.Linear, weights=Array([[200, 1]]))
    reason = why(typed(big, (2, 1, 1, 0, 255)), "linear")
    assert reason == "its weights lie in [1, 200], not in 8 bits"
    pool = alone(
        ops.AvgPool, window=ops.Window(kernel=(2, 2)), requants=(requant([1, 2], 0, 4, 0, 255),)
    )
    reason = why(typed(pool, (2, 4, 4, 0, 255)), "avgpool")
    assert reason == "its requantisation differs from channel to channel"
    maximum = alone(
        ops.MaxPool, window=ops.Window(kernel=(2, 2)), requants=(requant(1, 0, 4, 0, 255),)
    )
    reason = why(typed(maximum, (2, 4, 4, 0, 255)), "maxpool")
    assert reason == "it has no requantisation after the maximum"
    add = alone(ops.Add)
    wide = typed(add, (2, 4, 4, 0, 255), (2, 4, 4, 0, 255))
    unsigned = replace(wide.output, bits=32, signed=False)
    assert why(Layer(wide.op, wide.inputs, unsigned, wide.ranges), "add") == (
        "its output is u32, possible are u2, i2, u4, i4, u8, i8, u16, i16, i32"
    )


def test_kernels_of_bytes_refuse_packed_layers_which_get_them_unpacked() -> None:
    def why(layer: Layer) -> str:
        rejection = WindowKernel().accepts(layer)
        assert rejection is not None
        names = [kernel.name for kernel in candidates(layer, 8)[1:4]]
        assert names == [f"dory_gap8_{kind}_unpacked" for kind in ("slide", "filled", "window")]
        return rejection.reason

    dense = conv(8, 8, 8, 3)
    names = [k.name for k in candidates(dense, 8)]
    assert names[1:4] == ["dory_gap8_slide", "dory_gap8_filled", "dory_gap8_window"]
    assert first(dense).name == "dory_gap8_slide"
    assert UnpackingKernel(WindowKernel()).accepts(dense) is not None
    packed = replace(dense, inputs=(replace(dense.inputs[0], bits=4, hi=15),))
    assert why(packed) == "its input is u4, possible are u8, i8, u16, i16, u8x2"
    packed = replace(dense, output=replace(dense.output, bits=4, signed=False))
    assert why(packed) == "its output is u4, possible are u8, i8, u16, i16, i32"
    packed = replace(dense, op=replace(dense.op, weights=Array([[[[1]]]]), weight_bits=2))
    assert why(packed) == "its weights are packed in 2 bits each, it takes 8"
    few = replace(packed, output=replace(packed.output, height=1, width=7))
    rejection = candidate(few, "window_unpacked").accepts(few)
    assert rejection is not None
    assert rejection.reason == "7 output pixels do not repay unpacking the weights"


@pytest.mark.parametrize(
    ("groups", "image", "pays"), [(1, (2, 4), True), (1, (1, 1), False), (128, (2, 2), True)]
)
def test_weights_are_unpacked_from_the_output_pixels_on_that_repay_it(groups, image, pays) -> None:
    depthwise = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    window = depthwise if groups > 1 else ops.Window(kernel=(1, 1))
    weights = Array(np.ones((128, 128 // groups, *window.kernel), dtype=int))
    step = requant([20] * 128, [3] * 128, 1 << 14, 0, 15)
    op = alone(
        ops.Conv, weights=weights, window=window, groups=groups, weight_bits=4, requants=(step,)
    )
    layer = typed(op, (128, *image, 0, 15))
    found = next(k for k in candidates(layer, 8) if k.accepts(layer) is None)
    assert found.name.endswith("_unpacked") == pays
    tile = make_tile(layer, 128, *image)
    others = [k for k in candidates(layer, 8) if k.accepts(layer) is None]
    assert found.cycles(layer, tile) == min(k.cycles(layer, tile) for k in others)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_and_cycles_read_alike_as_integers_arrays_and_expressions(kind: str) -> None:
    random = RandomLayers(SPACE, 11)
    for _ in range(5):
        layer = random.layer(kind)
        full = geometry.extent(layer)
        for kernel in kernels_for(kind):
            if kernel.accepts(layer) is not None:
                continue
            names = ["c_out", "h", "w"]
            if kernel.traits(layer).accumulates and not is_channelwise(layer):
                names.append("c_in")
            granule = 1
            if isinstance(layer.op, ops.Conv) and layer.op.groups > 1:
                granule = full.c_out // layer.op.groups
            ranges = {
                n: range(granule if n == "c_out" else 1, getattr(full, n) + 1, granule)
                if n == "c_out"
                else range(1, getattr(full, n) + 1)
                for n in names
            }
            variables = {n: Var(n, r[0], r[-1], list(r)) for n, r in ranges.items()}
            symbolic = make_tile(layer, *variables.values())
            picks = {n: np.array([random.pick(*r) for _ in range(6)]) for n, r in ranges.items()}
            arrays = make_tile(layer, *picks.values())
            for measure in (kernel.cycles, kernel.weight_bytes, kernel.scratch_bytes):
                expression, array = measure(layer, symbolic), measure(layer, arrays)
                assert not isinstance(array, Expr)
                for i in range(6):
                    values = {n: int(p[i]) for n, p in picks.items()}
                    number = measure(layer, make_tile(layer, *values.values()))
                    assert int(evaluate(expression, values)) == number
                    assert int(np.broadcast_to(array, 6)[i]) == number
                    assert int(number) == number >= 0


def test_cycles_meet_the_measured_convolutions() -> None:
    """3x3, 32 to 32 and 64 to 64 channels, 32-bit requantisation: 176171 and 151565 cycles."""
    for channels, size, measured in ((32, 16, 176171), (64, 8, 151565)):
        layer = conv(channels, channels, size, 3)
        kernel = candidate(layer, "conv")
        estimated = kernel.cycles(layer, make_tile(layer, channels, size, size))
        assert estimated == pytest.approx(measured, rel=0.08)


def test_code_of_the_layers_leaves_less_of_l2_to_their_data() -> None:
    ctx = context()
    level = ctx.memory.level(2)
    assert level.usable_bytes == 464 * 1024
    assert level.room_bytes(48) == 464 * 1024 - 48 * 300
    assert level.room_bytes(48, streamed=True) == 464 * 1024 - 48 * 700
    assert level.room_bytes(48, functions=8) == 464 * 1024 - 8 * 300 - 40 * 120
    chosen, code = resolve_budgets(ctx.memory, {}), Code(48, 48, kernels=5000)
    assert l2_after_code(ctx, chosen, code).bytes[2] == level.room_bytes(48) - 5000
    reserved = resolve_budgets(ctx.memory, {}, 8192)
    assert l2_after_code(ctx, reserved, code).bytes[2] == level.room_bytes(48) - 5000 - 8192
    small = resolve_budgets(ctx.memory, {2: 9000})
    assert l2_after_code(ctx, small, code).bytes[2] == 9000
    beyond = resolve_budgets(ctx.memory, {2: 512 * 1024})
    assert l2_after_code(ctx, beyond, code).bytes[2] == 512 * 1024


def test_temporal_layers_that_fit_are_one_tile_of_odd_channels_and_pixels() -> None:
    """11 channels at 140 times: neither the rest of four channels nor that of 32 pixels splits."""
    layer = alone(
        ops.Conv,
        weights=Array(np.ones((11, 11, 1, 11), int)),
        window=ops.Window(kernel=(1, 11), dilations=(1, 4), pads=(0, 40, 0, 0)),
        requants=(requant(1, 0, 256, 0, 255),),
    )
    temporal = typed(layer, (11, 1, 140, 0, 255))
    ctx = context()

    def terms(layer: Layer, kernel: Kernel, tile: Tile) -> list[Term]:
        return plugin.dory_objective_terms(ctx, layer, kernel, tile)

    kernels = [k for k in candidates(temporal, 8) if k.accepts(temporal) is None]
    tiled = Tiler(ctx.memory, terms).tile(bind_layer(temporal, kernels), 38236)
    assert tiled.kernel.name == "dory_gap8_filled"
    tile = tiled.tiling.tile
    assert (tile.c_out, tile.h, tile.w) == (11, 1, 140)


def test_depthwise_planes_of_a_tile_are_as_many_as_fit(tmp_path: Path) -> None:
    """The copies of a core's channels share one ticket, so that nothing else limits them."""
    net = GraphBuilder((1200, 3, 3), values=(0, 1020))
    net.conv(1200, ops.Window(kernel=(2, 2)), groups=1200)
    plan = build_app(net.graph(), "gap8", tmp_path / "app")
    assert plan.steps[0].kernel.name == "dory_gap8_depthwise"
    planes = read_plan(tmp_path / "app")["layers"][0]["tiles"]["c_out"]
    assert planes > MAX_CORES * DMA_COUNTERS
    assert_exact(tmp_path / "app")


@pytest.mark.slow
def test_a_thousand_equal_layers_have_code_for_a_few(tmp_path: Path) -> None:
    """A function for each would take twice the chip's L2."""
    b = GraphBuilder((8, 16, 16))
    for _ in range(1000):
        b.conv(8, ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    plan = build_app(b.graph(), "gap8", tmp_path / "app")
    assert plan.deployable and len(plan.program.functions) < 20
    assert_exact(tmp_path / "app", dma=("random",), repeat=1)
