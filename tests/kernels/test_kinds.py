"""Portable kernels of the kinds without a window: random tiles equal the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dory_core.ir import Concat, Layer, Resize
from dory_core.ir.geometry import extent, make_tile
from dory_core.kernels import portable_kernels
from dory_core.testing import random_layers
from dory_core.testing.kernels import HostLibrary, KernelCase, make_case
from dory_core.testing.random_layers import LayerSpace, RandomLayers
from dory_core.testing.sanitizers import run_sanitized

#: Storages of 2, 4 and 8 bits, and wider ones.
SPACES = (
    LayerSpace(weight_bits=(8, 4)),
    LayerSpace(
        inputs=((0, 3), (-8, 7), (0, 15), (-2, 1), (-128, 127)),
        outputs=((0, 3), (-8, 7), (0, 255), None),
        weight_bits=(2, 4),
        packed=True,
    ),
)


#: Other kinds than those that only passes make, where a kernel of the target takes them.
OTHER_KINDS = tuple(kind for kind in random_layers.OTHER_KINDS if kind != "pooledconv")


def cases_of(kind: str, seed: int, count: int) -> list[KernelCase]:
    cases = []
    for space in SPACES:
        draw = RandomLayers(space, seed)
        for _ in range(count):
            layer = draw.layer(kind)
            cases.append(make_case(kernel_of(layer, draw.pick(1, 3, 8)), layer, draw.numbers))
    return cases


def kernel_of(layer: Layer, cores: int = 1):
    [kernel] = [k for k in portable_kernels(cores) if k.accepts(layer) is None]
    return kernel


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_random_tiles_are_exact(kind: str) -> None:
    HostLibrary(cases_of(kind, 5, 12)).check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_many_random_tiles_are_exact(kind: str, seed: int) -> None:
    HostLibrary(cases_of(kind, 100 + seed, 30)).check()


@pytest.mark.sanitizer
@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_sanitizers_find_nothing(count: int) -> None:
    program = (
        "from dory_core.testing.kernels import SANITIZE, HostLibrary\n"
        "from tests.kernels.test_kinds import OTHER_KINDS, cases_of\n"
        "cases = [c for kind in OTHER_KINDS for c in cases_of(kind, 9, COUNT)]\n"
        "HostLibrary(cases, SANITIZE).check()\n"
        "print('computed')"
    )
    program = program.replace("COUNT", str(count))
    assert run_sanitized(["-c", program], Path(__file__).parents[2]) == "computed\n"


def test_the_sample_covers_the_space() -> None:
    layers = [case.layer for kind in OTHER_KINDS for case in cases_of(kind, 5, 12)]
    assert {x.op.axis for x in layers if isinstance(x.op, Concat)} == {0, 1, 2}
    assert {x.op.is_gather for x in layers if isinstance(x.op, Resize)} == {True, False}
    assert {x.inputs[0].bits for x in layers} >= {2, 4, 8, 16}
    assert {len(x.inputs) for x in layers} == {1, 2, 3, 4}


def test_more_inputs_than_operands_are_refused() -> None:
    draw = RandomLayers(LayerSpace(), 3)
    layer = next(x for x in iter(lambda: draw.layer("concat"), None) if len(x.inputs) > 1)
    op, many = layer.of(Concat), (layer.inputs[0],) * 17
    names = tuple(f"input_{n}" for n in range(17))
    wide = Layer(
        Concat(index=0, name="wide", inputs=names, output="y", axis=op.axis),
        many,
        layer.output,
        layer.ranges,
    )
    kernel = kernel_of(layer)
    rejection = kernel.accepts(wide)
    assert rejection is not None and "17 inputs, at most 16" in rejection.reason


def test_cycles_fall_with_cores() -> None:
    for kind in OTHER_KINDS:
        layer = max(
            (RandomLayers(LayerSpace(), s).layer(kind) for s in range(9)),
            key=lambda x: x.output.height * x.output.width,
        )
        case = make_case(kernel_of(layer), layer, np.random.default_rng(0))

        full = extent(case.layer)
        tile = make_tile(layer, full.c_out, full.h, full.w)
        one, eight = (kernel_of(layer, n).cycles(layer, tile) for n in (1, 8))
        assert 0 < eight < one
