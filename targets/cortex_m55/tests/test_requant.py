"""Requantisations that no line in 32 bits is equal to: in binary32, in 64 bits, of two steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dory_cortex_m55.backend import vector_kernels
from dory_cortex_m55.backend.requant import find_form
from emulated import Qemu, choose_compiler, require_qemu

from dory_core.api import Layer, Requant, ops, requantisation
from dory_core.importing import Array, requant
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.kernel_cases import takes
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, make_case, typed

AROUND = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
SHAPE = (24, 9, 7)


def layers_of(signed: bool, seed: int) -> list[Layer]:
    """Return a layer of each kernel with products."""
    values = (-128, 127) if signed else (0, 255)
    builder = GraphBuilder(SHAPE, values=values, seed=seed)
    builder.conv(40, AROUND, source="input", bias=True)
    builder.conv(21, ops.Window(kernel=(1, 1)), source="input", bias=True, weights=(-200, 55))
    builder.conv(24, AROUND, source="input", groups=24, bias=True)
    builder.linear(19, source="input", bias=True)
    return list(builder.graph().layers)


def stepped(layer: Layer, step: Requant) -> Layer:
    """Return a layer with a step in place of its own."""
    op = replace(layer.op, index=0, inputs=("input",), output="layer_00", requants=(step,))
    return typed(op, (*SHAPE, layer.inputs[0].lo, layer.inputs[0].hi))


def slopes(layer: Layer, random: np.random.Generator) -> np.ndarray:
    """Return a factor of each channel with which outputs of 8 bits have many values."""
    width = layer.ranges.acc_hi - layer.ranges.acc_lo
    return 2.0 ** random.uniform(7, 12, layer.output.channels) / width


def in_binary32(layer: Layer, random: np.random.Generator) -> Layer:
    """Return a layer with a step in binary32; some channels have ties, of others all saturates."""
    scales = slopes(layer, random).astype(np.float32)
    scales[::5] = 2.0 ** np.floor(np.log2(scales[::5]))
    scales[1] = 2.0**100
    lo, hi = [(0, 255), (-128, 127), (-9, 100)][random.integers(3)]
    zero, turn = int(random.integers(lo, hi)), int(random.choice([0, -77, 1 << 20]))
    return stepped(layer, requantisation.float_requant(scales.tolist(), zero, lo, hi, turn=turn))


def in_64_bits(layer: Layer, random: np.random.Generator) -> Layer:
    """Return a layer with two addends that are far from each other, and fall at the turn."""
    shift = 46
    mul = (slopes(layer, random) * 2.0**shift).astype(np.int64)
    add = random.integers(-(1 << shift), 1 << shift, len(mul))
    below = add + random.integers(1, 1 << shift, len(mul))
    numbers = (mul.tolist(), add.tolist(), 1 << shift, -128, 127)
    return stepped(layer, requant(*numbers, below.tolist(), turn=int(random.integers(-99, 99))))


def of_two_steps(layer: Layer, signed: bool, random: np.random.Generator) -> Layer:
    """Return a layer with bytes after a first step, and a second one that leaves some out."""
    lo, hi = (-128, 127) if signed else (0, 200)
    mul = (slopes(layer, random) * 2.0**20 / 4).astype(np.int64)
    first = requant(mul.tolist(), (mul * 9 + 7).tolist(), 1 << 20, lo, hi)
    second = requant(1437, 512, 1024, *[(-128, 127), (0, 255), (-9, 100)][random.integers(3)])
    op = replace(layer.op, index=0, inputs=("input",), output="layer_00", requants=(first, second))
    return typed(op, (*SHAPE, layer.inputs[0].lo, layer.inputs[0].hi))


def grouped(seed: int) -> Layer:
    """Return a convolution of four groups."""
    builder = GraphBuilder(SHAPE, values=(0, 255), seed=seed)
    builder.conv(36, AROUND, groups=4, bias=True)
    return builder.graph().layers[0]


def cases_of_two_steps(seed: int) -> list[KernelCase]:
    """Return cases of every kernel with rows of weights; that of groups takes depthwise layers."""
    random = np.random.default_rng(seed)
    layers = [own for signed in (True, False) for own in layers_of(signed, seed)]
    layers.append(grouped(seed))
    drawn = [of_two_steps(own, bool(random.integers(2)), random) for own in layers]
    tables = [form is not None and form.table is not None for form in map(find_form, drawn)]
    assert sum(tables) > len(tables) // 2
    return [case_of(layer, seed) for layer in drawn]


def with_form(form: str, own: Layer, random: np.random.Generator) -> Layer:
    """Return a layer with a random step that has a form."""
    for _ in range(40):
        layer = MAKE[form](own, random)
        found = find_form(layer)
        if found is not None and found.form == form:
            return layer
    raise AssertionError(f"{own.op.name}: no step has the form {form}")


MAKE = {"BINARY32": in_binary32, "SCALAR": in_64_bits}


def cases_of(seed: int) -> list[KernelCase]:
    """Return cases of which each has a form that is no line in 32 bits."""
    random = np.random.default_rng(seed)
    layers = [own for signed in (True, False) for own in layers_of(signed, seed)]
    drawn = [with_form(form, own, random) for own in layers for form in MAKE]
    return [*(case_of(layer, seed) for layer in drawn), *averages(seed)]


def averages(seed: int) -> list[KernelCase]:
    """Return averages with a step in binary32 that is no line."""
    window = ops.Window(kernel=(40, 40))
    random, cases = np.random.default_rng(seed), []
    while len(cases) < 2:
        scale = np.float32(random.uniform(0.5, 1)) / np.float32(1600)
        step = requantisation.float_requant([float(scale)], 3, 0, 255)
        layer = typed(alone(ops.AvgPool, window=window, requants=(step,)), (9, 40, 40, 0, 255))
        found = find_form(layer)
        if found is not None and found.form == "BINARY32":
            cases.append(case_of(layer, seed))
    return cases


def case_of(layer: Layer, seed: int) -> KernelCase:
    """Return a case of the kernel that takes a layer first."""
    kernel = next(one for one in vector_kernels() if takes(one, layer))
    return make_case(kernel, layer, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(3))
def test_steps_that_are_no_line_are_exact(seed: int) -> None:
    HostLibrary(cases_of(seed)).check()


@pytest.mark.parametrize("seed", range(3))
def test_a_second_step_of_bytes_is_a_table(seed: int) -> None:
    HostLibrary(cases_of_two_steps(seed)).check()


def test_kernels_without_rows_of_weights_leave_two_steps_to_others() -> None:
    steps = (requant(1, 0, 16, 0, 200), requant(1437, 512, 1024, 0, 255))
    window = ops.Window(kernel=(4, 4))
    layer = typed(alone(ops.AvgPool, window=window, requants=steps), (*SHAPE, 0, 255))
    found = find_form(layer)
    assert found is not None and found.table is not None
    assert not any(takes(kernel, layer) for kernel in vector_kernels())


def test_a_zero_point_beyond_16_bits_has_another_form() -> None:
    """The vector unit adds it in 16 bits, after numbers that saturate there."""
    own, forms = layers_of(False, 5)[0], {}
    for zero in (99, 40000):
        step = requantisation.float_requant([2.0**-4] * 40, zero, 0, 255)
        layer = stepped(own, step)
        found = find_form(layer)
        forms[zero] = None if found is None else found.form
        if found is not None:
            HostLibrary([case_of(layer, zero)]).check()
    assert forms[99] == "BINARY32" and forms[40000] != "BINARY32"


@pytest.mark.sample(2)
@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_helium_computes_the_same(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_qemu()
    choose_compiler(compiler, monkeypatch)
    Qemu([*cases_of(7), *cases_of_two_steps(7)]).check()


def test_a_channel_whose_bias_has_32_bits_is_exact() -> None:
    own = layers_of(False, 5)[0]
    bias = own.weighted.bias
    assert bias is not None
    most = bias.values.astype(np.int64)
    most[3] = (1 << 31) - 1 - own.ranges.acc_hi + bias.bounds[0]
    far = replace(own, op=replace(own.op, bias=Array(most)))
    HostLibrary([case_of(with_form("BINARY32", far, np.random.default_rng(5)), 5)]).check()


def test_a_part_of_a_product_has_the_parameters_of_all_channels() -> None:
    """Parts are asked with the constants of the whole layer."""
    step = requant(list(range(5, 14)), 0, 1 << 12, -128, 127)
    product = ops.MatMul(
        index=0, name="product", inputs=("x", "factors"), output="y", requants=(step,)
    )
    whole = typed(product, (9, 2, 6, -128, 127), (6, 2, 4, -128, 127))
    part = replace(whole, output=replace(whole.output, channels=4))
    forms = [find_form(one) for one in (whole, part)]
    assert [len(form.mul) for form in forms if form is not None] == [9, 9]
