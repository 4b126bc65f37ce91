"""Kernels of the Cortex-M55 against the reference: as C on this machine, as Helium on QEMU."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from dory_cortex_m55.backend import vector_kernels
from dory_cortex_m55.backend.pairs import LineKernel
from dory_cortex_m55.backend.pools import AvgPoolKernel
from emulated import Qemu, choose_compiler, require_qemu

from dory_core.api import Feature, Layer, ops
from dory_core.importing import requant
from dory_core.testing import KernelConformance
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.kernel_cases import takes
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, make_case, typed
from dory_core.testing.random_layers import LayerSpace, RandomLayers

FEATURES = frozenset({Feature.PAD_VALUE, Feature.TWO_ADDENDS, Feature.TURN})
SPACE = LayerSpace(
    inputs=((0, 255), (-128, 127), (0, 127), (-100, 90)),
    outputs=((0, 255), (-128, 127), (-20, 31), None),
    filters_per_channel=(1,),
    features=FEATURES,
)
KINDS = (
    "conv",
    "grouped",
    "depthwise",
    "linear",
    "avgpool",
    "maxpool",
    "add",
    "sum",
    "mul",
    "lut",
    "slice",
    "pad",
    "concat",
    "resize",
    "softmax",
    "shares",
    "norm",
    "matmul",
    "transpose",
)


@cache
def cases_of(kind: str, seed: int, count: int) -> list[KernelCase]:
    """Return random cases of a kind of layers, of those that a kernel accepts."""
    random, cases = RandomLayers(SPACE, 500 + seed), []
    for _ in range(12 * count):
        layer = random.layer(kind)
        taken = [kernel for kernel in vector_kernels() if takes(kernel, layer)]
        cases += [make_case(kernel, layer, random.numbers) for kernel in taken[:1]]
        if len(cases) == count:
            return cases
    raise AssertionError(f"{kind}: few layers have a kernel")


@pytest.mark.sample(2)
class TestCortexM55Cases(KernelConformance):
    """Random layers of each kind, in random tiles."""

    cases = staticmethod(cases_of)
    kinds = KINDS


@pytest.mark.slow
class TestCortexM55Kernels(KernelConformance):
    """Every kernel on all that it accepts, one property changed at a time."""

    target = "cortex_m55"

    @pytest.mark.sample(2)
    @pytest.mark.parametrize("seed", range(20, 24))
    def test_helium_computes_the_same(self, seed: int) -> None:
        require_qemu()
        Qemu(self.sample(seed, 20)).check()


def two_shifts() -> Layer:
    """Return a sum of two multiples, divided, and then the same again; as NEMO has them."""
    builder = GraphBuilder((8, 5, 3))
    first, second = "input", builder.extra_input()
    steps = (requant(1, 0, 128), requant(35, 7, 32, 0, 255))
    builder.add(first, second, operands=(requant(63), requant(64)), requants=steps)
    return builder.graph().layers[-1]


def test_sums_with_two_shifts_are_a_line() -> None:
    layer = two_shifts()
    assert takes(LineKernel(), layer)
    HostLibrary([make_case(LineKernel(), layer, np.random.default_rng(3))]).check()


def uint8_weights(seed: int) -> list[KernelCase]:
    """Return cases whose weights are bytes without a sign less a zero point."""
    random = np.random.default_rng(seed)
    layers = []
    for low in (-255, -200, -7):
        weights, builder = (low, low + 255), GraphBuilder((12, 9, 7))
        around = ops.Window(kernel=(3, 3), strides=(1, 2), pads=(1, 1, 1, 1))
        wide = ops.Window(kernel=(5, 5), pads=(2, 2, 2, 2))
        builder.conv(12, wide, groups=12, weights=weights)
        builder.conv(12, around, groups=12, weights=weights)
        builder.conv(20, around, weights=weights)
        builder.conv(21, ops.Window(kernel=(1, 1)), weights=weights, output=(-128, 127))
        builder.conv(36, ops.Window(kernel=(1, 1)), weights=weights)
        builder.linear(9, weights=weights, output=(0, 255))
        layers += builder.graph().layers
    kernels = [next(one for one in vector_kernels() if takes(one, layer)) for layer in layers]
    return [make_case(kernel, own, random) for kernel, own in zip(kernels, layers, strict=True)]


def test_outputs_without_a_clip_have_a_kernel() -> None:
    window, step = ops.Window(kernel=(8, 8)), requant(1, 0, 64)
    pool = typed(alone(ops.AvgPool, window=window, requants=(step,)), (19, 8, 8, 0, 255))
    assert takes(AvgPoolKernel(), pool)
    HostLibrary([make_case(AvgPoolKernel(), pool, np.random.default_rng(2))]).check()


def test_weights_of_uint8_files_are_exact() -> None:
    HostLibrary(uint8_weights(5)).check()


@pytest.mark.sample(2)
@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_helium_computes_the_same(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_qemu()
    choose_compiler(compiler, monkeypatch)
    seed = 3 if compiler == "gcc" else 4
    cases = [case for kind in KINDS for case in cases_of(kind, seed, 6)]
    cases += uint8_weights(seed)
    cases.append(make_case(LineKernel(), two_shifts(), np.random.default_rng(seed)))
    Qemu(cases).check()
