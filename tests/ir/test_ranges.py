"""Range analysis: shapes, reachable values, storage and arithmetic width."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dory_core.errors import NotSupported
from dory_core.ir import (
    Add,
    Array,
    AvgPool,
    Conv,
    Graph,
    Linear,
    MaxPool,
    Op,
    Requant,
    Tensor,
    Window,
    requant,
)
from dory_core.ir.features import Feature
from dory_core.ir.ranges import append_layer, infer_types
from dory_core.testing.kernels import alone


def tensor(
    channels: int = 1, height: int = 4, width: int = 5, lo: int = 0, hi: int = 255
) -> Tensor:
    return Tensor("input", channels, height, width, lo, hi, 8, lo < 0)


def conv(
    weights: list[list[int]],
    *requants: Requant,
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    bias: list[int] | None = None,
) -> Conv:
    """A Conv with a row of taps per output channel over one input channel."""
    taps = len(weights[0])
    return alone(
        Conv,
        requants=requants,
        weights=Array(np.array(weights).reshape(len(weights), 1, 1, taps)),
        window=Window(kernel=(1, taps), pads=pads),
        bias=None if bias is None else Array(bias),
    )


def infer(layer: Op, source: Tensor | None = None) -> Graph:
    return infer_types("net", (source or tensor(),), (layer,), (layer.output,))


def test_accumulator_bounds_are_reached_by_an_input() -> None:
    weights = [[3, -2, 0], [-1, -1, 5]]
    graph = infer(conv(weights), tensor(lo=-7, hi=11))
    sums = [
        sum(w * x for w, x in zip(row, xs, strict=True))
        for row in weights
        for xs in product((-7, 11), repeat=3)
    ]
    assert (graph.tensors["layer_00"].lo, graph.tensors["layer_00"].hi) == (min(sums), max(sums))


def test_partial_sums_count_even_when_the_full_sum_cannot_reach_them() -> None:
    graph = infer(conv([[1, 1]], bias=[-1000]), tensor(lo=10, hi=20))
    assert (graph.tensors["layer_00"].lo, graph.tensors["layer_00"].hi) == (-980, -960)
    assert (graph.ranges[0].acc_lo, graph.ranges[0].acc_hi) == (-1000, 40)


def test_accumulators_end_where_32_bits_end() -> None:
    largest = infer(conv([[2**31 - 1]]), tensor(hi=1)).ranges[0]
    assert largest.acc_hi == 2**31 - 1
    with pytest.raises(NotSupported, match="beyond 32 bits"):
        infer(conv([[2**30]]), tensor(hi=2))


def test_wide_sums_leave_32_bits_before_a_step() -> None:
    """Up to 53 bits; without a step the output could not hold any."""
    wide = replace(conv([[2**31 - 1]], requant(1, 0, 2**21, -128, 127)), wide=True)
    graph = infer(wide, tensor(hi=2**21))
    assert graph.ranges[0].acc_hi == (2**31 - 1) << 21
    assert Feature.WIDE_SUMS in graph.layers[0].features
    assert Feature.WIDE_SUMS not in infer(wide, tensor(hi=1)).layers[0].features
    with pytest.raises(NotSupported, match="beyond 53 bits"):
        infer(wide, tensor(hi=2**22))
    with pytest.raises(NotSupported, match="beyond 32 bits"):
        infer(replace(wide, requants=()), tensor(hi=2**21))


def test_zero_padding_belongs_to_the_range() -> None:
    source = tensor(lo=10, hi=20)
    assert infer(conv([[1, 1]]), source).tensors["layer_00"].lo == 20
    assert infer(conv([[1, 1]], pads=(0, 1, 0, 0)), source).tensors["layer_00"].lo == 0


def test_no_requantisation_gives_32_bit_signed_output() -> None:
    output = infer(conv([[1]])).tensors["layer_00"]
    assert (output.bits, output.signed, output.lo, output.hi) == (32, True, 0, 255)
    assert infer(conv([[1]])).ranges[0].bits == 0


def test_clip_bounds_are_the_range_and_decide_the_sign() -> None:
    output = infer(conv([[1]], requant(1, 0, 2, -128, 127))).tensors["layer_00"]
    assert (output.lo, output.hi, output.bits, output.signed) == (-128, 127, 8, True)


def test_seven_bit_clip_is_stored_in_eight_bits() -> None:
    output = infer(conv([[1]], requant(1, 0, 2, 0, 127))).tensors["layer_00"]
    assert (output.hi, output.bits, output.signed) == (127, 8, False)


def test_without_clip_the_range_is_the_reachable_interval_rounded_down() -> None:
    graph = infer(conv([[1], [1]], requant([3, -3], [0, 1], 4)))
    assert (graph.tensors["layer_00"].lo, graph.tensors["layer_00"].hi) == (-191, 191)
    assert graph.tensors["layer_00"].type_name == "i16"
    assert (graph.ranges[0].value_lo, graph.ranges[0].value_hi) == (-764, 765)


@pytest.mark.parametrize(
    ("mul", "add", "bits"),
    [
        (8421504, 0, 32),  # 255 * 8421504 = 2^31 - 128
        (8421505, 0, 64),  # 255 * 8421505 = 2^31 + 127
        (8421504, 127, 32),
        (8421504, 128, 64),
        (-8421504, -128, 32),
        (-8421505, 0, 64),
        (1, 2**31, 64),
    ],
)
def test_32_bits_only_when_product_and_sum_fit(mul: int, add: int, bits: int) -> None:
    step = Requant((mul,), (add,), 1 << 24, 0, 255)
    assert infer(conv([[1]], step)).ranges[0].bits == bits


@pytest.mark.parametrize("sign", [1, -1])
def test_product_that_overflows_32_bits_before_the_sum_is_seen(sign: int) -> None:
    step = Requant((sign * 8421505,), (-sign * 1000,), 1 << 24, 0, 255)  # the sum alone would fit
    graph = infer(conv([[1]], step))
    assert -(2**31) <= graph.ranges[0].value_lo <= graph.ranges[0].value_hi < 2**31
    assert graph.ranges[0].bits == 64


def test_value_beyond_64_bits_is_rejected_with_the_layer() -> None:
    with pytest.raises(NotSupported, match=r"Conv 'conv': mul \* acc \+ add .* beyond 64 bits"):
        infer(conv([[1]], Requant((2**60,), (0,), 1, 0, 255)))


def test_accumulator_beyond_32_bits_is_rejected_with_the_layer() -> None:
    source = replace(tensor(), hi=2**31 - 1, bits=32)
    with pytest.raises(NotSupported, match="Conv 'conv': its accumulator may reach"):
        infer(conv([[2]]), source)


def test_unclipped_value_beyond_32_bits_is_rejected() -> None:
    with pytest.raises(NotSupported, match="beyond 32 bits"):
        infer(conv([[1]], Requant((2**40,), (0,), 1)))


def add_layer(*requants: Requant, operands: tuple[Requant | None, Requant | None]) -> Add:
    return alone(Add, inputs=("input", "input"), requants=requants, operand_requants=operands)


def test_unclipped_add_is_stored_in_16_bits() -> None:
    output = infer(add_layer(operands=(None, None))).tensors["layer_00"]
    assert (output.lo, output.hi, output.type_name) == (0, 510, "u16")


def test_operand_requantisation_decides_the_width_of_an_add() -> None:
    operands = (Requant((2**24,), (0,), 2**24), None)
    assert infer(add_layer(operands=operands)).ranges[0].bits == 64


def test_second_requantisation_works_on_the_range_of_the_first() -> None:
    first, second = requant(1, 0, 3), requant(5, 0, 4)
    output = infer(add_layer(first, second, operands=(None, None))).tensors["layer_00"]
    assert (output.lo, output.hi) == (0, 510 // 3 * 5 // 4)


def test_pools_keep_or_sum_the_range() -> None:
    window = Window(kernel=(2, 2), strides=(2, 2))
    top = infer(alone(MaxPool, window=window), tensor(lo=-9, hi=12)).tensors["layer_00"]
    assert (top.shape, top.lo, top.hi, top.type_name) == ((1, 2, 2), -9, 12, "i8")
    mean = alone(AvgPool, window=window, requants=(requant(1, 0, 4),))
    graph = infer(mean, tensor(lo=-9, hi=12))
    assert (graph.ranges[0].acc_lo, graph.ranges[0].acc_hi) == (-36, 48)
    assert (graph.tensors["layer_00"].lo, graph.tensors["layer_00"].hi) == (-9, 12)


def test_mismatched_shapes_name_the_layer() -> None:
    wide = alone(Linear, weights=Array(np.ones((2, 7), int)))
    with pytest.raises(NotSupported, match="Linear 'linear': weights for 7 inputs on 20 elements"):
        infer(wide)
    with pytest.raises(NotSupported, match=r"Conv 'conv': its window \[1, 6\] does not fit"):
        infer(conv([[1] * 6]))
    with pytest.raises(NotSupported, match="Conv 'conv': 3 values of mul for 2 channels"):
        infer(conv([[1], [1]], Requant((1, 2, 3), (0,), 4)))


def test_max_pool_over_nothing_but_padding_is_rejected() -> None:
    window = Window(kernel=(1, 2), dilations=(1, 5), pads=(0, 5, 0, 5))
    layer = alone(MaxPool, window=window)
    assert infer(layer).tensors["layer_00"].width == 10
    lonely = replace(layer, window=replace(window, dilations=(1, 6), pads=(0, 6, 0, 6)))
    with pytest.raises(NotSupported, match=r"MaxPool 'maxpool': .* windows without an element"):
        infer(lonely)


def reached(step: Requant, low: int, high: int) -> tuple[int, int]:
    values = [step.scalar(acc, 0) for acc in range(low, high + 1)]
    return min(values), max(values)


@pytest.mark.parametrize("mul", [-9, -1, 0, 1, 5])
@pytest.mark.parametrize(("low", "high"), [(-9, 7), (-9, -2), (-9, -1), (0, 7), (3, 7), (-1, 0)])
@pytest.mark.parametrize(("add", "negative"), [(40, -40), (-40, 40), (3, 2)])
@pytest.mark.parametrize("turn", [0, -4, 5])
def test_interval_behind_two_addends_is_exact(
    mul: int, low: int, high: int, add: int, negative: int, turn: int
) -> None:
    step = Requant((mul,), (add,), 4, add_negative=(negative,), turn=turn)
    graph = infer(conv([[1]], step), tensor(lo=low, hi=high))
    output = graph.tensors["layer_00"]
    assert (output.lo, output.hi) == reached(step, low, high)


def test_two_addends_per_channel_take_the_extremes_of_all() -> None:
    step = Requant((1, -1), (0, 100), 1, add_negative=(-7, 0))
    output = infer(conv([[1], [1]], step), tensor(lo=-10, hi=5)).tensors["layer_00"]
    assert (output.lo, output.hi) == (-17, 100)
    with pytest.raises(NotSupported, match="3 values of add_negative for 2 channels"):
        infer(conv([[1], [1]], Requant((1,), (0,), 1, add_negative=(1, 2, 3))))


def test_second_addend_decides_the_width() -> None:
    step = Requant((1,), (0,), 1 << 20, -128, 127, (2**31,))
    assert infer(conv([[1]], step)).ranges[0].bits == 64


def test_pad_value_belongs_to_the_range() -> None:
    padded = conv([[1, 1]], pads=(0, 1, 0, 0))
    padded = replace(padded, window=replace(padded.window, pad_value=3))
    graph = infer(padded, tensor(lo=10, hi=20))
    assert (graph.tensors["layer_00"].lo, graph.tensors["layer_00"].hi) == (6, 40)
    bare = replace(padded, window=replace(padded.window, pads=(0, 0, 0, 0)))
    assert infer(bare, tensor(lo=10, hi=20)).tensors["layer_00"].lo == 20
    window = Window(kernel=(1, 2), pads=(0, 1, 0, 0), pad_value=30)
    total = infer(alone(AvgPool, window=window), tensor(lo=10, hi=20)).tensors["layer_00"]
    assert (total.lo, total.hi) == (20, 60)


@pytest.mark.parametrize("value", [-1, 256])
def test_padding_is_an_element_of_the_input(value: int) -> None:
    window = Window(kernel=(1, 2), pads=(0, 1, 0, 0), pad_value=value)
    with pytest.raises(NotSupported, match=f"pads with {value}, which u8 does not hold"):
        infer(alone(AvgPool, window=window))


def test_mean_of_what_lies_inside_keeps_the_range() -> None:
    window = Window(kernel=(2, 2), pads=(1, 1, 0, 0), pad_value=99)
    layer = alone(AvgPool, window=window, counts_padding=False)
    output = infer(layer, tensor(lo=-9, hi=12)).tensors["layer_00"]
    assert (output.lo, output.hi) == (-9, 12)
    lonely = replace(layer, window=Window(kernel=(1, 1), pads=(0, 1, 0, 0)))
    with pytest.raises(NotSupported, match="windows without an element"):
        infer(lonely)


def test_scales_and_reference_are_kept() -> None:
    layer = conv([[1]])
    graph = infer_types(
        "net",
        (tensor(),),
        (layer,),
        (layer.output,),
        reference="somebody",
        scales={layer.output: (0.5, -3)},
    )
    output = graph.tensors[layer.output]
    assert (graph.reference, output.scale, output.zero_point) == ("somebody", 0.5, -3)


@pytest.mark.parametrize("kind", [Conv, AvgPool])
def test_padding_that_the_storage_does_not_hold_is_a_layer(kind: type[Op]) -> None:
    """A tensor of values above zero is stored as u8, also where the file pads with -128."""
    tensors = {"input": Tensor("input", 2, 2, 3, 0, 100, 8, False)}
    layers: list[Op] = []
    window = Window(kernel=(1, 2), pads=(0, 1, 1, 0), pad_value=-128)
    fields = {"weights": Array(np.ones((1, 2, 1, 2), np.int64))} if kind is Conv else {}
    output = append_layer(layers, tensors, kind, "net", ("input",), window=window, **fields)
    assert [layer.kind for layer in layers] == ["Pad", kind.__name__]
    assert tensors[layers[0].output].shape == (2, 3, 4)
    assert tensors[output].lo == -256 * (2 if kind is Conv else 1)
    inside = replace(window, pad_value=7)
    append_layer(layers, tensors, kind, "net", ("input",), window=inside, **fields)
    assert len(layers) == 3
