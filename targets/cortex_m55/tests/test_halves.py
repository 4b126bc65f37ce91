"""Layers with inputs or outputs of 16 bits, as TensorFlow Lite's int16x8 has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dory_cortex_m55.backend import vector_kernels
from dory_cortex_m55.backend.conv import ConvKernel
from dory_cortex_m55.backend.requant import find_form
from emulated import Qemu, choose_compiler, require_qemu

from dory_core.api import Layer, ops
from dory_core.importing import Array, requant
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.kernel_cases import takes
from dory_core.testing.kernels import HostLibrary, KernelCase, make_case, typed

SIGNED, POSITIVE, BYTE = (-(1 << 15), (1 << 15) - 1), (0, (1 << 15) - 1), (-128, 127)
AROUND = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
APART = ops.Window(kernel=(5, 2), strides=(2, 1), dilations=(1, 2), pads=(2, 0, 2, 0))
ONE = ops.Window(kernel=(1, 1))


def layers_of(channels: int, values: tuple[int, int], seed: int) -> list[Layer]:
    """Return a layer of each kernel with products, over columns of one vector to many."""
    builder = GraphBuilder((channels, 9, 7), values=values, seed=seed)
    for window in (AROUND, APART, ONE):
        builder.conv(19, window, source="input", bias=True)
    for window in (AROUND, APART, ops.Window(kernel=(7, 7), pads=(3, 3, 3, 3))):
        builder.conv(channels, window, source="input", groups=channels, bias=True)
    builder.linear(21, source="input", bias=True, weights=(-30, 30))
    return list(builder.graph().layers)


def stepped(layer: Layer, output: tuple[int, int], random: np.random.Generator) -> Layer:
    """Return a layer that rounds ties up, with a factor of each channel."""
    x, channels = layer.inputs[0], layer.output.channels
    width = float(np.max(layer.ranges.acc_hi - layer.ranges.acc_lo))
    slope = random.uniform(0.7, 3) * (output[1] - output[0]) / width
    shift = 14 - int(np.floor(np.log2(slope)))
    mul = np.rint(slope * random.uniform(0.4, 1, channels) * 2.0**shift).astype(np.int64)
    half = 1 << (shift - 1)
    step = requant(mul.tolist(), [half] * channels, 1 << shift, *output)
    op = replace(layer.op, index=0, inputs=("input",), output="layer_00", requants=(step,))
    return typed(op, (*x.shape, x.lo, x.hi))


def cases_of(seed: int) -> list[KernelCase]:
    """Return cases with elements of 16 bits as inputs, outputs, or both."""
    random, cases = np.random.default_rng(seed), []
    types = ((SIGNED, SIGNED), (POSITIVE, POSITIVE), (SIGNED, BYTE), (BYTE, SIGNED))
    for values, output in types:
        for channels in (3, 24):
            for own in layers_of(channels, values, seed):
                layer = stepped(own, output, random)
                assert layer.output.bits == (8 if output == BYTE else 16)
                kernel = next(one for one in vector_kernels() if takes(one, layer))
                cases.append(make_case(kernel, layer, random))
    return cases


def test_elements_of_16_bits_are_exact() -> None:
    HostLibrary(cases_of(3)).check()


@pytest.mark.sample(2)
@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_helium_computes_the_same(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_qemu()
    choose_compiler(compiler, monkeypatch)
    Qemu(cases_of(4 if compiler == "gcc" else 5)).check()


def test_steps_that_round_ties_up_have_32_bits() -> None:
    """Others are computed in 64 bits, exactly as well."""
    random = np.random.default_rng(9)
    own = layers_of(24, SIGNED, 9)[0]
    plain = stepped(own, SIGNED, random)
    (step,) = plain.op.requants
    down = replace(plain.op, requants=(replace(step, add=(7,) * 19),))
    other = typed(down, (*plain.inputs[0].shape, *SIGNED))
    forms = [find_form(layer) for layer in (plain, other)]
    assert [form and form.form for form in forms] == ["ROUNDED", "SCALAR"]
    kernel = next(one for one in vector_kernels() if takes(one, other))
    HostLibrary([make_case(kernel, other, random)]).check()


@pytest.mark.parametrize(
    ("values", "window", "reason"),
    [
        ((0, (1 << 16) - 1), AROUND, "its input has values up to 65535"),
        (SIGNED, replace(AROUND, pad_value=3), "it pads elements of 16 bits with 0 only"),
    ],
)
def test_what_has_no_kernel_says_why(
    values: tuple[int, int], window: ops.Window, reason: str
) -> None:
    builder = GraphBuilder((4, 9, 7), values=values)
    builder.conv(4, window)
    builder.conv(4, window, source="input", groups=4)
    for layer in builder.graph().layers:
        reasons = [str(one.accepts(layer)) for one in vector_kernels()]
        assert any(reason in text for text in reasons), reasons


def test_sums_of_more_than_32_bits_are_for_portable_code() -> None:
    builder = GraphBuilder((64, 9, 7), values=SIGNED)
    weights = Array(np.full((4, 64, 9, 7), 100))
    step = requant(20000, 1 << 35, 1 << 36, *SIGNED)
    builder.layer(
        ops.Conv,
        "input",
        window=ops.Window(kernel=(9, 7)),
        weights=weights,
        wide=True,
        requants=(step,),
    )
    rejection = ConvKernel().accepts(builder.graph().layers[0])
    assert rejection is not None and "its sums may have more than 32 bits" in str(rejection)
