"""Kernels of bytes: fully connected layers, pools and sums, four elements at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dory_gap8.backend import (
    AddBytesKernel,
    AddKernel,
    AvgPoolBytesKernel,
    LinearBytesKernel,
    MaxPoolBytesKernel,
)
from dory_gap8.backend.add_bytes import GAP

from dory_core.api import Kernel, Layer, Requant, geometry, ops
from dory_core.importing import Array, requant
from dory_core.testing import make_tile
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, typed, whole_case

UNSIGNED, SIGNED = (0, 255), (-128, 127)


def linear(
    inputs: int, outputs: int, *steps: Requant, bias: bool = False, lo: int = 0, hi: int = 255
) -> Layer:
    random = np.random.default_rng(inputs * 1000 + outputs)
    layer = alone(
        ops.Linear,
        weights=Array(random.integers(-128, 128, (outputs, inputs))),
        bias=Array(random.integers(-9999, 9999, outputs)) if bias else None,
        requants=steps,
    )
    return typed(layer, (inputs, 1, 1, lo, hi))


def pool(kind: type, window: ops.Window, image: tuple[int, int, int], *steps: Requant, lo: int = 0):
    layer = alone(kind, window=window, requants=steps)
    return typed(layer, (*image, lo, lo + 255))


def add(
    operands: tuple[Requant | None, Requant | None],
    *steps: Requant,
    ranges: tuple[tuple[int, int], tuple[int, int]] = (UNSIGNED, UNSIGNED),
    image: tuple[int, int, int] = (1, 256, 256),
) -> Layer:
    layer = alone(ops.Add, operand_requants=operands, requants=steps)
    return typed(layer, *((*image, *r) for r in ranges))


def every_pair(layer: Layer) -> KernelCase:
    """Return a case with each pair of values that the operands can take."""
    x, x2 = layer.inputs
    a = np.resize(np.arange(x.lo, x.hi + 1), 256)
    b = np.resize(np.arange(x2.lo, x2.hi + 1), 256)
    first, second = np.broadcast_arrays(a[None, :, None], b[None, None, :])
    return KernelCase(AddBytesKernel(), layer, (first.copy(), second.copy()), (1, 256, 256, 1))


# --- fully connected --------------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize("cores", [1, 3, 8])
def test_outputs_and_inputs_are_shared_in_any_number(cores: int) -> None:
    step = requant(3, 70, 1 << 12, 0, 255)
    sizes = [(1024, 16), (1, 1), (3, 5), (30, 33), (35, 64), (66, 100), (4, 29), (257, 2)]
    kernel = LinearBytesKernel(cores)
    HostLibrary([whole_case(kernel, linear(k, n, step)) for k, n in sizes]).check()


@pytest.mark.sample(3)
@pytest.mark.parametrize("cores", [1, 8])
@pytest.mark.parametrize(("lo", "hi"), [(0, 65535), (-32768, 32767), (0, 510)])
def test_inputs_of_16_bits_are_taken_apart(cores: int, lo: int, hi: int) -> None:
    step = requant(3, 70, 1 << 18, 0, 255)
    sizes = [(64, 12), (1, 1), (3, 5), (30, 33), (77, 2)]
    cases = [
        whole_case(LinearBytesKernel(cores), linear(k, n, *steps, bias=not steps, lo=lo, hi=hi))
        for k, n in sizes
        for steps in ((step,), ())
    ]
    for case in list(cases):
        ends = np.resize(np.array([hi, lo]), case.inputs[0].shape)
        cases.append(replace(case, inputs=(ends,)))
    HostLibrary(cases).check()


def test_tiles_of_outputs_divide_among_the_cores_or_are_whole() -> None:
    """Groups of four outputs that are left over are shared by their inputs, which costs more."""
    layer, kernel = linear(128, 60, requant(3, 70, 1 << 12, 0, 255)), LinearBytesKernel()
    found = {}
    for size in (32, 28, 33, 60):
        terms = kernel.terms(layer, make_tile(layer, size, 1, 1))
        found[size] = [(t.name, t.value) for t in terms]
    assert found[32] == found[60] == [("MATMUL_CH", 31)]
    assert found[28] == [("MATMUL_CH", 27)]
    assert found[33] == [("MATMUL_CH", 0)]


@pytest.mark.sample(2)
@pytest.mark.parametrize("tile", [1, 6, 32, 35])
def test_tiles_of_outputs(tile: int) -> None:
    step = requant(range(1, 41), range(-20, 20), 1 << 10, -128, 127)
    case = whole_case(LinearBytesKernel(), linear(50, 40, step, bias=True, lo=-128, hi=127))
    HostLibrary([replace(case, tile=(tile, 1, 1, 50))]).check()


def test_sums_without_requantisation_have_their_bias() -> None:
    layers = [linear(77, n, bias=bias) for n in (4, 37) for bias in (True, False)]
    HostLibrary([whole_case(LinearBytesKernel(), layer) for layer in layers]).check()


def test_weights_of_four_outputs_are_interleaved() -> None:
    layer = linear(6, 5, requant([7, 8, 9, 10, 11], [1, 2, 3, 4, 5], 1 << 9, 0, 255))
    block = LinearBytesKernel().weight_block(layer, (1, 4), (0, 6))
    assert dict(block.parts) == {"mul": 0, "weights": 24}
    assert np.frombuffer(block.data, "<i4", 6).tolist() == [8, 2, 9, 3, 10, 4]
    weights = layer.op.weights.values
    image = np.frombuffer(block.data, np.int8)[24:].reshape(2, 4, 4)
    assert image[0, :3].tolist() == weights[1:4, :4].tolist()
    assert image[1, :3].tolist() == [[*row, 0, 0] for row in weights[1:4, 4:].tolist()]
    assert not image[:, 3].any()
    assert len(block.data) == LinearBytesKernel().weight_bytes(layer, make_tile(layer, 3, 1, 1))


# Steps, and the word in which the records of the channels differ.
OWN = {
    "add": (requant(3, [70 + 9 * i for i in range(40)], 1 << 12, 0, 255), 1),
    "mul": (requant(range(1, 41), 0, 1 << 12, 0, 255), 0),
    "add behind limbs": (requant(200003, 1 << 27, 1 << 28, -128, 127), 2),
    "two words": (requant(range(1, 41), range(40), 1 << 12, 0, 255), None),
    "none": (requant(3, 70, 1 << 12, 0, 255), None),
}


@pytest.mark.parametrize("case", OWN)
def test_channels_have_the_one_word_in_which_they_differ(case: str) -> None:
    step, own = OWN[case]
    layer = linear(20, 40, step, bias="limbs" in case, lo=-128, hi=127)
    kernel = LinearBytesKernel()
    found = dict(kernel.instance(layer).macros).get("DORY_Q_OWN")
    assert found == (None if own is None else str(own))
    tiles = [(size, 1, 1, 20) for size in (40, 12, 7)]
    whole = whole_case(kernel, layer)
    HostLibrary([replace(whole, tile=tile) for tile in tiles]).check()


def test_a_block_has_one_record_before_the_words_of_its_channels() -> None:
    layer = linear(6, 5, requant(7, [1, 2, 3, 4, 5], 1 << 9, 0, 255))
    block = LinearBytesKernel().weight_block(layer, (1, 4), (0, 6))
    assert dict(block.parts) == {"mul": 0, "weights": 20}
    assert np.frombuffer(block.data, "<i4", 5).tolist() == [7, 2, 2, 3, 4]
    assert len(block.data) == LinearBytesKernel().weight_bytes(layer, make_tile(layer, 3, 1, 1))


# --- pools ------------------------------------------------------------------------------------

WINDOWS = (
    ops.Window(kernel=(2, 2), strides=(2, 2)),
    ops.Window(kernel=(4, 3), strides=(2, 2), pads=(3, 2, 2, 0)),
    ops.Window(kernel=(1, 2), strides=(2, 3), pads=(0, 0, 0, 1)),
    ops.Window(kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    ops.Window(kernel=(3, 2), strides=(1, 2), pads=(2, 0, 1, 1)),
    ops.Window(kernel=(1, 5), strides=(1, 1), pads=(0, 4, 0, 3)),
    ops.Window(kernel=(7, 7)),
)


@pytest.mark.sample(9)
@pytest.mark.parametrize("channels", [1, 3, 4, 7, 8, 13, 32])
def test_pools_of_all_windows_and_numbers_of_channels(channels: int) -> None:
    image = (channels, 9, 8)
    step = requant(300, 1000, 1 << 12, 0, 255)
    signed = requant(77, -300, (1 << 10) - 1, -128, 127)
    cases = []
    for window in WINDOWS:
        cases += [
            whole_case(MaxPoolBytesKernel(), pool(ops.MaxPool, window, image)),
            whole_case(MaxPoolBytesKernel(), pool(ops.MaxPool, window, image, lo=-128)),
            whole_case(AvgPoolBytesKernel(), pool(ops.AvgPool, window, image, step)),
            whole_case(AvgPoolBytesKernel(), pool(ops.AvgPool, window, image, signed, lo=-128)),
            whole_case(AvgPoolBytesKernel(), pool(ops.AvgPool, window, image)),
        ]
    cases += [replace(c, tile=(max(1, channels // 2), 2, 3, c.tile[3])) for c in cases]
    HostLibrary(cases).check()


@pytest.mark.parametrize("cores", [1, 5])
def test_pools_on_other_numbers_of_cores(cores: int) -> None:
    window = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    image = (12, 5, 7)
    step = requant(1, 0, 9, 0, 255)
    cases = [whole_case(MaxPoolBytesKernel(cores), pool(ops.MaxPool, window, image))]
    cases += [whole_case(AvgPoolBytesKernel(cores), pool(ops.AvgPool, window, image, step))]
    HostLibrary(cases).check()


def test_sums_of_16_bits_are_stored() -> None:
    layer = pool(ops.AvgPool, ops.Window(kernel=(5, 5)), (6, 9, 9), requant(33, 0, 1 << 2))
    assert layer.output.bits == 16
    HostLibrary([whole_case(AvgPoolBytesKernel(), layer)]).check()


def test_windows_that_need_a_test_per_tap_are_refused() -> None:
    dilated = pool(ops.MaxPool, ops.Window(kernel=(2, 2), dilations=(1, 2)), (4, 9, 9))
    assert MaxPoolBytesKernel().accepts(dilated).reason == "its window is dilated"
    wide = pool(ops.AvgPool, ops.Window(kernel=(2, 2), pads=(2, 0, 0, 0)), (4, 9, 9))
    assert "padding is as wide as its window" in AvgPoolBytesKernel().accepts(wide).reason


# --- sums -------------------------------------------------------------------------------------

SHRINK = requant(231505, 131072, 262144)
SHIFT = requant(1, 5, 1 << 7, 0, 255)
SCHEMES = {
    "multipliers up to 255 and one shift": (
        add((requant(255), requant(128)), requant(1, 0, 1 << 8, 0, 255)),
        "_dot_shift",
    ),
    "addends": (add((requant(5, 70), requant(9, -3)), requant(1, 8, 16, 0, 255)), "_dot_shift"),
    "signed": (
        add((requant(25), None), requant(1, 8, 16, -128, 127), ranges=(SIGNED, SIGNED)),
        "_dot_shift",
    ),
    "two steps behind the sum": (
        add((requant(63), requant(64)), requant(1, 0, 128), requant(37, 3, 32, 0, 255)),
        "_dot_lookup",
    ),
    "a factor behind the sum": (
        add((None, None), requant(437545, 262144, 524288, 0, 255)),
        "_dot_lookup_as_is",
    ),
    "signed factor": (
        add((None, None), requant(-413319, 262144, 524288, -128, 127), ranges=(SIGNED, SIGNED)),
        "_dot_lookup",
    ),
    "three requantisations": (
        add((SHRINK, requant(7, 1, 9, 3, 200)), requant(161201, 65536, 131072, 0, 255)),
        "_tables8_lookup",
    ),
    "signed requantisations": (
        add((SHRINK, None), requant(161201, 65536, 131072, -128, 127), ranges=(SIGNED, SIGNED)),
        "_tables8_lookup",
    ),
    "rescaled operands, one clip": (
        add((SHRINK, requant(1, 0, 3)), requant(1, 0, 1, 0, 255)),
        "_tables8_shift",
    ),
    "operands of both signs": (
        add((None, requant(3)), requant(1, 0, 4, -128, 127), ranges=(UNSIGNED, SIGNED)),
        "_products_shift",
    ),
    "multipliers beyond 255": (
        add((requant(256), requant(43)), requant(1, 0, 1 << 9, 0, 255)),
        "_products_shift",
    ),
    "negative multipliers": (
        add((requant(-777, 40), requant(1 << 15, -9)), requant(1, 0, 1 << 15, 0, 255)),
        "_products_shift",
    ),
    "products behind which is a table": (
        add((requant(256), requant(43)), requant(1, 0, 1 << 9), requant(37, 3, 32, 0, 255)),
        "_products_lookup",
    ),
    "products alone": (add((requant(-3), None), ranges=(SIGNED, UNSIGNED)), "_products_store"),
    "wide sums, multiplied factors": (
        add((requant(300, 5), requant(7, -90)), requant(1001, 5, 1 << 19, 0, 255)),
        "_products_shift",
    ),
    "products beyond 32 bits with addends within": (
        add((requant(8421504, -1 << 30), None), requant(1, 0, 1 << 23, -128, 127)),
        "_tables32_shift",
    ),
    "wide sums, multiplied tables": (
        add((requant(9001, 5, 9), requant(7)), requant(1001, 5, 1 << 25, 0, 255)),
        "_tables32_shift",
    ),
    "nothing behind the sum": (add((None, None)), "_dot_store"),
    "16 bits without a clip": (
        add((requant(70), requant(93, 5, 4)), requant(1003, -77, 1 << 10)),
        "_tables32_shift",
    ),
    "16 bits with a clip": (
        add((requant(-70), requant(93)), requant(1003, 5, 1 << 10, -1000, 999)),
        "_tables32_shift",
    ),
    "tables, nothing behind the sum": (add((SHRINK, requant(-2))), "_tables32_store"),
    "few values": (
        add((None, requant(-1)), requant(3, 1, 4, -128, 127), ranges=((3, 17), (0, 9))),
        "_lookup",
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", SCHEMES)
def test_every_pair_of_values_gives_its_sum(name: str) -> None:
    layer, ending = SCHEMES[name]
    assert AddBytesKernel().accepts(layer) is None
    assert ending in AddBytesKernel().symbol(layer)
    HostLibrary([every_pair(layer)]).check()


@pytest.mark.parametrize("factor", [3_900_000, 4_300_000])
def test_sums_from_end_to_end_of_32_bits(factor: int) -> None:
    """A table goes by a sum that is moved to 0: it must not leave 32 bits on the way."""
    operands = (requant(factor), requant(factor + 1))
    layer = add(operands, requant(1, 1 << 22, 1 << 23, -120, 127), ranges=(SIGNED, SIGNED))
    if factor == 3_900_000:
        assert AddBytesKernel().accepts(layer) is None
        HostLibrary([every_pair(layer)]).check()
    else:
        assert "neither a shift nor a table" in AddBytesKernel().accepts(layer).reason


@pytest.mark.parametrize(
    ("name", "entry"), [("three requantisations", 1), ("tables, nothing behind the sum", 4)]
)
def test_equal_entries_of_two_tables_lie_in_different_banks_of_l1(name: str, entry: int) -> None:
    """L1 has 16 banks, which take turns by words; most elements of a network are 0."""
    layer, _ = SCHEMES[name]
    block = AddBytesKernel().weight_block(layer, (0, 1), (0, 1))
    end = 256 * entry
    assert block.data[end : end + GAP] == bytes(GAP)
    assert (end + GAP) // 4 % 16 == 6


@pytest.mark.parametrize("cores", [1, 3, 8])
def test_sums_of_any_number_of_elements(cores: int) -> None:
    cases = []
    for channels in (1, 3, 5, 32):
        for operands, steps in (((requant(3), None), (SHIFT,)), ((SHRINK, None), (SHRINK, SHIFT))):
            layer = add(operands, *steps, image=(channels, 3, 5))
            cases.append(whole_case(AddBytesKernel(cores), layer))
            cases.append(replace(cases[-1], tile=(channels, 2, 4, channels)))
    HostLibrary(cases).check()


def test_a_wide_sum_with_a_rough_scale_is_left_to_the_general_kernel() -> None:
    layer = add((requant(65536), requant(1)), requant(7, 0, 9), requant(5, 1, 1 << 14, 0, 255))
    assert AddBytesKernel().accepts(layer).reason == (
        "what follows its sum is neither a shift nor a table of 2 KiB"
    )
    assert AddKernel().accepts(layer) is None


# --- costs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "layer", "measured"),
    [
        (LinearBytesKernel(), linear(1024, 16, requant(1, 0, 1 << 12, 0, 255)), 1530),
        (LinearBytesKernel(), linear(256, 64, requant(1, 0, 1 << 12, 0, 255)), 1430),
        (
            AvgPoolBytesKernel(),
            pool(ops.AvgPool, WINDOWS[0], (32, 16, 16), requant(1, 0, 4, 0, 255)),
            4300,
        ),
        (
            AvgPoolBytesKernel(),
            pool(ops.AvgPool, ops.Window(kernel=(8, 8)), (64, 8, 8), requant(1, 0, 64, 0, 255)),
            1010,
        ),
        (
            AddBytesKernel(),
            add((requant(5), requant(8)), requant(1, 0, 8, 0, 255), image=(32, 16, 16)),
            5170,
        ),
        (
            AddBytesKernel(),
            add((requant(500), requant(800)), requant(1, 0, 1 << 10, 0, 255), image=(32, 16, 16)),
            7571,
        ),
    ],
)
def test_cycles_meet_the_measured_tiles(kernel: Kernel, layer: Layer, measured: int) -> None:
    full = geometry.extent(layer)
    estimated = kernel.cycles(layer, make_tile(layer, full.c_out, full.h, full.w))
    assert estimated == pytest.approx(measured, rel=0.08)


@pytest.mark.parametrize(
    ("window", "loads", "maxima", "moves"),
    [
        (ops.Window(kernel=(2, 2), strides=(2, 2)), 4, 3, 0),
        (ops.Window(kernel=(3, 3), strides=(2, 2)), 6, 6, 1),
        (ops.Window(kernel=(3, 3)), 3, 4, 2),
        (ops.Window(kernel=(1, 4), strides=(1, 4)), 4, 3, 0),
    ],
)
def test_maxima_of_a_run_cost_their_instructions(window, loads, maxima, moves) -> None:
    """A tenth is added for the memory; three store four channels and go on."""
    layers = [pool(ops.MaxPool, window, (channels, 1 + 3, 800)) for channels in (4, 8)]
    few, many = (MaxPoolBytesKernel(1).cycles(x, geometry.extent(x)) for x in layers)
    y = layers[0].output
    counted = 1.1 * (loads + maxima + moves + 3)
    assert (many - few) / (y.height * y.width) == pytest.approx(counted, rel=0.05)
