"""Which engine takes a layer, why others are passed over, and what the arrays are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import diana_bytes as contract
import numpy as np
import pytest
from dory_diana import plugin
from dory_diana.backend import candidates
from dory_diana.backend.analog import AnalogConv, AnalogLinear
from dory_diana.backend.array import requantisation
from dory_diana.backend.digital import DigitalConv, DigitalDepthwise, DigitalLinear, DigitalSum

from dory_core.api import Layer, Requant, UsageError, geometry, ops
from dory_core.importing import Array, ranges, requant
from dory_core.testing import Plugins, make_tile
from dory_core.testing.graphs import GraphBuilder, Range

SIGNED: Range = (-128, 127)
SEVEN: Range = (0, 127)
CONVERTER = requant(1, 0, 16, -32, 31)


def context(**settings: str) -> Any:
    return Plugins.from_objects(diana=plugin).context("diana", settings)


def window(kernel: int = 3, stride: int = 1, pads: Any = 1, dilation: int = 1) -> ops.Window:
    four = (pads,) * 4 if isinstance(pads, int) else pads
    return ops.Window(
        kernel=(kernel, kernel), strides=(stride, stride), pads=four, dilations=(dilation, dilation)
    )


def conv(
    shape: tuple[int, int, int] = (8, 16, 16),
    channels: int = 24,
    win: ops.Window | None = None,
    values: Range = SIGNED,
    weights: Range = (-30, 30),
    requants: tuple[Requant, ...] = (requant(1, 0, 128, *SEVEN),),
    **more: Any,
) -> Layer:
    builder = GraphBuilder(shape, values=values)
    builder.conv(channels, win or window(), weights=weights, **more)
    graph = builder.graph()
    layer = replace(graph.ops[0], requants=requants)
    tensors = tuple(graph.tensors[name] for name in graph.inputs)
    return ranges.infer_types("net", tensors, (layer,), (layer.output,)).layer(0)


def linear(
    shape: tuple[int, int, int] = (40, 1, 1),
    outputs: int = 10,
    values: Range = SIGNED,
    weights: Range = (-30, 30),
    requants: tuple[Requant, ...] = (requant(1, 0, 128, *SIGNED),),
) -> Layer:
    builder = GraphBuilder(shape, values=values)
    builder.linear(outputs, weights=weights)
    graph = builder.graph()
    layer = replace(graph.ops[0], requants=requants)
    tensors = tuple(graph.tensors[name] for name in graph.inputs)
    return ranges.infer_types("net", tensors, (layer,), (layer.output,)).layer(0)


def ternary(**more: Any) -> Layer:
    settings = {
        "values": SEVEN,
        "weights": (-1, 1),
        "requants": (CONVERTER, requant(77, 900, 32, *SEVEN)),
    }
    return conv(**(settings | more))


def added(
    operands: tuple[Requant | None, Requant | None] = (None, None),
    requants: tuple[Requant, ...] = (requant(1, 0, 2, *SEVEN),),
    values: Range = SEVEN,
) -> Layer:
    builder = GraphBuilder((8, 6, 6), values=values)
    builder.add("input", builder.extra_input(values), operands=operands, requants=requants)
    return builder.graph().layer(0)


def engine(layer: Layer, **settings: str) -> str:
    found = candidates(context(**settings), layer)
    return next(k.engine for k in found if k.accepts(layer) is None)


def reason(layer: Layer, array: str, **settings: str) -> str:
    [kernel] = [k for k in candidates(context(**settings), layer) if k.engine == array]
    rejection = kernel.accepts(layer)
    assert rejection is not None, f"{kernel.name} takes it"
    return rejection.reason


# -- choice -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (conv, "digital"),
        (lambda: conv(channels=8, groups=8), "digital"),
        (linear, "digital"),
        (added, "digital"),
        (ternary, "analog"),
        (lambda: ternary(values=(-64, 63)), "analog"),
        (lambda: conv(requants=(requant(1237, 5, 1 << 19, *SEVEN),)), "host"),
        (lambda: conv(values=(0, 255)), "host"),
        (lambda: linear(requants=()), "host"),
    ],
)
def test_every_layer_goes_to_the_engine_that_has_it(
    layer: Callable[[], Layer], expected: str
) -> None:
    assert engine(layer()) == expected


def test_engines_can_be_left_out() -> None:
    assert engine(ternary(), engines="digital,host") == "host"
    assert engine(conv(), engines="host") == "host"
    assert [k.engine for k in candidates(context(engines="analog"), conv())] == ["analog"]


@pytest.mark.parametrize(
    ("layer", "array", "words"),
    [
        (lambda: conv(win=window(5, pads=5)), "digital", "pads by 5"),
        (lambda: conv(win=window(4, pads=1)), "digital", "4x4, sides of 1, 3, 5 and 7"),
        (lambda: conv(win=window(pads=2, dilation=2)), "digital", "dilated"),
        (lambda: conv(win=window(stride=3)), "digital", "strides are (3, 3)"),
        (lambda: conv(channels=4, groups=4), "digital", "4 groups"),
        (lambda: conv(channels=4, groups=2), "analog", "2 groups"),
        (lambda: conv(values=(0, 255)), "digital", "reaches [0, 255]"),
        (lambda: conv(requants=(requant(1, 0, 64, 0, 255),)), "digital", "layer_00 reaches"),
        (lambda: conv(requants=()), "digital", "32-bit accumulators"),
        (
            lambda: conv(requants=(requant(3, 0, 1 << 9, *SEVEN),), weights=(-60, 60)),
            "digital",
            "no right shift",
        ),
        (lambda: conv(win=window(stride=2, pads=(0, 0, 1, 1))), "digital", "more on the right"),
        (conv, "analog", "weights reach [-30, 30]"),
        (lambda: ternary(shape=(129, 8, 8)), "analog", "1296 products"),
        (lambda: ternary(values=SIGNED), "analog", "7 bits"),
        (lambda: ternary(win=window(7, pads=4)), "analog", "pads by 4"),
        (lambda: ternary(requants=(requant(1, 0, 4, *SEVEN),)), "analog", "6-bit converters"),
        (lambda: linear(shape=(2000, 1, 1), weights=(-1, 1)), "analog", "2000 products"),
        (lambda: added(operands=(requant(2), requant(3))), "digital", "no plain sum"),
        (lambda: added(requants=(requant(1, 1, 2, *SEVEN),)), "digital", "no plain sum"),
        (added, "analog", "computes convolutions and fully connected layers"),
    ],
)
def test_layers_that_are_passed_over_are_told_why(
    layer: Callable[[], Layer], array: str, words: str
) -> None:
    assert words in reason(layer(), array)


def test_pools_are_the_hosts() -> None:
    builder = GraphBuilder((8, 6, 6), values=SEVEN)
    builder.max_pool(window(2, stride=2, pads=0))
    layer = builder.graph().layer(0)
    assert engine(layer) == "host"
    assert "convolutions" in reason(layer, "digital") and "convolutions" in reason(layer, "analog")


@pytest.mark.parametrize(
    "settings", [{"engines": "digital,cluster"}, {"engines": ""}, {"adc_scale": "0"}]
)
def test_options_that_mean_nothing_are_wrong_usage(settings: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        context(**settings)


# -- layouts ------------------------------------------------------------------------------------


def test_columns_behind_the_image_are_zero_where_a_window_reaches_them() -> None:
    def clean(width: int, win: ops.Window) -> bool:
        layer = conv(shape=(8, 12, width), win=win)
        assert DigitalConv().accepts(layer) is None
        return DigitalConv().traits(layer).inputs[0].clean

    assert clean(12, window())
    assert not clean(16, window()), "the padding of the call is behind the last column"
    assert not clean(12, window(1, pads=0))
    assert not clean(12, window(pads=(1, 1, 1, 0)))
    assert clean(13, window(stride=2))
    assert not clean(12, window(stride=2)), "the last window ends in the image"


def test_a_wide_right_border_is_possible_where_columns_of_zeros_are_behind_the_image() -> None:
    wide = window(5, pads=(2, 1, 2, 3))
    assert DigitalConv().accepts(conv(shape=(8, 12, 14), win=wide)) is None
    assert DigitalConv().accepts(conv(shape=(8, 12, 16), win=wide)) is not None


# -- constants ----------------------------------------------------------------------------------


@pytest.mark.parametrize("depthwise", [False, True])
def test_factors_are_in_the_weights_and_biases_in_the_block(depthwise: bool) -> None:
    channels = 20
    more = {"groups": channels} if depthwise else {}
    mul, add = [1 + n % 4 for n in range(channels)], [100 * n - 900 for n in range(channels)]
    layer = conv((channels, 9, 9), channels, requants=(requant(mul, add, 256, *SEVEN),), **more)
    kernel = DigitalDepthwise() if depthwise else DigitalConv()
    assert kernel.accepts(layer) is None
    tile = make_tile(layer, channels, 9, 9)
    block = kernel.weight_block(layer, (0, channels), (0, channels))
    assert len(block.data) == kernel.weight_bytes(layer, tile)
    shift = int(dict(requantisation(kernel_form(layer)))["output_shift"])
    factor = np.array(mul) >> 8 - shift
    # The biases are those of the network but for what no accumulator tells apart.
    bias = kernel_form(layer).bias
    assert (np.abs((bias << 8 - shift) - add) <= 256).all()
    encode = contract.depthwise_weights if depthwise else contract.conv_weights
    weights = layer.of(ops.Conv).weights.values * factor[:, None, None, None]
    assert block.data == encode(weights, bias).tobytes()


def kernel_form(layer: Layer) -> Any:
    from dory_diana.backend.forms import digital_form, needed

    return needed(digital_form(layer))


def test_tiles_of_channels_have_blocks_of_their_own() -> None:
    layer = conv(channels=40)
    kernel = DigitalConv()
    whole = kernel.weight_block(layer, (0, 40), (0, 8)).data
    parts = [kernel.weight_block(layer, p, (0, 8)).data for p in ((0, 16), (16, 32), (32, 40))]
    assert b"".join(parts) == whole


def test_fully_connected_weights_follow_the_padded_pixels() -> None:
    layer = linear(shape=(5, 2, 3), outputs=3)
    kernel = DigitalLinear()
    assert kernel.accepts(layer) is None
    block = kernel.weight_block(layer, (0, 3), (0, 30))
    pixels = np.zeros((3, 6, 16), dtype=np.int64)
    pixels[:, :, :5] = layer.of(ops.Linear).weights.values.reshape(3, 6, 5)
    bias = kernel_form(layer).bias
    assert block.data == contract.linear_weights(pixels.reshape(3, -1), bias).tobytes()


def test_the_analog_image_has_a_row_per_channel_and_tap() -> None:
    layer = ternary(shape=(10, 8, 8), channels=70)
    kernel = AnalogConv(16)
    assert kernel.accepts(layer) is None
    block = kernel.weight_block(layer, (0, 70), (0, 10))
    assert len(block.data) == kernel.weight_bytes(layer, make_tile(layer, 70, 8, 8))
    image, pairs = block.data[: block.parts["mul"]], block.data[block.parts["mul"] :]
    rows = np.zeros((70, 16, 3, 3), dtype=np.int64)
    rows[:, :10] = layer.of(ops.Conv).weights.values
    assert image == contract.analog_weights(rows).tobytes()
    mul, add = np.frombuffer(pairs, "<i4").reshape(-1, 2).T
    assert (mul == mul[0]).all() and len(add) == 70


def test_analog_rows_of_a_tensor_follow_its_padded_pixels() -> None:
    requants = (CONVERTER, requant(1, 0, 1, -32, 31))
    layer = linear((5, 2, 3), 3, SEVEN, (-1, 1), requants)
    kernel = AnalogLinear(16)
    assert kernel.accepts(layer) is None
    rows = kernel.weight_rows(layer).reshape(3, 6, 64)
    weights = layer.of(ops.Linear).weights.values.reshape(3, 6, 5)
    assert (rows[:, :, :5] == weights).all() and not rows[:, :, 5:].any()
    assert kernel.rows(linear((5, 1, 1), 3, SEVEN, (-1, 1), requants)) == 16


# -- estimates ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "layer"),
    [
        (DigitalConv(), conv((32, 16, 32), 64)),
        (DigitalConv(), conv((3, 9, 7), 5)),
        (DigitalDepthwise(), conv((32, 9, 9), 32, groups=32)),
        (DigitalLinear(), linear((64, 2, 2), 16)),
        (DigitalSum(), added()),
    ],
)
def test_the_digital_array_is_never_faster_than_its_multipliers(kernel: Any, layer: Layer) -> None:
    assert kernel.accepts(layer) is None
    full = geometry.extent(layer)
    cycles = kernel.cycles(layer, make_tile(layer, full.c_out, full.h, full.w))
    assert cycles * 256 >= layer.macs and cycles > 70


def test_the_analog_array_takes_neighbouring_columns_at_once() -> None:
    def operations(outputs: int, width: int) -> int:
        layer = ternary(shape=(16, 4, width), channels=outputs)
        return AnalogConv(16).operations(layer, make_tile(layer, outputs, 4, width))

    assert operations(256, 16) == 4 * 16 // 2
    assert operations(128, 16) == 4 * 16 // 4
    assert operations(257, 16) == 4 * 16
    assert operations(128, 15) == 4 * 15
    assert operations(128, 18) == 4 * 18 // 2


def test_weights_beyond_a_byte_are_rejected() -> None:
    layer = conv()
    kind = layer.op
    assert isinstance(kind, ops.Conv)
    wide = Array(np.full(kind.weights.shape, 200))
    changed = replace(layer, op=replace(kind, weights=wide))
    assert "weights reach [200, 200]" in reason(changed, "digital")
