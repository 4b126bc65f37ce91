"""Means and softmax in binary32: portable kernels compute in integers what numpy does in floats."""

from __future__ import annotations

import numpy as np
import pytest

from dory_core.ir import Array, AvgPool, RealMean, Softmax, Window, requant
from dory_core.ir.parse import parse_graph
from dory_core.ir.text import graph_text
from dory_core.kernels.portable import PortableAvgPool
from dory_core.kernels.portable_pixelwise import PortableSoftmax
from dory_core.testing.kernels import HostLibrary, alone, typed, whole_case


def scale(random: np.random.Generator) -> float:
    """Some are powers of two, whose means are ties."""
    if random.random() < 0.3:
        return float(2.0 ** random.integers(-9, 3))
    return float(np.float32(random.uniform(0.001, 3)))


def test_means_are_those_of_binary32() -> None:
    random = np.random.default_rng(3)
    cases = []
    for _ in range(40):
        k = (int(random.integers(1, 5)), int(random.integers(1, 5)))
        pads = tuple(int(random.integers(0, size)) for size in (k[0], k[1], k[0], k[1]))
        x = scale(random)
        y = x if random.random() < 0.4 else scale(random)
        mean = RealMean(x, int(random.integers(-128, 128)), y, int(random.integers(-128, 128)))
        layer = alone(
            AvgPool,
            window=Window(kernel=k, pads=pads),
            counts_padding=bool(random.integers(2)),
            real=mean,
            requants=(requant(1, 0, 1, -128, 127),),
        )
        cases.append(whole_case(PortableAvgPool(), typed(layer, (3, 6, 7, -128, 127)), random))
    HostLibrary(cases).check()


@pytest.mark.parametrize("channels", [2, 3, 17, 300])
def test_softmax_is_that_of_binary32(channels: int) -> None:
    random = np.random.default_rng(channels)
    cases = []
    for _ in range(12):
        step = float(random.uniform(0.001, 0.6))
        room = np.log(float(np.finfo(np.float32).max) / channels) - 5
        powers = np.exp(room - np.arange(256) * step).astype(np.float32)
        layer = alone(
            Softmax,
            table=Array(powers.view(np.int32).astype(np.int64)),
            factor=int(random.choice([255, 256])),
            requants=(requant(1, -128, 1, -128, 127),),
        )
        cases.append(
            whole_case(PortableSoftmax(), typed(layer, (channels, 2, 2, -128, 127)), random)
        )
    HostLibrary(cases).check()


def test_text_of_reals_is_parsed_again() -> None:
    mean = parse_graph(
        "network toy\ninput input: u8 (2, 4, 4) [0, 255]\n"
        "layer_00 = AvgPool(input) 2x2 real 0.25 3 to 0.1 -7\n    acc clip [-128, 127]\n"
        "layer_01 = Softmax(layer_00) factor 256\n    table (256) = 1065353216\n"
        "    acc clip [0, 255]\noutput layer_01\n"
    )
    first, second = mean.ops
    assert isinstance(first, AvgPool) and first.real == RealMean(0.25, 3, 0.1, -7)
    assert isinstance(second, Softmax) and second.factor == 256
    assert parse_graph(graph_text(mean, constants=True)) == mean
